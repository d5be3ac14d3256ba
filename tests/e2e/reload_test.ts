/** The configuration file changes under a running program. */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import {
  allow,
  answers,
  gate,
  mayRestart,
  part,
  restartStatus,
  statusOf,
  text,
  withServer,
} from "./bench.ts";

const applied = (revision: string) => `"revision":"${revision}"`;

Deno.test("a change rebuilds only the changed resources, however the file is saved", async () => {
  const config = (revision: string) => ({
    revision,
    disable_log_deduplication: true,
    components: [
      part("same"),
      part("changed", { note: revision }),
      part("user", { uses: ["changed"] }),
      part(`is-${revision}`),
    ],
  });
  await withServer(config("r0"), async ({ folder, path, server }) => {
    const saves: Record<string, (content: string) => Promise<void>> = {
      r1: (content) => Deno.writeTextFile(path, content),
      r2: async (content) => {
        await Deno.writeTextFile(`${path}~`, content);
        await Deno.rename(`${path}~`, path);
      },
      r3: async (content) => {
        await Deno.remove(path);
        await Deno.writeTextFile(path, content);
      },
      r4: async (content) => {
        const file = await Deno.open(path, { write: true, truncate: true });
        for (const half of [content.slice(0, 20), content.slice(20)]) {
          await file.write(new TextEncoder().encode(half));
        }
        file.close();
      },
      r5: async (content) => {
        await Deno.mkdir(`${folder}/..1`);
        await Deno.writeTextFile(`${folder}/..1/m.json`, content);
        await Deno.symlink("..1/m.json", `${path}~`);
        await Deno.rename(`${path}~`, path);
      },
      r6: (content) => Deno.writeTextFile(`${folder}/..1/m.json`, content),
    };
    for (const [revision, save] of Object.entries(saves)) {
      await save(text(config(revision)));
      await server.wrote(applied(revision));
      const { revision: found, resources } = await statusOf(server.url);
      assertEquals(found, revision);
      assertEquals(resources, {
        same: "ready",
        changed: "ready",
        user: "ready",
        [`is-${revision}`]: "ready",
      });
    }
    const output = server.output();
    const count = (text: string) => output.split(`${text}\n`).length - 1;
    assertEquals([count("built same"), count("closed same")], [1, 0]);
    for (const name of ["changed", "user"]) {
      assertEquals([count(`built ${name}`), count(`closed ${name}`)], [7, 6]);
    }
    assert(!output.includes("cannot be used"), output);
  });
});

Deno.test("a bad file changes nothing, is logged, and is in the machine's status until a good one comes", async () => {
  await withServer({ revision: "good", components: [part("a")] }, async ({ path, server }) => {
    const bad: [content: string | undefined, message: string][] = [
      ["{nonsense", `${path}:1:2: `],
      [
        text({ network: { bind_address: "nowhere" } }),
        'network.bind_address: found "nowhere", wanted host:port',
      ],
      [undefined, `cannot read "${path}": it does not exist`],
    ];
    for (const [content, message] of bad) {
      await (content === undefined ? Deno.remove(path) : Deno.writeTextFile(path, content));
      await server.wrote(message);
      const { revision, resources } = await statusOf(server.url);
      assertEquals([revision, resources.a], ["good", "ready"]);
      assertStringIncludes(resources["rdk-internal:service:config"], `unhealthy: `);
      assertStringIncludes(resources["rdk-internal:service:config"], message);
      assertEquals(server.output().split(message).length, 2, "told once");
    }
    await Deno.writeTextFile(path, text({ revision: "better", components: [part("a")] }));
    await server.wrote(applied("better"));
    assertEquals(await statusOf(server.url), { revision: "better", resources: { a: "ready" } });
    assertEquals(server.output().match(/built a|closed a/g), ["built a"]);
  });
});

Deno.test("log levels change at run time; a difference is logged with secrets as stars", async () => {
  const config = (revision: string, password: string, more: JsonObject = {}) => {
    return { revision, components: [part("a", { note: password, password })], ...more };
  };
  await withServer(config("r0", "hunter1"), async ({ path, server }) => {
    await Deno.writeTextFile(path, text(config("r1", "hunter2")));
    await server.wrote(applied("r1"));
    assertStringIncludes(server.output(), "attributes.password: ****** -> ******");
    assertStringIncludes(server.output(), 'attributes.note: "hunter1" -> "hunter2"');
    await Deno.writeTextFile(
      path,
      text(config("r3", "hunter3", { log: [{ pattern: "rdk*", level: "error" }] })),
    );
    while ((await statusOf(server.url)).revision !== "r3");
    await Deno.writeTextFile(path, text(config("r4", "hunter3", { debug: true })));
    await server.wrote(applied("r4"));
    assert(!server.output().includes('configuration applied\t{"revision":"r3"'));
  }, { args: ["-reveal-sensitive-config-diffs"] });
});

Deno.test("the port reopens for keys, and the resources stay", async () => {
  const auth = { handlers: [{ type: "api-key", config: { id: "key", keys: ["id"] } }] };
  await withServer({ revision: "open", components: [part("a")] }, async ({ path, server }) => {
    assertEquals(await answers(server.url, "a"), true);
    await Deno.writeTextFile(path, text({ revision: "guarded", components: [part("a")], auth }));
    await server.wrote(applied("guarded"));
    while (await answers(server.url, "a"));
    await Deno.writeTextFile(path, text({ revision: "open again", components: [part("a")] }));
    await server.wrote(applied("open again"));
    while (!await answers(server.url, "a"));
    assertEquals(server.output().match(/built a|closed a/g), ["built a"]);
  });
});

Deno.test("a changed file and a restart wait for the maintenance window", async () => {
  const maintenance = { sensor_name: "rdk:component:sensor/gate", maintenance_allowed_key: "allowed" };
  const config = (revision: string, more: JsonObject = {}) => {
    return { revision, maintenance, components: [gate(false), part(revision)], ...more };
  };
  // The first pass is never held back.
  await withServer(config("r0"), async ({ path, server: { url, ...server } }) => {
    assertEquals((await statusOf(url)).resources, { gate: "ready", r0: "ready" });
    assertEquals(await mayRestart(url), false);
    await Deno.writeTextFile(path, text(config("r1")));
    await server.wrote("held back: no maintenance, rdk:component:sensor/gate says allowed is false");
    const { revision, resources } = await statusOf(url);
    assertEquals(revision, "r0");
    assertEquals(resources, { gate: "ready", r0: "ready", "rdk-internal:service:config": "configuring" });
    await allow(url, "perhaps");
    await server.wrote('held back: no maintenance, rdk:component:sensor/gate gives "perhaps" for "allowed"');
    assertEquals(await mayRestart(url), false);
    await allow(url, true);
    await server.wrote(applied("r1"));
    assertEquals(await statusOf(url), { revision: "r1", resources: { gate: "ready", r1: "ready" } });
    // An agent takes a new version only here.
    const agents = { restartAllowed: true, inWindow: true, handledByAgent: true };
    assertEquals(await restartStatus(url), agents);

    await allow(url, false);
    // Removing the window ends the waiting.
    await Deno.writeTextFile(path, text({ revision: "r2", components: [part("r2")] }));
    await server.wrote(applied("r2"));
    assertEquals((await statusOf(url)).resources, { r2: "ready" });
    assertEquals(await restartStatus(url), { ...agents, inWindow: false });
  });
});

Deno.test("a broken sensor holds back all changes except its own dependencies; the port does not move until it works", async () => {
  const maintenance = { sensor_name: "rdk:component:sensor/gate", maintenance_allowed_key: "allowed" };
  const config = (revision: string, build: string | undefined, more: JsonObject = {}) => {
    const board = part("board", build === undefined ? {} : { build });
    return {
      revision,
      maintenance,
      components: [{ ...gate(false), depends_on: ["board"] }, board, part(revision)],
      ...more,
    };
  };
  await withServer(config("r0", "fails"), async ({ path, server }) => {
    const { url } = server;
    assertStringIncludes((await statusOf(url)).resources.gate, "unhealthy");
    assertEquals(await mayRestart(url), false);
    const elsewhere = { network: { bind_address: "127.0.0.1:0" } };
    await Deno.writeTextFile(path, text(config("r1", undefined, elsewhere)));
    await server.wrote("held back: no maintenance, rdk:component:sensor/gate cannot be asked");
    await server.wrote("held back: no maintenance, rdk:component:sensor/gate says allowed is false");
    assertEquals((await statusOf(url)).resources, {
      gate: "ready",
      board: "ready",
      r0: "ready",
      "rdk-internal:service:config": "configuring",
    });
    assert(!server.output().includes("http://127.0.0.1:"));
    await allow(url, true);
    await server.wrote(applied("r1"));
    const moved = '"url":"http://127.0.0.1:';
    await server.wrote(moved);
    const [, port] = server.output().split(moved);
    const address = `http://127.0.0.1:${parseInt(port)}`;
    assertEquals((await statusOf(address)).resources, { gate: "ready", board: "ready", r1: "ready" });
  });
});
