/** The specification of the models: segmenter, board, motors, mapping and microcontrollers. */

import { holds, type Row, type Section, setting } from "./row.ts";

const OBSTACLES = "drivers/vision/obstacles_depth_test.ts: obstacles_depth: ";
const SEGMENTS = "lib/geometry/cloud/segmentation_test.ts: ";
const BOARD = "drivers/board/fake_test.ts: ";
const BOARD_ATTRIBUTES = BOARD + "fake board: the JSON Schema of the attributes has the documented names";
const GPIO = "drivers/motor/gpio_test.ts: ";
const GPIO_ATTRIBUTES = GPIO +
  "attributes: pin patterns, limits and missing values, each error with its path";
const FAKE = "drivers/motor/fake_test.ts: ";
const FAKE_ATTRIBUTES = FAKE + "attributes: none is required, but an encoder requires ticks_per_rotation";
const ZERO = OBSTACLES +
  "0 is not the default: any plane is ground, only a level plane is, every cluster is an object";
const CHECKED = OBSTACLES + "impossible attributes, each error with its path";
const REPRESENTATIONAL = "without effect on a board without hardware";

const MAPPER = "drivers/slam/mapper_test.ts: mapper: ";
const ONLINE =
  "drivers/slam/mapper_test.ts: mapper online: reads lidar and sensor at their rates; the robot is at the origin until it is localized";
const MAPPER_DEFAULTS = "drivers/slam/mapper_test.ts: mapper attributes: defaults are as documented";
const MAPPER_WRONG =
  "drivers/slam/mapper_test.ts: mapper attributes: impossible values, each error with its path";
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
    "drivers/slam/mapper_test.ts: mapper attributes: accepts numbers as texts, empty texts as defaults, and published aliases",
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
        "a flat surface with at least this many points is a ground plane",
        [ZERO, CHECKED],
        { note: "differs: 0 means that any plane is ground; in the published model it means the default" },
      ),
      setting(
        "min_points_in_segment",
        { type: "integer", default: 10 },
        "smaller objects are left out",
        [
          SEGMENTS + "an object has at least the configured number of points",
          SEGMENTS +
          "a thin cluster counts only its own points, or all its points if any size is enough",
        ],
        {
          note:
            "in a thin cluster, points along the edge of a nearer object and points in ground noise of up to " +
            "`max_dist_from_plane_mm` do not count. Otherwise 2 of 100 random scenes with the defaults, and 36 of 100 " +
            "with noisy ground, would show false objects (`deno task accuracy:depth`). With 0 every cluster is an object",
        },
      ),
      setting(
        "max_dist_from_plane_mm",
        { type: "number", default: 100 },
        "points within this distance of the ground plane, above and below, are part of the ground",
        [SEGMENTS + "points near the floor, above and below, belong to the floor", CHECKED],
        { note: "above 0; 0 means the default, as published" },
      ),
      setting(
        "ground_angle_tolerance_degs",
        { type: "integer", default: 30 },
        "largest angle between the ground plane and the ideal ground",
        [
          "lib/geometry/cloud/plane_test.ts: GroundFinder: toleranceDeg is the largest accepted angle",
          ZERO,
          CHECKED,
        ],
        {
          note:
            "0 to 180; differs: 0 means exactly level (published: the default), and fractions are an error",
        },
      ),
      setting(
        "clustering_radius",
        { type: "integer", default: 1 },
        "how close neighbouring points must be; small values split objects, large values merge them",
        [
          SEGMENTS + "Segmenter: a larger clusteringRadius merges, a larger clusteringStrictness divides",
          CHECKED,
        ],
        { note: "at least 1; 0 means the default, as published" },
      ),
      setting(
        "clustering_strictness",
        { type: "integer", default: 5 },
        "large values give many small clusters, low values fewer and bigger clusters",
        [
          SEGMENTS + "Segmenter: a larger clusteringRadius merges, a larger clusteringStrictness divides",
          "tests/accuracy/depth_test.ts: a stricter clustering gives no fewer pieces, and a larger radius no more",
          CHECKED,
        ],
        { note: "a whole number from 1 (published: any number); 0 means the default, as published" },
      ),
      holds(
        "All attributes are optional, and the defaults work.",
        [
          OBSTACLES + "the defaults equal the published defaults",
          OBSTACLES + "finds objects in front of a fake camera without attributes",
          "tests/accuracy/depth_test.ts: Segmenter finds every body of random scenes and nothing else: ${what}",
        ],
        "beyond: `camera_name`, the camera for requests that name none",
      ),
      holds(
        "It finds well-separated objects above a flat plane.",
        [
          SEGMENTS + "finds objects above the floor, nearest first, in the right places",
          "tests/accuracy/depth_test.ts: Segmenter finds the objects of real depth frames${where}",
        ],
      ),
      holds(
        "`GetObjectPointClouds(camera_name)` returns a point cloud for each object that the camera sees.",
        OBSTACLES + "each object is a point cloud with its bounding box in the camera's frame",
      ),
    ],
  },
  {
    title: "The fake board",
    subject: { kind: "model", api: "rdk:component:board", model: "rdk:builtin:fake" },
    rows: [
      holds(
        "Digital interrupts and analogs count up.",
        [
          BOARD +
          "analogs count from 1 to 1000 and on from 0, on every pin; a still analog keeps the written value",
          BOARD + "fake board: each read of an interrupt's value counts up",
        ],
        "differs: in the published model the analog on pin 1 stands still; here an analog with `still` does",
      ),
      setting(
        "fail_new",
        { type: "boolean", required: true },
        "makes the board fail at the start of the machine",
        BOARD + "fake board: fail_new makes the construction fail with whoops",
        {
          note: "differs: optional, because published configurations leave it out",
          differsIn: ["required"],
        },
      ),
      setting(
        "analogs[].name",
        { type: "string", required: true },
        "name of the analog reader",
        BOARD + "errors for bad attributes have their paths",
      ),
      setting(
        "analogs[].pin",
        { type: "string", required: true },
        "pin number on the ADC",
        BOARD_ATTRIBUTES,
        {
          note: "differs: optional, as in the published model",
          differsIn: ["required"],
        },
      ),
      setting(
        "analogs[].chip_select",
        { type: "string", required: true },
        "chip select index",
        BOARD_ATTRIBUTES,
        {
          note: `differs: optional, as in the published model; ${REPRESENTATIONAL}`,
          differsIn: ["required"],
        },
      ),
      setting("analogs[].spi_bus", { type: "string", required: true }, "SPI bus index", BOARD_ATTRIBUTES, {
        note: `differs: optional, as in the published model; ${REPRESENTATIONAL}`,
        differsIn: ["required"],
      }),
      setting(
        "analogs[].average_over_ms",
        { type: "integer" },
        "rolling average window in milliseconds",
        BOARD_ATTRIBUTES,
        {
          note: REPRESENTATIONAL,
        },
      ),
      setting("analogs[].samples_per_sec", { type: "integer" }, "sampling rate", BOARD_ATTRIBUTES, {
        note: REPRESENTATIONAL,
      }),
      setting(
        "digital_interrupts[].name",
        { type: "string", required: true },
        "name of the interrupt",
        BOARD + "errors for bad attributes have their paths",
      ),
      setting(
        "digital_interrupts[].pin",
        { type: "string", required: true },
        "GPIO pin number",
        BOARD + "errors for bad attributes have their paths",
      ),
      holds(
        "The value of an interrupt is the total count of its triggers.",
        BOARD + "fake board: a simulated motor makes quadrature edges by its power and direction",
      ),
      holds(
        "The board implements `StreamTicks`, `Value` and `GetGPIO`.",
        [
          BOARD + "fake board: streamTicks sends a tick of each interrupt every 700 ms with rising times",
          BOARD + "fake board: pins read back levels and PWM, and setGpio ends the PWM",
          "tests/contract/contract_test.ts: every built-in model passes its API's contract directly and through a client",
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
        "the board with the motor driver",
        GPIO_ATTRIBUTES,
      ),
      setting("pins", { type: "object", required: true }, "the driver's pins", GPIO_ATTRIBUTES),
      setting(
        "pins.a",
        { type: "string" },
        "input A (IN1)",
        GPIO + "gpio motor, a + b + pwm: power sets exact pin levels",
      ),
      setting(
        "pins.b",
        { type: "string" },
        "input B (IN2)",
        GPIO + "gpio motor, a + b + pwm: power sets exact pin levels",
      ),
      setting(
        "pins.dir",
        { type: "string" },
        "direction",
        GPIO + "dir + pwm: exact pin levels, with an active-low enable pin",
      ),
      setting(
        "pins.pwm",
        { type: "string", required: true },
        "PWM",
        GPIO + "dir + pwm: exact pin levels, with an active-low enable pin",
        {
          note: "required, except in the specified pattern `a` + `b`",
          differsIn: ["required"],
        },
      ),
      holds(
        "The pin patterns are `pwm` + `dir`, `a` + `b`, and `a` + `b` + `pwm`.",
        [
          GPIO + "dir + pwm: exact pin levels, with an active-low enable pin",
          GPIO + "a + b: one pin is high, the other gets PWM with the rest of the power",
          GPIO + "gpio motor, a + b + pwm: power sets exact pin levels",
        ],
      ),
      setting("min_power_pct", { type: "number", default: 0 }, "lower limit of the power, as a fraction", [
        GPIO + "gpio motor: power stays between min_power_pct and max_power_pct",
        GPIO_ATTRIBUTES,
      ], {
        note: "0 to 1, and at most `max_power_pct`",
      }),
      setting(
        "max_power_pct",
        { type: "number", default: 1, minimum: 0.06, maximum: 1 },
        "upper limit of the power, as a fraction",
        [
          GPIO + "gpio motor: power stays between min_power_pct and max_power_pct",
          GPIO_ATTRIBUTES,
        ],
      ),
      setting(
        "pwm_freq",
        { type: "integer", default: 800 },
        "PWM frequency in Hz",
        GPIO + "dir + pwm: exact pin levels, with an active-low enable pin",
      ),
      setting(
        "dir_flip",
        { type: "boolean", default: false },
        "swaps forward and backward",
        GPIO + "gpio motor: dir_flip and direction_flip swap the directions",
        {
          note: "beyond: also `direction_flip`",
        },
      ),
      setting(
        "encoder",
        { type: "string" },
        "name of the attached encoder",
        GPIO + "gpio motor with encoder: setPower turns the motor, and its position follows",
      ),
      holds(
        "The motor implements `GoFor` and `GoTo`.",
        [
          GPIO + "timedMove() gives power and duration of a movement without an encoder",
          GPIO + "gpio motor with encoder: GoFor(${rpm}, ${revolutions}) reaches its distance",
          GPIO +
          "with an encoder: GoTo takes its direction from the distance, and does nothing near the goal",
        ],
        "beyond: `max_rpm`, `ticks_per_rotation`, `ramp_rate` and `control_parameters`, as published; the default of `max_rpm` is 100, with a warning",
      ),
      holds("On microcontrollers each motor uses one PWM pin at 10000 Hz.", [
        "cli/micro/pwm_rule_test.ts: microcontroller PWM: motors share 10000 Hz and leave three frequencies",
        "cli/micro/pwm_rule_test.ts: microcontroller PWM: a fifth frequency is an error of the whole configuration and names the pins",
      ], "in `svc-micro-server`"),
    ],
  },
  {
    title: "The fake motor",
    subject: { kind: "model", api: "rdk:component:motor", model: "rdk:builtin:fake" },
    rows: [
      holds("No attribute is required.", FAKE_ATTRIBUTES),
      setting("board", { type: "string" }, "name of a board", FAKE_ATTRIBUTES),
      setting(
        "min_power_pct",
        { type: "number", default: 0 },
        "lower limit of the power, as a fraction",
        FAKE + "the limits apply to power and speed, and a slower motor takes longer",
      ),
      setting(
        "max_power_pct",
        { type: "number", default: 1, minimum: 0.06, maximum: 1 },
        "upper limit of the power, as a fraction",
        [
          FAKE + "the limits apply to power and speed, and a slower motor takes longer",
          FAKE + "attributes: limits are in range, and the lower limit is not above the upper",
        ],
      ),
      setting("pwm_freq", { type: "integer", default: 800 }, "PWM frequency in Hz", FAKE_ATTRIBUTES),
      setting(
        "encoder",
        { type: "string" },
        "name of an encoder; with it, `ticks_per_rotation` is required",
        FAKE + "fake motor: with an encoder position, GoFor, GoTo and resetZeroPosition are exact",
      ),
      setting(
        "max_rpm",
        { type: "number", default: 100 },
        "speed at full power; `GoFor` computes its power as a percentage of it",
        FAKE + "fake motor: GoFor takes the time of its revolutions, then the motor stops",
      ),
      setting("ticks_per_rotation", { type: "integer" }, "encoder ticks in one rotation", FAKE_ATTRIBUTES),
      setting(
        "dir_flip",
        { type: "boolean", default: false },
        "swaps forward and backward",
        FAKE + "fake motor: dir_flip keeps the motor's positions and reverses its encoder",
      ),
      setting("pins.a", { type: "string" }, "a pin", FAKE_ATTRIBUTES),
      setting("pins.b", { type: "string" }, "a pin", FAKE_ATTRIBUTES),
      setting("pins.dir", { type: "string" }, "a pin", FAKE_ATTRIBUTES),
      setting("pins.pwm", { type: "string" }, "a pin", FAKE_ATTRIBUTES),
      holds("An encoder without `ticks_per_rotation` is an error.", FAKE_ATTRIBUTES),
      holds(
        "Dependents of a motor, such as a base, work with the fake motor.",
        "tests/contract/contract_test.ts: every built-in model passes its API's contract directly and through a client",
      ),
    ],
  },
  {
    title: "Mapping (SLAM)",
    subject: { kind: "model", api: "rdk:service:slam", model: "svc:slam:cartographer" },
    rows: [
      holds(
        "The service `rdk:service:slam`, model `svc:slam:<mapper>`, maps with a 2D LiDAR, an IMU and odometry.",
        "tests/e2e/slam_test.ts: a robot maps a building: clients get a true map, and the next robot localizes on it",
        "the model is `svc:slam:cartographer`; it is built in, so no entry in `modules` is needed",
      ),
      setting(
        "use_cloud_slam",
        { type: "boolean", required: true },
        "the cloud maps, and local mapping is disabled",
        [
          MAPPER + "with use_cloud_slam only getProperties answers, and missing captures are logged",
          "tests/cloud/mapping_test.ts: svc-cloud builds a map from a machine's data: during the capture, later, and to extend a map",
          MAPPER_WRONG,
        ],
      ),
      setting(
        "camera",
        { type: "object", required: true },
        "the LiDAR camera and its rate; 5 Hz is suggested",
        [
          MAPPER_DEFAULTS,
          MAPPER_WRONG,
          ONLINE,
        ],
      ),
      setting(
        "movement_sensor",
        { type: "object" },
        "an IMU, odometry or both, and the rate; 20 Hz is suggested",
        [MAPPER_DEFAULTS, MAPPER_WRONG, ONLINE],
      ),
      setting(
        "enable_mapping",
        { type: "boolean", default: true },
        "builds the map in addition to localizing",
        [
          MAPPER + "enable_mapping and existing_map set the mode, and the engine gets the map",
          MAPPER_WRONG,
        ],
      ),
      setting(
        "existing_map",
        { type: "string" },
        "a `.pbstream` file: `${packages.slam_map.NAME}/internalState.pbstream` or a path",
        [
          MAPPER + "enable_mapping and existing_map set the mode, and the engine gets the map",
          MAPPER_WRONG,
        ],
      ),
      setting("config_params", { type: "object" }, "tuning of the algorithm", [
        MAPPER_DEFAULTS,
        MAPPER_WRONG,
      ]),
      setting("config_params.mode", { type: "string", required: true }, "`2d`", MAPPER_WRONG),
      param(
        "optimize_every_n_nodes",
        "integer",
        "nodes between two global optimisations; 0 means local SLAM only",
      ),
      param("num_range_data", "integer", "measurements in a submap"),
      param("missing_data_ray_length_meters", "number", "replaces ranges beyond the maximum"),
      param("max_range_meters", "number", "maximum valid range"),
      param("min_range_meters", "number", "minimum valid range"),
      param("max_submaps_to_keep", "integer", "submaps to keep; localizing mode only"),
      param("fresh_submaps_count", "integer", "length of the submap history; updating mode only"),
      param(
        "min_covered_area_meters_squared",
        "number",
        "smallest overlap before an old submap may be deleted; updating mode only",
      ),
      param(
        "min_added_submaps_count",
        "integer",
        "new submaps before an old submap may be deleted; updating mode only",
      ),
      param("occupied_space_weight", "number", "weight of scan points in the refinement of loop closures"),
      param("translation_weight", "number", "weight of the translation in the same refinement"),
      param("rotation_weight", "number", "weight of the rotation in the same refinement"),
      holds(
        "Until the service has found the position, it is (0,0).",
        ONLINE,
      ),
      holds("An existing map is updated, or used for localizing alone.", [
        "drivers/slam/mapper_test.ts: mapper: enable_mapping and existing_map set the mode, and the engine gets the map",
        "lib/slam/mapper_test.ts: mapper: an updated map grows from the robot's place, and keeps its old content",
        "lib/slam/mapper_test.ts: mapper: localizes on a finished map, adds only a few submaps, and never moves the map",
      ]),
      holds("The movement sensor is an IMU, odometry, or both.", [
        "drivers/slam/mapper_test.ts: mapper online: uses an IMU alone and odometry alone, each for its own quantities",
        ONLINE,
      ], "beyond: works on Windows, too. No 3D LiDAR"),
      holds(
        "A `merged` movement sensor combines an IMU and odometry.",
        "drivers/movement_sensor/merged_test.ts: merged: each quantity comes from its first supporting sensor, others are unsupported",
      ),
      holds(
        "`GetInternalState` and `InternalStateFull` return a `.pbstream` map.",
        [
          "lib/slam/pbstream/pbstream_test.ts: a map is the same after writing and reading: gaps, unfinished submaps, several trajectories, tilt",
          MAPPER + "the internal state comes in parts of 1 MiB, and the map as a PCD file",
        ],
      ),
      holds("Cloud mapping: the machine captures data, and the cloud builds the map.", [
        "tests/cloud/mapping_test.ts: svc-cloud builds a map from a machine's data: during the capture, later, and to extend a map",
      ], "`svc-cloud map start`, or the published calls of CloudSLAMService"),
    ],
  },
];
