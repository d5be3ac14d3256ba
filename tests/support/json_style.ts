/** The one style of JSON that all programs print. */

/** Below these names are the user's own words: configurations, and things by their names. */
const OWN_WORDS = new Set(["config", "metadata", "details", "attributes", "versions", "fields", "value"]);
/** Instants have no unit in their names; lengths of time do. */
const LEAST_INSTANT_MS = 1e11;

/** What is not in the style, by its path: names in camelCase, ISO times, no JSON inside JSON, a name beside each id. */
export function styleProblems(value: unknown, path = "$"): string[] {
  if (Array.isArray(value)) return value.flatMap((one, at) => styleProblems(one, `${path}[${at}]`));
  if (typeof value === "string") {
    return /^\s*[[{].*[\]}]\s*$/s.test(value) ? [`${path}: JSON inside JSON`] : [];
  }
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, one]) => {
    const at = `${path}.${key}`;
    const problems: string[] = [];
    if (!/^[a-z][A-Za-z0-9]*$/.test(key)) problems.push(`${at}: not in camelCase`);
    if (typeof one === "number" && Math.abs(one) > LEAST_INSTANT_MS && /(Ms|at|time)$/i.test(key)) {
      problems.push(`${at}: an instant as a number`);
    }
    const [, stem] = /^(.+)Id$/.exec(key) ?? [];
    // `example:shapes` has its name in it.
    if (
      stem && typeof one === "string" && !/[:/]/.test(one) && !(stem in value) && !(`${stem}Name` in value)
    ) {
      problems.push(`${at}: an id without a name beside it`);
    }
    return OWN_WORDS.has(key) ? problems : [...problems, ...styleProblems(one, at)];
  });
}
