/** A lidar on a base that drives in a simulated building. */

import type { Clock } from "../../../lib/base/clock.ts";
import { randomFrom } from "../../../lib/geometry/random.ts";
import type { ResourceName } from "../../../lib/resource/name.ts";
import type { Resource } from "../../../lib/resource/resource.ts";
import {
  type LidarSettings,
  scanAt,
  type SimulatedRobot,
  simulationOf,
} from "../../../lib/slam/simulation/robot.ts";
import { Lidar, type LidarTurn } from "./lidar.ts";

export class SimulatedLidar extends Lidar {
  readonly #robot: SimulatedRobot;
  readonly #random: () => number;

  /** Throws `failed_precondition` for a base without a simulated building. */
  constructor(
    name: ResourceName,
    base: Resource,
    private readonly settings: LidarSettings & { readonly seed: number },
    clock: Clock,
  ) {
    super(name, clock);
    this.#robot = simulationOf(base, `${name}: ${base.name}`);
    this.#random = randomFrom(settings.seed);
  }

  protected override scan(): Promise<LidarTurn> {
    const timeS = this.clock.monotonicMs() / 1000;
    const { building } = this.#robot;
    const at = this.#robot.truth(timeS), motion = this.#robot.motion(timeS);
    return Promise.resolve(scanAt(building, { timeS, at, motion }, this.settings, this.#random));
  }
}
