/** The pictures that a camera has, by name, and the choice of pictures for a request. */

import { SvcError } from "../../lib/base/error.ts";
import type { ResourceName } from "../../lib/resource/name.ts";

/**
 * The requested sources in the camera's order. Throws `invalid_argument` for a source that the camera does
 * not have.
 */
export function chosenSources<S extends string>(
  camera: ResourceName,
  available: readonly S[],
  wanted: readonly string[],
): readonly S[] {
  const unknown = wanted.find((name) => !(available as readonly string[]).includes(name));
  if (unknown !== undefined) {
    const there = available.map((name) => `"${name}"`).join(", ");
    throw new SvcError("invalid_argument", `${camera} has no image source "${unknown}", it has: ${there}`);
  }
  return wanted.length === 0 ? available : available.filter((name) => wanted.includes(name));
}
