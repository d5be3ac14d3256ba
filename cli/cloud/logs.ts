/**
 * Commands on records: the logs of parts, and the audit log of changes and attempts.
 */

import type { LogEntry } from "../../proto/gen/common_pb.ts";
import { toMs } from "../../lib/api/shared/time.ts";
import { escapedLine } from "../../lib/base/escape.ts";
import { Audit } from "../../lib/cloud/access/audit.ts";
import { type Part, Parts } from "../../lib/cloud/tenants/parts.ts";
import { LogStore } from "../../lib/cloud/logs/logs.ts";
import { newestLogs, type PartLog } from "../../lib/cloud/logs/many_logs.ts";
import { fieldsText, logFieldsOf } from "../../lib/base/log/zap_fields.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { didYouMean } from "../../lib/base/schema/suggest.ts";
import { atLeastOne, type Flag, sinceMs, UsageError, type Values } from "../flags.ts";
import { shownMs } from "../table.ts";
import {
  chosenOrganization,
  type CloudCommand,
  cloudCommand,
  type CloudCommandContext,
  ORG,
  partNamed,
  recordNames,
  timeOf,
} from "./command_context.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error", "fatal", "panic", "dpanic"];

const LOG_FLAGS = [
  { ...ORG, help: "Only parts of this organization." },
  {
    name: "filter",
    type: "string",
    default: "",
    value: "TEXT",
    help: "Only entries that contain this text.",
  },
  {
    name: "level",
    type: "string",
    default: "",
    value: "LEVEL",
    help: `Only entries of this level or above: ${LOG_LEVELS.join(", ")}.`,
  },
  {
    name: "since",
    type: "string",
    default: "",
    value: "TIME",
    help: "Only since then: a length of time such as 10m, or a time such as 2024-01-02T03:04:05Z.",
  },
  { name: "limit", type: "int", default: 100, help: "How many entries." },
  {
    name: "follow",
    short: "f",
    type: "bool",
    default: false,
    help: "Follow new entries until stopped.",
  },
] as const satisfies readonly Flag[];

export const LOG_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "logs",
    ["[PART...]"],
    "Prints the newest logs of parts or machines, oldest first; without PART, those of all.",
    LOG_FLAGS,
    printLogs,
  ),
  cloudCommand(
    "audit",
    [],
    "Lists who changed or tried what, newest first.",
    [
      {
        ...ORG,
        help: "Only what concerns this organization, its locations, machines, parts, keys and fragments.",
      },
      { name: "limit", type: "int", default: 50, help: "How many entries." },
      {
        name: "who",
        type: "string",
        default: "",
        value: "TEXT",
        help: "Only of those whose name has this text.",
      },
      {
        name: "action",
        type: "string",
        default: "",
        value: "TEXT",
        help: "Only actions that have this text.",
      },
      {
        name: "since",
        type: "string",
        default: "",
        value: "TIME",
        help: "Only since then: a length of time such as 24h, or a time such as 2024-01-02T03:04:05Z.",
      },
    ],
    async ({ store, clock, list }, _, { org, limit, who, action, since }) => {
      const organizationId = org === "" ? undefined : (await chosenOrganization(store, org)).id;
      const from = since === "" ? undefined : sinceMs("since", since, clock.nowMs());
      const selection = { organizationId, who, action, sinceMs: from };
      const entries = await new Audit(store, clock).newest(atLeastOne(limit, "--limit"), selection);
      const names = await recordNames(store);
      const readable = entries.map(({ id: _, ...one }) => ({
        ...one,
        whoName: named(one.who, names),
        resourceName: named(one.resource, names),
      }));
      list("entries", readable, {
        columns: [
          { heading: "AT (UTC)" },
          { heading: "WHO", cutTo: 10 },
          { heading: "ACTION", cutTo: 11 },
          { heading: "TARGET", cutTo: 12 },
          { heading: "OUTCOME", rank: 1, isState: true },
        ],
        rows: readable.map((one) => [
          shownMs(one.atMs),
          one.whoName,
          one.action,
          one.resourceName,
          one.outcome,
        ]),
        empty: "no entry: nothing has changed, or the flags leave everything out",
      });
    },
  ),
];

/** The same text with names in place of ids. */
export function named(text: string, names: ReadonlyMap<string, string>): string {
  return text.replaceAll(/[\w-]{10,}/g, (word) => names.get(word) ?? word);
}

async function printLogs(
  { store, clock, host, print }: CloudCommandContext,
  words: readonly string[],
  { org, filter, level, limit, since, follow }: Values<typeof LOG_FLAGS>,
): Promise<void> {
  atLeastOne(limit, "--limit");
  const levels = level === "" ? [] : levelsFrom(level);
  const fromMs = since === "" ? undefined : sinceMs("since", since, clock.nowMs());
  const parts = await Promise.all(words.map((word) => partNamed(store, word, org)));
  const chosen = words.length === 0 ? await listParts(store, org) : parts;
  const logs = new LogStore(store, clock);
  const after = await logs.heads(chosen.map(({ id }) => id));
  const { entries } = await newestLogs(logs, chosen, { filter, levels, fromMs }, { limit });
  const partNames = new Map(chosen.map(({ id, name }) => [id, name]));
  const tell = (all: readonly Pick<PartLog, "partId" | "entry">[]) => {
    const plain = all.map(({ partId, entry }) => ({ ...plainEntry(entry), part: partNames.get(partId) }));
    const lines = all.map(({ partId, entry }) =>
      logLine(entry, chosen.length > 1 ? partNames.get(partId) : undefined)
    );
    print({ entries: plain }, lines);
  };
  const oldestFirst = entries.toReversed();
  if (!follow) return tell(oldestFirst);
  const stop = new AbortController();
  // Before anything is printed: whoever has seen the first line may end it.
  const ignore = host.onTermination(() => stop.abort());
  try {
    tell(oldestFirst.filter(({ partId, number }) => number <= after.get(partId)!));
    const select = () => Promise.resolve([...after.keys()]);
    for await (const arrived of logs.followParts(select, { filter, levels, after }, stop.signal)) {
      tell(arrived);
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    ignore();
  }
}

/** The parts of an organization, or of all. */
async function listParts(store: Store, org: string): Promise<Part[]> {
  const all = await new Parts(store).all();
  if (org === "") return all;
  const { id } = await chosenOrganization(store, org);
  return all.filter(({ organizationId }) => organizationId === id);
}

function logLine(entry: LogEntry, part: string | undefined): string {
  const { time, level, logger, message } = plainEntry(entry);
  const head = [time, ...part === undefined ? [] : [part], level.toUpperCase(), logger].map(escapedLine);
  const fields = fieldsText(entry);
  return [...head, message.replaceAll("\n", "\n\t"), ...fields ? [escapedLine(fields)] : []].join("\t");
}

function plainEntry(entry: LogEntry) {
  const { time, level, loggerName: logger, message } = entry;
  return { time: timeOf(toMs(time)), level, logger, message, fields: logFieldsOf(entry) };
}

/** A level that machines log at, and those above it. Modules may log `fatal`, `panic` and `dpanic`. */
function levelsFrom(text: string): readonly string[] {
  const level = /^warning$/i.test(text) ? "warn" : text.toLowerCase();
  const at = LOG_LEVELS.indexOf(level);
  if (at >= 0) return LOG_LEVELS.slice(at);
  const hint = didYouMean(level, LOG_LEVELS);
  throw new UsageError(`--level: found "${text}", wanted one of ${LOG_LEVELS.join(", ")}${hint}`);
}
