/**
 * Packages on their way to a machine: fetched once, checked, whole or not there, and replaced by newer ones.
 */

import { assert, assertEquals } from "@std/assert";
import { packed } from "../../lib/base/files/archive.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { type LogRecord, Logs } from "../../lib/base/log/log.ts";
import { Secret } from "../../lib/base/secret.ts";
import { CloudClient } from "../../lib/cloud_client/client.ts";
import { keepFile } from "../../lib/cloud/store/file_refs.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import { Packages } from "../../lib/cloud/packages/packages.ts";
import { PartConfigs } from "../../lib/cloud/config/part_config.ts";
import { configText } from "../../lib/cloud/config/resolution.ts";
import { MachinePackages } from "../../lib/machine/packages/packages.ts";
import { packageFolder } from "../../lib/machine/config/placeholder.ts";
import type { PackageConfig } from "../../lib/machine/config/settings.ts";
import { newKey, newWorld, type ServedCloud, withCloud, type World } from "./world.ts";
import { storeTest, type TestDatabase } from "./stores.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";

interface Bench {
  readonly home: string;
  readonly world: World;
  readonly client: CloudClient;
  readonly logged: LogRecord[];
  /** Adds a version whose one file says this; with bytes, whatever they are. */
  publish(version: string, content: string | Uint8Array): Promise<string>;
  machine(client?: Pick<CloudClient, "package" | "partId">): MachinePackages;
  config(version: string): PackageConfig;
  text(version: string): Promise<string | undefined>;
}

async function withBench(
  database: TestDatabase,
  served: ServedCloud,
  run: (bench: Bench) => Promise<void>,
): Promise<void> {
  const clock = new SystemClock();
  const world = await newWorld(served.store);
  const home = `${database.folder}/home`;
  const files = await FolderFiles.open(new SystemFiles(), `${database.folder}/files`, { olderThanMs: 0 });
  const { id: entity, key } = await newKey(served.store, "operator", "machine", world.machine);
  const client = new CloudClient({
    address: served.url,
    partId: world.part,
    credentials: { type: "api-key", entity, payload: new Secret(key) },
    allowInsecureCredentials: true,
    agent: {},
    clock,
  });
  const logged: LogRecord[] = [];
  const logs = new Logs(clock, [(record: LogRecord) => void logged.push(record)]);
  const machines: MachinePackages[] = [];
  const config = (version: string): PackageConfig => ({
    name: "fruit",
    package: `${world.organization}/fruit`,
    version,
    type: "ml_model",
  });
  try {
    await run({
      home,
      world,
      client,
      logged,
      config,
      publish: async (version, content) => {
        const bytes = typeof content === "string" ? await archive(content) : content;
        const chunks = (async function* () {
          yield bytes;
        })();
        return await keepFile(served.store, files, chunks, 1e9, async (file) => {
          const info = {
            name: "fruit",
            version,
            type: "ml_model",
            platform: "",
            metadata: {},
            file,
          } as const;
          const organizationId = world.organization;
          await served.store.transaction((sql) =>
            new Packages(sql).add({ ...info, organizationId }, clock.nowMs())
          );
          return file.sha256;
        });
      },
      machine: (chosen = client) => {
        const logger = logs.logger("packages");
        machines.push(new MachinePackages({ home, client: chosen, host: new DenoHost(), clock, logger }));
        return machines.at(-1)!;
      },
      text: (version) =>
        Deno.readTextFile(`${packageFolder(home, config(version))}/labels.txt`).catch(() => undefined),
    });
  } finally {
    for (const one of machines) await one.close();
    client.close();
  }
}

async function archive(text: string): Promise<Uint8Array> {
  const content = new TextEncoder().encode(text);
  const chunks: Uint8Array[] = [];
  for await (const chunk of packed([{ path: "labels.txt", bytes: content.length, content: [content] }])) {
    chunks.push(chunk);
  }
  return new Uint8Array(await new Blob(chunks as Uint8Array<ArrayBuffer>[]).arrayBuffer());
}

storeTest(
  "a package is fetched once, replaced by the next version, and removed when it is unused",
  (database) =>
    withCloud(
      database,
      (served) =>
        withBench(database, served, async ({ publish, machine, config, text, home }) => {
          await publish("1.0.0", "apple");
          const packages = machine();
          assertEquals(await packages.fetch([config("1.0.0")]), true);
          assertEquals(await text("1.0.0"), "apple");
          await packages.clean([config("1.0.0")]);
          // It is not fetched again, not even asked for: the control plane may be away.
          const away = {
            partId: "p",
            package: () => Promise.reject(new Error("asked")),
          };
          assertEquals(await machine(away).fetch([config("1.0.0")]), true);
          await publish("1.1.0", "pear");
          assertEquals(await packages.fetch([config("1.1.0")]), true);
          assertEquals([await text("1.0.0"), await text("1.1.0")], ["apple", "pear"]);
          await packages.clean([config("1.1.0")]);
          assertEquals([await text("1.0.0"), await text("1.1.0")], [undefined, "pear"]);
          // Another part's program that starts from the same home does not take it away.
          await machine({ ...away, partId: "another" }).clean([]);
          assertEquals(await text("1.1.0"), "pear");
          await packages.clean([]);
          assertEquals(await text("1.1.0"), undefined);
          assertEquals(
            [...Deno.readDirSync(`${home}/packages`)].map(({ name }) => name).filter((name) =>
              name === "downloads"
            ),
            [],
          );
        }),
    ),
);

storeTest(
  "an interrupted download resumes, and wrong content is discarded",
  (database) =>
    withCloud(
      database,
      (served) =>
        withBench(database, served, async ({ publish, machine, config, text, home, client, logged }) => {
          const noise = Array.from(crypto.getRandomValues(new Uint8Array(60_000)), (one) => one.toString(36))
            .join("");
          const sha256 = await publish("1.0.0", noise);
          const whole = new Uint8Array(
            await (await fetch((await client.package({ id: config("1.0.0").package, version: "1.0.0" })).url))
              .arrayBuffer(),
          );
          const part = `${home}/packages/downloads/${sha256}.part`;
          await Deno.mkdir(`${home}/packages/downloads`, { recursive: true });
          for (const bytes of [20_000, whole.length]) {
            await Deno.writeFile(part, whole.slice(0, bytes));
            assertEquals(await machine().fetch([config("1.0.0")]), true);
            assertEquals(await text("1.0.0"), noise);
            await Deno.remove(packageFolder(home, config("1.0.0")), { recursive: true });
          }
          // The partial file is not the beginning of the package: the download notices it, and starts again at the next
          // attempt.
          await Deno.writeFile(part, new Uint8Array(100));
          const spoilt = machine();
          assertEquals(await spoilt.fetch([config("1.0.0")]), true);
          assertEquals([
            await text("1.0.0"),
            logged.some(({ message }) => message.includes("SHA-256")),
          ], [undefined, true]);
          assertEquals(await spoilt.fetch([config("1.0.0")]), true);
          assertEquals(await text("1.0.0"), noise);
        }),
    ),
);

storeTest(
  "an unavailable package is reported, and does not block others",
  (database) =>
    withCloud(
      database,
      (served) =>
        withBench(database, served, async ({ publish, machine, config, text, home, logged }) => {
          await publish("1.0.0", "apple");
          await publish("2.0.0", new TextEncoder().encode("this is no archive"));
          const packages = machine();
          const wanted = [config("9.9.9"), { ...config("2.0.0"), name: "spoilt" }, {
            ...config("1.0.0"),
            name: "good",
          }];
          assertEquals(await packages.fetch(wanted), true);
          assertEquals(await text("1.0.0"), "apple");
          const errors = logged.filter(({ level }) => level === "error").map(({ message }) => message)
            .toSorted();
          assertEquals(errors.length, 2, errors.join("\n"));
          assert(errors[0].includes('there is no version "9.9.9"'), errors[0]);
          assert(errors[1].includes(".tar.gz"), errors[1]);
          assertEquals(packages.statuses().map(({ state }) => state), ["failed", "failed", "ready"]);
          assertEquals([...Deno.readDirSync(`${home}/packages/data/ml_model`)].length, 1);
        }),
    ),
);

storeTest(
  "a fetch that waits for the control plane ends when a newer configuration comes",
  (database) =>
    withCloud(
      database,
      (served) =>
        withBench(database, served, async ({ publish, machine, client, config, text }) => {
          await publish("1.0.0", "apple");
          let away = false;
          const sometimes = {
            partId: "p",
            package: (...asked: Parameters<CloudClient["package"]>) =>
              away ? Promise.reject(new SvcError("unavailable", "away")) : client.package(...asked),
          };
          const packages = machine(sometimes);
          assertEquals(await packages.fetch([config("1.0.0")]), true);
          away = true;
          await publish("2.0.0", "pear");
          const waiting = packages.fetch([config("2.0.0")]);
          await publish("3.0.0", "plum");
          away = false;
          assertEquals(await packages.fetch([config("3.0.0")]), true);
          assertEquals(await waiting, false);
          assertEquals([await text("2.0.0"), await text("3.0.0")], [undefined, "plum"]);
        }),
    ),
);

storeTest(
  "a package version that is a range resolves to the newest match at each poll",
  (database) =>
    withCloud(database, async (served) => {
      await withBench(database, served, async ({ publish, config, world, client }) => {
        const set = (version: string) =>
          served.store.transaction((sql) =>
            new PartConfigs(sql).set(
              world.part,
              configText({ packages: [{ ...config(version) }] }),
              "test",
              Date.now(),
            )
          );
        const seen = async () => {
          const { packages, revision } = await client.config();
          return [packages[0].version, revision.split("+").slice(1).join("+")];
        };
        const id = config("").package;
        await set("^1");
        assertEquals(await seen(), ["^1", `${id}@none`]);
        await publish("1.0.0", "apple");
        assertEquals(await seen(), ["1.0.0", `${id}@1.0.0`]);
        await publish("1.2.0", "pear");
        await publish("2.0.0", "plum");
        assertEquals(await seen(), ["1.2.0", `${id}@1.2.0`]);
        await set("2.0.0");
        assertEquals(await seen(), ["2.0.0", ""]);
      });
    }),
);
