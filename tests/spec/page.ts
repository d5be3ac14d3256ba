/** The text of `docs/spec.md`, generated from the rows. */

import type { Row, Section, Shape } from "./row.ts";

const INTRODUCTION = `<!-- deno-fmt-ignore-file -->
<!-- Generated from tests/spec by "deno task golden"; change it there. -->

# The specification and its tests

Each row has a statement of the specification, the tests that check it, and a note if this implementation goes beyond
the statement or deliberately differs from it. \`tests/golden/spec_test.ts\` compares the settings and options below,
with their types, defaults and ranges, with the programs, and fails for a row without an existing test.
`;

/** The whole page. */
export function pageOf(sections: readonly Section[]): string {
  const rows = sections.flatMap((section) => section.rows);
  const count = `${rows.length} statements.\n`;
  return [INTRODUCTION, count, ...sections.map(sectionOf)].join("\n");
}

function sectionOf({ title, rows }: Section): string {
  const header = "| Statement | Tests | Note |\n| --- | --- | --- |\n";
  return `## ${title}\n\n${header}${rows.map(lineOf).join("")}`;
}

function lineOf(field: Row): string {
  const { name, shape, says, tests, note = "" } = field;
  const what = name ? `\`${name}\`${shape ? ` (${shapeOf(shape)})` : ""}: ${says}` : says;
  const cells = [what, tests.map((test) => `\`${test}\``).join("<br>"), note];
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
