/**
 * Places on the Earth as places on a plane, for sensors that move a little: metres to the east and to the north of the
 * point at latitude 0, longitude 0, on a sphere, as the published runtime converts them.
 */

const EARTH_RADIUS_M = 6_371_000;
const RAD_PER_DEG = Math.PI / 180;

export interface PlanePoint {
  readonly eastM: number;
  readonly northM: number;
}

export function geoPointAt({ eastM, northM }: PlanePoint): { latitude: number; longitude: number } {
  const degreesPerM = 1 / EARTH_RADIUS_M / RAD_PER_DEG;
  return { latitude: northM * degreesPerM, longitude: eastM * degreesPerM };
}

/** Distances from the origin along the equator and along the meridian. */
export function planePointOf(
  { latitude, longitude }: { readonly latitude: number; readonly longitude: number },
): PlanePoint {
  return {
    eastM: longitude * RAD_PER_DEG * EARTH_RADIUS_M,
    northM: latitude * RAD_PER_DEG * EARTH_RADIUS_M,
  };
}
