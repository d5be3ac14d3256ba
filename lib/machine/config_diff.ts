/**
 * What changes between two configurations, for people: one line a setting, with secrets as stars.
 *
 * `~ resources.rdk:component:motor/m.attributes.max_rpm: 100 -> 200`, `+ path: value` and `- path: value`.
 */

import { isObject, type Json } from "../base/schema.ts";
import { configJson, type MachineConfig } from "./config.ts";

/** Attributes belong to models, which alone know which of them are secret; these sound like it. */
const SECRET = /passw|passphrase|secret|token|psk|credential|(api|private)_?key/i;
const STARS = "******";
const LINES_MAX = 500;
const VALUE_LENGTH_MAX = 500;

/** The lines of the difference; empty where there is none to be seen. */
export function configDiff(before: MachineConfig, after: MachineConfig): string {
  const lines = differences("", named(JSON.parse(configJson(before))), named(JSON.parse(configJson(after))));
  const more = lines.length - LINES_MAX;
  return [...lines.slice(0, LINES_MAX), ...(more > 0 ? [`and ${more} more`] : [])].join("\n");
}

function differences(path: string, before?: Json, after?: Json, secret = false): string[] {
  if (isObject(before) && isObject(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => {
      const [old, now] = [before, after].map((one) => one[key] as Json | undefined);
      return differences(path === "" ? key : `${path}.${key}`, old, now, secret || isSecret(key));
    });
  }
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const [old, now] = [before, after].map((one) => secret ? STARS : shown(one));
  if (before === undefined) return [`+ ${path}: ${now}`];
  if (after === undefined) return [`- ${path}: ${old}`];
  return [`~ ${path}: ${old} -> ${now}`];
}

/** A list of things with names reads best by their names: one more does not change all after it. */
function named(value: Json): Json {
  if (Array.isArray(value)) {
    const entries = value.map((one) => [isObject(one) ? one.name : undefined, named(one)] as const);
    const names = new Set(entries.map(([name]) => name));
    const byName = value.length > 0 && names.size === value.length && !names.has(undefined);
    return byName ? Object.fromEntries(entries) : entries.map(([, one]) => one);
  }
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, named(one as Json)]));
}

/** Names of resources are keys here too; what a motor is called makes nothing of it secret. */
function isSecret(key: string): boolean {
  return SECRET.test(key) && !key.includes("/");
}

function shown(value: Json | undefined): string {
  const text = JSON.stringify(value, (key, one) => isSecret(key) ? STARS : one) ?? "";
  return text.length > VALUE_LENGTH_MAX ? `${text.slice(0, VALUE_LENGTH_MAX)}…` : text;
}
