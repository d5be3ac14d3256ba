/**
 * What a `data.yaml` says of the labels: the names of the classes under `names`, a list or a map by number, and the
 * number of keypoints under `kpt_shape`. The rest of the file does not count. Pure.
 */

import { parse } from "@std/yaml";
import { messageOf, SvcError } from "../../../lib/base/error.ts";
import { isObject } from "../../../lib/base/schema/schema.ts";

const CLASSES_MAX = 10_000;
const KEYPOINTS_MAX = 1_000;
/** Tags of other programs, such as Python's for a path, say nothing about names. */
const TAG = /(^|[\s,[{-])!{1,2}[^\s,\]}]*/gm;

export interface DataYaml {
  /** By the number of the class; empty where the file leaves one out. */
  readonly names: readonly string[];
  /** Numbers behind each box: keypoints times their 2 or 3 dimensions; `undefined` if the file does not say. */
  readonly keypointNumbers: number | undefined;
}

/** Throws `invalid_argument` if the text is no YAML, or has no names. */
export function readDataYaml(yaml: string): DataYaml {
  const content = parsed(yaml);
  const { names, kpt_shape: shape } = isObject(content) ? content : {};
  if (names === undefined) throw unreadable('it has no "names"');
  return { names: listed(entriesOf(names)), keypointNumbers: keypointNumbersIn(shape) };
}

/** Scalars stay texts: a class may be called `no` or `1.0`. */
function parsed(yaml: string): unknown {
  try {
    return parse(yaml, { schema: "failsafe" });
  } catch {
    try {
      return parse(yaml.replaceAll(TAG, "$1"), { schema: "failsafe" });
    } catch (cause) {
      const [found = ""] = messageOf(cause).split("\n", 1);
      throw new SvcError("invalid_argument", `it is not YAML: ${found.replace(/:$/, "")}`, { cause });
    }
  }
}

/** A class's number as written, and its name. */
type Entry = readonly [key: string, name: unknown];

function entriesOf(names: unknown): Entry[] {
  if (Array.isArray(names)) return names.map((name, at) => [String(at), name]);
  if (isObject(names)) return Object.entries(names);
  throw unreadable(
    names === null || names === "" ? 'there is nothing under "names"' : `found "names: ${names}"`,
  );
}

function listed(entries: readonly Entry[]): string[] {
  if (entries.length === 0) throw unreadable('there is nothing under "names"');
  const names: string[] = [];
  for (const [key, name] of entries) {
    if (!/^\d{1,9}$/.test(key)) throw unreadable(`found "${key.slice(0, 40)}" under "names"`);
    if (Number(key) >= CLASSES_MAX) {
      throw unreadable(`class ${key} is one too many, wanted fewer than ${CLASSES_MAX}`);
    }
    if (names[Number(key)] !== undefined) throw unreadable(`class ${Number(key)} is there twice`);
    if (name !== null && typeof name !== "string") {
      throw unreadable(`the name of class ${key} is ${JSON.stringify(name).slice(0, 40)}`);
    }
    names[Number(key)] = (name ?? "").trim();
  }
  return Array.from(names, (name) => name ?? "");
}

function keypointNumbersIn(shape: unknown): number | undefined {
  if (shape === undefined || shape === null || shape === "") return undefined;
  const numbers = Array.isArray(shape) && shape.length === 2 ? shape.map(Number) : [];
  const [count = NaN, dimensions = NaN] = numbers;
  if (
    Number.isInteger(count) && count > 0 && count <= KEYPOINTS_MAX && (dimensions === 2 || dimensions === 3)
  ) {
    return count * dimensions;
  }
  const found = JSON.stringify(shape).slice(0, 40);
  throw new SvcError("invalid_argument", `kpt_shape is ${found}, wanted [keypoints, 2 or 3 numbers of each]`);
}

function unreadable(found: string): SvcError {
  const wanted =
    'wanted the classes as "names: [cat, dog]", or under "names:" a line "- cat" or "0: cat" for each';
  return new SvcError("invalid_argument", `${found}, ${wanted}`);
}
