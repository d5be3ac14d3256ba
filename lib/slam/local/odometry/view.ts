/** How wide a scan looks. */

import { xOf, yOf } from "../../points.ts";

/** The angle that the points of a scan span, seen from the robot; 0 if there are none. */
export function viewOf(seen: Float64Array): number {
  let least = Infinity, most = -Infinity;
  for (let k = 0; 2 * k < seen.length; k++) {
    const angle = Math.atan2(yOf(seen, k), xOf(seen, k));
    least = Math.min(least, angle);
    most = Math.max(most, angle);
  }
  return most > least ? most - least : 2 * Math.PI;
}
