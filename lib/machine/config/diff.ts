/**
 * The differences between two configurations of a machine, for people: one line per setting, with stars for secrets.
 *
 * `~ resources.rdk:component:motor/m.attributes.max_rpm: 100 -> 200`, `+ path: value` and `- path: value`.
 */

import { jsonDiff } from "../../base/schema/json_secrets.ts";
import { comparableJson, isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";
import { configJson, type MachineConfig } from "./config.ts";

/** The lines of the difference; empty if nothing visible changes. */
export function configDiff(before: MachineConfig, after: MachineConfig): string {
  return jsonDiff(JSON.parse(configJson(before)), JSON.parse(configJson(after))).join("\n");
}

/** Of each kind of change; the rest is counted. */
const NAMES_SHOWN = 12;
/** When a configuration came, and what the decoder concludes from other sections. */
const NO_SETTINGS = ["revision", "moduleNames", "logPatterns"];

/** What changes, by name: `added motor2; changed motor1, network; removed cam1`. Empty if nothing visible does. */
export function configChanges(before: MachineConfig, after: MachineConfig): string {
  const [old, now] = [entriesOfConfig(before), entriesOfConfig(after)];
  const reported = (word: string, names: readonly string[]) => {
    const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
    return names.length === 0 ? [] : [`${word} ${names.slice(0, NAMES_SHOWN).join(", ")}${more}`];
  };
  return [
    ...reported("added", [...now.keys()].filter((name) => !old.has(name))),
    ...reported(
      "changed",
      [...now].flatMap(([name, value]) => old.has(name) && old.get(name) !== value ? [name] : []),
    ),
    ...reported("removed", [...old.keys()].filter((name) => !now.has(name))),
  ].join("; ");
}

function entriesOfConfig(config: MachineConfig): Map<string, string> {
  return entriesOf(JSON.parse(configJson(config)));
}

/** Resources by their names, other entries by section and name, and the remaining sections. */
function entriesOf(config: JsonObject): Map<string, string> {
  const entries = new Map<string, string>();
  for (const [section, value] of Object.entries(config)) {
    if (NO_SETTINGS.includes(section)) continue;
    const named = Array.isArray(value) ? value.filter(isNamed) : [];
    if (!Array.isArray(value) || named.length < value.length) entries.set(section, comparableJson(value));
    else for (const one of named) entries.set(nameOf(section, one), comparableJson(one));
  }
  return entries;
}

function isNamed(value: Json): value is JsonObject & { readonly name: string } {
  return isObject(value) && typeof (value as JsonObject).name === "string";
}

/** `motor1`, `module counter`, `remote far`. */
function nameOf(section: string, { name }: { readonly name: string }): string {
  return section === "resources" ? name.slice(name.indexOf("/") + 1) : `${section.replace(/s$/, "")} ${name}`;
}
