/** How the pages write numbers, durations, sizes and times. Pure functions. */

const NONE = "–";

/** A number with so many digits after the point; a dash for what is no finite number. */
export function fixed(value: number | undefined, digits = 2): string {
  if (value === undefined || !Number.isFinite(value)) return NONE;
  const text = value.toFixed(digits);
  return /^-0(\.0*)?$/.test(text) ? text.slice(1) : text;
}

/** Decimals from which on a small number needs an exponent. */
const SMALL = 0.001;
/** Larger numbers have an exponent. */
const LARGE = 1e15;

/** Any number as it is: up to four decimals, an exponent where these would tell something else, `NaN`, `∞`. */
export function numberText(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  const size = Math.abs(value);
  if (size >= LARGE || (size > 0 && size < SMALL)) return value.toExponential().replace(/(\.\d{4})\d+/, "$1");
  return Number.isInteger(value) ? String(value) : fixed(value, 4);
}

/** A number with its unit, `12.50 V`. */
export function withUnit(value: number | undefined, unit: string, digits = 2): string {
  const text = fixed(value, digits);
  return text === NONE || unit === "" ? text : `${text}\u202f${unit}`;
}

/** `3 ms`, `1.2 s`, `4 min`, `2 h`, `3 d`. */
export function shortDuration(ms: number): string {
  if (!Number.isFinite(ms)) return NONE;
  const steps: [number, string, number][] = [
    [86_400_000, "d", 0],
    [3_600_000, "h", 0],
    [60_000, "min", 0],
    [1000, "s", ms < 10_000 ? 1 : 0],
  ];
  for (const [size, unit, digits] of steps) {
    if (ms >= size) {
      return `${(Math.floor(ms / size * 10 ** digits) / 10 ** digits).toFixed(digits)}\u202f${unit}`;
    }
  }
  return `${Math.round(ms)}\u202fms`;
}

/** `512 B`, `3.4 kB`, `12 MB`. */
export function byteSize(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let size = bytes;
  while (size >= 1000 && at < units.length - 1) {
    size /= 1000;
    at++;
  }
  return `${size.toFixed(at === 0 || size >= 10 ? 0 : 1)}\u202f${units[at]}`;
}

/** The time of a day with milliseconds, `14:03:27.120`. */
export function clockTime(ms: number): string {
  const date = new Date(ms);
  const two = (value: number) => String(value).padStart(2, "0");
  const parts = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  return `${parts}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** Names that are, or contain, an abbreviation. */
const ABBREVIATED: { readonly [name: string]: string } = { mlmodel: "ML model", slam: "SLAM" };

/** `movement_sensor` as `Movement sensor`. */
export function inWords(name: string): string {
  const abbreviated = Object.hasOwn(ABBREVIATED, name) ? ABBREVIATED[name] : undefined;
  if (abbreviated !== undefined) return abbreviated;
  const words = name.replaceAll(/[_-]+/g, " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
