import { assertAlmostEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../../lib/base/error.ts";
import { OdometryPlane } from "./sensors.ts";

const AHEAD = { oX: 0, oY: 0, oZ: 1, theta: 0 };
const M_PER_DEGREE = 6_371_000 * Math.PI / 180;

/** The places that a plane gives points on the Earth. */
function placesOf(points: readonly (readonly [latitude: number, longitude: number])[]): number[][] {
  const plane = new OdometryPlane();
  return points.map(([latitude, longitude], n) => {
    const { pose: { x, y } } = plane.reading(n, { latitude, longitude }, AHEAD);
    return [x, y];
  });
}

Deno.test("odometry: metres from the first position, anywhere on the Earth", () => {
  for (const [latitude, longitude] of [[0, 0], [40.7, -73.98], [-60, 179.99999], [89, 0]]) {
    const [lat, lon] = [3 / M_PER_DEGREE, -5 / M_PER_DEGREE / Math.cos(latitude * Math.PI / 180)];
    const wrapped = longitude - 2 * lon > 180 ? longitude - 2 * lon - 360 : longitude - 2 * lon;
    const places = placesOf([[latitude, longitude], [latitude + lat, longitude + lon], [latitude, wrapped]]);
    const wanted = [[0, 0], [-5, 3], [10, 0]];
    for (const [n, place] of places.entries()) {
      for (const axis of [0, 1]) assertAlmostEquals(place[axis], wanted[n][axis], 1e-3, `at ${latitude}`);
    }
  }
});

Deno.test("odometry: begins anew at the first real position, and refuses what is no number", () => {
  const [, there, then] = placesOf([[0, 0], [40.7, -73.98], [40.7 + 1 / M_PER_DEGREE, -73.98]]);
  for (const [found, wanted] of [[there, [0, 0]], [then, [0, 1]]]) {
    for (const axis of [0, 1]) assertAlmostEquals(found[axis], wanted[axis], 1e-3);
  }
  assertThrows(() => placesOf([[NaN, 0]]), SvcError, "wanted numbers");
});
