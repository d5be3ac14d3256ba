import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { DenoHost } from "../../base/host_deno.ts";
import { type Logger, type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { ConfigCache } from "./cache.ts";

async function withCache(
  test: (cache: ConfigCache, bench: { home: string; logger: Logger; records: LogRecord[] }) => Promise<void>,
  { partId = "part-1" } = {},
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-" });
  const home = `${folder}/home`;
  const records: LogRecord[] = [];
  const logs = new Logs(new FakeClock(), [memorySink(records)], { everyLineOf: ["rdk.config"] });
  const logger = logs.logger("rdk.config");
  try {
    await test(new ConfigCache({ home, partId, host: new DenoHost(), logger }), { home, logger, records });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const names = async (folder: string) =>
  (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name).sort();

Deno.test("ConfigCache: read returns the last written configuration, from a file with mode 0600", () =>
  withCache(async (cache, { home, records }) => {
    assertEquals(await cache.read(), undefined);
    await cache.write({ a: 1 });
    await cache.write({ a: 2 });
    assertEquals(await cache.read(), { a: 2 });
    assertEquals(await names(home), ["cached_cloud_config_part-1.json"]);
    if (Deno.build.os !== "windows") assertEquals((await Deno.stat(cache.path)).mode! & 0o777, 0o600);
    assertEquals(records, []);
  }));

Deno.test("ConfigCache: read removes the temporary files of its own part and no other files", () =>
  withCache(async (cache, { home }) => {
    await cache.write({ a: 1 });
    const others = [
      "cached_cloud_config_part-2.json",
      "cached_cloud_config_part-2.json.1234.tmp",
      "notes.tmp",
    ];
    for (const name of [...others, "cached_cloud_config_part-1.json.1a2b3c4d.tmp"]) {
      await Deno.writeTextFile(`${home}/${name}`, '{"a":');
    }
    assertEquals(await cache.read(), { a: 1 });
    assertEquals(await names(home), ["cached_cloud_config_part-1.json", ...others]);
  }));

Deno.test("ConfigCache: a failed write keeps the previous configuration, at whichever step it fails", () =>
  withCache(async (cache, { home, logger }) => {
    await cache.write({ a: 1 });
    for (const step of ["makeFolder", "writeFile"] as const) {
      const host = new DenoHost();
      host[step] = () => Promise.reject(new SvcError("unknown", "the disk is full"));
      const broken = new ConfigCache({ home, partId: "part-1", host, logger });
      await assertRejects(() => broken.write({ a: 2 }), SvcError, "the disk is full");
      assertEquals(await cache.read(), { a: 1 });
    }
  }));

Deno.test("ConfigCache: a part id with slashes does not lead out of the folder", () =>
  withCache(async (cache, { home }) => {
    await cache.write({});
    assertEquals(await names(home), ["cached_cloud_config__etc_passwd.json"]);
  }, { partId: "../etc/passwd" }));

Deno.test("ConfigCache: read deletes a truncated or non-object file with a warning", () =>
  withCache(async (cache, { records }) => {
    const whole = JSON.stringify({ cloud: { tls_certificate: "x" }, components: [1, 2] });
    const broken = [
      ...Array.from({ length: whole.length }, (_, length) => whole.slice(0, length)),
      "[]",
      "null",
      "1",
    ];
    await cache.write({});
    for (const text of broken) {
      await Deno.writeTextFile(cache.path, text);
      assertEquals(await cache.read(), undefined);
      assertEquals(records.splice(0).map(({ level, message }) => `${level} ${message}`), [
        `warn ${cache.path} holds no configuration and is deleted`,
      ]);
      assertEquals(await cache.read(), undefined);
      assertEquals(records, []);
    }
  }));

Deno.test({
  name: "ConfigCache: read warns about an unreadable file and keeps it",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withCache(async (cache, { home, records }) => {
      await Deno.mkdir(`${home}/cached_cloud_config_part-1.json`, { recursive: true });
      assertEquals(await cache.read(), undefined);
      assertEquals(records.map(({ level }) => level), ["warn"]);
    }),
});

Deno.test({
  name: "ConfigCache: after SIGKILL during a write the file is whole, with the old or the new configuration",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withCache(async (cache, { home, records }) => {
      const program = new URL("../../../tests/e2e/cache_writer.ts", import.meta.url).pathname;
      for (let round = 0; round < 8; round++) {
        const child = new Deno.Command(Deno.execPath(), {
          args: ["run", "-A", program, home, "part-1"],
          stdout: "piped",
          stderr: "inherit",
        }).spawn();
        // The process reports each revision before it writes it, and is killed during the next one.
        let begun = "";
        for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
          begun += chunk;
          if (begun.split("\n").length > 2 + round) {
            child.kill("SIGKILL");
            break;
          }
        }
        await child.status;
        const { revision, end } = await cache.read() as JsonObject;
        assertEquals(revision, end);
        assertEquals(await names(home), ["cached_cloud_config_part-1.json"]);
      }
      assertEquals(records, []);
    }),
});
