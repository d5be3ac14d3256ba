/**
 * Names in calls to a resource of a remote: its requests and answers name other resources and frames by their names on
 * this machine, whatever the remote calls them.
 *
 * A frame of the remote has the remote's prefix here, and the remote's world is `<remote>_world`. For a resource of this
 * machine, also in a module, every name stays as it is.
 */

import { type FramePart, type PoseInFrame, remoteWorld, WORLD } from "../../geometry/frame_system.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { DescMessage, Message } from "../../wire/rpc/proto.ts";

/** What the machine where the resource lives calls a frame. Frames that are not its own keep their names. */
export function farFrame({ remote, prefix }: ResourceName, frame: string): string {
  if (remote === "") return frame;
  if (frame === remoteWorld(remote)) return WORLD;
  return frame.startsWith(prefix) ? frame.slice(prefix.length) : frame;
}

/** What this machine calls a frame of the machine where the resource lives. */
export function nearFrame({ remote, prefix }: ResourceName, frame: string): string {
  if (remote === "" || frame === "") return frame;
  return frame === WORLD ? remoteWorld(remote) : `${prefix}${frame}`;
}

/** An answer's pose. */
export function nearPose(name: ResourceName, { referenceFrame, pose }: PoseInFrame): PoseInFrame {
  return { referenceFrame: nearFrame(name, referenceFrame), pose };
}

/** An answer's frame. */
export function nearPart(name: ResourceName, part: FramePart): FramePart {
  return { ...part, name: nearFrame(name, part.name), parent: nearFrame(name, part.parent) };
}

/** The published messages with a frame; each calls it `reference_frame`. */
const COMMON = "viam.common.v1.";

/** Gives every frame in an answer, whose descriptor alone is known, its name on this machine. */
export function nameFrames(name: ResourceName, desc: DescMessage, message: Message): void {
  const values = message as unknown as Record<string, unknown>;
  if (desc.typeName.startsWith(COMMON) && typeof values.referenceFrame === "string") {
    values.referenceFrame = nearFrame(name, values.referenceFrame);
  }

  for (const { message: inner, localName, oneof, fieldKind } of desc.fields) {
    // Google's own have no frames, and plain JSON in their place.
    if (!inner || inner.typeName.startsWith("google.")) continue;
    const value = oneof ? chosen(values[oneof.localName], localName) : values[localName];
    for (const one of fieldKind === "message" ? [value] : Object.values(value ?? {})) {
      if (one) nameFrames(name, inner, one as Message);
    }
  }
}

/** The value of a oneof, if it is this field. */
function chosen(value: unknown, field: string): unknown {
  const choice = value as { readonly case?: string; readonly value?: unknown };
  return choice.case === field ? choice.value : undefined;
}
