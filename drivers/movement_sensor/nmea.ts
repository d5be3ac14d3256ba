/**
 * Sentences of a satellite navigation receiver (NMEA 0183), read one by one. Safe on any bytes.
 *
 * A sentence counts only if its sum fits and each of its fields has the form of its place: a field that was lost on
 * the line moves the others, and the short sum does not always notice. All other text changes nothing.
 */

import type { GeoPoint } from "../../lib/api/shared/readings.ts";

const KNOTS_TO_METRES_PER_SECOND = 1852 / 3600;
const KMH_TO_METRES_PER_SECOND = 1 / 3.6;
/** A value from a sentence keeps out those of less precise sentences for this long. */
const HOLD_MS = 2_000;
/** Satellite systems whose satellites in view are counted. */
const SYSTEMS_MAX = 16;

/** Modes with their numbers in GGA, the best first: fixed and float ambiguities, precise, differential, autonomous. */
const QUALITIES: readonly (readonly [mode: string, quality: number])[] = [
  ["R", 4],
  ["F", 5],
  ["P", 3],
  ["D", 2],
  ["A", 1],
  ["E", 6],
  ["M", 7],
  ["S", 8],
];

/** The quantities that several kinds of sentences give. */
export type Quantity = "position" | "speed" | "course" | "heading";

/** The origin of a quantity's value. */
interface Origin {
  /** `GPGGA` */
  readonly address: string;
  readonly rank: number;
  readonly atMs: number;
}

/** The values from the sentences so far; absent values are unknown. */
export interface Fix {
  /**
   * Of the position, in the numbers of GGA: 0 for no fix, 1 by satellites alone, 4 and 5 with corrections. The other
   * sentences give it by letters, or not at all.
   */
  quality: number;
  coordinate?: GeoPoint;
  altitudeM?: number;
  satellites?: number;
  /** Satellites in view, by system (`GP`). */
  inView?: Map<string, number>;
  hdop?: number;
  vdop?: number;
  speedMetresPerSecond?: number;
  /** Degrees from north, clockwise, of the way over ground. */
  courseDeg?: number;
  /** Degrees from north, clockwise, to which the receiver points: of two antennas or a compass. */
  headingDeg?: number;
  /** Where each present value comes from. */
  origins?: Map<Quantity, Origin>;
}

const FORMS = {
  any: /^/,
  time: /^\d*(\.\d*)?$/,
  /** Some receivers whose calendar has run out write `2208-1`. */
  date: /^[\d-]{0,6}$/,
  number: /^([+-]?(\d{1,12}(\.\d{0,12})?|\.\d{1,12}))?$/,
  positive: /^(\d{1,12}(\.\d{0,12})?|\.\d{1,12})?$/,
  digit: /^\d?$/,
  count: /^\d{0,3}$/,
  status: /^[AVN]$/,
  mode: /^[A-Z]?$/,
  modes: /^[A-Z]*$/,
  N: /^N?$/,
  K: /^K?$/,
  M: /^M?$/,
  T: /^T?$/,
  NS: /^[NS]?$/,
  EW: /^[EW]?$/,
  /** Some receivers leave the side of the variation out, so that the mode stands here. */
  EWOrMode: /^[A-Z]?$/,
};
type Form = keyof typeof FORMS;

interface Reader {
  /** The forms of the fields that must be there. */
  readonly fields: readonly Form[];
  /** The forms of the fields that may follow; more are accepted as they are. */
  readonly more?: readonly Form[];
  /** The first field, if it names one of several sentences of the same address. */
  readonly first?: string;
  readonly read: (fields: readonly string[], target: Target) => void;
}

const POSITION = ["positive", "NS", "positive", "EW"] as const;

/** By the type (`GGA`) or, for a maker's own sentences, the whole address. */
const READERS: { readonly [type: string]: readonly Reader[] } = {
  GGA: [{
    fields: ["time", ...POSITION, "digit", "count", "positive", "number", "M"],
    more: ["number", "M", "any", "any"],
    read: (fields, target) => {
      if (!target.position(fields.slice(1, 5), numberOf(fields[5]) ?? 0, 4)) return;
      const { fix } = target;
      fix.satellites = numberOf(fields[6]);
      fix.hdop = numberOf(fields[7]);
      fix.altitudeM = numberOf(fields[8]);
    },
  }],
  GNS: [{
    fields: ["time", ...POSITION, "modes", "count", "positive", "number"],
    more: ["number", "any", "any", "mode"],
    read: (fields, target) => {
      const modes = fields[5] ?? "";
      if (!target.position(fields.slice(1, 5), /[^N]/.test(modes) ? qualityOf(modes) : 0, 3)) return;
      const { fix } = target;
      fix.satellites = numberOf(fields[6]);
      fix.hdop = numberOf(fields[7]);
      fix.altitudeM = numberOf(fields[8]);
    },
  }],
  RMC: [{
    fields: ["time", "status", ...POSITION, "positive", "positive", "date", "number", "EWOrMode"],
    more: ["mode", "mode"],
    read: (fields, target) => {
      const valid = fields[1] === "A" && fields[10] !== "N" && fields[11] !== "N";
      // Receivers without a mode have the side of the variation there, whose east is no mode.
      const mode = fields[11] || fields[10]?.replace("E", "");
      target.position(fields.slice(2, 6), valid ? qualityOf(mode) : 0, 2);
      target.motion(valid, scaled(fields[6], KNOTS_TO_METRES_PER_SECOND), fields[7], 2);
    },
  }],
  GLL: [{
    fields: [...POSITION, "time", "status"],
    more: ["mode"],
    read: (fields, target) => {
      const valid = fields[5] === "A" && fields[6] !== "N";
      target.position(fields.slice(0, 4), valid ? qualityOf(fields[6]) : 0, 1);
    },
  }],
  VTG: [{
    fields: ["positive", "T", "positive", "M", "positive", "N", "positive", "K"],
    more: ["mode"],
    read: (fields, target) => {
      const speed = scaled(fields[4], KNOTS_TO_METRES_PER_SECOND) ??
        scaled(fields[6], KMH_TO_METRES_PER_SECOND);
      target.motion(speed !== undefined && fields[8] !== "N", speed, fields[0], 1);
    },
  }],
  GSA: [{
    fields: ["mode", "count", ...Array<Form>(12).fill("count"), "positive", "positive", "positive"],
    more: ["any"],
    read: (fields, { fix }) => {
      fix.vdop = numberOf(fields[16]);
      fix.hdop = numberOf(fields[15]) ?? fix.hdop;
    },
  }],
  GSV: [{
    fields: ["count", "count", "count"],
    read: (fields, { fix, address }) => {
      const inView = fix.inView ??= new Map();
      const system = address.slice(0, 2), count = numberOf(fields[2]);
      if (count !== undefined && (inView.has(system) || inView.size < SYSTEMS_MAX)) inView.set(system, count);
    },
  }],
  HDT: [{ fields: ["positive", "T"], read: ([degrees], target) => target.heading(numberOf(degrees), 2) }],
  THS: [{
    fields: ["positive", "mode"],
    read: ([degrees, mode], target) => target.heading(mode === "V" ? undefined : numberOf(degrees), 2),
  }],
  HPR: [{
    fields: ["time", "positive", "number", "number"],
    read: ([, degrees], target) => target.heading(numberOf(degrees), 2),
  }],
  /** A magnetic compass; its own deviation and the variation of the place lead to the north of the map. */
  HDG: [{
    fields: ["positive", "positive", "EW", "positive", "EW"],
    read: ([degrees, deviation, deviationEw, variation, variationEw], target) => {
      const magnetic = numberOf(degrees);
      const turned = (magnetic ?? 0) + eastOf(deviation, deviationEw) + eastOf(variation, variationEw);
      target.heading(magnetic === undefined || magnetic > 360 ? undefined : (turned + 720) % 360, 1);
    },
  }],
  PASHR: [{
    fields: ["time", "positive", "T", "number", "number"],
    read: ([, degrees, reference], target) =>
      target.heading(reference === "T" ? numberOf(degrees) : undefined, 2),
  }],
  PSAT: [{
    first: "HPR",
    fields: ["any", "time", "positive", "number", "number"],
    read: ([, , degrees], target) => target.heading(numberOf(degrees), 2),
  }],
  PTNL: [{
    first: "AVR",
    fields: ["any", "time", "number", "any"],
    read: ([, , degrees, yaw], target) => {
      const turned = numberOf(degrees);
      const known = yaw === "Yaw" && turned !== undefined && Math.abs(turned) <= 360;
      target.heading(known ? (turned + 360) % 360 : undefined, 2);
    },
  }],
};

/**
 * Adds a sentence, which may begin anywhere in the line, to the fix. Returns its type (`GGA`), or undefined for other
 * text, a wrong sum or fields that do not fit.
 */
export function readSentence(line: string, fix: Fix, nowMs = 0): string | undefined {
  let type: string | undefined;
  // Anything may stand before the dollar sign, as the bytes of another protocol; after the sum, only another sentence
  // or bytes that are no text.
  for (
    const [, body = "", sum = ""] of line.matchAll(
      /\$([A-Z]{4,5},[^$*]*)\*([0-9A-Fa-f]{2})(?=$|\s|[^\x20-\x7e]|\$)/g,
    )
  ) {
    if (!/^[\x20-\x7e]*$/.test(body) || checksum(body) !== parseInt(sum, 16)) continue;
    const [address = "", ...fields] = body.split(",");
    type = readFields(address, fields, new Target(fix, address, nowMs)) ?? type;
  }
  return type;
}

function readFields(address: string, fields: readonly string[], target: Target): string | undefined {
  const type = Object.hasOwn(READERS, address) ? address : address.slice(2);
  const readers = Object.hasOwn(READERS, type) ? READERS[type] ?? [] : [];
  const reader = readers.find(({ first }) => first === undefined || first === fields[0]);
  if (!reader || fields.length < reader.fields.length) return undefined;
  const forms = [...reader.fields, ...reader.more ?? []];
  if (!fields.every((field, index) => FORMS[forms[index] ?? "any"].test(field))) return undefined;
  reader.read(fields, target);
  return type;
}

/** The fix as one sentence changes it. */
class Target {
  constructor(readonly fix: Fix, readonly address: string, private readonly nowMs: number) {}

  /**
   * The quality is 0 if the receiver has no position. Returns false if the sentence is damaged, or a better one gives the
   * position.
   */
  position(
    [lat = "", ns = "", lon = "", ew = ""]: readonly string[],
    quality: number,
    rank: number,
  ): boolean {
    const valid = quality > 0;
    const coordinate = valid ? coordinateOf(lat, ns, lon, ew) : undefined;
    if (valid && !coordinate) return false;
    if (!this.#takes("position", coordinate !== undefined, rank)) return false;
    this.fix.coordinate = coordinate;
    this.fix.quality = quality;
    return true;
  }

  /** A receiver that stands still leaves the course out; the last one stays. */
  motion(valid: boolean, speed: number | undefined, course: string | undefined, rank: number): void {
    const known = valid && speed !== undefined;
    if (this.#takes("speed", known, rank)) this.fix.speedMetresPerSecond = known ? speed : undefined;
    const degrees = valid ? circular(numberOf(course)) : undefined;
    if (degrees !== undefined && this.#takes("course", true, rank)) this.fix.courseDeg = degrees;
  }

  heading(degrees: number | undefined, rank: number): void {
    const heading = circular(degrees);
    if (this.#takes("heading", heading !== undefined, rank)) this.fix.headingDeg = heading;
  }

  /**
   * Whether the sentence decides about the quantity: a value does unless a better sentence gave one just now, and "no
   * value" does if it speaks of the source of the present value.
   */
  #takes(quantity: Quantity, known: boolean, rank: number): boolean {
    const origins = this.fix.origins ??= new Map<Quantity, Origin>();
    const origin = origins.get(quantity);
    const held = origin !== undefined && this.nowMs - origin.atMs < HOLD_MS;
    if (!known) {
      if (held && !speaksFor(this.address, origin.address)) return false;
      origins.delete(quantity);
      return true;
    }
    if (held && origin.rank > rank) return false;
    origins.set(quantity, { address: this.address, rank, atMs: this.nowMs });
    return true;
  }
}

/**
 * Whether a sentence says that the value from another one is lost: it is of the same type, and not of another satellite
 * system. `GN` stands for all systems together.
 */
function speaksFor(address: string, other: string): boolean {
  if (address.slice(2) !== other.slice(2)) return false;
  const [system, otherSystem] = [address.slice(0, 2), other.slice(0, 2)];
  return system === otherSystem || system === "GN" || otherSystem === "GN";
}

/** The best quality among the letters of a mode; GNS has a letter for each satellite system. */
function qualityOf(modes = ""): number {
  const [, quality = 1] = QUALITIES.find(([mode]) => modes.includes(mode)) ?? [];
  return quality;
}

/** All characters between the dollar sign and the asterisk. */
function checksum(body: string): number {
  return [...body].reduce((sum, character) => sum ^ character.charCodeAt(0), 0);
}

function numberOf(field: string | undefined): number | undefined {
  return field !== undefined && field !== "" && FORMS.number.test(field) ? Number(field) : undefined;
}

function scaled(field: string | undefined, factor: number): number | undefined {
  const value = numberOf(field);
  return value === undefined ? undefined : value * factor;
}

function circular(degrees: number | undefined): number | undefined {
  return degrees !== undefined && degrees >= 0 && degrees <= 360 ? degrees % 360 : undefined;
}

/** Degrees to the east. */
function eastOf(degrees: string | undefined, ew: string | undefined): number {
  const angle = circular(numberOf(degrees)) ?? 0;
  return ew === "W" ? -angle : angle;
}

/** Degrees and minutes in one number: `4807.038` are 48 degrees and 7.038 minutes. */
function coordinateOf(lat: string, ns: string, lon: string, ew: string): GeoPoint | undefined {
  const latitude = degreesOf(lat, 90), longitude = degreesOf(lon, 180);
  if (latitude === undefined || longitude === undefined || ns === "" || ew === "") return undefined;
  return { latitude: ns === "S" ? -latitude : latitude, longitude: ew === "W" ? -longitude : longitude };
}

function degreesOf(field: string, most: number): number | undefined {
  // A number of fewer digits is the end of a longer one: degrees and minutes have their zeros.
  if (!/^\d{3,5}(\.|$)/.test(field)) return undefined;
  const value = Number(field), whole = Math.floor(value / 100), minutes = value - whole * 100;
  const degrees = whole + minutes / 60;
  return minutes < 60 && degrees <= most ? degrees : undefined;
}
