/**
 * The frames of a remote on this machine: the remote's world becomes the frame `<remote>_world`, placed by the
 * remote's `frame` setting, and every other frame gets the remote's prefix.
 *
 * A remote without that setting has no place, and none of its frames appear.
 */

import type { FrameSystemConfig } from "../../../proto/gen/robot_pb.ts";
import { fromTransformMessage } from "../../api/shared/geometry.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { LogOnChange } from "../../base/log/on_change.ts";
import { type FramePart, remoteWorld, WORLD } from "../../geometry/frame_system.ts";
import { type KinematicModel, parseSva } from "../../geometry/kinematics.ts";
import { ENDLESS_DEG } from "../../geometry/urdf.ts";
import type { RemoteConfig } from "../config/config.ts";

/** Limit for one remote; two machines that are remotes of each other would report more and more. */
const FRAMES_MAX = 1_000;
const NAME_MAX = 400;

/** A frame of a remote, under its name on this machine. */
export interface RemoteFrame {
  /** The name of the remote; the part's resource, if it is one, is `<remote>:<part>`. */
  readonly remote: string;
  readonly part: FramePart;
}

/** The frames of one remote, as it last reported them, at the place of its setting. */
export class PlacedFrames {
  #all: readonly RemoteFrame[] = [];
  #reported: readonly FrameSystemConfig[] = [];
  readonly #problems = new LogOnChange();

  constructor(private config: RemoteConfig, private readonly logger: Logger) {}

  get all(): readonly RemoteFrame[] {
    return this.#all;
  }

  /** The remote's setting has changed. */
  place(config: RemoteConfig): void {
    this.config = config;
    this.adopt(this.#reported);
  }

  /** Adopts the frames as the remote reports them. */
  adopt(reported: readonly FrameSystemConfig[]): void {
    const problems: string[] = [];
    this.#reported = reported;
    this.#all = remoteFrames(this.config, reported, (problem) => problems.push(problem));
    this.#warn(problems.join("; "));
  }

  /** The remote has not reported its frames for this reason. */
  keep(error: unknown): void {
    this.#warn(`they stay as they were: ${chainOf(error)}`);
  }

  #warn(problem: string): void {
    if (this.#problems.isNew(problem) && problem !== "") {
      this.logger.warn(`frames of remote "${this.config.name}": ${problem}`);
    }
  }
}

/** The frames that the remote reported; `leftOut` receives the reason for an unusable one. */
export function remoteFrames(
  { name: remote, prefix, frame }: RemoteConfig,
  reported: readonly FrameSystemConfig[],
  leftOut: (problem: string) => void,
): RemoteFrame[] {
  if (!frame) return [];
  const { parent, pose, geometry } = frame;
  const world = remoteWorld(remote);
  const frames: RemoteFrame[] = [{ remote, part: { name: world, parent, pose, geometry } }];
  if (reported.length > FRAMES_MAX) {
    leftOut(`${reported.length} frames, of which only ${FRAMES_MAX} are used`);
  }

  for (const message of reported.slice(0, FRAMES_MAX)) {
    const shown = message.frame?.referenceFrame.slice(0, NAME_MAX);
    try {
      const { name, parent, pose, geometry, moreGeometries } = fromTransformMessage(message.frame!);
      if (name.length > NAME_MAX) throw new Error(`its name is longer than ${NAME_MAX}`);
      const kinematics = message.kinematics && kinematicsOf(message.kinematics, `${prefix}${name}`);
      const part = {
        name: `${prefix}${name}`,
        parent: parent === WORLD ? world : `${prefix}${parent}`,
        pose,
        geometry,
        moreGeometries,
        kinematics,
      };
      frames.push({ remote, part });
    } catch (error) {
      leftOut(`frame ${shown}: ${chainOf(error)}`);
    }
  }

  return frames;
}

/** Kinematics travel in the published form of a model, whatever the format of their file. */
function kinematicsOf(
  config: NonNullable<FrameSystemConfig["kinematics"]>,
  name: string,
): KinematicModel | undefined {
  if (Object.keys(config).length === 0) return undefined;
  // The published runtime sends infinite limits of continuous joints. JSON has none: they would become limits of 0.
  const finite = (_: string, value: unknown) => {
    return Math.abs(value as number) === Infinity ? Math.sign(value as number) * ENDLESS_DEG : value;
  };
  return parseSva(new TextEncoder().encode(JSON.stringify(config, finite)), name);
}
