// powershell_errors.mjs FILE: prints what is no PowerShell in a script, a line each, by the grammar that editors use.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import process from "node:process";

const require = createRequire(import.meta.url);
const { Language, Parser } = require("web-tree-sitter");
const grammar = require.resolve("tree-sitter-powershell/tree-sitter-powershell.wasm");
await Parser.init();
const parser = new Parser();
parser.setLanguage(await Language.load(readFileSync(grammar)));
tell(parser.parse(readFileSync(process.argv[2], "utf8")).rootNode);

function tell(node) {
  if (!node.hasError) return;
  if (node.isError || node.isMissing) {
    console.log(`${node.startPosition.row + 1}: ${node.text.slice(0, 100)}`);
  }
  for (const child of node.children) tell(child);
}
