/**
 * The lidar on the robot, as the frames of the configuration say it: the frame "world" is the robot's. Without a frame
 * of the lidar, the lidar is where the robot is.
 */

import type { Clock } from "../../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../../lib/base/error.ts";
import type { Logger } from "../../../lib/base/log/log.ts";
import { eulerFromQuaternion, type RigidTransform, rotate } from "../../../lib/geometry/pose.ts";
import { type FrameView, placeInWorld } from "../../../lib/resource/frame_view.ts";
import type { ResourceName } from "../../../lib/resource/name.ts";

/** How often the frames are looked at again: their change builds no resource anew. */
const LOOK_MS = 10_000;
/** The scans of a lidar tilted more than this are no plane of the building. */
const TILT_COS_MIN = 0.9;

export class LidarMount {
  #pose: RigidTransform | undefined;
  #lookAtMs = -Infinity;
  #logged = "";

  constructor(
    private readonly lidar: ResourceName,
    /** Throws outside of a machine. */
    private readonly frames: () => FrameView,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {}

  /** Millimetres; undefined if no frame is configured. */
  async pose(signal: AbortSignal): Promise<RigidTransform | undefined> {
    if (this.clock.monotonicMs() < this.#lookAtMs) return this.#pose;
    this.#lookAtMs = this.clock.monotonicMs() + LOOK_MS;
    try {
      this.#pose = await placeInWorld(this.frames(), this.lidar, { signal });
      if (this.#pose) this.#logOnChange(this.#pose);
    } catch (error) {
      signal.throwIfAborted();
      const { code } = SvcError.from(error);
      // Published codes of a frame that does not exist, and of a resource outside of a machine.
      const isAbsent = code === "unknown" || code === "failed_precondition";
      if (isAbsent) this.#pose = undefined;
      else this.logger.warn(`the frame of ${this.lidar.short} is unknown for now: ${chainOf(error)}`);
    }
    return this.#pose;
  }

  #logOnChange({ translation: { x, y }, rotation }: RigidTransform): void {
    const up = rotate(rotation, { x: 0, y: 0, z: 1 }).z;
    // Adding 0 makes -0 plain.
    const yawDeg = Math.round(eulerFromQuaternion(rotation).yaw * 1800 / Math.PI) / 10 + 0;
    const text = `${this.lidar.short} is mounted at x ${(x / 1000).toFixed(3)} m, y ${
      (y / 1000).toFixed(3)
    } m, yaw ${yawDeg.toFixed(1)} degrees${up < 0 ? ", upside down" : ""}`;
    if (text === this.#logged) return;
    this.#logged = text;
    this.logger.info(text);
    if (Math.abs(up) >= TILT_COS_MIN) return;
    this.logger.warn(
      `${this.lidar.short} is tilted by ${
        Math.round(Math.acos(Math.abs(up)) * 180 / Math.PI)
      } degrees: its scans are ` +
        "no plane of the building; check the orientation of its frame",
    );
  }
}
