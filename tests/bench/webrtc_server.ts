/**
 * A server for the benchmark of WebRTC, in a process of its own: the echo service over gRPC, gRPC-web and WebRTC.
 *
 * It prints its port. For each input line it prints its number of peers and its resource use, as JSON; it ends with its
 * input.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { Logs } from "../../lib/base/log/log.ts";
import { Answerer } from "../../lib/wire/signaling/answerer.ts";
import { CallQueue } from "../../lib/wire/signaling/call_queue.ts";
import { signalingService } from "../../lib/wire/signaling/service.ts";
import { openPort } from "../../lib/wire/port/port.ts";
import { echoTable } from "../support/echo.ts";

/** A server's report. */
export interface ServerState {
  readonly peers: number;
  readonly residentBytes: number;
  readonly heapBytes: number;
}

const clock = new SystemClock();
const { table } = echoTable();
const queue = new CallQueue({ clock });
const answerer = new Answerer({ table, clock, logger: new Logs(clock, []).logger("bench") });
table.add(signalingService({ queue, clock, hostOf: () => "" }));
const over = new AbortController();
const answering = (async () => {
  while (!over.signal.aborted) {
    const call = await queue.take([""], over.signal).catch(() => undefined);
    if (call) void answerer.answer(call);
  }
})();
const port = await openPort({ table, clock, bind: { host: "127.0.0.1", port: 0 } });
console.log(port.port);
for await (const _ of Deno.stdin.readable) {
  (globalThis as { gc?: () => void }).gc?.();
  const { rss, heapUsed } = Deno.memoryUsage();
  console.log(JSON.stringify({ peers: answerer.peers, residentBytes: rss, heapBytes: heapUsed }));
}
over.abort();
await answering;
await answerer.close();
await port.close(0);
Deno.exit(0);
