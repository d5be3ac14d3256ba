/**
 * Places on the Earth as places on a plane, for sensors that move a little: metres to the east and to the north of an
 * origin, on a sphere. At latitude 0, longitude 0 the published runtime has its origin, and sensors that know no place
 * on the Earth.
 */

const EARTH_RADIUS_M = 6_371_000;
const RAD_PER_DEG = Math.PI / 180;

export interface PlanePoint {
  readonly eastM: number;
  readonly northM: number;
}

export interface EarthPoint {
  readonly latitude: number;
  readonly longitude: number;
}

const ORIGIN: EarthPoint = { latitude: 0, longitude: 0 };

export function geoPointAt({ eastM, northM }: PlanePoint, origin = ORIGIN): EarthPoint {
  const degreesPerM = 1 / EARTH_RADIUS_M / RAD_PER_DEG;
  const east = eastM * degreesPerM / Math.cos(origin.latitude * RAD_PER_DEG);
  return { latitude: origin.latitude + northM * degreesPerM, longitude: origin.longitude + east };
}

/** Distances from the origin along its circle of latitude and along its meridian. */
export function planePointOf({ latitude, longitude }: EarthPoint, origin = ORIGIN): PlanePoint {
  const east = longitude - origin.longitude;
  const turns = Math.round(east / 360);
  return {
    eastM: (east - 360 * turns) * RAD_PER_DEG * EARTH_RADIUS_M * Math.cos(origin.latitude * RAD_PER_DEG),
    northM: (latitude - origin.latitude) * RAD_PER_DEG * EARTH_RADIUS_M,
  };
}
