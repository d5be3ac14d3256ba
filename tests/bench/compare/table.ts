/** The table of a comparison, in Markdown, and its place in README.md. */

/** The figures of all rounds: for each name a list of values per contestant, empty where it has none. */
export type Measurements = ReadonlyMap<string, readonly (readonly number[])[]>;

/** Lower is better for figures in these units, higher for all others. */
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

/** What README.md says about the table, before it. */
const SECTION = `## Figures

\`deno task compare\` measures the programs on one computer, in turns with others that take the same
configuration if \`--peer PROGRAM\` names some, and with Cartographer if \`--cartographer FOLDER\` does. It prints
the median of the measurements with the least and the most; with \`--readme\` it puts them here:

`;
const NEXT_SECTION = "## Where to read on\n";

/** The text of README.md with another table in its place; the first one gets a section. */
export function withTable(readme: string, table: string): string {
  const block = `${BEGIN}\n${table}\n${END}`;
  const [begin, end] = [readme.indexOf(BEGIN), readme.indexOf(END)];
  if (begin >= 0 && end > begin) return readme.slice(0, begin) + block + readme.slice(end + END.length);

  const next = readme.indexOf(NEXT_SECTION);
  if (next < 0) {
    throw new Error(`README.md lacks the section ${NEXT_SECTION.trim()}, before which the table stands`);
  }
  return `${readme.slice(0, next)}${SECTION}${block}\n${readme.slice(next)}`;
}
