/** The specification of models: the segmenter, the fake and gpio ones; of mapping, and of microcontrollers. */

import { holds, notYet, type Row, type Section, setting } from "./row.ts";

const OBSTACLES = "drivers/vision/obstacles_depth_test.ts: obstacles_depth: ";
const SEGMENTS = "lib/geometry/cloud/segmentation_test.ts: ";
const BOARD = "drivers/board/fake_test.ts: ";
const BOARD_ATTRIBUTES = BOARD + "the attributes have a JSON Schema with the documented names";
const GPIO = "drivers/motor/gpio_test.ts: ";
const GPIO_ATTRIBUTES = GPIO + "attributes: patterns of pins, limits and what is missing, each with its path";
const FAKE = "drivers/motor/fake_test.ts: ";
const FAKE_ATTRIBUTES = FAKE + "attributes: none is needed, but an encoder needs its ticks";
const ZERO = OBSTACLES + "0 is 0: any plane is ground, only a level one is, every cluster is an object";
const CHECKED = OBSTACLES + "attributes that cannot be, each with its path";
const REPRESENTATIONAL = "without effect on a board that has no hardware";

const MAPPER = "drivers/slam/mapper_test.ts: mapper: ";
const ONLINE =
  "drivers/slam/mapper_test.ts: mapper online: lidar and sensor are read at their rates; the robot is at the origin until it is found";
const MAPPER_DEFAULTS = "drivers/slam/mapper_test.ts: mapper attributes: defaults are the documented ones";
const MAPPER_WRONG = "drivers/slam/mapper_test.ts: mapper attributes: what cannot be, each with its path";
/** The documented defaults of the mapper's parameters. */
const PARAMS: { readonly [name: string]: number } = {
  optimize_every_n_nodes: 3,
  num_range_data: 30,
  missing_data_ray_length_meters: 25,
  max_range_meters: 25,
  min_range_meters: 0.2,
  max_submaps_to_keep: 3,
  fresh_submaps_count: 3,
  min_covered_area_meters_squared: 1,
  min_added_submaps_count: 1,
  occupied_space_weight: 20,
  translation_weight: 10,
  rotation_weight: 1,
};

function param(name: string, type: "integer" | "number", says: string): Row {
  return setting(`config_params.${name}`, { type, default: PARAMS[name] }, says, [
    MAPPER_DEFAULTS,
    MAPPER_WRONG,
    "drivers/slam/mapper_test.ts: mapper attributes: numbers may be texts, empty texts are defaults, published aliases are known",
  ]);
}

export const MODELS: readonly Section[] = [
  {
    title: "The segmenter `obstacles_depth`",
    subject: { kind: "model", api: "rdk:service:vision", model: "rdk:builtin:obstacles_depth" },
    rows: [
      setting(
        "min_points_in_plane",
        { type: "integer", default: 500 },
        "points that make a flat surface the ground",
        [ZERO, CHECKED],
        { note: "differs from the published one: 0 is 0 (any plane is ground), not the default" },
      ),
      setting(
        "min_points_in_segment",
        { type: "integer", default: 10 },
        "objects have at least so many points",
        [
          SEGMENTS + "an object has at least so many points",
          SEGMENTS +
          "what is thin counts with the points that it has of its own, or with all of them where any size will do",
        ],
        {
          note:
            "of a thin cluster those points count that neither run along something nearer nor lie in ground as " +
            "noisy as `max_dist_from_plane_mm`: without that 2 of 100 random scenes with the defaults, and 36 of 100 " +
            "with noisy ground, have objects that are not there (`deno task accuracy:depth`); with 0 everything is an object",
        },
      ),
      setting(
        "max_dist_from_plane_mm",
        { type: "number", default: 100 },
        "points so near to the ground, above and below, are the ground's",
        [SEGMENTS + "points near the floor are its own, above it and below", CHECKED],
        { note: "differs from the published one: 0 is an error, since it would leave the ground in" },
      ),
      setting(
        "ground_angle_tolerance_degs",
        { type: "integer", default: 30 },
        "how far the plane found may be from level",
        [
          "lib/geometry/cloud/plane_test.ts: the tolerance is the largest angle, itself included",
          ZERO,
          CHECKED,
        ],
        { note: "0 to 180; differs from the published one: 0 is 0 (level only), and fractions are an error" },
      ),
      setting(
        "clustering_radius",
        { type: "integer", default: 1 },
        "which neighbours are close enough; small values split, large ones merge",
        [SEGMENTS + "a larger radius merges, a larger strictness divides", CHECKED],
        { note: "at least 1: no neighbour is at a distance of 0 (published: 0 is the default)" },
      ),
      setting(
        "clustering_strictness",
        { type: "integer", default: 5 },
        "large values give many small clusters, low ones bigger ones",
        [
          SEGMENTS + "a larger radius merges, a larger strictness divides",
          "tests/accuracy/depth_test.ts: stricter clustering never has fewer pieces, a larger radius never more",
          CHECKED,
        ],
        { note: "at least 1, whole (published: any number, 0 is the default)" },
      ),
      holds(
        "All attributes have defaults, with which it works.",
        [
          OBSTACLES + "published defaults",
          OBSTACLES + "finds objects before a fake camera for which nothing is configured",
          "tests/accuracy/depth_test.ts: every body of random scenes is found and nothing is invented: ${what}",
        ],
        "beyond: `camera_name`, for requests that name no camera",
      ),
      holds(
        "It finds well-separated objects above a flat plane.",
        [
          SEGMENTS + "what stands above the floor is found, nearest first, with the right places",
          "tests/accuracy/depth_test.ts: objects of real frames are found${where}",
        ],
      ),
      holds(
        "`GetObjectPointClouds(camera_name)` gives point clouds of the objects that the camera sees.",
        OBSTACLES + "objects as clouds, each in a box, in the camera's frame",
      ),
    ],
  },
  {
    title: "The fake board",
    subject: { kind: "model", api: "rdk:component:board", model: "rdk:builtin:fake" },
    rows: [
      holds(
        "Interrupts and analogs count up.",
        [
          BOARD +
          "analogs count from 1 to 1000 and on from 0, on every pin; a still one keeps what was written",
          BOARD + "interrupt values go up",
        ],
        "differs from the published one, whose analog on pin 1 stands still; here one does that is configured `still`",
      ),
      setting(
        "fail_new",
        { type: "boolean", required: true },
        "fails when the machine starts",
        BOARD + "fail_new fails with whoops; leaving it out does not",
        {
          note: "differs: may be left out, as published configurations do",
          differsIn: ["required"],
        },
      ),
      setting(
        "analogs[].name",
        { type: "string", required: true },
        "name of the reader",
        BOARD + "bad attributes are told with their paths",
      ),
      setting("analogs[].pin", { type: "string", required: true }, "pin on the ADC", BOARD_ATTRIBUTES, {
        note: "differs: may be left out, as in the published one",
        differsIn: ["required"],
      }),
      setting(
        "analogs[].chip_select",
        { type: "string", required: true },
        "chip select index",
        BOARD_ATTRIBUTES,
        {
          note: `differs: may be left out, as in the published one; ${REPRESENTATIONAL}`,
          differsIn: ["required"],
        },
      ),
      setting("analogs[].spi_bus", { type: "string", required: true }, "SPI bus index", BOARD_ATTRIBUTES, {
        note: `differs: may be left out, as in the published one; ${REPRESENTATIONAL}`,
        differsIn: ["required"],
      }),
      setting("analogs[].average_over_ms", { type: "integer" }, "window of the average", BOARD_ATTRIBUTES, {
        note: REPRESENTATIONAL,
      }),
      setting("analogs[].samples_per_sec", { type: "integer" }, "sampling rate", BOARD_ATTRIBUTES, {
        note: REPRESENTATIONAL,
      }),
      setting(
        "digital_interrupts[].name",
        { type: "string", required: true },
        "name of the interrupt",
        BOARD + "bad attributes are told with their paths",
      ),
      setting(
        "digital_interrupts[].pin",
        { type: "string", required: true },
        "GPIO pin",
        BOARD + "bad attributes are told with their paths",
      ),
      holds(
        "An interrupt's value is how often it was triggered.",
        BOARD + "a simulated motor makes quadrature edges by its drive and direction",
      ),
      holds(
        "`StreamTicks`, `Value` and `GetGPIO`.",
        [
          BOARD + "listeners get a tick of each interrupt every 700 ms, in nanoseconds that go up",
          BOARD + "pins read back what was set, and setting a level ends the PWM",
          "tests/contract/contract_test.ts: models keep their contracts",
        ],
        "beyond: `simulated_motors`, which turn encoders on the board's interrupts",
      ),
    ],
  },
  {
    title: "The gpio motor",
    subject: { kind: "model", api: "rdk:component:motor", model: "rdk:builtin:gpio" },
    rows: [
      setting(
        "board",
        { type: "string", required: true },
        "the board that the driver is wired to",
        GPIO_ATTRIBUTES,
      ),
      setting("pins", { type: "object", required: true }, "the driver's pins", GPIO_ATTRIBUTES),
      setting("pins.a", { type: "string" }, "input A (IN1)", GPIO + "a + b + pwm: exact pin levels"),
      setting("pins.b", { type: "string" }, "input B (IN2)", GPIO + "a + b + pwm: exact pin levels"),
      setting(
        "pins.dir",
        { type: "string" },
        "direction",
        GPIO + "dir + pwm: exact pin levels, with an enabling pin that is low",
      ),
      setting(
        "pins.pwm",
        { type: "string", required: true },
        "PWM",
        GPIO + "dir + pwm: exact pin levels, with an enabling pin that is low",
        {
          note: "required but in the pattern `a` + `b`, which the specification has too",
          differsIn: ["required"],
        },
      ),
      holds(
        "Three patterns of pins: `pwm` + `dir`, `a` + `b`, `a` + `b` + `pwm`.",
        [
          GPIO + "dir + pwm: exact pin levels, with an enabling pin that is low",
          GPIO + "a + b: the pin that is not high is pulsed by the rest of the power",
          GPIO + "a + b + pwm: exact pin levels",
        ],
      ),
      setting("min_power_pct", { type: "number", default: 0 }, "lower limit of the power", [
        GPIO + "power is kept within its limits",
        GPIO_ATTRIBUTES,
      ], {
        note: "0 to 1, and not above `max_power_pct`",
      }),
      setting(
        "max_power_pct",
        { type: "number", default: 1, minimum: 0.06, maximum: 1 },
        "upper limit of the power",
        [
          GPIO + "power is kept within its limits",
          GPIO_ATTRIBUTES,
        ],
      ),
      setting(
        "pwm_freq",
        { type: "integer", default: 800 },
        "PWM frequency in Hz",
        GPIO + "dir + pwm: exact pin levels, with an enabling pin that is low",
      ),
      setting(
        "dir_flip",
        { type: "boolean", default: false },
        "forward and backward change places",
        GPIO + "both spellings of flipping swap the directions",
        {
          note: "beyond: `direction_flip` too",
        },
      ),
      setting(
        "encoder",
        { type: "string" },
        "an attached encoder",
        GPIO + "with an encoder: setPower turns it, and the position says so",
      ),
      holds(
        "`GoFor` and `GoTo`.",
        [
          GPIO + "power and time of a movement without encoder",
          GPIO + "with an encoder: GoFor(${rpm}, ${revolutions}) goes the distance",
          GPIO + "with an encoder: GoTo takes the sign from the way, and does nothing when nearly there",
        ],
        "beyond: `max_rpm`, `ticks_per_rotation`, `ramp_rate` and `control_parameters`, as published; without `max_rpm` it is 100, with a warning",
      ),
      holds("On microcontrollers each motor takes a PWM pin at 10000 Hz.", [
        "cli/micro/pwm_rule_test.ts: microcontroller PWM: motors share 10000 Hz and leave three frequencies",
        "cli/micro/pwm_rule_test.ts: microcontroller PWM: a fifth frequency is an error of the whole that names the pins",
      ], "in `svc-micro-server`"),
    ],
  },
  {
    title: "The fake motor",
    subject: { kind: "model", api: "rdk:component:motor", model: "rdk:builtin:fake" },
    rows: [
      holds("No attribute is required.", FAKE_ATTRIBUTES),
      setting("board", { type: "string" }, "a board", FAKE_ATTRIBUTES),
      setting(
        "min_power_pct",
        { type: "number", default: 0 },
        "lower limit of the power",
        FAKE + "the limits hold for power and speed, and a slower motor takes longer",
      ),
      setting(
        "max_power_pct",
        { type: "number", default: 1, minimum: 0.06, maximum: 1 },
        "upper limit of the power",
        [
          FAKE + "the limits hold for power and speed, and a slower motor takes longer",
          FAKE + "attributes: limits are within their ranges and leave something between them",
        ],
      ),
      setting("pwm_freq", { type: "integer", default: 800 }, "PWM frequency in Hz", FAKE_ATTRIBUTES),
      setting(
        "encoder",
        { type: "string" },
        "an encoder; then `ticks_per_rotation` is required",
        FAKE + "with an encoder: position, GoFor, GoTo and zero are exact",
      ),
      setting(
        "max_rpm",
        { type: "number", default: 100 },
        "speed at full power; GoFor's power is a share of it",
        FAKE + "GoFor takes its time, then the motor stands",
      ),
      setting("ticks_per_rotation", { type: "integer" }, "ticks in a rotation", FAKE_ATTRIBUTES),
      setting(
        "dir_flip",
        { type: "boolean", default: false },
        "forward and backward change places",
        FAKE + "a flipped motor goes where it is told, and its encoder counts the other way",
      ),
      setting("pins.a", { type: "string" }, "a pin", FAKE_ATTRIBUTES),
      setting("pins.b", { type: "string" }, "a pin", FAKE_ATTRIBUTES),
      setting("pins.dir", { type: "string" }, "a pin", FAKE_ATTRIBUTES),
      setting("pins.pwm", { type: "string" }, "a pin", FAKE_ATTRIBUTES),
      holds("An encoder without `ticks_per_rotation` is an error.", FAKE_ATTRIBUTES),
      holds(
        "What depends on a motor works with it, a base for one.",
        "tests/contract/contract_test.ts: models keep their contracts",
      ),
    ],
  },
  {
    title: "Mapping (SLAM)",
    subject: { kind: "model", api: "rdk:service:slam", model: "svc:slam:cartographer" },
    rows: [
      holds(
        "The service `rdk:service:slam` of the model `svc:slam:<mapper>`, from 2D LiDAR, IMU and odometry.",
        "tests/e2e/slam_test.ts: a robot drives through a building: the map that clients get looks like it, and serves the next robot",
        "the model is `svc:slam:cartographer`; it is built in, so no entry in `modules` is needed",
      ),
      setting("use_cloud_slam", { type: "boolean", required: true }, "the mapping is left to the cloud", [
        MAPPER + "with use_cloud_slam only the properties answer",
        "tests/cloud/mapping_test.ts: a map is made of what a machine has captured: while it comes, later, and as more of a map",
        MAPPER_WRONG,
      ]),
      setting("camera", { type: "object", required: true }, "the LiDAR and its rate: suggested 5 Hz", [
        MAPPER_DEFAULTS,
        MAPPER_WRONG,
        ONLINE,
      ]),
      setting(
        "movement_sensor",
        { type: "object" },
        "an IMU, odometry or both, and their rate: suggested 20 Hz",
        [MAPPER_DEFAULTS, MAPPER_WRONG, ONLINE],
      ),
      setting(
        "enable_mapping",
        { type: "boolean", default: true },
        "the map is built in addition to localizing",
        [
          MAPPER + "modes follow enable_mapping and existing_map, and the map is handed to the mapper",
          MAPPER_WRONG,
        ],
      ),
      setting(
        "existing_map",
        { type: "string" },
        "a `.pbstream` file: `${packages.slam_map.NAME}/internalState.pbstream` or a path",
        [
          MAPPER + "modes follow enable_mapping and existing_map, and the map is handed to the mapper",
          MAPPER_WRONG,
        ],
      ),
      setting("config_params", { type: "object" }, "tuning of the algorithm", [
        MAPPER_DEFAULTS,
        MAPPER_WRONG,
      ]),
      setting("config_params.mode", { type: "string", required: true }, "`2d`", MAPPER_WRONG),
      param("optimize_every_n_nodes", "integer", "nodes between two optimisations; 0: local SLAM only"),
      param("num_range_data", "integer", "measurements in a submap"),
      param("missing_data_ray_length_meters", "number", "in place of ranges beyond the greatest one"),
      param("max_range_meters", "number", "the greatest valid range"),
      param("min_range_meters", "number", "the smallest valid range"),
      param("max_submaps_to_keep", "integer", "when localizing only"),
      param("fresh_submaps_count", "integer", "when updating only: the history of submaps"),
      param(
        "min_covered_area_meters_squared",
        "number",
        "when updating only: the overlap by which one is deleted",
      ),
      param(
        "min_added_submaps_count",
        "integer",
        "when updating only: new submaps before old ones are deleted",
      ),
      param("occupied_space_weight", "number", "of points, in the refinement of loop closures"),
      param("translation_weight", "number", "of the translation, in that"),
      param("rotation_weight", "number", "of the rotation, in that"),
      holds(
        "The position is (0,0) until it is found.",
        ONLINE,
      ),
      holds("Modes: an existing map extended, or only the position on it.", [
        "drivers/slam/mapper_test.ts: mapper: modes follow enable_mapping and existing_map, and the map is handed to the mapper",
        "lib/slam/mapper_test.ts: mapper: a map that is updated grows from where the robot finds itself, and keeps what it had",
        "lib/slam/mapper_test.ts: mapper: finds itself in a finished map, keeps few submaps of its own, and never moves the map",
      ]),
      holds("An IMU, odometry, or both.", [
        "drivers/slam/mapper_test.ts: mapper online: an IMU alone and odometry alone are used for what they are",
        ONLINE,
      ], "works on Windows, too; no 3D"),
      holds(
        "Both through a `merged` movement sensor.",
        "drivers/movement_sensor/merged_test.ts: merged: each quantity comes from the first sensor that supports it, the others are unsupported",
      ),
      holds(
        "`GetInternalState` and `InternalStateFull` give a `.pbstream`.",
        [
          "lib/slam/pbstream/pbstream_test.ts: a map that is written and read is the same: gaps, unfinished submaps, several trajectories, tilt",
          MAPPER + "the internal state comes in parts of 1 MiB, the map as a PCD file",
        ],
      ),
      notYet("Mapping in the cloud."),
    ],
  },
];
