/**
 * Names of the values in nested objects and lists, as columns and rows are named: `readings.celsius`. A key may have a
 * dot itself, so two paths may have one plain name; then the keys with dots are written as `readings["a.b"]`.
 */

export interface ValuePath {
  /** The path with each key as it is: `readings.a.b`. */
  readonly plain: string;
  /** No other path has this name. */
  readonly exact: string;
}

export const NO_PATH: ValuePath = { plain: "", exact: "" };

/** The path of a member. */
export function memberPath({ plain, exact }: ValuePath, key: string): ValuePath {
  const isQuoted = key === "" || /[.[]/.test(key);
  const dot = exact === "" || isQuoted ? "" : ".";
  return {
    plain: plain === "" ? key : `${plain}.${key}`,
    exact: `${exact}${dot}${isQuoted ? `[${JSON.stringify(key)}]` : key}`,
  };
}

/** By the exact name of each path the name to show: the plain one unless it may be another path's. */
export function shownNames(paths: Iterable<ValuePath>): Map<string, string> {
  const plains = new Map<string, string>();
  for (const { plain, exact } of paths) plains.set(exact, plain);
  const counts = new Map<string, number>();
  for (const plain of plains.values()) counts.set(plain, (counts.get(plain) ?? 0) + 1);

  const isClear = (plain: string, exact: string) =>
    plain === exact || counts.get(plain) === 1 && !plains.has(plain);
  return new Map([...plains].map(([exact, plain]) => [exact, isClear(plain, exact) ? plain : exact]));
}
