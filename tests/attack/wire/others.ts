/**
 * The process of everybody else: `others.ts CALL PATIENCE_MS TARGET`. Calls the server every 100 ms, over a connection that
 * stays and over a new one in turns, and prints a line for each call, until its input ends; then it waits for the calls under way.
 * For each byte of its input it prints `SETTLED` when all calls that were under way then have come to their end.
 */

import { SystemClock } from "../../../lib/base/clock.ts";
import { messageOf } from "../../../lib/base/error.ts";
import { type Channel, client } from "../../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../../lib/wire/rpc/metadata.ts";
import { BoardService } from "../../../proto/gen/board_pb.ts";
import { CameraService } from "../../../proto/gen/camera_pb.ts";
import type { Target } from "./peer.ts";

/** One call of another client. */
export interface OtherCall {
  readonly atMs: number;
  readonly tookMs: number;
  /** On a connection of its own. */
  readonly newcomer: boolean;
  /** Why it failed. */
  readonly error?: string;
}

/** The line that follows the last of the calls that were under way. */
export const SETTLED = "settled";

const EVERY_MS = 100;

if (import.meta.main) {
  const [what, patienceMs, given] = Deno.args;
  const timeoutMs = Number(patienceMs);
  const target: Target = JSON.parse(given);
  const staying = connect(target);
  const calls = new Set<Promise<void>>();
  let hasEnded = false;
  void (async () => {
    while (await Deno.stdin.read(new Uint8Array(1)) !== null) {
      void Promise.all([...calls]).then(() => console.log(SETTLED));
    }
    hasEnded = true;
  })();

  while (!hasEnded) {
    for (const one of [call(what, staying, false, timeoutMs), visit(what, target, timeoutMs)]) {
      calls.add(one);
      void one.then(() => calls.delete(one));
    }
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
  await Promise.all(calls);
  Deno.exit(0);
}

async function visit(what: string, target: Target, timeoutMs: number): Promise<void> {
  const channel = connect(target);
  await call(what, channel, true, timeoutMs);
  channel.close();
}

function connect({ host, port, secure, token }: Target): Channel {
  const header = new Metadata();
  if (token !== undefined) header.set("authorization", `Bearer ${token}`);
  return connectGrpc(`${host}:${port}`, {
    clock: new SystemClock(),
    tls: secure ? { insecureSkipVerify: true } : undefined,
    header,
  });
}

async function call(what: string, channel: Channel, newcomer: boolean, timeoutMs: number): Promise<void> {
  const atMs = Date.now();
  const began = performance.now();
  const timeout = { timeoutMs };
  let error: string | undefined;
  try {
    if (what === "camera") await client(CameraService, channel).getImages({ name: "camera1" }, timeout);
    else await client(BoardService, channel).getGPIO({ name: "board1", pin: "20" }, timeout);
  } catch (problem) {
    error = messageOf(problem);
  }
  const line: OtherCall = { atMs, tookMs: performance.now() - began, newcomer, error };
  console.log(JSON.stringify(line));
}
