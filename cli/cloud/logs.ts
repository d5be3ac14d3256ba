/**
 * Commands on records: the logs of parts, and the audit log of changes and attempts.
 */

import type { LogEntry } from "../../proto/gen/common_pb.ts";
import { toMs } from "../../lib/api/shared/time.ts";
import { escapedLine } from "../../lib/base/escape.ts";
import { Audit } from "../../lib/cloud/access/audit.ts";
import { Fleet } from "../../lib/cloud/fleet/fleet.ts";
import type { PlacedLog } from "../../lib/cloud/logs/log_search.ts";
import { LogStore } from "../../lib/cloud/logs/logs.ts";
import { fieldsText, logFieldsOf } from "../../lib/cloud_client/log_message.ts";
import { table } from "../table.ts";
import { type CloudCommand, cloudCommand, timeOf } from "./desk.ts";
import { atLeastOne, sinceMs, UsageError } from "../flags.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error", "fatal", "panic", "dpanic"];

export const LOG_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "logs",
    ["PART"],
    "Prints a part's newest logs, oldest first.",
    [
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
        help: `Only entries of this level: ${LOG_LEVELS.join(", ")}.`,
      },
      { name: "limit", type: "int", default: 100, help: "How many entries." },
      {
        name: "follow",
        short: "f",
        type: "bool",
        default: false,
        help: "Follow new entries until stopped.",
      },
    ],
    async ({ store, clock, host, print }, [part], { filter, level, limit, follow }) => {
      await new Fleet(store).part(part);
      const levels = level === "" ? [] : [logLevelOf(level)];
      atLeastOne(limit, "--limit");
      const logs = new LogStore(store, clock);
      const tell = (entries: readonly LogEntry[]) => {
        const plain = entries.map(plainEntry);
        print(
          plain,
          entries.map((entry, index) => {
            const { time, level, logger, message } = plain[index];
            const head = [time, level.toUpperCase(), logger].map(escapedLine);
            const fields = fieldsText(entry);
            return [...head, message.replaceAll("\n", "\n\t"), ...fields ? [escapedLine(fields)] : []].join(
              "\t",
            );
          }),
        );
      };
      const found: PlacedLog[] = [];
      for (let more = true; more && found.length < limit;) {
        const rest = { limit: limit - found.length, after: found.at(-1) };
        const page = await logs.find(part, { filter, levels, order: "newest first", ...rest });
        found.push(...page.entries);
        ({ more } = page);
      }
      const after = found.length > 0 ? Math.max(...found.map(({ number }) => number)) : undefined;
      tell(found.reverse().map(({ entry }) => entry));
      if (!follow) return;
      const stop = new AbortController();
      const ignore = host.onTermination(() => stop.abort());
      try {
        for await (const entries of logs.follow(part, { filter, levels, after }, stop.signal)) tell(entries);
      } catch (error) {
        if (!stop.signal.aborted) throw error;
      } finally {
        ignore();
      }
    },
  ),
  cloudCommand(
    "audit",
    [],
    "Lists who changed or tried what, newest first.",
    [
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
    async ({ store, clock, print }, _, { limit, who, action, since }) => {
      const from = since === "" ? undefined : sinceMs("since", since, clock.nowMs());
      const selection = { who, action, sinceMs: from };
      const entries = await new Audit(store, clock).newest(atLeastOne(limit, "--limit"), selection);
      print(
        entries,
        table(entries.map((one) => [timeOf(one.atMs), one.who, one.action, one.resource, one.outcome])),
      );
    },
  ),
];

function plainEntry(entry: LogEntry) {
  const { time, level, loggerName: logger, message } = entry;
  return { time: timeOf(toMs(time)), level, logger, message, fields: logFieldsOf(entry) };
}

/** A level that machines log at. Modules may log `fatal`, `panic` and `dpanic`. */
function logLevelOf(text: string): string {
  const level = /^warning$/i.test(text) ? "warn" : text.toLowerCase();
  if (LOG_LEVELS.includes(level)) return level;
  throw new UsageError(`--level: found "${text}", wanted one of ${LOG_LEVELS.join(", ")}`);
}
