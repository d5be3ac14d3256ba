/**
 * From a saved configuration to the change in force, as an operator waits for it: of a server of its own, by the line of
 * its log. The spec allows 15 s; of a file, 40 ms of it are the stillness that the file must have had.
 */

import { AppService } from "../../proto/gen/app_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { Secret } from "../../lib/base/secret.ts";
import { connectApp } from "../../lib/cloud_client/app_channel.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { type Example, serveCloud, svcCloud } from "../cloud/program.ts";
import { type ServerProcess, startServer, writeConfig } from "../support/server.ts";
import { heading, row } from "./figures.ts";

const SAVES = 100;
/** Programs that run the same configuration, and hear of its changes, too. */
const OTHERS = 2;

type Save = (path: string, text: string) => Promise<void>;

const WAYS: Record<string, Save> = {
  "file written in place": (path, text) => Deno.writeTextFile(path, text),
  "file replaced by renaming": async (path, text) => {
    await Deno.writeTextFile(`${path}.new`, text);
    await Deno.rename(`${path}.new`, path);
  },
  "file written in two halves": async (path, text) => {
    const file = await Deno.open(path, { write: true, truncate: true });
    const bytes = new TextEncoder().encode(text);
    await file.write(bytes.subarray(0, bytes.length / 2));
    await new SystemClock().sleep(10);
    await file.write(bytes.subarray(bytes.length / 2));
    file.close();
  },
};

export async function config(): Promise<void> {
  heading(`saved to applied, one of 10 resources (${SAVES} saves each; the spec allows 15 s)`);
  for (const [way, save] of Object.entries(WAYS)) {
    const path = await writeConfig(configOf(0));
    const server = await startServer(path);
    await server.wrote("machine is running");
    const text = (revision: number) =>
      JSON.stringify({ ...configOf(revision), network: { bind_address: "localhost:0" } });
    const applied = (revision: number) => `"revision":"r${revision}"`;
    await measured(way, server, applied, (revision) => save(path, text(revision)));
    await server.stop();
    await Deno.remove(path);
  }
  await managed();
}

/** The same of a machine that a control plane manages: by a call, and by a command beside the control plane. */
async function managed(): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-bench-" });
  const data = ["--data", `${folder}/data`];
  const example: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
  const cloud = await serveCloud(data);
  const connect = async (index: number) => {
    const own = { ...example.config.cloud, app_address: cloud.url };
    await Deno.writeTextFile(`${folder}/m${index}.json`, JSON.stringify({ cloud: own }));
    const env = { SVC_HOME: `${folder}/home${index}` };
    return await startServer(`${folder}/m${index}.json`, { args: ["-allow-insecure-creds", "-no-tls"], env });
  };
  const { id: keyId, key } = example.ownerKey;
  const channel = connectApp({ address: cloud.url, keyId, key: new Secret(key), clock: new SystemClock() });
  const app = client(AppService, channel);
  const network = { bind_address: "localhost:0" };
  const set = async (revision: number) => {
    const robotConfig: JsonObject = { ...configOf(revision), network };
    await app.updateRobotPart({ id: example.partId, name: "example", robotConfig });
  };
  await set(0);
  const server = await connect(0);
  const others = await Promise.all(Array.from({ length: OTHERS }, (_, index) => connect(index + 1)));
  await server.wrote("machine is running");
  const applied = await revisions(server);
  // By then they hear of changes: each is asked for once after the start in any case.
  await set(-1);
  await server.wrote(`configuration applied\t{${applied()}`);
  await measured("svc-cloud, by a call", server, applied, set);
  const path = `${folder}/config.json`;
  await measured("svc-cloud, by a command", server, applied, async (revision) => {
    await Deno.writeTextFile(path, JSON.stringify({ ...configOf(revision + SAVES), network }));
    await svcCloud("config", "set", example.partId, path, ...data);
  });
  channel.close();
  for (const one of [server, ...others]) await one.stop();
  await cloud.stop();
  await Deno.remove(folder, { recursive: true });
}

/** A control plane counts revisions itself: each save makes the next one. */
async function revisions(server: ServerProcess): Promise<() => string> {
  await server.wrote("configuration applied");
  const [, first] = /configuration applied.*"revision":"(\d+)"/.exec(server.output())!;
  let next = Number(first);
  return () => `"revision":"${++next}"`;
}

async function measured(
  name: string,
  server: ServerProcess,
  applied: (revision: number) => string,
  save: (revision: number) => Promise<void>,
): Promise<void> {
  const took: number[] = [];
  for (let revision = 1; revision <= SAVES; revision++) {
    const line = `configuration applied\t{${applied(revision)}`;
    const began = performance.now();
    await save(revision);
    await server.wrote(line);
    took.push(performance.now() - began);
  }
  took.sort((a, b) => a - b);
  const at = (share: number) => `${took[Math.min(SAVES - 1, Math.floor(SAVES * share))].toFixed(0)} ms`;
  row(name, `p50 ${at(0.5)}`, `p99 ${at(0.99)}`);
}

function configOf(revision: number): JsonObject {
  const components = Array.from({ length: 10 }, (_, index): JsonObject => ({
    name: `g${index}`,
    api: "rdk:component:generic",
    model: "fake",
    attributes: index === 0 ? { revision } : {},
  }));
  return { revision: `r${revision}`, disable_log_deduplication: true, components };
}
