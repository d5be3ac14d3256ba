/**
 * The types of the values under each path of a file's readings, which queries want to know before they read the values.
 *
 * A file has them as JSON beside its columns, if its documents have few names: the kinds of values by JSON pointer. Items
 * of lists have no paths of their own. Files of earlier versions have no such text. The index of files has a copy of
 * a short text, because to open each file takes as long as a query.
 */

import type { Json } from "../../base/schema/schema.ts";

/** The name of the text in a file. */
export const PATH_TYPES_KEY = "svc.path_types";

/** A document with more paths, or longer ones, has no such text. */
const PATHS_MAX = 500;
const LENGTH_MAX = 200;
/** A longer text is not in the index. */
const INDEXED_LENGTH_MAX = 2_000;

/** The kinds of values, with the names that DuckDB's `json_type` has for them. */
const TYPE_OF = { n: "DOUBLE", t: "VARCHAR", b: "BOOLEAN", o: "OBJECT", l: "ARRAY", z: "NULL" } as const;
type Kind = keyof typeof TYPE_OF;
export type ValueType = typeof TYPE_OF[Kind];

/** Collects the types of documents. */
export class PathTypes {
  readonly #kinds = new Map<string, Set<Kind>>();
  #isWhole = true;

  add(document: { readonly [name: string]: Json }): void {
    if (this.#isWhole) this.#addMembers("", document);
  }

  /** `undefined` if there are too many. */
  get text(): string | undefined {
    if (!this.#isWhole) return undefined;
    return JSON.stringify(
      Object.fromEntries([...this.#kinds].map(([path, kinds]) => [path, [...kinds].join("")])),
    );
  }

  /** The same for the index; null if it is too long for it. */
  get indexedText(): string | null {
    const { text } = this;
    return text !== undefined && text.length <= INDEXED_LENGTH_MAX ? text : null;
  }

  #addMembers(above: string, document: { readonly [name: string]: Json }): void {
    for (const [name, value] of Object.entries(document)) {
      const path = above + pointerPart(name);
      const kinds = this.#kinds.getOrInsertComputed(path, () => new Set());
      kinds.add(kindOf(value));
      if (this.#kinds.size > PATHS_MAX || path.length > LENGTH_MAX) this.#isWhole = false;
      if (!this.#isWhole) return;
      if (isDocument(value)) this.#addMembers(path, value);
    }
  }
}

/** A name in a JSON pointer. */
export function pointerPart(name: string): string {
  return `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** The kinds of values by path, as a file has them. */
export type PathKinds = { readonly [path: string]: string };

export function pathKinds(text: string): PathKinds {
  return JSON.parse(text);
}

/** The types of the values under a path; `undefined` if the file does not tell. */
export function typesAt(all: PathKinds, pointer: string): ValueType[] | undefined {
  for (let end = pointer.length; end > 0; end = pointer.lastIndexOf("/", end - 1)) {
    const path = pointer.slice(0, end);
    const kinds = Object.hasOwn(all, path) ? [...all[path] ?? ""] as Kind[] : undefined;
    if (!kinds) continue;
    if (path === pointer) return kinds.map((kind) => TYPE_OF[kind]);
    if (kinds.includes("l")) return undefined;
  }
  return [];
}

function kindOf(value: Json): Kind {
  if (value === null) return "z";
  if (Array.isArray(value)) return "l";
  switch (typeof value) {
    case "number":
      return "n";
    case "string":
      return "t";
    case "boolean":
      return "b";
    default:
      return "o";
  }
}

function isDocument(value: Json): value is { [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
