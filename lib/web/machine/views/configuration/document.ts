/** The document in the editor: its value as far as it can be read, and the path of a place in it. */

import { syntaxTree } from "@codemirror/language";
import type { EditorState } from "@codemirror/state";
import type { SyntaxNode, Tree } from "@lezer/common";
import { jsonc } from "@shopify/lang-jsonc";
import { applyEdits, format, parse } from "jsonc-parser";
import type { Path, SchemaValue } from "./schema.ts";

/** What stands at a place: a key or a value of the object or list at `path`. */
export interface TextPosition {
  readonly path: Path;
  /** `key`: the name of a member; `value`: the value of the member `path` leads to. */
  readonly kind: "key" | "value";
  /** The part that a completion replaces. */
  readonly from: number;
  readonly to: number;
  /** The keys that the object has already. */
  readonly present: readonly string[];
}

export function positionAt(state: EditorState, at: number): TextPosition | undefined {
  let node: SyntaxNode = syntaxTree(state).resolveInner(at, -1);
  const text = (one: SyntaxNode) => state.sliceDoc(one.from, one.to);
  const [from, to] = ["String", "PropertyName", "Number", "True", "False", "Null"].includes(node.name)
    ? [node.from, Math.max(node.to, at)]
    : [at, at];
  if (node.name === "PropertyName" || node.name === "⚠" && node.parent?.name === "Property") {
    const object = node.parent?.parent;
    return object
      ? { path: pathOf(object, text), kind: "key", from, to, present: keysOf(object, text) }
      : undefined;
  }
  if (node.name === "Object" || node.parent?.name === "Object") {
    const object = node.name === "Object" ? node : node.parent!;
    return { path: pathOf(object, text), kind: "key", from, to, present: keysOf(object, text) };
  }
  const isWhole = from < to;
  if (isWhole) return { path: pathOf(node, text), kind: "value", from, to, present: [] };
  if (node.name === "Property") return { path: pathOf(node, text), kind: "value", from, to, present: [] };
  if (node.name === "Array") {
    const before = childrenOf(node).filter((one) =>
      one.to <= at && one.name !== "[" && one.name !== "⚠"
    ).length;
    return { path: [...pathOf(node, text), before], kind: "value", from, to, present: [] };
  }
  return undefined;
}

/** The value of the document; what cannot be read is left out. */
export function valueOf(state: EditorState): SchemaValue | undefined {
  const top = childrenOf(syntaxTree(state).topNode).find(({ name }) => isValue(name));
  return top ? read(top, (node) => state.sliceDoc(node.from, node.to)) : undefined;
}

/** A text as a tree, outside of an editor. */
export function treeOf(text: string): Tree {
  return jsonc().language.parser.parse(text);
}

/** The value of a text, outside of an editor; what cannot be read is left out. */
export function parsedText(text: string): SchemaValue | undefined {
  return parse(text, undefined, { allowTrailingComma: true });
}

/** A text with one member a line, its comments kept. */
export function formatted(text: string): string {
  return applyEdits(text, format(text, undefined, { tabSize: 2, insertSpaces: true, eol: "\n" }));
}

/** The span of the value at a path in a text, or `undefined`. */
export function spanOf(source: string, tree: Tree, path: Path): { from: number; to: number } | undefined {
  const text = (node: SyntaxNode) => source.slice(node.from, node.to);
  let node = childrenOf(tree.topNode).find(({ name }) => isValue(name));
  for (const part of path) {
    if (!node) return undefined;
    const values: SyntaxNode[] = childrenOf(node).filter(({ name }) => isValue(name));
    if (typeof part === "number") node = values[part];
    else {
      const property = values.find((one) => one.firstChild && keyText(text(one.firstChild)) === part);
      node = property?.lastChild ?? undefined;
    }
  }
  return node && { from: node.from, to: node.to };
}

function read(node: SyntaxNode, text: (node: SyntaxNode) => string): SchemaValue | undefined {
  switch (node.name) {
    case "Object": {
      const members = childrenOf(node).filter(({ name }) => name === "Property").flatMap((property) => {
        const { firstChild: key, lastChild: value } = property;
        if (!key || !value || key.from === value.from) return [];
        const found = read(value, text);
        return found === undefined ? [] : [[keyText(text(key)), found] as const];
      });
      return Object.fromEntries(members);
    }
    case "Array":
      return childrenOf(node).filter(({ name }) => isValue(name)).map((one) => read(one, text) ?? null);
    case "String":
    case "Number":
    case "True":
    case "False":
    case "Null":
      try {
        return JSON.parse(text(node));
      } catch {
        return undefined;
      }
  }
  return undefined;
}

function pathOf(node: SyntaxNode, text: (node: SyntaxNode) => string): Path {
  const path: (string | number)[] = [];
  for (let one: SyntaxNode | null = node; one?.parent; one = one.parent) {
    if (one.name === "Property" && one.firstChild) path.unshift(keyText(text(one.firstChild)));
    else if (one.parent.name === "Array" && isValue(one.name)) {
      path.unshift(childrenOf(one.parent).filter(({ name, to }) => isValue(name) && to <= one!.from).length);
    }
  }
  return path;
}

function keysOf(object: SyntaxNode, text: (node: SyntaxNode) => string): string[] {
  return childrenOf(object).flatMap(({ name, firstChild }) =>
    name === "Property" && firstChild ? [keyText(text(firstChild))] : []
  );
}

function childrenOf(node: SyntaxNode): SyntaxNode[] {
  const children: SyntaxNode[] = [];
  for (let child = node.firstChild; child; child = child.nextSibling) children.push(child);
  return children;
}

function isValue(name: string): boolean {
  return ["Object", "Array", "String", "Number", "True", "False", "Null", "Property"].includes(name);
}

function keyText(written: string): string {
  try {
    return JSON.parse(written);
  } catch {
    return written.replaceAll('"', "");
  }
}
