/**
 * Finds devices that share one machine's credentials, such as copies of one SD card: each works, but callers reach one
 * or the other, and their reports and readings mix.
 *
 * A program that starts again has another number, and the start before it falls silent. If an earlier start still asks
 * long after a later one began, two run at once. Open connections alone prove nothing, because a proxy may keep one
 * whose device has lost its power: where there are several, each device is made to ask. Each control plane knows the
 * devices that are connected to it.
 */

import { LogEntrySchema } from "../../../proto/gen/common_pb.ts";
import { toTimestamp } from "../../api/shared/time.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { DEVICE_MARK, type DeviceMark, markIn } from "../../cloud_client/changes/device_mark.ts";
import { create } from "../../wire/rpc/proto.ts";
import type { CallContext } from "../../wire/rpc/service.ts";
import type { LoggingPart, LogStore } from "../logs/logs.ts";

/** A connection that broke without a word is known to be gone before this time has passed. */
const TOGETHER_MS = 5 * 60_000;
/** A device that has not asked for this long is gone. */
const GONE_MS = 3 * 60_000;
/** How often devices are made to ask while there may be several; and how long a connection counts as open. */
const ASK_MS = 2 * 60_000;
const OPEN_MS = 60_000;
/** Interval of the lines in the log of a part. */
const AGAIN_MS = 3_600_000;
/** Limits of the starts of one program, and of the programs, that are kept in memory. */
const STARTS_MAX = 8;
const KEPT_MAX = 20_000;

/** One start of a program. */
interface Start extends DeviceMark {
  readonly address: string;
  readonly sinceMs: number;
  /** When it last asked for something, and when its connection for changes was last open. */
  askedMs: number;
  openMs: number;
}

type Call = Pick<CallContext, "requestHeader" | "peer">;

interface Program {
  /** In the order of their beginning. */
  readonly starts: Start[];
  loggedMs?: number;
}

export interface SharedCredentialsParts {
  readonly logs: Pick<LogStore, "add">;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class SharedCredentials {
  /** By part and program, the one that was heard last at the end. */
  readonly #programs = new Map<string, Program>();

  constructor(private readonly parts: SharedCredentialsParts) {}

  /** Notes that a machine has asked for something. */
  sawRequest(part: LoggingPart, call: Call): void {
    const nowMs = this.parts.clock.monotonicMs();
    const found = this.#find(part.id, call, nowMs);
    if (!found) return;
    const { program, start } = found;
    start.askedMs = nowMs;
    const problem = problemOf(program, nowMs);
    if (problem === undefined) return;
    if (program.loggedMs !== undefined && nowMs - program.loggedMs < AGAIN_MS) return;
    program.loggedMs = nowMs;
    void this.#log(part, problem);
  }

  /** Notes that a machine's connection for changes is open. Returns whether to make the machine ask for something. */
  sawConnection(partId: string, call: Call): boolean {
    const nowMs = this.parts.clock.monotonicMs();
    const found = this.#find(partId, call, nowMs);
    if (!found) return false;
    const { program: { starts }, start } = found;
    start.openMs = nowMs;
    const [first, ...later] = starts.filter(({ openMs }) => nowMs - openMs < OPEN_MS);
    const areSeveral = first !== undefined && later.some(({ sinceMs }) => nowMs - sinceMs >= TOGETHER_MS);
    return areSeveral && nowMs - start.askedMs >= ASK_MS;
  }

  /** What to say of a part on which several devices work now. */
  problems(partId: string): string[] {
    const nowMs = this.parts.clock.monotonicMs();
    return [...PROGRAMS].flatMap((name) => {
      const program = this.#programs.get(keyOf(partId, name));
      return program && problemOf(program, nowMs) || [];
    });
  }

  /** The start of a program that calls; absent for programs without a mark. */
  #find(partId: string, { requestHeader, peer }: Call, nowMs: number) {
    const mark = markIn(requestHeader.get(DEVICE_MARK));
    if (!mark) return undefined;
    const key = keyOf(partId, mark.program);
    const program: Program = this.#programs.get(key) ?? { starts: [] };
    this.#programs.delete(key);
    if (this.#programs.size >= KEPT_MAX) this.#programs.delete(this.#programs.keys().next().value!);
    this.#programs.set(key, program);

    const { starts } = program;
    const known = starts.find(({ run }) => run === mark.run);
    if (known) return { program, start: known };
    const address = peer.remoteAddress ?? "an unknown address";
    const start: Start = { ...mark, address, sinceMs: nowMs, askedMs: nowMs, openMs: -Infinity };
    if (starts.length >= STARTS_MAX) {
      const quietest = starts.reduce((one, other) => other.askedMs < one.askedMs ? other : one);
      starts.splice(starts.indexOf(quietest), 1);
    }
    starts.push(start);
    return { program, start };
  }

  async #log(part: LoggingPart, message: string): Promise<void> {
    const { logs, clock, logger } = this.parts;
    logger.warn(`part ${part.id}: ${message}`);
    const nowMs = clock.nowMs();
    const entry = create(LogEntrySchema, {
      ...{ host: "svc-cloud", loggerName: "svc-cloud.devices", level: "error", message },
      time: toTimestamp(nowMs),
    });
    await logs.add(part, [entry], nowMs).catch((error) =>
      logger.warn(`part ${part.id}: cannot log that several devices use it: ${chainOf(error)}`)
    );
  }
}

const PROGRAMS = ["svc-agent", "svc-server"];

function keyOf(partId: string, program: string): string {
  return `${partId} ${program}`;
}

/** `undefined` unless several starts have been heard together for long. */
function problemOf({ starts }: Program, nowMs: number): string | undefined {
  const here = starts.filter(({ askedMs }) => nowMs - askedMs < GONE_MS);
  const [first, ...later] = here;
  const together = later.filter(({ sinceMs }) => first!.askedMs - sinceMs >= TOGETHER_MS);
  if (first === undefined || together.length === 0) return undefined;
  const devices = [first, ...together].map(({ name, address }) => `${name} at ${address}`);
  return `several devices use the credentials of this machine, in ${first.program}: ${
    devices.join(" and ")
  }. ` +
    "Callers reach one or the other. Give each device a machine and credentials of its own";
}
