/**
 * The versions of programs that a machine's configuration selects (`agent.version_control`), and their problems: a
 * device is never sent to a missing version.
 */

import { messageOf, SvcError } from "../../base/error.ts";
import {
  DecodeContext,
  isObject,
  type Json,
  type JsonObject,
  type Problem,
} from "../../base/schema/schema.ts";
import { parseRange } from "../../base/semver.ts";
import { PROGRAMS, type ReleasedProgram, Releases } from "../packages/releases.ts";
import type { Sql } from "../store/store.ts";

/** The configuration's names of a program. */
const CHOSEN_BY: { readonly [P in ReleasedProgram]: readonly [usual: string, ...others: string[]] } = {
  "svc-agent": ["agent", "svc-agent", "viam-agent"],
  "svc-server": ["svc-server", "viam-server"],
};
const UNKNOWN_SHOWN = 10;
/** Words that select the current release of a channel, which may have none yet. */
const WORDS = ["stable", "dev"];
const URLS = ["http:", "https:", "file:"];
const WANTED = '"stable", "dev", a version such as 1.2.3, or an http, https or file URL';

/** The selected version; `undefined` if the configuration selects none. Throws unless it is a text. */
export function versionOf(agent: JsonObject, name: ReleasedProgram): string | undefined {
  const { key, version } = chosenIn(agent, name) ?? {};
  if (version === undefined || typeof version === "string") return version?.trim() || undefined;
  const found = JSON.stringify(version);
  throw new SvcError("invalid_argument", `agent.version_control.${key}: found ${found}, wanted ${WANTED}`);
}

/** The key at which a configuration selects a program's version, whether or not it does. */
export function versionKeyOf(agent: JsonObject, name: ReleasedProgram): string {
  return chosenIn(agent, name)?.key ?? CHOSEN_BY[name][0];
}

/** Whether a version is an address, which only the device can check. */
export function isUrl(version: string): boolean {
  return URL.canParse(version) && URLS.includes(new URL(version).protocol);
}

/** The problems of the versions that a configuration selects; `platform` of the device, if known. */
export async function versionProblems(sql: Sql, config: Json, platform: string): Promise<Problem[]> {
  const problems: Problem[] = [];
  const agent = isObject(config) ? config.agent : undefined;
  const at = new DecodeContext("agent.version_control", problems);
  if (!isObject(agent) || agent.version_control === undefined || agent.version_control === null) {
    return problems;
  }
  if (!isObject(agent.version_control)) {
    at.wanted("an object", agent.version_control);
    return problems;
  }
  const known = Object.values(CHOSEN_BY).flat();
  const unknown = Object.keys(agent.version_control).filter((one) => !known.includes(one));
  for (const key of unknown.slice(0, UNKNOWN_SHOWN)) {
    const likely = at.suggestions.of(key, known);
    at.at(key).warn(`unknown key, ignored${likely ? `; did you mean "${likely}"?` : ""}`);
  }
  for (const name of PROGRAMS) {
    const chosen = chosenIn(agent as JsonObject, name);
    if (chosen) await check(sql, platform, name, chosen.version, at.at(chosen.key));
  }
  return problems;
}

async function check(
  sql: Sql,
  platform: string,
  name: ReleasedProgram,
  chosen: Json,
  at: DecodeContext,
): Promise<void> {
  const version = typeof chosen === "string" ? chosen.trim() : undefined;
  if (version === undefined) return void at.wanted(WANTED, chosen);
  if (version === "" || WORDS.includes(version) || isUrl(version)) return;
  if (!parseRange(version)) return void at.wanted(WANTED, chosen);
  const releases = new Releases(sql);
  const all = (await releases.list()).filter((one) => one.name === name);
  // A device that has never reported may have any platform.
  const platforms = platform ? [platform] : [...new Set(all.map((one) => one.platform))];
  for (const one of platforms) {
    if (await releases.find(name, version, one).then(() => true, () => false)) return;
  }
  const there = await releases.find(name, version, platforms[0] ?? "any platform").catch(messageOf);
  at.error(`${there}; publish it first: svc-cloud release publish`);
}

function chosenIn(agent: JsonObject, name: ReleasedProgram): { key: string; version: Json } | undefined {
  const chosen = isObject(agent.version_control) ? agent.version_control as JsonObject : {};
  const key = CHOSEN_BY[name].find((one) => chosen[one] !== undefined && chosen[one] !== null);
  const version = key === undefined ? undefined : chosen[key];
  return key === undefined || version === undefined ? undefined : { key, version };
}
