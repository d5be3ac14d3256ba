/**
 * Packages: their retention, the choice of versions, and contents that appear and disappear.
 */

import { assertEquals } from "@std/assert";
import { CONTENT_TABLES, keepFile, releaseFile, releaseOrphans } from "../../lib/cloud/store/file_refs.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import { type NewPackage, Packages } from "../../lib/cloud/packages/packages.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { Organizations } from "../../lib/cloud/tenants/organizations.ts";
import { assertRefused } from "../support/refusals.ts";
import { newWorld } from "./world.ts";
import { storeTest } from "./stores.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { awaitOutcome } from "../support/outcome.ts";

const FILE = { sha256: "a".repeat(64), bytes: 3 };

async function add(store: Store, info: Partial<NewPackage> & { organizationId: string }, nowMs = 0) {
  const whole: NewPackage = {
    name: "fruit",
    version: "1.0.0",
    type: "ml_model",
    platform: "",
    metadata: {},
    file: FILE,
    ...info,
  };
  return await store.transaction((sql) => new Packages(sql).add(whole, nowMs));
}

storeTest(
  "Packages.find resolves versions, ranges and channels under both spellings of an id",
  async (database) => {
    const store = await database.open();
    const { organization: organizationId } = await newWorld(store);
    await store.transaction((sql) => new Packages(sql).setNamespace(organizationId, "acme"));
    let nowMs = 0;
    for (const version of ["1.0.0", "2.1.0", "2.2.0-rc1", "1.5.0"]) {
      await add(store, { organizationId, version, metadata: { version } }, ++nowMs);
    }
    const packages = new Packages(store);
    const meant: Record<string, string> = {};
    for (
      const version of ["1.0.0", "latest", "latest-with-prerelease", "", "stable", "dev", "^1", "~2.1", ">=2"]
    ) {
      meant[version] = (await packages.find(`${organizationId}/fruit`, version)).version;
    }
    assertEquals(meant, {
      "1.0.0": "1.0.0",
      // A correction of an older line takes nobody back.
      "latest": "2.1.0",
      "latest-with-prerelease": "2.2.0-rc1",
      "": "2.1.0",
      "stable": "2.1.0",
      "dev": "2.2.0-rc1",
      "^1": "1.5.0",
      "~2.1": "2.1.0",
      ">=2": "2.1.0",
    });
    for (const id of [`${organizationId}:fruit`, "acme:fruit", "acme/fruit"]) {
      assertEquals((await packages.find(id, "1.0.0")).metadata, { version: "1.0.0" });
    }
    assertEquals(await awaitOutcome(packages.find("acme:fruit", "^3")), "not_found");
    assertEquals(await awaitOutcome(packages.find("acme:vegetable", "latest")), "not_found");
    assertEquals(await awaitOutcome(packages.find("fruit", "latest")), "invalid_argument");
    assertEquals(
      await packages.has(organizationId, { name: "fruit", version: "1.0.0", kind: "ml_model" }),
      true,
    );
    assertEquals(
      await packages.has(organizationId, { name: "fruit", version: "1.0.0", kind: "module" }),
      false,
    );
  },
);

storeTest("latest leaves out prereleases, unless a package has nothing else", async (database) => {
  const store = await database.open();
  const { organization: organizationId } = await newWorld(store);
  let nowMs = 0;
  const found = async (version: string) => {
    await add(store, { organizationId, version }, ++nowMs);
    const words = ["latest", "", "latest-with-prerelease"];
    const packages = new Packages(store);
    return await Promise.all(
      words.map(async (word) => (await packages.find(`${organizationId}/fruit`, word)).version),
    );
  };
  assertEquals(await found("1.0.0-rc.1"), ["1.0.0-rc.1", "1.0.0-rc.1", "1.0.0-rc.1"]);
  assertEquals(await found("1.0.0"), ["1.0.0", "1.0.0", "1.0.0"]);
  assertEquals(await found("1.1.0-rc.1"), ["1.0.0", "1.0.0", "1.1.0-rc.1"]);
  assertEquals(await found("1.1.0-rc.2"), ["1.0.0", "1.0.0", "1.1.0-rc.2"]);
  assertEquals(await found("1.0.10"), ["1.0.10", "1.0.10", "1.1.0-rc.2"]);
  assertEquals(await found("1.0.9"), ["1.0.10", "1.0.10", "1.1.0-rc.2"]);
  assertEquals(await found("2026-11-28"), ["2026-11-28", "2026-11-28", "2026-11-28"]);
  assertEquals(await found("1.0.11"), ["1.0.11", "1.0.11", "1.1.0-rc.2"]);
});

storeTest("a package version exists once per platform and is immutable", async (database) => {
  const store = await database.open();
  const { organization: organizationId } = await newWorld(store);
  const module = { organizationId, type: "module" as const };
  await add(store, { ...module, platform: "linux/amd64" });
  await add(store, { ...module, platform: "linux/any", version: "1.1.0" }, 1);
  assertEquals(await awaitOutcome(add(store, { ...module, platform: "linux/amd64" })), "already_exists");
  assertEquals(await awaitOutcome(add(store, { organizationId, version: "2.0.0" })), "already_exists");
  assertEquals(await awaitOutcome(add(store, { ...module, platform: "amiga" })), "invalid_argument");
  assertEquals(await awaitOutcome(add(store, { ...module, version: "stable" })), "invalid_argument");
  assertEquals(await awaitOutcome(add(store, { ...module, name: "../etc" })), "invalid_argument");
  const packages = new Packages(store);
  const id = `${organizationId}/fruit`;
  assertEquals((await packages.find(id, "latest", "linux/arm64")).version, "1.1.0");
  assertEquals((await packages.find(id, "^1", "linux/amd64")).version, "1.1.0");
  assertEquals((await packages.find(id, "1.0.0", "linux/amd64")).platform, "linux/amd64");
  assertEquals(await awaitOutcome(packages.find(id, "latest", "windows/amd64")), "not_found");
});

storeTest("a public namespace is set once and belongs to one organization", async (database) => {
  const store = await database.open();
  const [mine, other] = [await newWorld(store), await newWorld(store)];
  const name = (organization: string, namespace: string) =>
    store.transaction((sql) => new Packages(sql).setNamespace(organization, namespace));
  await name(mine.organization, "acme");
  await name(mine.organization, "acme");
  assertEquals(await awaitOutcome(name(mine.organization, "better")), "failed_precondition");
  assertEquals(await awaitOutcome(name(other.organization, "acme")), "already_exists");
  assertEquals(await awaitOutcome(name(other.organization, "No Good")), "invalid_argument");
});

storeTest(
  "nobody gets the public namespace of a deleted organization but from the operator",
  async (database) => {
    const store = await database.open();
    const { organization } = await newWorld(store);
    const change = <T>(work: (packages: Packages, organizations: Organizations) => Promise<T>) =>
      store.transaction((sql) => work(new Packages(sql), new Organizations(sql)));
    for (const [name, namespace] of [["gone", "acme"], ["nameless", undefined]]) {
      await change(async (packages, organizations) => {
        const id = await organizations.create(name!, 0);
        if (namespace) await packages.setNamespace(id, namespace);
        await organizations.delete(id);
      });
    }
    const packages = new Packages(store);
    assertEquals([await packages.isNamespaceFree("acme"), await packages.isNamespaceFree("acme-2")], [
      false,
      true,
    ]);
    await assertRefused(
      "already_exists",
      "deleted organization",
      () => change((packages) => packages.setNamespace(organization, "acme")),
    );
    await change((packages) => packages.setNamespace(organization, "acme", { fromDeleted: true }));
    assertEquals((await new Organizations(store).get(organization)).namespace, "acme");
  },
);

storeTest("a stored content is deleted with the last package that refers to it", async (database) => {
  const store = await database.open();
  const { organization: organizationId } = await newWorld(store);
  const files = await FolderFiles.open(new SystemFiles(), `${database.folder}/files`, { olderThanMs: 0 });
  const content = async function* () {
    yield new TextEncoder().encode("abc");
  };
  const keep = (name: string) =>
    keepFile(store, files, content(), 10, async (file) => {
      await add(store, { organizationId, name, file });
      return file.sha256;
    });
  const remove = async (name: string) => {
    const gone = await store.transaction((sql) =>
      new Packages(sql).delete(`${organizationId}:${name}`, "1.0.0")
    );
    for (const one of gone) await releaseFile(store, files, one);
  };
  const sha256 = await keep("one");
  await keep("two");
  assertEquals(await awaitOutcome(keep("two")), "already_exists");
  await remove("one");
  assertEquals(await files.size(sha256), 3);
  await remove("two");
  assertEquals(await awaitOutcome(files.size(sha256)), "not_found");
  await keep("three");
  // Others remove and upload the same content all the time: an acknowledged content is there.
  for (let round = 0; round < 10; round++) {
    await Promise.all([remove("three"), keep(`more-${round}`)]);
    assertEquals(await files.size(sha256), 3);
    await Promise.all([remove(`more-${round}`), keep("three")]);
    assertEquals(await files.size(sha256), 3);
  }
  await remove("three");
  assertEquals([...Deno.readDirSync(`${database.folder}/files`)].filter(({ isFile }) => isFile), []);
});

storeTest("leftovers of a killed upload are removed once they are old", async (database) => {
  const store = await database.open();
  const { organization: organizationId } = await newWorld(store);
  const files = await FolderFiles.open(new SystemFiles(), `${database.folder}/files`, { olderThanMs: 0 });
  const text = async function* (value: string) {
    yield new TextEncoder().encode(value);
  };
  const [orphan, own] = [await files.put(text("left")), await files.put(text("wanted"))];
  await add(store, { organizationId, file: own });
  const { signal } = new AbortController();
  await releaseOrphans(store, files, 1_000, signal);
  assertEquals(await files.size(orphan.sha256), 4);
  await releaseOrphans(store, files, Date.now() + 60_000, signal);
  assertEquals(await awaitOutcome(files.size(orphan.sha256)), "not_found");
  assertEquals(await files.size(own.sha256), 6);
});

storeTest("every table with contents counts as a reference to them", async (database) => {
  const store = await database.open();
  const text = database.kind === "sqlite"
    ? `SELECT m.name AS name FROM sqlite_master m JOIN pragma_table_info(m.name) c
       WHERE m.type = 'table' AND c.name = 'sha256'`
    : `SELECT table_name AS name FROM information_schema.columns
       WHERE column_name = 'sha256' AND table_schema = current_schema()`;
  const tables = await store.query<{ name: string }>(text);
  assertEquals(tables.map(({ name }) => name).sort(), [...CONTENT_TABLES].sort());
});
