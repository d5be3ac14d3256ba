/**
 * The frames of a remote as this machine has them: its world is the frame `<remote>_world`, which stands where the
 * remote's `frame` setting says, and every other frame has the remote's prefix before its name.
 *
 * A remote without that setting is nowhere, and none of its frames are here.
 */

import type { FrameSystemConfig } from "../../../proto/gen/robot_pb.ts";
import { fromTransformMessage } from "../../api/shared/geometry.ts";
import { chainOf } from "../../base/error.ts";
import { type FramePart, WORLD } from "../../geometry/frame_system.ts";
import { type KinematicModel, parseSva } from "../../geometry/kinematics.ts";
import type { RemoteConfig } from "../config/config.ts";

/** More of a remote is left aside; two machines that are remotes of each other would tell of more and more. */
const FRAMES_MAX = 1_000;
const NAME_MAX = 400;

/** A frame of a remote, under its name here. */
export interface RemoteFrame {
  /** The name of the remote; the part's resource, if it is one, is `<remote>:<part>`. */
  readonly remote: string;
  readonly part: FramePart;
}

/** The frames that the remote told of; `leftOut` hears why one cannot be used. */
export function remoteFrames(
  { name: remote, prefix, frame }: RemoteConfig,
  told: readonly FrameSystemConfig[],
  leftOut: (problem: string) => void,
): RemoteFrame[] {
  if (!frame) return [];
  const { parent, pose, geometry } = frame;
  const world = `${remote}_${WORLD}`;
  const frames: RemoteFrame[] = [{ remote, part: { name: world, parent, pose, geometry } }];
  if (told.length > FRAMES_MAX) leftOut(`${told.length} frames, of which only ${FRAMES_MAX} are used`);
  for (const message of told.slice(0, FRAMES_MAX)) {
    const shown = message.frame?.referenceFrame.slice(0, NAME_MAX);
    try {
      const { name, parent, pose, geometry } = fromTransformMessage(message.frame!);
      if (name.length > NAME_MAX) throw new Error(`its name is longer than ${NAME_MAX}`);
      const kinematics = message.kinematics && kinematicsOf(message.kinematics, `${prefix}${name}`);
      const part = {
        name: `${prefix}${name}`,
        parent: parent === WORLD ? world : `${prefix}${parent}`,
        pose,
        geometry,
        kinematics,
      };
      frames.push({ remote, part });
    } catch (error) {
      leftOut(`frame ${shown}: ${chainOf(error)}`);
    }
  }
  return frames;
}

/** Kinematics travel as the published form of a model, whatever the file was that they were read from. */
function kinematicsOf(
  config: NonNullable<FrameSystemConfig["kinematics"]>,
  name: string,
): KinematicModel | undefined {
  if (Object.keys(config).length === 0) return undefined;
  return parseSva(new TextEncoder().encode(JSON.stringify(config)), name);
}
