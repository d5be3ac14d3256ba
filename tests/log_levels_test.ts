/**
 * Levels of logs as the configuration's patterns set them, in a program of its own.
 */

import { assertEquals } from "@std/assert";
import { ButtonService } from "../proto/gen/button_pb.ts";
import { SystemClock } from "../lib/base/clock.ts";
import { client } from "../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../lib/wire/grpc/grpc_channel.ts";
import { startServer, writeConfig } from "./support/server.ts";

const button = (name: string) => ({ name, api: "rdk:component:button", model: "fake" });

/** Pushes the buttons `one` and `two` of a machine with these patterns; gives who logged it, and the log. */
async function pushedUnder(log: { pattern: string; level: string }[]) {
  const path = await writeConfig({ components: [button("one"), button("two")], log, services: [] });
  const server = await startServer(path);
  const channel = connectGrpc(new URL(server.url).host, { clock: new SystemClock() });
  try {
    await server.wrote("configuration applied");
    for (const name of ["one", "two"]) await client(ButtonService, channel).push({ name });
  } finally {
    channel.close();
    await server.stop();
    await Deno.remove(path);
  }
  const lines = server.output().split("\n");
  const pushed = lines.filter((line) => line.includes("pushed button"));
  return { loggers: pushed.map((line) => /button\/(\w+)/.exec(line)?.[1]), lines };
}

Deno.test("log patterns set levels of resources and services by their documented names", async () => {
  const under = async (pattern: string) => (await pushedUnder([{ pattern, level: "error" }])).loggers;
  assertEquals(await under("rdk.components.button"), []);
  assertEquals(await under("rdk.components.button.one"), ["two"]);
  assertEquals(await under("rdk.services.*"), ["one", "two"]);
});

Deno.test("a pattern without a match is logged once, and the last matching pattern wins", async () => {
  const { loggers, lines } = await pushedUnder([
    { pattern: "rdk.components.*", level: "error" },
    { pattern: "rdk.components.buton", level: "debug" },
    { pattern: "rdk.components.button.(two|three)", level: "info" },
  ]);
  assertEquals(loggers, ["two"]);
  const logged = lines.filter((line) => line.includes("matches no logger"));
  assertEquals(logged.map((line) => /log pattern "([^"]+)"/.exec(line)?.[1]), ["rdk.components.buton"]);
});
