/**
 * The module's connection to its machine: the dependencies of resources, and the machine's log.
 *
 * Owns the channel to the machine and the queue of lines for it. Writing a line never waits and never fails: a line
 * that the machine does not take goes to standard error, which the machine reads too.
 */

import { RobotService } from "../../proto/gen/robot_pb.ts";
import type { Clock } from "../base/clock.ts";
import { formatLine, type LogRecord } from "../base/log/log.ts";
import { formatFields } from "../base/log/line.ts";
import type { Json } from "../base/schema/schema.ts";
import { logEntryMessage } from "../cloud_client/log_message.ts";
import { type Channel, client, type ServiceClient } from "../wire/rpc/channel.ts";
import { connectGrpc } from "../wire/grpc/grpc_channel.ts";

/** Limit of queued lines; the queue drops the oldest lines and reports their number. */
const LINES_MAX = 1_000;
const LOG_TIMEOUT_MS = 5_000;

export interface ParentLinkParts {
  readonly clock: Clock;
  /** Writes a line to standard error. */
  readonly complain: (line: string) => void;
}

interface Machine {
  readonly address: string;
  readonly channel: Channel;
  readonly rpc: ServiceClient<typeof RobotService>;
}

export class ParentLink {
  #machine: Machine | undefined;
  #lines: LogRecord[] = [];
  #dropped = 0;
  #sending: Promise<void> | undefined;

  constructor(private readonly parts: ParentLinkParts) {}

  /** The channel to the machine, once its address is known. */
  get channel(): Channel | undefined {
    return this.#machine?.channel;
  }

  /** Sets the machine's address. */
  connect(address: string): void {
    if (address === "" || address === this.#machine?.address) return;
    this.#machine?.channel.close();
    const isComplete = address.startsWith("unix:") || /:\d+$/.test(address);
    const channel = connectGrpc(isComplete ? address : `unix:${address}`, { clock: this.parts.clock });
    this.#machine = { address, channel, rpc: client(RobotService, channel) };
    this.#send();
  }

  /** Takes a line for the machine's log. */
  readonly log = (record: LogRecord): void => {
    if (this.#lines.length >= LINES_MAX) {
      this.#lines.shift();
      this.#dropped++;
    }
    this.#lines.push(record);
    this.#send();
  };

  /** Sends the queued lines, then closes the channel. */
  async close(): Promise<void> {
    await this.#sending;
    for (const line of this.#lines.splice(0)) this.parts.complain(formatLine(line));
    this.#machine?.channel.close();
  }

  #send(): void {
    if (!this.#machine || this.#lines.length === 0) return;
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
  }

  /** One line per call, in order, as the published protocol does. */
  async #sendAll(): Promise<void> {
    for (let record = this.#lines.shift(); record && this.#machine; record = this.#lines.shift()) {
      const dropped = this.#dropped === 0 ? {} : { lines_dropped_before: this.#dropped };
      this.#dropped = 0;
      try {
        // Fields take the JSON form of a terminal line, which has a form for errors and other values outside JSON.
        const fields = JSON.parse(formatFields({ ...record.fields, ...dropped })) as Record<string, Json>;
        const logs = [logEntryMessage({ ...record, fields }, "")];
        await this.#machine.rpc.log({ logs }, { timeoutMs: LOG_TIMEOUT_MS });
      } catch {
        this.parts.complain(formatLine(record));
      }
    }
  }
}
