/**
 * MongoDB's `$project` and `$unwind`. Mingo's own `$project` replaces a list by an object where a field of its elements
 * is computed, and sorts computed fields by name; its `$unwind` takes a path through a list for a field of the document,
 * and the path of an index for a name. Pure.
 */

import { isPlainObject } from "./answer.ts";
import { fieldsIn, withField } from "./fields.ts";

type Document = { [name: string]: unknown };
/** The value of an expression for a document. */
type Evaluate = (document: Document, expression: unknown) => unknown;

/** The fields of an object that are kept: whole, in parts, or as the result of an expression. */
interface Kept {
  readonly fields: Map<string, Kept | "whole" | "computed">;
  /** Whether an expression gives one of its fields, also of its inner objects. */
  isComputed: boolean;
}

/** Projects documents. Throws if the argument is unusable. */
export function projectionOf(expression: unknown, evaluate: Evaluate): (document: Document) => Document {
  const fields = fieldsIn(expression);
  if (fields.length === 0) throw new Error("$project wants at least one field");
  if (fields.some(([, value]) => isPlainObject(value) && Object.keys(value).length === 0)) {
    throw new Error("$project: found an object without fields");
  }

  const isId = (path: readonly string[]) => path.length === 1 && path[0] === "_id";
  const left = fields.filter(([, value]) => value === 0 || value === false);
  const others = fields.filter((field) => !left.includes(field));
  const leavesOut = left.some(([path]) => !isId(path)) || others.length === 0;
  if (leavesOut && others.some(([path, value]) => !isId(path) || !isFlag(value))) {
    throw new Error("$project either leaves fields out, or lists the fields to keep");
  }
  const root: Kept = { fields: new Map(), isComputed: false };
  for (const [path, value] of leavesOut ? left : others) keep(root, path, isFlag(value));
  if (leavesOut) {
    return (document) => left.reduce((result, [path]) => withField(result, path, undefined), document);
  }

  if (left.length === 0 && !root.fields.has("_id")) root.fields.set("_id", "whole");
  const computed = others.filter(([, value]) => !isFlag(value));
  return (document) => {
    const result = computed.reduce(
      (found, [path, value]) => withField(found, path, evaluate(document, value)),
      keptOf(document, root),
    );
    return "_id" in result ? { _id: result._id, ...result } : result;
  };
}

function isFlag(value: unknown): boolean {
  return typeof value === "number" || typeof value === "boolean";
}

function keep(root: Kept, path: readonly string[], isWhole: boolean): void {
  let at = root;
  for (const [depth, name] of path.entries()) {
    at.isComputed ||= !isWhole;
    const present = at.fields.get(name);
    const isLast = depth === path.length - 1;
    if (isLast ? present !== undefined : typeof present === "string") {
      throw new Error(`$project: "${path.join(".")}" is there twice, or as a whole and in parts`);
    }
    if (isLast) at.fields.set(name, isWhole ? "whole" : "computed");
    else if (typeof present === "object") at = present;
    else {
      const inner: Kept = { fields: new Map(), isComputed: false };
      at.fields.set(name, inner);
      at = inner;
    }
  }
}

/** The kept fields in the document's order, without the computed ones. */
function keptOf(document: Document, { fields }: Kept): Document {
  const result: Document = {};
  for (const [name, value] of Object.entries(document)) {
    const kept = fields.get(name);
    if (kept === undefined || kept === "computed") continue;
    const part = kept === "whole" ? value : partOf(value, kept);
    if (part !== undefined) result[name] = part;
  }
  return result;
}

/** Elements of lists that are no objects have no such fields; an expression gives them some. */
function partOf(value: unknown, kept: Kept): unknown {
  if (isPlainObject(value)) return keptOf(value, kept);
  if (!Array.isArray(value)) return undefined;
  return value.map((one) => partOf(one, kept) ?? (kept.isComputed ? {} : undefined))
    .filter((one) => one !== undefined);
}

/** Makes a document of each element of a list. Throws if the argument is unusable. */
export function unwindingOf(expression: unknown): (document: Document) => Document[] {
  const given = isPlainObject(expression) ? expression : { path: expression };
  const { path: list, includeArrayIndex: place, preserveNullAndEmptyArrays: keeps = false } = given;
  if (typeof list !== "string" || !/^\$[^$]/.test(list) || typeof keeps !== "boolean") {
    throw new Error('$unwind wants the path of a list, such as "$tags"');
  }
  if (place !== undefined && (typeof place !== "string" || place === "" || place.startsWith("$"))) {
    throw new Error("$unwind wants the name of a field as includeArrayIndex");
  }
  const path = list.slice(1).split(".");
  const placePath = place?.split(".");
  const placed = (document: Document, index: number | null) =>
    placePath ? withField(document, placePath, index) : document;
  return (document) => {
    const value = path.reduce<unknown>(
      (found, name) => isPlainObject(found) && Object.hasOwn(found, name) ? found[name] : undefined,
      document,
    );
    if (Array.isArray(value) && value.length > 0) {
      return value.map((one, index) => placed(withField(document, path, one), index));
    }
    if (value !== undefined && value !== null && !Array.isArray(value)) return [placed(document, null)];
    if (!keeps) return [];
    return [placed(Array.isArray(value) ? withField(document, path, undefined) : document, null)];
  };
}
