/** Installed packages of modules whose program is gone: they are installed again, at the next start, and only they. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { createHash } from "node:crypto";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { until } from "../../../tests/support/until.ts";
import { PackageSchema } from "../../../proto/gen/packages_pb.ts";
import { packed } from "../../base/files/archive.ts";
import { SvcError } from "../../base/error.ts";
import { DenoHost } from "../../base/host_deno.ts";
import { type LogRecord, Logs } from "../../base/log/log.ts";
import { create } from "../../wire/rpc/proto.ts";
import type { ModuleConfig, PackageConfig } from "../config/config.ts";
import { packageFolder } from "../config/placeholder.ts";
import { MachinePackages } from "./packages.ts";
import { wantedPackages } from "./registry_folder.ts";

const ID = "acme:weather";
const SCRIPT = "#!/bin/sh\n";

interface Scene {
  readonly home: string;
  readonly clock: FakeClock;
  readonly logged: LogRecord[];
  /** The downloads so far. */
  downloads(): number;
  /** The control plane answers no more, or again. */
  away(isAway: boolean): void;
  /** A start of the machine. */
  start(): MachinePackages;
  path(name: string): string;
  /** The packages of a configuration with this module; `program` is in the package. */
  wanted(program?: string): ReturnType<typeof wantedPackages>;
}

interface SceneOptions {
  readonly version?: string;
  readonly files?: Readonly<Record<string, string>>;
  /** From the machine's registry folder, in place of a control plane. */
  readonly near?: boolean;
}

async function withScene(
  { version = "1.0.0", files = { "run.sh": SCRIPT, data: "rain" }, near = false }: SceneOptions,
  run: (scene: Scene) => Promise<void>,
): Promise<void> {
  const home = await Deno.makeTempDir({ prefix: "svc-damage-" });
  const clock = new FakeClock();
  const logged: LogRecord[] = [];
  const logger = new Logs(clock, [(record: LogRecord) => void logged.push(record)]).logger("packages");
  const bytes = await archiveOf(files);
  if (near) {
    await Deno.mkdir(`${home}/registry/module/${ID}`, { recursive: true });
    await Deno.writeFile(`${home}/registry/module/${ID}/1.0.0.tar.gz`, bytes);
  }

  let downloads = 0, isAway = near;
  const server = Deno.serve({ port: 0, hostname: "localhost", onListen: () => {} }, () => {
    downloads++;
    return new Response(bytes);
  });
  const checksum = createHash("sha256").update(bytes).digest("hex");
  const url = `http://localhost:${server.addr.port}/weather.tar.gz`;
  const answer = create(PackageSchema, { url, checksum, info: { version: "1.0.0" } });
  const client = {
    partId: "part",
    package: () =>
      isAway ? Promise.reject(new SvcError("unavailable", "it is away")) : Promise.resolve(answer),
  };
  const machines: MachinePackages[] = [];
  const folder = packageFolder(home, { name: "m", package: ID, version, type: "module" });
  try {
    await run({
      home,
      clock,
      logged,
      downloads: () => downloads,
      away: (now) => void (isAway = now),
      start: () => {
        machines.push(new MachinePackages({ home, client, host: new DenoHost(), clock, logger }));
        return machines.at(-1)!;
      },
      path: (name) => `${folder}/${name}`,
      wanted: (program) => {
        const executablePath = program === undefined ? undefined : `${folder}/${program}`;
        const module = { name: "m", type: "registry", moduleId: ID, version, executablePath } as ModuleConfig;
        const own: PackageConfig = { name: "m", package: ID, version, type: "module" };
        return wantedPackages({ packages: program === undefined ? [] : [own], modules: [module] });
      },
    });
  } finally {
    for (const one of machines) await one.close();
    await server.shutdown();
    await Deno.remove(home, { recursive: true });
  }
}

async function archiveOf(files: Readonly<Record<string, string>>): Promise<Uint8Array<ArrayBuffer>> {
  const entries = Object.entries(files).map(([path, text]) => {
    const content = new TextEncoder().encode(text);
    return { path, bytes: content.length, executable: path.endsWith(".sh"), content: [content] };
  });
  const pieces = await Array.fromAsync(packed(entries));
  return new Uint8Array(await new Blob(pieces as BlobPart[]).arrayBuffer());
}

const META = JSON.stringify({ entrypoint: "./bin/run.sh" });
const DAMAGES: readonly (readonly [
  what: string,
  options: SceneOptions,
  program: string | undefined,
  damage: (path: Scene["path"]) => Promise<void>,
  reason: string,
])[] = [
  ["an empty program", {}, "run.sh", (path) => Deno.writeTextFile(path("run.sh"), ""), "run.sh is empty"],
  ["a missing program", {}, "run.sh", (path) => Deno.remove(path("run.sh")), "run.sh is missing"],
  [
    "a missing program of meta.json",
    { files: { "meta.json": META, "bin/run.sh": SCRIPT } },
    undefined,
    (path) => Deno.remove(path("bin"), { recursive: true }),
    "run.sh is missing",
  ],
  [
    "an empty meta.json",
    { files: { "meta.json": META, "bin/run.sh": SCRIPT } },
    "bin/run.sh",
    (path) => Deno.truncate(path("meta.json")),
    "meta.json is empty",
  ],
  [
    "an empty program of a moving version",
    { version: "latest" },
    "run.sh",
    (path) => Deno.truncate(path("run.sh")),
    "run.sh is empty",
  ],
];

for (const near of [false, true]) {
  const from = near ? "the registry folder" : "the control plane";
  for (const [what, options, program, damage, reason] of DAMAGES) {
    Deno.test(`MachinePackages: a package with ${what} is installed again from ${from}, once`, async () => {
      await withScene({ ...options, near }, async ({ home, start, wanted, path, downloads, logged }) => {
        await start().fetch(wanted(program));
        const whole = await contentOf(home);
        await damage(path);
        const again = start();
        await again.fetch(wanted(program));
        assertEquals([await contentOf(home), again.statuses()[0]!.state], [whole, "ready"]);
        const warned = logged.filter(({ level }) => level === "warn").map(({ message }) => message);
        assertEquals(warned.length, 1);
        assertStringIncludes(warned[0]!, reason);
        await again.fetch(wanted(program));
        assertEquals(downloads(), near ? 0 : 2);
      });
    });
  }
}

/** Every file of the packages with its content. */
async function contentOf(home: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  const walk = async (folder: string) => {
    for await (const { name, isDirectory } of Deno.readDir(folder)) {
      const path = `${folder}/${name}`;
      if (isDirectory) await walk(path);
      else found[path] = await Deno.readTextFile(path).catch(() => "a link");
    }
  };
  await walk(`${home}/packages/data`);
  return found;
}

Deno.test("MachinePackages: a whole package is not fetched again, whatever else changed in its folder", async () => {
  await withScene({}, async ({ start, wanted, path, downloads, away }) => {
    await start().fetch(wanted("run.sh"));
    away(true);
    await Deno.writeTextFile(path("data"), "");
    await Deno.writeTextFile(path("more"), "a module's own");
    const again = start();
    await again.fetch(wanted("run.sh"));
    assertEquals([again.statuses()[0]!.state, downloads()], ["ready", 1]);
    assertEquals(await Deno.readTextFile(path("more")), "a module's own");
  });
});

Deno.test("MachinePackages: a program that no version of the package has costs one download a start", async () => {
  await withScene({}, async ({ start, wanted, downloads }) => {
    await start().fetch(wanted("other.sh"));
    assertEquals(downloads(), 1);
    const again = start();
    for (let pass = 0; pass < 3; pass++) await again.fetch(wanted("other.sh"));
    assertEquals([downloads(), again.statuses()[0]!.state], [2, "ready"]);
  });
});

Deno.test("MachinePackages: a damaged package stays until its replacement is there, and holds nothing back", async () => {
  await withScene({}, async ({ clock, start, wanted, path, away }) => {
    const packages = start();
    await packages.fetch(wanted("run.sh"));
    await Deno.truncate(path("run.sh"));
    away(true);
    const prepared = packages.fetch(wanted("run.sh"));
    await until(async () => {
      await clock.advance(500);
      return packages.statuses()[0]?.state === "failed";
    });
    assertEquals(await prepared, true, "the configuration changes, although the control plane is away");
    assertEquals(await Deno.readTextFile(path("data")), "rain");
    assertStringIncludes(packages.statuses()[0]!.error!, "it is away");

    away(false);
    await until(async () => {
      await clock.advance(5_000);
      return packages.statuses()[0]!.state === "ready";
    });
    assertEquals(await Deno.readTextFile(path("run.sh")), SCRIPT);
  });
});
