/**
 * The options of a connection: its role, its limits, and the callbacks to its owner.
 */

import type { SharedInterval } from "../../base/async/shared_interval.ts";
import type { Clock } from "../../base/clock.ts";
import type { SvcError } from "../../base/error.ts";
import type { RoundRobin } from "../flow/round_robin.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import type { PortAbuseLimits } from "./abuse_limits.ts";
import type { Stream, StreamListener } from "./stream.ts";
import type { Unread } from "./stream_data.ts";

export interface ConnectionOptions {
  readonly role: "server" | "client";
  readonly clock: Clock;
  /** Server: accepts a new stream; without fields if it had more than allowed. */
  readonly accept?: (stream: Stream, fields: HeaderFields | undefined) => StreamListener;
  /** Server: limit of the client's open streams; `MAX_STREAMS` by default. */
  readonly maxStreams?: number;
  /** Client: `open` or `hasRoom` may have changed. */
  readonly changed?: () => void;
  /** Schedules the turns of all connections of a port. */
  readonly scheduler?: RoundRobin;
  /** Server: the interval of the checks for a peer without progress, which the connections of a port share. */
  readonly stallChecks?: SharedInterval;
  /** Charged with unsent answers; throws if there are too many. */
  readonly unread?: Unread;
  /** Server: the abuse limits that its connections share. */
  readonly abuse?: PortAbuseLimits;
  /** Called with the number of bytes that have arrived, or that the peer's system has taken. */
  readonly transferred?: (bytes: number) => void;
  /** Called when the peer has proven that it speaks HTTP/2. */
  readonly ready?: () => void;
  /** Called once, when the connection is over. */
  readonly closed?: (error: SvcError) => void;
}
