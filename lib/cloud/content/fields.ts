/**
 * MongoDB's `$set`. Mingo's own one changes the parts that documents share, such as those of one `$unwind`, and sets
 * nothing inside of lists; where `{ a: { b: 1 } }` sets a field of `a`, it replaces all of `a`. Pure.
 */

import { isPlainObject } from "./answer.ts";

type Document = { [name: string]: unknown };

/** Names that no field can have: an empty one, and that of the prototype of an object. */
const REFUSED = ["", "__proto__"];

/** Fields to set: each path with its expression. */
export type FieldExpressions = readonly (readonly [path: readonly string[], expression: unknown])[];

/** `{ a: { b: 1 } }` sets the same field as `{ "a.b": 1 }`. */
export function fieldsIn(expression: unknown, above: readonly string[] = []): FieldExpressions {
  if (!isPlainObject(expression)) throw new Error("$set and $addFields want an object of fields");
  return Object.entries(expression).flatMap(([name, value]) => {
    const path = [...above, ...name.split(".")];
    if (name.startsWith("$") || path.some((part) => REFUSED.includes(part))) {
      throw new Error(`found the field "${name}", wanted a name`);
    }
    const isNested = isPlainObject(value) && Object.keys(value).length > 0 &&
      !Object.keys(value).some((inner) => inner.startsWith("$"));
    return isNested ? fieldsIn(value, path) : [[path, value] as const];
  });
}

/** Sets the field in each element of the lists on its path, or removes it without a value. */
export function withField(document: Document, path: readonly string[], given: unknown): Document {
  const [name = "", ...others] = path;
  const present = Object.hasOwn(document, name) ? document[name] : undefined;
  const value = others.length === 0 ? given : changed(present, others, given);
  if (value !== undefined) return { ...document, [name]: value };
  const { [name]: _, ...rest } = document;
  return rest;
}

function changed(value: unknown, path: readonly string[], given: unknown): unknown {
  if (Array.isArray(value)) return value.map((one) => changed(one, path, given));
  if (isPlainObject(value)) return withField(value, path, given);
  return given === undefined ? value : withField({}, path, given);
}
