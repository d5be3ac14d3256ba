/** A machine whose configuration comes from a control plane. */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { FakeControlPlane, KEY, KEY_ID, PART_ID } from "../support/control_plane.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { selfSigned } from "../support/echo.ts";
import { type ServerProcess, startServer } from "../support/server.ts";
import { allow, gate, mayRestart, part, statusOf } from "./bench.ts";

const PROGRAM = new URL("program.ts", import.meta.url).pathname;

interface CloudBench {
  readonly app: FakeControlPlane;
  /** Where the copy is. */
  readonly cache: string;
  /** Starts the machine; it is stopped when the test ends. */
  start(args?: string[]): Promise<ServerProcess>;
}

async function withApp(first: JsonObject, test: (bench: CloudBench) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-" });
  const path = `${folder}/machine.json`;
  const servers: ServerProcess[] = [];
  const app = new FakeControlPlane();
  await app.open();
  app.config = withPort(first);
  const cloud = {
    id: PART_ID,
    app_address: app.url,
    api_key: { id: KEY_ID, key: KEY },
    refresh_interval: "1s",
  };
  await Deno.writeTextFile(path, JSON.stringify({ cloud }));
  const start = async (args = ["-allow-insecure-creds"]) => {
    const command = [Deno.execPath(), "run", "-A", PROGRAM];
    const server = await startServer(path, { command, args, env: { SVC_HOME: folder } });
    servers.push(server);
    return server;
  };
  try {
    await test({ app, start, cache: `${folder}/cached_cloud_config_${PART_ID}.json` });
  } finally {
    for (const server of servers) await server.stop();
    await app.close();
    await Deno.remove(folder, { recursive: true });
  }
}

const withPort = (config: JsonObject) => ({ network: { bind_address: "localhost:0" }, ...config });

const applied = (revision: string) => `"revision":"${revision}"`;

Deno.test("changes at the control plane change the machine, errors there do not", () =>
  withApp({ revision: "r1", components: [part("a"), part("b")] }, async ({ app, start }) => {
    const server = await start();
    await server.wrote("machine is running");
    assertEquals(await statusOf(server.url), { revision: "r1", resources: { a: "ready", b: "ready" } });
    app.config = withPort({ revision: "r2", components: [part("a"), part("c")] });
    await server.wrote(applied("r2"));
    assertEquals(await statusOf(server.url), { revision: "r2", resources: { a: "ready", c: "ready" } });

    app.config = withPort({ revision: "r3", network: { bind_address: "nowhere" } });
    await server.wrote(`${app.url}: network.bind_address: found "nowhere", wanted host:port`);
    app.config = new SvcError("invalid_argument", "this part has no configuration");
    await server.wrote("has no usable configuration: this part has no configuration");
    const { revision, resources } = await statusOf(server.url);
    assertEquals([revision, resources.a, resources.c], ["r2", "ready", "ready"]);
    assertStringIncludes(resources["rdk-internal:service:config"], "this part has no configuration");

    await app.close();
    await server.wrote("gives no configuration, the present one stays");
    await app.open();
    app.config = withPort({ revision: "r4", components: [part("a")] });
    await server.wrote(applied("r4"));
    assertEquals(await statusOf(server.url), { revision: "r4", resources: { a: "ready" } });
    assertEquals(server.output().match(/(built|closed) [abc]\b/g), [
      "built a",
      "built b",
      "closed b",
      "built c",
      "closed c",
    ]);
    assertEquals(await server.stop(), 0);
  }));

Deno.test("without a control plane a machine starts with its cached configuration, or fails with the reason", () =>
  withApp({ revision: "r1", components: [part("a")] }, async ({ app, start, cache }) => {
    const first = await start();
    await first.wrote("machine is running");
    // Not the way a program should end.
    Deno.kill(first.pid, "SIGKILL");
    await first.ended;
    assert(!(await Deno.readTextFile(cache)).includes(KEY));

    await app.close();
    const second = await start();
    await second.wrote("machine is running");
    const { revision, resources: { a, ["rdk-internal:service:config"]: config } } = await statusOf(
      second.url,
    );
    assertEquals([revision, a], ["r1", "ready"]);
    assertStringIncludes(config, `unhealthy: no configuration from ${app.url}`);
    app.config = withPort({ revision: "r2", components: [part("a")] });
    await app.open();
    await second.wrote(applied("r2"));
    assertEquals(await statusOf(second.url), { revision: "r2", resources: { a: "ready" } });
    assertEquals(await second.stop(), 0);

    // One that cannot be used is none: the last good one is better.
    app.config = withPort({ revision: "r3", debug: 1, network: { bind_address: "nowhere" } });
    const third = await start();
    await third.wrote("starting with the last good configuration");
    await third.wrote("machine is running");
    assertEquals((await statusOf(third.url)).revision, "r2");
    assertEquals(await third.stop(), 0);

    await app.close();
    await Deno.writeTextFile(cache, (await Deno.readTextFile(cache)).slice(0, 100));
    const refused = await start().then(() => "", (error: Error) => error.message);
    assertStringIncludes(refused, `${cache} holds no configuration and is deleted`);
    assertStringIncludes(refused, `svc-server: no configuration from ${app.url}: cannot connect`);
  }));

Deno.test("a machine obeys a restart order when its maintenance sensor allows it", () =>
  withApp({
    maintenance: { sensor_name: "rdk:component:sensor/gate", maintenance_allowed_key: "allowed" },
    components: [gate(false)],
  }, async ({ app, start }) => {
    app.restartCheckMs = 1_000;
    const server = await start();
    await server.wrote("machine is running");
    assertEquals(await mayRestart(server.url), false);
    app.mustRestart = true;
    await server.wrote("told to restart, waiting until the machine may");
    await allow(server.url, true);
    assertEquals(await server.ended, 0);
    assertStringIncludes(server.output(), "shutting down: app_restart");
  }));

Deno.test("log lines reach the control plane, including lines from an outage, across a restart", () =>
  withApp({ revision: "r1", components: [part("a")] }, async ({ app, start }) => {
    const first = await start();
    await first.wrote("machine is running");
    while (!app.logs.includes("machine is running")) await app.called("Log");
    await app.close();
    app.logs.length = 0;
    assertEquals(await first.stop(), 0);
    assertStringIncludes(first.output(), "logs for the cloud are left for the next start");
    await app.open();
    const second = await start();
    await second.wrote("machine is running");
    assertEquals(await second.stop(), 0);
    // What the control plane took while it closed comes again: its answer was lost.
    const stopped = app.logs.indexOf("shutting down: SIGTERM");
    assert(stopped >= 0 && app.logs.includes("machine is running", stopped), app.logs.join("\n"));
  }));

Deno.test("a machine serves TLS with the certificate of its control plane", () =>
  withApp({}, async ({ app, start }) => {
    const { certPem: tlsCertificate, keyPem: tlsPrivateKey } = await selfSigned();
    app.certificate = { tlsCertificate, tlsPrivateKey };
    const server = await start();
    assertStringIncludes(server.url, "https://");
    assertEquals(await server.stop(), 0);
  }));

Deno.test("svc-server refuses to send credentials without TLS unless -allow-insecure-creds is set", () =>
  withApp({}, async ({ app, start }) => {
    const refused = await start([]).then(() => "", (error: Error) => error.message);
    assertStringIncludes(refused, `credentials do not travel without TLS to ${app.url}`);
    assertEquals(app.calls, []);
  }));
