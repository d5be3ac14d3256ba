/**
 * Submaps: grids of a few dozen scans each. Two are active, the newer half as old as the older; scans are matched
 * against the older one, and inserted into both.
 */

import type { Pose2d } from "../pose2d.ts";
import { GridInserter, ProbabilityGrid, type RayEnds } from "./probability_grid.ts";

const HIT_PROBABILITY = 0.55;
const MISS_PROBABILITY = 0.49;
const RESOLUTION_M = 0.05;

export class Submap {
  #scanCount: number;
  #finished: boolean;

  constructor(readonly localPose: Pose2d, readonly grid: ProbabilityGrid, scanCount = 0, finished = false) {
    this.#scanCount = scanCount;
    this.#finished = finished;
  }

  get scanCount(): number {
    return this.#scanCount;
  }

  get finished(): boolean {
    return this.#finished;
  }

  insert(inserter: GridInserter, ends: RayEnds): void {
    inserter.insert(this.grid, ends);
    this.#scanCount++;
  }

  finish(): void {
    this.#finished = true;
    this.grid.crop();
  }
}

export class ActiveSubmaps {
  readonly #inserter = new GridInserter(HIT_PROBABILITY, MISS_PROBABILITY);
  #active: Submap[] = [];

  constructor(private readonly scansPerSubmap: number) {}

  /** The submap to match against; undefined before the first scan. */
  get matched(): Submap | undefined {
    return this.#active[0];
  }

  get active(): readonly Submap[] {
    return this.#active;
  }

  /** Finishes and forgets the active submaps. The next scan begins new ones. */
  end(): void {
    for (const submap of this.#active) submap.finish();
    this.#active = [];
  }

  /** Inserts a scan from a pose, and returns the submaps that it is part of. */
  insert(pose: Pose2d, ends: RayEnds): readonly Submap[] {
    const newest = this.#active.at(-1);
    if (!newest || newest.scanCount === this.scansPerSubmap) {
      if (this.#active.length === 2) this.#active.shift();
      const grid = new ProbabilityGrid(RESOLUTION_M, pose.x, pose.y);
      this.#active.push(new Submap({ x: pose.x, y: pose.y, yaw: 0 }, grid));
    }
    const into = [...this.#active];
    for (const submap of into) submap.insert(this.#inserter, ends);
    const [oldest] = into;
    if (oldest && oldest.scanCount >= 2 * this.scansPerSubmap) oldest.finish();
    return into;
  }
}
