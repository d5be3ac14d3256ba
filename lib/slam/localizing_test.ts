/** Robots that look for their place on a finished map: in alike places, with bad odometry, and carried away. */

import { assert, assertEquals } from "@std/assert";
import { drive, rectangle, RING, viewFrom, type Wall } from "../../tests/support/floor_plan.ts";
import type { MapState } from "./map_state.ts";
import { Mapper } from "./mapper.ts";
import { MAPPER_DEFAULTS } from "./mapping.ts";
import { between2d, compose2d, inverse2d, type Pose2d } from "./pose2d.ts";

const VIEW = { beams: 181, fieldRad: Math.PI, noiseM: 0.01 };
const AROUND = { beams: 180, fieldRad: 2 * Math.PI * 179 / 180, noiseM: 0.01 };
const WAY = [[0, 0], [11, 0], [11, 7], [0, 7], [0, 0], [11, 0]] as const;
const STEP_S = 0.2;
/** How far from the true place a robot may be to be right. */
const RIGHT_M = 0.3;

/** A map of a building, and where its first node truly is. */
interface Mapped {
  readonly walls: readonly Wall[];
  readonly map: MapState;
  readonly origin: Pose2d;
}

function mapped(walls: readonly Wall[], poses: readonly Pose2d[], view = VIEW): Mapped {
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  poses.forEach((pose, k) => {
    const timeS = 1000 + STEP_S * k;
    mapper.addOdometry({ timeS, pose });
    mapper.addScan({ timeS, points: viewFrom(walls, pose, { ...view, seed: k }) });
    while (mapper.work());
  });
  mapper.finish();
  return { walls, map: mapper.state(), origin: poses[0] };
}

/** A robot on the map of a building. */
class Robot {
  readonly #mapper: Mapper;
  #scans = 0;

  constructor(private readonly home: Mapped, private readonly view = VIEW) {
    this.#mapper = new Mapper({ mode: "localize", options: MAPPER_DEFAULTS, map: home.map });
  }

  /** What it says of its place after each scan: `?` for none. `people` stand in the robot's view. */
  sees(way: readonly Pose2d[], odometry: readonly Pose2d[], people: readonly Wall[] = []): string {
    return way.map((pose, k) => {
      const timeS = 9000 + STEP_S * ++this.#scans;
      this.#mapper.addOdometry({ timeS, pose: odometry[k] });
      const view = { ...this.view, seed: 6000 + this.#scans };
      this.#mapper.addScan({ timeS, points: viewFrom([...this.home.walls, ...people], pose, view) });
      while (this.#mapper.work());
      return this.#belief(pose);
    }).join("");
  }

  #belief(truth: Pose2d): "?" | "right" | "wrong" {
    const pose = this.#mapper.pose();
    if (!pose || this.#mapper.localization().place !== "localized") return "?";
    const { x, y } = between2d(
      between2d(this.home.origin, truth),
      between2d(this.home.map.nodes[0].globalPose, pose),
    );
    return Math.hypot(x, y) <= RIGHT_M ? "right" : "wrong";
  }
}

/** With wheels that did not turn while the robot was carried from one place to another. */
function carriedTo(after: readonly Pose2d[], from: Pose2d): Pose2d[] {
  const shift = compose2d(from, inverse2d(after[0]));
  return after.map((pose) => compose2d(shift, pose));
}

Deno.test("localizing: a robot that is carried away between two nodes is placed where it is, wherever that is", () => {
  const poses = drive(WAY, STEP_S, STEP_S);
  const home = mapped(RING, poses);
  for (const [from, to] of [[38, 33], [38, 121], [87, 62], [110, 10], [10, 60], [130, 75]]) {
    const robot = new Robot(home), before = poses.slice(from, from + 12), after = poses.slice(to, to + 45);
    assert(robot.sees(before, before).endsWith("right"), `from ${from}`);
    const beliefs = robot.sees(after, carriedTo(after, before.at(-1)!));
    assert(/(right){10}$/.test(beliefs), `from ${from} to ${to}: ${beliefs}`);
  }
});

Deno.test("localizing: a robot that is carried away and stands there is placed again within two seconds", () => {
  const poses = drive(WAY, STEP_S, STEP_S);
  const home = mapped(RING, poses);
  for (const [from, to] of [[38, 33], [10, 60], [20, 60], [30, 62]]) {
    const robot = new Robot(home), before = poses.slice(from, from + 12);
    assert(robot.sees(before, before).endsWith("right"), `from ${from}`);
    const after = Array.from({ length: 20 }, () => poses[to]);
    const beliefs = robot.sees(after, carriedTo(after, before.at(-1)!));
    assert(
      /^(wrong){0,10}[^w]*$/.test(beliefs.replaceAll("right", "r")),
      `from ${from} to ${to}: ${beliefs}`,
    );
  }
});

Deno.test("localizing: people who stand around a robot do not make it lose its place", () => {
  const poses = drive(WAY, STEP_S, STEP_S);
  const robot = new Robot(mapped(RING, poses)), before = poses.slice(38, 50), { x, y } = before.at(-1)!;
  assert(robot.sees(before, before).endsWith("right"));
  const still = Array.from({ length: 20 }, () => before.at(-1)!);
  const beliefs = robot.sees(still, still, rectangle(x - 0.5, y - 0.5, x + 0.5, y + 0.5));
  assertEquals(beliefs, "right".repeat(20));
});

Deno.test("localizing: odometry that turns too little does not keep a robot from its place", () => {
  const poses = drive(WAY, STEP_S, STEP_S);
  const home = mapped(RING, poses);
  for (const share of [0.5, 1.4]) {
    for (const from of [48, 90, 130]) {
      const way = poses.slice(from, from + 12);
      const odometry = [way[0]];
      for (let k = 1; k < way.length; k++) {
        const moved = between2d(way[k - 1], way[k]);
        odometry.push(compose2d(odometry[k - 1], { ...moved, yaw: share * moved.yaw }));
      }
      const beliefs = new Robot(home).sees(way, odometry);
      assert(/^\?{2,5}right/.test(beliefs), `turns ${share} times, from ${from}: ${beliefs}`);
      assert(!beliefs.includes("wrong"), beliefs);
    }
  }
});

const HALF: readonly Wall[] = [[-6, 1.2, -6, 0.7], [-3, -1.2, -3, -0.6], [-8, -1.2, -8, -0.9]];
/** A corridor that is the same turned by half a turn. */
const ALIKE: readonly Wall[] = [
  ...rectangle(-10, -1.2, 10, 1.2),
  ...HALF,
  ...HALF.map(([x1, y1, x2, y2]): Wall => [-x1, -y1, -x2, -y2]),
];

Deno.test("localizing: a robot that stands claims neither of two ends that differ by centimetres, or by a person", () => {
  const poses = drive([[-7, 0], [7, 0], [-7, 0]], STEP_S, STEP_S);
  const beliefsAt = (x: number, nicheM: number, people: readonly Wall[] = []) => {
    const home = mapped([...ALIKE, [-4.4, 1.2, -4.4, 1.2 - nicheM]], poses);
    const standing = Array.from({ length: 12 }, () => ({ x, y: 0, yaw: 0 }));
    return new Robot(home).sees(standing, standing, people);
  };
  assertEquals(beliefsAt(-6.5, 0.05), "?".repeat(12));
  assertEquals(beliefsAt(-6.5, 0.3, rectangle(-4.6, 0.6, -4.2, 1)), "?".repeat(12));
  assertEquals(beliefsAt(-5, 0.5), `${"?".repeat(5)}${"right".repeat(7)}`);
});

Deno.test("localizing: of two places that are alike none is claimed, and a small difference decides", () => {
  const poses = drive([[-7, 0], [7, 0], [-7, 0]], STEP_S, STEP_S);
  const way = drive([[-5, 0], [-2, 0]], STEP_S, STEP_S);
  const beliefs = new Robot(mapped(ALIKE, poses)).sees(way, way);
  assertEquals(beliefs.replaceAll("?", ""), "");

  const niche: Wall = [-4.4, 1.2, -4.4, 0.3];
  const decided = new Robot(mapped([...ALIKE, niche], poses)).sees(way, way);
  assert(decided.endsWith("right") && !decided.includes("wrong"), decided);
});

Deno.test("localizing: a robot that stands in a hall with few features finds itself on the map of a short drive", () => {
  const pillar: readonly Wall[] = rectangle(3.6, 2.2, 4, 2.6);
  const halls: readonly (readonly Wall[])[] = [
    [...rectangle(-4, -3, 6, 5), ...pillar],
    [...rectangle(-5, -4, 5, 4), ...pillar, [-5, 1, -4.4, 1]],
  ];
  const poses = drive([[0, 0], [1.2, 0]], 0.05, STEP_S);
  for (const [k, walls] of halls.entries()) {
    const standing = Array.from({ length: 10 }, () => poses.at(-1)!);
    const beliefs = new Robot(mapped(walls, poses, AROUND), AROUND).sees(standing, standing);
    assert(beliefs.endsWith("right") && !beliefs.includes("wrong"), `hall ${k}: ${beliefs}`);
  }
});
