import { assertEquals } from "@std/assert";
import { packed } from "../../base/files/archive.ts";
import { SystemFiles } from "../../base/files/system_files.ts";
import { DenoHost } from "../../base/host_deno.ts";
import { silentLogs } from "../../base/log/log.ts";
import { SystemClock } from "../../base/clock.ts";
import type { ModuleConfig, PackageConfig } from "../config/config.ts";
import { packageFolder } from "../config/placeholder.ts";
import { MachinePackages } from "./packages.ts";
import { findArchive, wantedPackages } from "./registry_folder.ts";

const ID = "acme:weather";

function wanted(version: string): PackageConfig {
  return { name: "weather", package: ID, version, type: "module" };
}

const VERSIONS: [wanted: string, found: string | undefined][] = [
  ["1.2.0", "1.2.0"],
  ["latest", "2.0.1"],
  ["latest-with-prerelease", "2.0.2-rc1"],
  ["^1.0", "1.10.0"],
  ["1.x", "1.10.0"],
  [">=1.2 <1.10", "1.2.0"],
  ["2.0.2-rc1", "2.0.2-rc1"],
  ["nightly", "nightly"],
  ["^3", undefined],
  ["1.2", "1.2.0"],
  ["no version", undefined],
];

for (const [version, found] of VERSIONS) {
  Deno.test(`findArchive: version ${version} finds ${found} in the registry folder`, async () => {
    await withHome(async (home) => {
      for (const one of ["1.2.0", "1.10.0", "2.0.1", "2.0.2-rc1", "nightly"]) {
        await put(home, `${one}.tar.gz`, one);
      }
      await put(home, "3.0.0.linux-other.tar.gz", "another platform");
      await Deno.writeTextFile(`${home}/registry/module/${ID}/README`, "no archive");
      const archive = await findArchive(home, wanted(version), "linux-amd64", new SystemFiles());
      assertEquals(archive?.version, found);
    });
  });
}

Deno.test("findArchive: prefers an archive for the platform, and refuses ids that leave the folder", async () => {
  await withHome(async (home) => {
    await put(home, "1.0.0.tar.gz", "all");
    await put(home, "1.0.0.linux-amd64.tar.gz", "this one");
    const files = new SystemFiles();
    const found = await findArchive(home, wanted("latest"), "linux-amd64", files);
    assertEquals(found?.path.split("/").at(-1), "1.0.0.linux-amd64.tar.gz");
    for (const id of ["..", "../module/acme:weather", "/etc", ".", "a//b", ""]) {
      assertEquals(
        await findArchive(home, { ...wanted("latest"), package: id }, "linux-amd64", files),
        undefined,
      );
    }
  });
});

Deno.test("MachinePackages: fetch versions from the registry folder, follow latest, and clean unused ones", async () => {
  await withHome(async (home) => {
    const textOf = (version: string) =>
      Deno.readTextFile(`${packageFolder(home, wanted(version))}/what`).catch(() => undefined);
    const folders = async () =>
      (await Array.fromAsync(Deno.readDir(`${home}/packages/data/module`))).map(({ name }) => name).sort();
    await put(home, "1.0.0.tar.gz", "first");
    const packages = machine(home);
    assertEquals(await packages.fetch([wanted("latest"), { ...wanted("1.0.0"), name: "same" }]), true);
    assertEquals([await textOf("latest"), await textOf("1.0.0")], ["first", "first"]);
    await put(home, "1.1.0.tar.gz", "second");
    await packages.fetch([wanted("latest")]);
    await packages.clean([wanted("latest")]);
    assertEquals(await textOf("latest"), "second");
    // A version that was in use a moment ago stays until the next start.
    assertEquals(await folders(), [`${ID}-1_0_0`, `${ID}-1_1_0`, `${ID}-latest`]);
    await packages.close();

    const after = machine(home);
    await Deno.remove(`${home}/registry`, { recursive: true });
    await after.fetch([wanted("latest")]);
    await after.clean([wanted("latest")]);
    assertEquals([await textOf("latest"), await folders()], ["second", [`${ID}-1_1_0`, `${ID}-latest`]]);
    await after.close();
  });
});

Deno.test("MachinePackages: a broken archive gives state failed and leaves no folder", async () => {
  await withHome(async (home) => {
    await put(home, "1.0.0.tar.gz", new Uint8Array([1, 2, 3]));
    const packages = machine(home);
    await packages.fetch([wanted("^1")]);
    const [{ state, error = "" }] = packages.statuses();
    assertEquals([state, error !== ""], ["failed", true]);
    const there = await Deno.stat(packageFolder(home, wanted("^1"))).then(() => true, () => false);
    assertEquals(there, false);
    await packages.close();
  });
});

Deno.test("MachinePackages.haveMoved: notices a new version of latest, and skips an unusable version", async () => {
  await withHome(async (home) => {
    const packages = machine(home);
    const { signal } = new AbortController();
    const latest = wanted("latest");
    const state = async () => [await packages.haveMoved([latest], signal), packages.versionOf(latest)];
    await put(home, "1.0.0.tar.gz", "first");
    await packages.fetch([latest]);
    assertEquals(await state(), [false, "1.0.0"]);
    await put(home, "1.1.0.tar.gz", "second");
    assertEquals(await state(), [true, "1.0.0"]);
    await packages.fetch([latest]);
    assertEquals(await state(), [false, "1.1.0"]);
    await put(home, "1.2.0.tar.gz", new Uint8Array([1, 2, 3]));
    assertEquals(await state(), [true, "1.1.0"]);
    await packages.fetch([latest]);
    assertEquals(await state(), [false, "1.1.0"]);
    assertEquals(await Deno.readTextFile(`${packageFolder(home, latest)}/what`), "second");
    // A version given by its number never moves.
    assertEquals(await packages.haveMoved([wanted("1.0.0")], signal), false);
    await packages.close();
  });
});

Deno.test("MachinePackages.clean: keeps the marker file of a package in use and removes it with the package", async () => {
  await withHome(async (home) => {
    const packages = machine(home);
    await put(home, "1.0.0.tar.gz", "first");
    await packages.fetch([wanted("1.0.0")]);
    const note = `${packageFolder(home, wanted("1.0.0"))}.first_run_succeeded`;
    await Deno.writeTextFile(note, "");
    const isThere = () => Deno.stat(note).then(() => true, () => false);
    await packages.clean([wanted("1.0.0")]);
    assertEquals(await isThere(), true);
    await packages.close();
    // A version that was in use a moment ago stays until the next start.
    const after = machine(home);
    await after.clean([]);
    assertEquals(await isThere(), false);
    await after.close();
  });
});

Deno.test("MachinePackages: a package whose folder somebody removed has its first run again", async () => {
  await withHome(async (home) => {
    const packages = machine(home);
    await put(home, "1.0.0.tar.gz", "first");
    await packages.fetch([wanted("1.0.0")]);
    const folder = packageFolder(home, wanted("1.0.0")), note = `${folder}.first_run_succeeded`;
    await Deno.writeTextFile(note, "");
    const isThere = () => Deno.stat(note).then(() => true, () => false);
    await packages.fetch([wanted("1.0.0")]);
    assertEquals(await isThere(), true);
    await Deno.remove(folder, { recursive: true });
    await packages.fetch([wanted("1.0.0")]);
    assertEquals(await isThere(), false);
    assertEquals(await Deno.readTextFile(`${folder}/what`), "first");
    await packages.close();
  });
});

Deno.test("MachinePackages.clean: a machine that never had a package gets no folder for them", async () => {
  await withHome(async (home) => {
    const packages = machine(home);
    await packages.clean([]);
    assertEquals(await Deno.stat(`${home}/packages`).then(() => true, () => false), false);
    await packages.close();
  });
});

Deno.test("wantedPackages: a registry module adds its package unless it is listed or has an executable_path", () => {
  const module = (more: Partial<ModuleConfig>) =>
    ({ name: "m", type: "registry", moduleId: ID, ...more }) as ModuleConfig;
  const own = { name: "m", package: ID, version: "latest", type: "module" } as const;
  const listed: PackageConfig = { ...own, name: "listed", version: "1.0.0" };
  assertEquals(wantedPackages({ packages: [], modules: [module({})] }), [own]);
  assertEquals(wantedPackages({ packages: [], modules: [module({ version: "^1" })] }), [{
    ...own,
    version: "^1",
  }]);
  assertEquals(wantedPackages({ packages: [listed], modules: [module({})] }), [listed]);
  assertEquals(wantedPackages({ packages: [], modules: [module({ executablePath: "/m" })] }), []);
  assertEquals(wantedPackages({ packages: [], modules: [module({ type: "local" })] }), []);
});

function machine(home: string): MachinePackages {
  const clock = new SystemClock();
  return new MachinePackages({
    home,
    host: new DenoHost(),
    clock,
    logger: silentLogs(clock).logger("packages"),
  });
}

/** Puts an archive with one file into the registry folder, or bytes that are none. */
async function put(home: string, file: string, what: string | Uint8Array): Promise<void> {
  const folder = `${home}/registry/module/${ID}`;
  await Deno.mkdir(folder, { recursive: true });
  await Deno.writeFile(`${folder}/${file}`, typeof what === "string" ? await archive(what) : what);
}

async function archive(text: string): Promise<Uint8Array> {
  const content = new TextEncoder().encode(text);
  const pieces = await Array.fromAsync(packed([{ path: "what", bytes: content.length, content: [content] }]));
  return new Uint8Array(await new Blob(pieces as BlobPart[]).arrayBuffer());
}

async function withHome(use: (home: string) => Promise<void>): Promise<void> {
  const home = await Deno.makeTempDir({ prefix: "svc-registry-" });
  try {
    await use(home);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}
