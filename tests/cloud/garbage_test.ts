/**
 * What calls leave behind in memory: nearly nothing that only a whole garbage collection would free. Those hold up all
 * callers, so they must be rare (docs/development.md, "Garbage").
 */

import { assert } from "@std/assert";
import { client } from "../../lib/wire/rpc/channel.ts";
import { DataSyncService } from "../../proto/gen/datasync_pb.ts";
import { dial, Figures, readingsOf } from "./load_machines.ts";
import { type Example, PROGRAM, serveCloud, svcCloud } from "./program.ts";

const CONNECTIONS = 4;
/** Calls of each connection before the count begins, while V8 compiles what they run, and then. */
const WARM_UP = 100;
const CALLS = 200;
/** Most bytes that a call may leave; it was 1,300 when this was written. */
const LEFT_MAX = 10_000;
const SCAVENGES_MIN = 5;

/** What the scavenges of a trace have moved into the old generation: how many there were, and the bytes. */
function promotedIn(trace: string): { scavenges: number; bytes: number } {
  const promoted = [...trace.matchAll(/"gc":"s".*?"promoted":(\d+)/g)].map(([, bytes]) => Number(bytes));
  return { scavenges: promoted.length, bytes: promoted.reduce((sum, bytes) => sum + bytes, 0) };
}

Deno.test("cloud: a call leaves little that only a whole garbage collection frees", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const command = [Deno.execPath(), "run", "-A", "--v8-flags=--trace-gc-nvp", PROGRAM];
  let trace = "";
  try {
    const { partId, ownerKey }: Example = JSON.parse(await svcCloud("init", "--data", folder, "--json"));
    const cloud = await serveCloud(["--data", folder], { command, heard: (text) => trace = text });
    const over = new AbortController();
    try {
      const caller = { host: new URL(cloud.url).host, keyId: ownerKey.id };
      const figures = new Figures();
      const connected = Array.from(
        { length: CONNECTIONS },
        () => dial(caller, ownerKey.key, figures, over.signal),
      );
      const channels = (await Promise.all(connected)).map((channel) => channel!);
      const callEach = (count: number) =>
        Promise.all(channels.map(async (channel) => {
          const { dataCaptureUpload } = client(DataSyncService, channel);
          for (let call = 0; call < count; call++) await dataCaptureUpload(readingsOf(partId));
        }));
      await callEach(WARM_UP);
      const before = promotedIn(trace);
      await callEach(CALLS);
      const after = promotedIn(trace);
      const scavenges = after.scavenges - before.scavenges;
      assert(scavenges >= SCAVENGES_MIN, `${scavenges} scavenges`);
      const left = (after.bytes - before.bytes) / (CONNECTIONS * CALLS);
      assert(left < LEFT_MAX, `each call left ${left.toFixed(0)} bytes in the old generation`);
      for (const channel of channels) channel.close();
    } finally {
      over.abort();
      await cloud.stop();
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
