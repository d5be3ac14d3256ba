/**
 * Calls a machine through its control plane, from wherever it runs, and tells what becomes of it, a line of JSON each.
 *
 * `caller.ts <control plane> <key id> <key> <host> <calls> <board>`: as many calls; then it follows a stream of the
 * board for as long as it runs, and connects again whenever the connection ends.
 */

import { BoardService } from "../../proto/gen/board_pb.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Secret } from "../../lib/base/secret.ts";
import { connectApp } from "../../lib/cloud_client/app_channel.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { type DialedChannel, dialWebRtc } from "../../lib/wire/signaling/dialer.ts";

const [address, keyId, key, host, calls, board] = Deno.args;
const clock = new SystemClock();
/** The stream says something every second or so; a connection on which it does not is given up. */
const SILENCE_MS = 10_000;

function tell(line: object): void {
  console.log(JSON.stringify(line));
}

async function dial(): Promise<DialedChannel> {
  const signaling = connectApp({
    address,
    keyId,
    key: new Secret(key),
    allowInsecureCredentials: true,
    clock,
  });
  try {
    return await dialWebRtc({ signaling, host, clock });
  } finally {
    signaling.close();
  }
}

async function dialed(): Promise<DialedChannel> {
  for (;;) {
    try {
      const channel = await dial();
      tell({ connected: channel.addresses });
      return channel;
    } catch (error) {
      tell({ refused: SvcError.from(error).message });
      await clock.sleep(1_000);
    }
  }
}

let channel = await dialed();
const { resourceNames } = client(RobotService, channel);
for (let made = 0; made < Number(calls); made++) await resourceNames({}, { timeoutMs: 30_000 });
tell({ calls: Number(calls) });
for (;;) {
  const over = new AbortController();
  let callOff = () => {};
  const alive = () => {
    callOff();
    callOff = clock.after(
      SILENCE_MS,
      () => over.abort(new SvcError("unavailable", "the stream says nothing")),
    );
  };
  try {
    const request = { name: board, pinNames: ["tick"] };
    alive();
    for await (
      const { time } of client(BoardService, channel).streamTicks(request, { signal: over.signal })
    ) {
      alive();
      tell({ tick: String(time) });
    }
  } catch (error) {
    tell({ lost: SvcError.from(error).message });
  }
  callOff();
  channel.close();
  channel = await dialed();
}
