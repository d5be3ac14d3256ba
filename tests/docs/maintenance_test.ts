/** The maintenance window of docs/configuration.md, tried as a reader would try it. */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { mayRestart } from "../e2e/bench.ts";
import { startServer, writeConfig } from "../support/server.ts";
import { until } from "../support/until.ts";
import { blockWith } from "./pages.ts";
import { runScript } from "./scripts.ts";

Deno.test("the program in docs/configuration.md opens and closes the maintenance window", async () => {
  const config: JsonObject = JSON.parse((await blockWith("docs/configuration.md", '"settable"')).text);
  const path = await writeConfig(config);
  const server = await startServer(path);
  try {
    await server.wrote("machine is running");
    assertEquals(await mayRestart(server.url), false);
    const save = async (revision: string) => {
      const changed = { ...config, revision, network: { bind_address: "localhost:0" } };
      await Deno.writeTextFile(path, JSON.stringify(changed));
    };
    await save("opened");
    await server.wrote("held back: no maintenance, rdk:component:sensor/window says open is false");
    const { text } = await blockWith("docs/configuration.md", "SensorClient");
    const open = text.replace("http://localhost:8080", server.url);
    assertStringIncludes(await runScript(open), "open: true");
    await server.wrote('"revision":"opened"');
    assertEquals(await mayRestart(server.url), true);

    const close = open.replace("set: { open: true }", "set: { open: false }");
    assertStringIncludes(await runScript(close), "open: false");
    assertEquals(await mayRestart(server.url), false);
    await save("closed");
    const held = () => server.output().split("held back: no maintenance").length - 1;
    await until(() => held() === 2);
    assert(!server.output().includes('"revision":"closed"'));
  } finally {
    assertEquals(await server.stop(), 0);
    await Deno.remove(path);
  }
});
