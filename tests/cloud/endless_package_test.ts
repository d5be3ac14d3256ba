/**
 * A machine whose packages take for ever to download: everything else works at once, the configuration changes, and the
 * machine ends in time.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { BoardService } from "../../proto/gen/board_pb.ts";
import { ResourceStatus_State as State, RobotService } from "../../proto/gen/robot_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { Secret } from "../../lib/base/secret.ts";
import { connectApp } from "../../lib/cloud_client/app_channel.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { colorsModel } from "../support/onnx_models.ts";
import { type ArchiveFile, packed } from "../../lib/base/files/archive.ts";
import { bytesIn } from "../support/pieces.ts";
import { startServer } from "../support/server.ts";
import { until } from "../support/until.ts";
import { type Example, serveCloud, svcCloud } from "./program.ts";

/** Answers downloads with their first byte, and gives no more; those that are let through come from `origin`. */
class EndlessDownloads {
  origin = "";
  readonly passing = new Set<string>();
  readonly #open = new Set<ReadableStreamDefaultController<Uint8Array>>();
  readonly #server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, (request) => {
    const { pathname, search } = new URL(request.url);
    if ([...this.passing].some((name) => pathname.includes(name))) {
      return fetch(`${this.origin}${pathname}${search}`, { headers: request.headers });
    }
    let open: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({
      start: (stream) => {
        stream.enqueue(new Uint8Array(1));
        this.#open.add(open = stream);
      },
      cancel: () => void this.#open.delete(open),
    });
    return new Response(body, { headers: { "content-length": "4000000000" } });
  });

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  letThrough(name: string): void {
    this.passing.add(name);
    this.#cut();
  }

  /** Ends the answers early: the machine takes this as a broken connection. */
  #cut(): void {
    for (const stream of this.#open) stream.close();
    this.#open.clear();
  }

  async close(): Promise<void> {
    this.#cut();
    await this.#server.shutdown();
  }
}

const component = (name: string, type: string, attributes: JsonObject = {}) => ({
  name,
  api: `rdk:component:${type}`,
  model: "fake",
  attributes,
});

Deno.test("a first download that never ends holds back only the resources that need it", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-endless-" });
  const data = ["--data", `${folder}/data`];
  const example: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
  const { organizationId, partId, ownerKey } = example;
  const content = colorsModel();
  for (const name of ["colors", "shapes", "added"]) {
    const about = new TextEncoder().encode(name);
    const files: ArchiveFile[] = [
      { path: "colors.onnx", bytes: content.length, content: [content] },
      { path: "about.txt", bytes: about.length, content: [about] },
    ];
    await Deno.writeFile(`${folder}/a.tar.gz`, await bytesIn(packed(files)));
    const version = [name, "1.0.0", `${folder}/a.tar.gz`, "--type", "ml_model"];
    await svcCloud("package", "upload", ...version, ...data);
  }

  const downloads = new EndlessDownloads();
  const flags = [...data, "--localhost-certificates", "--public-url", downloads.url];
  const cloud = await serveCloud(flags);
  downloads.origin = cloud.url;
  const model = (name: string) => ({
    name,
    api: "rdk:service:mlmodel",
    model: "onnx_cpu",
    attributes: { model_path: "${packages.ml_model." + name + "}/colors.onnx" },
  });
  const network = { bind_address: "localhost:0" };
  const save = async (models: readonly string[], components: readonly JsonObject[]) => {
    const packages = models.map((name) => {
      return { name, package: `${organizationId}/${name}`, version: "1.0.0", type: "ml_model" };
    });
    const config = { network, packages, services: models.map(model), components };
    await Deno.writeTextFile(`${folder}/config.json`, JSON.stringify(config));
    await svcCloud("config", "set", partId, `${folder}/config.json`, ...data);
  };
  await save(["colors", "shapes"], [component("board", "board")]);

  const ca = await svcCloud("authority", ...data);
  const own = { ...example.config.cloud, app_address: cloud.url, refresh_interval: "1s" };
  await Deno.writeTextFile(`${folder}/machine.json`, JSON.stringify({ cloud: own }));
  const server = await startServer(`${folder}/machine.json`, {
    args: ["-allow-insecure-creds"],
    env: { SVC_HOME: folder },
  });
  const key = new Secret(ownerKey.key);
  const channel = connectApp({ address: server.url, ca, keyId: ownerKey.id, key, clock: new SystemClock() });
  const states = async () => {
    const { resources } = await client(RobotService, channel).getMachineStatus({});
    const found = resources.map(({ name, state, error }) => [name!.name, `${State[state]} ${error}`.trim()]);
    return Object.fromEntries(found) as Record<string, string>;
  };
  try {
    await server.wrote("machine is running");
    const begun = await states();
    assertEquals(begun.board, "READY");
    for (const name of ["colors", "shapes"]) {
      assertMatch(begun[name], new RegExp(`^UNHEALTHY .*package "${name}" .* is still being downloaded`));
    }
    await client(BoardService, channel).getGPIO({ name: "board", pin: "1" });

    // The change applies at once, also with one more package of this kind.
    await save(["colors", "shapes", "added"], [component("board", "board"), component("motor", "motor")]);
    await until(async () => (await states()).motor === "READY", { found: () => server.output() });
    for (const name of ["colors", "added"]) assertMatch((await states())[name], /is still being downloaded/);

    downloads.letThrough("colors");
    await until(async () => (await states()).colors === "READY", { found: () => server.output() });
    assertMatch((await states()).shapes, /package "shapes"/);
    assertEquals(await server.stop(), 0);
    assertMatch(server.output(), /shutting down/);
  } finally {
    channel.close();
    await server.stop();
    await cloud.stop();
    await downloads.close();
    await Deno.remove(folder, { recursive: true });
  }
});
