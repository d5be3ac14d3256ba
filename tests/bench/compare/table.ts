/** The table of a comparison, in Markdown, and its place in README.md. */

/** The figures of all rounds: for each name a list of values per contestant, empty where it has none. */
export type Measurements = ReadonlyMap<string, readonly (readonly number[])[]>;

/** Figures of which less is better end with these units; of others more is better. */
const LESS_IS_BETTER = /, (ms|s|µs|MB|kB|cm|%)$/;
const NOTHING = "–";
const BEGIN = "<!-- The table of `deno task compare --readme`: begin -->\n";
const END = "<!-- end -->\n";

/** The head: ours, then each other contestant with its ratio. */
export function headOf([ours = "", ...others]: readonly string[]): string {
  const heads = ["", ours, ...others.flatMap((name) => [name, "better by"])];
  return `| ${heads.join(" | ")} |\n|${" --- |".repeat(heads.length)}\n`;
}

/** A row: ours, then each other with the ratio by which ours is better. */
export function lineOf(name: string, [ours = [], ...others]: readonly (readonly number[])[]): string {
  const own = summaryOf(ours);
  const cells = others.flatMap((values) => {
    const theirs = summaryOf(values);
    if (own === undefined || theirs === undefined) return [theirs?.text ?? NOTHING, NOTHING];
    const ratio = LESS_IS_BETTER.test(name) ? theirs.median / own.median : own.median / theirs.median;
    return [theirs.text, Number.isFinite(ratio) ? `${ratio.toFixed(2)} ×` : NOTHING];
  });
  return `| ${[name, own?.text ?? NOTHING, ...cells].join(" | ")} |\n`;
}

/** The median, with the least and the most behind it. */
function summaryOf(values: readonly number[]): { median: number; text: string } | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  const [least, median, most] = [sorted[0], sorted[sorted.length >> 1], sorted.at(-1)];
  if (least === undefined || median === undefined || most === undefined) return undefined;
  const shown = (value: number) => value.toFixed(value < 100 ? 1 : 0);
  return { median, text: `${shown(median)} (${shown(least)}–${shown(most)})` };
}

/** The text of README.md with another table in its place. */
export function withTable(readme: string, table: string): string {
  const [begin, end] = [readme.indexOf(BEGIN), readme.indexOf(END)];
  if (begin < 0 || end < begin) {
    throw new Error(`README.md lacks the lines ${BEGIN.trim()} and ${END.trim()}`);
  }
  return `${readme.slice(0, begin)}${BEGIN}\n${table}\n${readme.slice(end)}`;
}
