/**
 * `powershell_errors.ts FILE`: prints what is no PowerShell in a script, a line each, by the grammar that editors use.
 * Runs by itself, because it imports the grammar as bytes.
 */

import { Language, type Node, Parser } from "web-tree-sitter";

await Parser.init();
const { default: grammar } = await import("tree-sitter-powershell/tree-sitter-powershell.wasm", {
  with: { type: "bytes" },
});
const parser = new Parser();
parser.setLanguage(await Language.load(grammar));
const tree = parser.parse(await Deno.readTextFile(Deno.args[0]))!;
tell(tree.rootNode);

function tell(node: Node): void {
  if (!node.hasError) return;
  if (node.isError || node.isMissing) {
    console.log(`${node.startPosition.row + 1}: ${node.text.slice(0, 100)}`);
  }
  for (const child of node.children) if (child) tell(child);
}
