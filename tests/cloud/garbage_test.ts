/**
 * What calls leave behind in memory: nearly nothing that only a whole garbage collection would free. Those hold up all
 * callers, so they must be rare (docs/development.md, "Garbage").
 */

import { assert } from "@std/assert";
import { client } from "../../lib/wire/rpc/channel.ts";
import { DataSyncService } from "../../proto/gen/datasync_pb.ts";
import { dial, Figures, readingsOf } from "./load_machines.ts";
import { type Example, PROGRAM, serveCloud, svcCloud } from "./program.ts";
import { storeTest } from "./stores.ts";

/** Calls before the count begins, while V8 compiles what they run, and then. */
const WARM_UP = 400;
const CALLS = 800;
/**
 * The callers at once, and most bytes that a call may leave. It was 1,300 with SQLite when this was written, and 9,000 with
 * PostgreSQL, whose driver keeps an object for each of ten statements. There, readings of one machine that arrive at once
 * conflict, and are stored again.
 */
const EXPECTED = {
  sqlite: { connections: 4, leftMax: 10_000 },
  postgres: { connections: 1, leftMax: 20_000 },
} as const;
const SCAVENGES_MIN = 5;

/** What the scavenges of a trace have moved into the old generation: how many there were, and the bytes. */
function promotedIn(trace: string): { scavenges: number; bytes: number } {
  const promoted = [...trace.matchAll(/"gc":"s".*?"promoted":(\d+)/g)].map(([, bytes]) => Number(bytes));
  return { scavenges: promoted.length, bytes: promoted.reduce((sum, bytes) => sum + bytes, 0) };
}

/** The bytes that each call leaves in the old generation of svc-cloud, which has these flags for its place. */
async function leftByCalls(place: readonly string[], connections: number): Promise<number> {
  const { partId, ownerKey }: Example = JSON.parse(await svcCloud("init", ...place, "--json"));
  const command = [Deno.execPath(), "run", "-A", "--v8-flags=--trace-gc-nvp", PROGRAM];
  let trace = "";
  const cloud = await serveCloud(place, { command, heard: (text) => trace = text });
  const over = new AbortController();
  try {
    const caller = { host: new URL(cloud.url).host, keyId: ownerKey.id };
    const figures = new Figures();
    const connected = Array.from(
      { length: connections },
      () => dial(caller, ownerKey.key, figures, over.signal),
    );
    const channels = (await Promise.all(connected)).map((channel) => channel!);
    const callEach = (count: number) =>
      Promise.all(channels.map(async (channel) => {
        const { dataCaptureUpload } = client(DataSyncService, channel);
        for (let call = 0; call < count; call += connections) await dataCaptureUpload(readingsOf(partId));
      }));
    await callEach(WARM_UP);
    const before = promotedIn(trace);
    await callEach(CALLS);
    const after = promotedIn(trace);
    for (const channel of channels) channel.close();
    const scavenges = after.scavenges - before.scavenges;
    assert(scavenges >= SCAVENGES_MIN, `${scavenges} scavenges`);
    return (after.bytes - before.bytes) / CALLS;
  } finally {
    over.abort();
    await cloud.stop();
  }
}

storeTest("a call leaves little that only a whole garbage collection frees", async ({ kind, flags }) => {
  const { connections, leftMax } = EXPECTED[kind];
  const left = await leftByCalls(flags, connections);
  assert(left < leftMax, `each call left ${left.toFixed(0)} bytes in the old generation`);
});
