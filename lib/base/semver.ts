/**
 * Semantic versions: their order, and ranges of them.
 *
 * Ranges are those people know from package managers: `1.2`, `1.x`, `^1.2.3`, `~1.2`, `>=1.2 <2`, and alternatives
 * with `||`. A version before its release (`1.0.0-rc1`) is in a range only where the range names one itself.
 */

export interface Version {
  /** Major, minor and patch. */
  readonly numbers: readonly [number, number, number];
  /** `["rc", "1"]` in `1.0.0-rc.1`; empty for a release. */
  readonly before: readonly string[];
}

const TEXT_LENGTH_MAX = 200;
const VERSION = /^v?(\d{1,15})\.(\d{1,15})\.(\d{1,15})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$/;
const PARTIAL = /^v?(\d{1,15}|[xX*])?(?:\.(\d{1,15}|[xX*]))?(?:\.(\d{1,15}|[xX*]))?(?:-([0-9A-Za-z.-]+))?$/;

/** Reads `1.2.3` or `v1.2.3-rc.1+build`. */
export function parseVersion(text: string): Version | undefined {
  const found = text.length <= TEXT_LENGTH_MAX ? VERSION.exec(text) : null;
  if (!found) return undefined;
  const [, major, minor, patch, before] = found;
  return {
    numbers: [Number(major), Number(minor), Number(patch)],
    before: before === undefined ? [] : before.split("."),
  };
}

/** Below 0 where `a` comes before `b`. */
export function compareVersions(a: Version, b: Version): number {
  for (let i = 0; i < 3; i++) {
    if (a.numbers[i] !== b.numbers[i]) return a.numbers[i] - b.numbers[i];
  }
  if (a.before.length === 0 || b.before.length === 0) return b.before.length - a.before.length;
  for (let i = 0; i < Math.max(a.before.length, b.before.length); i++) {
    const order = compareWords(a.before[i], b.before[i]);
    if (order !== 0) return order;
  }
  return 0;
}

/** Numbers come before words, fewer words before more. */
function compareWords(a: string | undefined, b: string | undefined): number {
  if (a === undefined || b === undefined) return a === b ? 0 : a === undefined ? -1 : 1;
  const [isA, isB] = [/^\d+$/.test(a), /^\d+$/.test(b)];
  if (isA && isB) return Number(a) - Number(b);
  if (isA !== isB) return isA ? -1 : 1;
  return a === b ? 0 : a < b ? -1 : 1;
}

/** Tells whether a version is in it. */
export type Range = (version: Version) => boolean;

interface Bound {
  readonly operator: "<" | "<=" | ">" | ">=";
  readonly version: Version;
}

/** Reads a range; a whole version is the range of itself alone. Undefined where the text is none. */
export function parseRange(text: string): Range | undefined {
  if (text.length > TEXT_LENGTH_MAX || text.trim() === "") return undefined;
  const alternatives = text.split("||").map((one) => boundsOf(one.trim()));
  if (alternatives.some((bounds) => bounds === undefined)) return undefined;
  return (version) => alternatives.some((bounds) => within(version, bounds!));
}

function within(version: Version, bounds: readonly Bound[]): boolean {
  const named = version.before.length === 0 ||
    bounds.some((one) =>
      one.version.before.length > 0 && one.version.numbers.every((n, i) => n === version.numbers[i])
    );
  return named && bounds.every(({ operator, version: limit }) => {
    const order = compareVersions(version, limit);
    if (operator === "<") return order < 0;
    if (operator === "<=") return order <= 0;
    return operator === ">" ? order > 0 : order >= 0;
  });
}

function boundsOf(text: string): Bound[] | undefined {
  const bounds: Bound[] = [];
  for (const word of text.replace(/([<>=^~])\s+/g, "$1").split(/\s+/)) {
    const found = /^(\^|~|>=|<=|>|<|=)?(.*)$/.exec(word)!;
    const some = boundsOfWord(found[1] ?? "", found[2]);
    if (!some) return undefined;
    bounds.push(...some);
  }
  return bounds;
}

function boundsOfWord(operator: string, text: string): Bound[] | undefined {
  const found = text === "" ? null : PARTIAL.exec(text);
  if (!found) return undefined;
  const given: number[] = [];
  for (const word of found.slice(1, 4)) {
    if (word === undefined || /[xX*]/.test(word)) break;
    given.push(Number(word));
  }
  if (found[4] !== undefined && given.length < 3) return undefined;
  const low = versionOf(given, found[4]?.split("."));
  switch (operator) {
    case ">=":
    case "<":
      return [{ operator, version: low }];
    case ">":
      return given.length === 3 ? [{ operator, version: low }] : from(next(given, given.length - 1));
    case "<=":
      return given.length === 3 ? [{ operator, version: low }] : below(next(given, given.length - 1));
    case "^":
      return [...from(low), ...below(next(given, caretPlace(given)))];
    case "~":
      return [...from(low), ...below(next(given, Math.min(1, given.length - 1)))];
    default:
      if (given.length === 3) return [...from(low), { operator: "<=", version: low }];
      return [...from(low), ...below(next(given, given.length - 1))];
  }
}

/** The leftmost number that is not 0 stays as it is. */
function caretPlace(given: readonly number[]): number {
  const place = given.findIndex((number) => number > 0);
  return place < 0 ? given.length - 1 : place;
}

/** The first version after all that agree with `given` up to `place`; none where nothing is given. */
function next(given: readonly number[], place: number): Version | undefined {
  if (place < 0) return undefined;
  // Versions before the next one's release are not in the range either.
  return versionOf([...given.slice(0, place), given[place] + 1], ["0"]);
}

function versionOf(given: readonly number[], before: readonly string[] = []): Version {
  return { numbers: [given[0] ?? 0, given[1] ?? 0, given[2] ?? 0], before };
}

function from(version: Version | undefined): Bound[] {
  return version ? [{ operator: ">=", version }] : [];
}

function below(version: Version | undefined): Bound[] {
  return version ? [{ operator: "<", version }] : [];
}
