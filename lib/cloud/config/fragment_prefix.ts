/**
 * The prefix of an imported fragment: `front` makes of its resource `camera` the resource `front-camera`, so that a
 * machine may have the same fragment several times.
 *
 * What the fragment says about its own resources follows: dependencies, frames, jobs, triggers, and each text of an
 * attribute that is the name of one. Otherwise the arm of one copy would move the gripper of another.
 */

import { type DecodeContext, isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";
import type { ResolutionBudget } from "./resolution_budget.ts";

const PREFIX = /^[a-zA-Z0-9][\w-]{0,59}$/;
const RESOURCES = ["components", "services"];
/** The lists whose entries get other names. */
const NAMED = [...RESOURCES, "jobs", "triggers"];
/** `rdk:component:camera/` of a full name. */
const API = /^[\w-]+:[\w-]+:[\w-]+\//;
/** `sensor:thermometer:Readings`: what a trigger watches. */
const CAPTURED = /^([\w-]+:)([^:]+)(:\w+)$/;
const ORIGIN = "_origin";

/** Gives the text that stands for another one. */
type Follow = (text: string) => string;

/** The prefix of an import; empty without one. Reports one that cannot begin a name. */
export function importPrefixOf({ prefix }: JsonObject, at: DecodeContext): string {
  if (prefix === undefined || prefix === null || prefix === "") return "";
  if (typeof prefix === "string" && PREFIX.test(prefix)) return prefix;
  return at.at("prefix").wanted("up to 60 letters, digits, _ and -, a letter or digit first", prefix) ?? "";
}

/** Puts the prefix before the names in a fragment's content, in place; `budget` counts the longer texts. */
export function addPrefix(config: JsonObject, prefix: string, budget: ResolutionBudget): void {
  const names = new Set(RESOURCES.flatMap((list) => entriesOf(config[list]).map(({ name }) => name)));
  const prefixed = (name: string) => {
    budget.spend(prefix.length + 1);
    return `${prefix}-${name}`;
  };
  const follow: Follow = (text) => {
    if (names.has(text)) return prefixed(text);
    const [api = ""] = API.exec(text) ?? [];
    const name = text.slice(api.length);
    if (api !== "" && names.has(name)) return `${api}${prefixed(name)}`;
    const frame = text.endsWith(ORIGIN) ? text.slice(0, -ORIGIN.length) : "";
    return names.has(frame) ? `${prefixed(frame)}${ORIGIN}` : text;
  };

  for (const list of NAMED) {
    for (const entry of entriesOf(config[list])) {
      followIn(entry, follow);
      if (typeof entry.name === "string") entry.name = prefixed(entry.name);
    }
  }
  for (const { frame } of entriesOf(config.remotes)) replace(frame, "parent", follow);
  replace(config.maintenance, "sensor_name", follow);
}

/** Changes what an entry of a list says about resources. */
function followIn(entry: JsonObject, follow: Follow): void {
  const { frame, event, service_configs: configs } = entry;
  for (const key of ["attributes", "depends_on", "resource"]) {
    if (entry[key] !== undefined) entry[key] = followed(entry[key], follow);
  }
  replace(frame, "parent", follow);
  for (const one of entriesOf(configs)) {
    if (one.attributes !== undefined) one.attributes = followed(one.attributes, follow);
  }
  const conditional = isObject(event) ? (event as JsonObject).conditional : undefined;
  replace(conditional, "data_capture_method", (text) => {
    const [, type, name, method] = CAPTURED.exec(text) ?? [];
    return name === undefined ? text : `${type}${follow(name)}${method}`;
  });
}

/** Copies a value whose texts follow. */
function followed(value: Json, follow: Follow): Json {
  if (typeof value === "string") return follow(value);
  if (Array.isArray(value)) return value.map((one) => followed(one, follow));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value as JsonObject).map(([key, one]) => [key, followed(one, follow)]),
  );
}

function replace(holder: Json | undefined, key: string, follow: Follow): void {
  if (!isObject(holder)) return;
  const own = holder as JsonObject;
  const text = own[key];
  if (typeof text === "string") own[key] = follow(text);
}

function entriesOf(list: Json | undefined): JsonObject[] {
  return Array.isArray(list) ? list.filter((one) => isObject(one)) as JsonObject[] : [];
}
