/**
 * `logs`: the last records of a machine's log, and those that follow.
 */

import { didYouMean } from "../../../lib/base/schema/suggest.ts";
import { MachinePageService } from "../../../proto/gen/machine_page_pb.ts";
import { toMs } from "../../../lib/api/shared/time.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { formatLine, type Level, LEVELS, type LogRecord, parseLevel } from "../../../lib/base/log/log.ts";
import { client } from "../../../lib/wire/rpc/channel.ts";
import { type Flag, UsageError } from "../../flags.ts";
import type { MachineClient } from "./reach.ts";
import { counted } from "../../../lib/base/log/counted.ts";
import { machineCommand, type MachineContext } from "./machine_command.ts";

const FLAGS = [
  { name: "follow", short: "f", type: "bool", default: false, help: "Follow new records until interrupted." },
  {
    name: "lines",
    short: "n",
    type: "int",
    default: 100,
    help: "How many of the last records; at most 1000.",
  },
  {
    name: "level",
    type: "string",
    default: "debug",
    value: "LEVEL",
    help: "Only records of this level or above: debug, info, warn, error.",
  },
  {
    name: "filter",
    type: "string",
    default: "",
    value: "TEXT",
    help: "Only records whose logger, message or fields have this text.",
  },
] as const satisfies readonly Flag[];

/** As many as a machine keeps. */
const LINES_MAX = 1000;
/** After this pause everything from before the call has come: the machine sends it at once. */
const BACKLOG_PAUSE_MS = 1_000;

export const LOGS = machineCommand({
  words: "logs",
  takes: [],
  summary: "Prints the last records of a running machine's log; -f follows it.",
  flags: FLAGS,
  run: async (context, _, { follow, lines, level: given, filter }) => {
    const level = parseLevel(given);
    if (!level) {
      const known = Object.keys(LEVELS);
      const wanted = `${known.join(", ")}${didYouMean(given, known)}`;
      throw new UsageError(`--level: found "${given}", wanted one of ${wanted}`);
    }
    if (lines < 0 || lines > LINES_MAX) {
      throw new UsageError(`--lines: found ${lines}, wanted 0 to ${LINES_MAX}`);
    }
    const machine = await context.machine();
    for await (const record of recordsOf(context, machine, lines, follow)) {
      if (LEVELS[record.level] < LEVELS[level]) continue;
      const text = formatLine({ ...record, fields: fieldsOf(record.fields) });
      if (!text.includes(filter)) continue;
      if (context.json) {
        const { timeMs, fields, ...rest } = record;
        const time = new Date(timeMs).toISOString();
        context.host.write(`${JSON.stringify({ time, ...rest, fields: fieldsOf(fields) })}\n`);
      } else if (context.host.coloured()) {
        context.host.show(`${formatLine({ ...record, fields: fieldsOf(record.fields) }, true)}\n`);
      } else context.host.write(`${text}\n`);
    }
  },
});

/** A record whose fields are JSON, as they travel. */
type SentRecord = Omit<LogRecord, "fields"> & { readonly fields: string };

async function* recordsOf(
  { clock, signal, host }: MachineContext,
  { channel, where }: MachineClient,
  lines: number,
  follow: boolean,
): AsyncGenerator<SentRecord> {
  const over = new AbortController();
  const both = AbortSignal.any([signal, over.signal]);
  const isOver = () => over.abort(new SvcError("canceled", "all of the backlog has come"));
  let callOff = () => {};
  let left = lines;
  try {
    const { followLogs } = client(MachinePageService, channel);
    for await (const { records, leftOut } of followLogs({ backlog: lines }, { signal: both })) {
      callOff();
      if (leftOut > 0n) {
        host.writeError(
          `svc-server logs: ${counted(leftOut, "record was", "records were")} lost on the way\n`,
        );
      }
      for (const { time, level, logger, message, fields, caller } of records) {
        const known = parseLevel(level) ?? "info";
        yield {
          timeMs: toMs(time),
          level: known as Level,
          logger,
          message,
          fields,
          caller: caller || undefined,
        };
      }
      left -= records.length;
      if (!follow && (left <= 0 || records.length === 0)) return;
      if (!follow) callOff = clock.after(BACKLOG_PAUSE_MS, isOver);
    }
    const reason = "the machine has ended its log: it stops, or restarts; run this again";
    if (follow && !both.aborted) throw new SvcError("unavailable", `${where}: ${reason}`);
  } catch (error) {
    if (both.aborted) return;
    if (SvcError.from(error).code !== "unimplemented") throw error;
    throw new SvcError(
      "unimplemented",
      "this machine's program has no log for callers; see its standard output",
    );
  } finally {
    callOff();
  }
}

function fieldsOf(json: string): LogRecord["fields"] {
  if (json === "") return {};
  try {
    return JSON.parse(json);
  } catch {
    // A long text was cut by the machine.
    return { fields: json };
  }
}
