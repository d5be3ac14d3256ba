/** The angle that the points of a scan span, seen from the robot; 0 if there are none. */
export function viewOf(seen: Float64Array): number {
  let least = Infinity, most = -Infinity;
  for (let k = 0; k < seen.length; k += 2) {
    const angle = Math.atan2(seen[k + 1], seen[k]);
    least = Math.min(least, angle);
    most = Math.max(most, angle);
  }
  return most > least ? most - least : 2 * Math.PI;
}
