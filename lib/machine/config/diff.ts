/**
 * The differences between two configurations of a machine, for people: one line per setting, with stars for secrets.
 *
 * `~ resources.rdk:component:motor/m.attributes.max_rpm: 100 -> 200`, `+ path: value` and `- path: value`.
 */

import { jsonDiff } from "../../base/schema/json_secrets.ts";
import { configJson, type MachineConfig } from "./config.ts";

/** The lines of the difference; empty if nothing visible changes. */
export function configDiff(before: MachineConfig, after: MachineConfig): string {
  return jsonDiff(JSON.parse(configJson(before)), JSON.parse(configJson(after))).join("\n");
}
