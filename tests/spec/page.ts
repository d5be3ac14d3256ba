/** `docs/spec.md`, made of the rows. */

import type { Row, Section, Shape } from "./row.ts";

const INTRODUCTION = `<!-- deno-fmt-ignore-file -->
<!-- Made of the rows in tests/spec by "deno task golden"; a change belongs there. -->

# What is specified, and what holds it

A row is a statement of the specification, the tests that hold it, and where this implementation goes beyond it or
knowingly differs. A test compares the settings below, their types, defaults and ranges, with those of the programs,
and fails for a row whose test is not there.
`;

/** The whole page. */
export function pageOf(sections: readonly Section[]): string {
  const rows = sections.flatMap((section) => section.rows);
  const built = rows.filter(({ isBuilt }) => isBuilt).length;
  const count = `${rows.length} rows, ${built} of them built and held by tests.\n`;
  return [INTRODUCTION, count, ...sections.map(sectionOf)].join("\n");
}

function sectionOf({ title, rows }: Section): string {
  const header = "| What | Held by | Beyond, or different |\n| --- | --- | --- |\n";
  return `## ${title}\n\n${header}${rows.map(lineOf).join("")}`;
}

function lineOf(row: Row): string {
  const { name, shape, says, tests, note = "", isBuilt } = row;
  const what = name ? `\`${name}\`${shape ? ` (${shapeOf(shape)})` : ""}: ${says}` : says;
  const held = tests.map((test) => `\`${test}\``);
  const cells = [what, [...isBuilt ? [] : ["**not built yet**"], ...held].join("<br>"), note];
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |\n`;
}

function shapeOf({ type, default: fallback, minimum, maximum, words, required }: Shape): string {
  return [
    type,
    ...required ? ["required"] : [],
    ...fallback === undefined ? [] : [`default ${JSON.stringify(fallback)}`],
    ...minimum === undefined ? [] : [`from ${minimum} to ${maximum}`],
    ...words ? [words.join(", ")] : [],
  ].join(", ");
}
