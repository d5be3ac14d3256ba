/** Sentences of a satellite navigation receiver (NMEA 0183), read one by one. Safe on any bytes. */

import type { GeoPoint } from "../../lib/api/shared/readings.ts";

const KNOTS_TO_METRES_PER_SECOND = 1852 / 3600;

/** The values from the sentences so far; absent values are unknown. */
export interface Fix {
  /** The quality of GGA: 0 for no fix, 1 by satellites alone, 4 and 5 with corrections. */
  quality: number;
  coordinate?: GeoPoint;
  altitudeM?: number;
  satellites?: number;
  hdop?: number;
  vdop?: number;
  speedMetresPerSecond?: number;
  /** Degrees from north, clockwise, of the way over ground. */
  courseDeg?: number;
}

/** Adds a sentence to the fix. Returns its type (`GGA`), or undefined for other text or a wrong checksum. */
export function readSentence(line: string, fix: Fix): string | undefined {
  const [, body, sum] = /^\$([A-Z]{2}[A-Z]{3},[\x20-\x7e]*)\*([0-9A-Fa-f]{2})$/.exec(line) ?? [];
  if (body === undefined || checksum(body) !== parseInt(sum, 16)) return undefined;
  const [address, ...fields] = body.split(",");
  const type = address.slice(2);
  if (type === "GGA") {
    fix.quality = numberOf(fields[5]) ?? 0;
    fix.coordinate = fix.quality > 0 ? coordinateOf(fields[1], fields[2], fields[3], fields[4]) : undefined;
    fix.satellites = numberOf(fields[6]);
    fix.hdop = numberOf(fields[7]);
    fix.altitudeM = numberOf(fields[8]);
  } else if (type === "RMC") {
    const valid = fields[1] === "A";
    const knots = numberOf(fields[6]);
    fix.speedMetresPerSecond = valid && knots !== undefined ? knots * KNOTS_TO_METRES_PER_SECOND : undefined;
    fix.courseDeg = valid ? headingOf(fields[7]) : undefined;
  } else if (type === "GSA") {
    fix.vdop = numberOf(fields[16]);
  }
  return type;
}

/** All characters between the dollar sign and the asterisk. */
function checksum(body: string): number {
  return [...body].reduce((sum, character) => sum ^ character.charCodeAt(0), 0);
}

function numberOf(field: string | undefined): number | undefined {
  return field !== undefined && /^-?\d{1,9}(\.\d{0,9})?$/.test(field) ? Number(field) : undefined;
}

function headingOf(field: string | undefined): number | undefined {
  const degrees = numberOf(field);
  return degrees !== undefined && degrees >= 0 && degrees <= 360 ? degrees % 360 : undefined;
}

/** Degrees and minutes in one number: `4807.038` are 48 degrees and 7.038 minutes. */
function coordinateOf(lat?: string, ns?: string, lon?: string, ew?: string): GeoPoint | undefined {
  const latitude = degreesOf(lat, 90), longitude = degreesOf(lon, 180);
  if (
    latitude === undefined || longitude === undefined || !/^[NS]$/.test(ns ?? "") || !/^[EW]$/.test(ew ?? "")
  ) {
    return undefined;
  }
  return { latitude: ns === "S" ? -latitude : latitude, longitude: ew === "W" ? -longitude : longitude };
}

function degreesOf(field: string | undefined, most: number): number | undefined {
  const value = numberOf(field);
  if (value === undefined || value < 0) return undefined;
  const whole = Math.floor(value / 100), minutes = value - whole * 100;
  const degrees = whole + minutes / 60;
  return minutes < 60 && degrees <= most ? degrees : undefined;
}
