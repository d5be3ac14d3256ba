/**
 * Forwards the system's journal to the cloud (`forward_system_logs`).
 *
 * Entries go straight to the queue of the agent's logs, not to the agent's own output, which is itself in that journal.
 * A stored cursor prevents loss and repetition after a restart. Entries above a rate limit are dropped.
 */

import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Level, Logger, Sink } from "../../base/log/log.ts";
import { endProcess, LINE_CHARS_MAX, type ProcessHost, type RunningProcess } from "../../base/process.ts";
import { isObject } from "../../base/schema/schema.ts";
import type { AgentSettings } from "../settings/settings.ts";
import type { Subsystem } from "../settings/subsystem.ts";

export interface ForwardingParts {
  readonly files: ReadFiles & WriteFiles;
  readonly processes: ProcessHost;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Takes entries for the cloud. */
  readonly send: Sink;
  /** The agent's folder. */
  readonly base: string;
  /** The journal's identifiers of the agent and of its children, whose logs reach the cloud directly. */
  readonly own: readonly string[];
}

/** Average limit; the forwarding drops entries above it and logs their number. */
const PER_SECOND_MAX = 100;
const CURSOR_MS = 30_000;
const RESTART_MS = 10_000;
const GRACE_MS = 2_000;
const MESSAGE_CHARS_MAX = 16 * 1024;
/** Limit of an entry as JSON, where a byte of a message that is not text takes four characters. */
const ENTRY_CHARS_MAX = 256 * 1024;
/** What `readEntry` needs besides the cursor and the time, which are always there. */
const FIELDS = ["MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "SYSLOG_PID", "_COMM", "_PID"];

export class LogForwarding implements Subsystem {
  readonly name = "forwarding of the system's logs";
  #filter = "";
  /** Whether journalctl can leave out the other fields of an entry, as since systemd 236. */
  #choosesFields = true;
  /** Whether journalctl does not understand the stored cursor. */
  #isLost = false;
  #stop: (() => Promise<void>) | undefined;

  constructor(private readonly parts: ForwardingParts) {}

  async apply({ advanced, system }: AgentSettings): Promise<void> {
    const filter = advanced.disableSystemConfiguration ? "" : system.forwardSystemLogs;
    if (filter === this.#filter) return;
    await this.close();
    // Who turns it on again later does not want what was logged meanwhile.
    if (filter === "") await this.#forget();
    this.#filter = filter;
    if (filter !== "") this.#stop = this.#begin(wanted(filter, this.parts.own));
  }

  async close(): Promise<void> {
    await this.#stop?.();
    this.#stop = undefined;
    this.#filter = "";
  }

  #begin(wants: (identifier: string) => boolean): () => Promise<void> {
    const over = new AbortController();
    let process: RunningProcess | undefined;
    const done = (async () => {
      let reported = false;
      while (!over.signal.aborted) {
        try {
          process = await this.#start();
          const { code } = await this.#follow(process, wants);
          if (over.signal.aborted) return;
          if (this.#isLost) await this.#forget();
          this.parts.logger.warn(`journalctl ended with exit code ${code}; it starts again`);
        } catch (error) {
          if (!reported) this.parts.logger.warn(`cannot follow the system's logs: ${chainOf(error)}`);
          reported = true;
        }
        await this.parts.clock.sleep(RESTART_MS, over.signal).catch(() => {});
      }
    })();
    return async () => {
      over.abort();
      if (process) await endProcess(process, this.parts.clock, GRACE_MS);
      await done;
    };
  }

  /** Starts after the stored cursor; the first time, from now on. */
  async #start(): Promise<RunningProcess> {
    const { files, processes, base } = this.parts;
    const cursor = await files.readTextFile(cursorAt(base)).catch(() => "");
    const from = cursor === "" ? ["--lines=0"] : [`--after-cursor=${cursor}`];
    const fields = this.#choosesFields ? [`--output-fields=${FIELDS.join(",")}`] : [];
    // Without `--all` a message above 4 kB is left out of the output.
    const args = ["--follow", "--output=json", "--all", ...fields, "--no-pager", ...from];
    return processes.spawn({ command: "journalctl", args, ownGroup: true });
  }

  async #follow(process: RunningProcess, wants: (identifier: string) => boolean): Promise<{ code: number }> {
    const { clock, send, logger } = this.parts;
    const errors = (async () => {
      for await (const line of process.stderr) {
        logger.debug(`journalctl: ${line}`);
        if (line.includes("output-fields")) this.#choosesFields = false;
        // A cursor that is damaged is refused each time.
        if (line.includes("seek to cursor")) this.#isLost = true;
      }
    })();
    let [second, sent, left, cursor, savedMs] = [0, 0, 0, "", clock.monotonicMs()];
    let begun = "";
    for await (const piece of process.stdout) {
      const entry = readEntry(begun + piece);
      // A long line arrives in pieces of this length.
      const goesOn = !entry && piece.length === LINE_CHARS_MAX && begun.length < ENTRY_CHARS_MAX;
      begun = goesOn ? begun + piece : "";
      if (!entry) continue;
      const now = Math.floor(clock.monotonicMs() / 1000);
      if (now !== second) {
        if (left > 0) logger.warn(`dropped ${left} entries of the system's journal: too many at once`);
        [second, sent, left] = [now, 0, 0];
      }
      cursor = entry.cursor;
      if (wants(entry.identifier)) {
        if (sent++ < PER_SECOND_MAX) send(recordOf(entry));
        else left++;
      }
      if (clock.monotonicMs() - savedMs >= CURSOR_MS) {
        savedMs = clock.monotonicMs();
        await this.#save(cursor);
      }
    }
    await this.#save(cursor);
    await errors;
    return await process.exited;
  }

  async #forget(): Promise<void> {
    const { files, base } = this.parts;
    this.#isLost = false;
    if (await files.findFile(cursorAt(base))) await files.remove(cursorAt(base));
  }

  async #save(cursor: string): Promise<void> {
    const { files, base, logger } = this.parts;
    if (cursor === "") return;
    await files.writeFile(cursorAt(base), cursor, { mode: 0o600 }).catch((error) =>
      logger.warn(`cannot store the place in the system's journal: ${chainOf(error)}`)
    );
  }
}

function cursorAt(base: string): string {
  return `${base}/state/journal_cursor`;
}

/**
 * A predicate for the identifiers that a filter selects. A filter lists names to include, or with `-` names to exclude,
 * separated by commas; `all` includes every name that is not excluded. The last entry for a name counts, and it
 * precedes `all`.
 */
export function wanted(filter: string, own: readonly string[]): (identifier: string) => boolean {
  const rules = new Map<string, boolean>();
  for (const word of filter.split(",").map((one) => one.trim()).filter((one) => one !== "")) {
    rules.set(word.replace(/^-\s*/, ""), !word.startsWith("-"));
  }
  const others = rules.get("all") ?? false;
  return (identifier) => !own.includes(identifier) && (rules.get(identifier) ?? others);
}

interface JournalEntry {
  readonly cursor: string;
  readonly identifier: string;
  readonly pid: string;
  readonly priority: number;
  readonly message: string;
  readonly timeMs: number;
}

/**
 * Parses a line of `journalctl --output=json` (systemd.journal-fields(7)); a message that is not text arrives as its
 * bytes.
 */
export function readEntry(line: string): JournalEntry | undefined {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (!isObject(json)) return undefined;
  const text = (name: string) => {
    const value = (json as Record<string, unknown>)[name];
    if (typeof value === "string") return value;
    if (!Array.isArray(value)) return "";
    // If a field is repeated, its first value counts. Bytes arrive as numbers.
    if (typeof value[0] === "string") return value[0];
    return new TextDecoder().decode(Uint8Array.from(value as number[]));
  };
  const identifier = text("SYSLOG_IDENTIFIER") || text("_COMM");
  if (identifier === "" || text("MESSAGE") === "") return undefined;
  return {
    cursor: text("__CURSOR"),
    identifier,
    pid: text("_PID") || text("SYSLOG_PID"),
    priority: Number(text("PRIORITY") || 6),
    message: text("MESSAGE").slice(0, MESSAGE_CHARS_MAX),
    timeMs: Number(text("__REALTIME_TIMESTAMP")) / 1000,
  };
}

function recordOf({ identifier, pid, priority, message, timeMs }: JournalEntry) {
  let level: Level = "info";
  if (priority <= 3) level = "error";
  else if (priority === 4) level = "warn";
  else if (priority >= 7) level = "debug";

  const logger = pid === "" ? identifier : `${identifier}[${pid}]`;
  return { timeMs, level, logger, message, fields: {} };
}
