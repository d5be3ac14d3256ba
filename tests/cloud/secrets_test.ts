/**
 * The control plane's own keys: out of the database, the same for all who share it, and replaced while they are used.
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { X509Certificate } from "node:crypto";
import { SystemClock } from "../../lib/base/clock.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { type LogRecord, Logs, memorySink } from "../../lib/base/log/log.ts";
import { Authority } from "../../lib/cloud/store/secrets/authority.ts";
import { SECRET_KINDS, type SecretName } from "../../lib/cloud/store/secrets/secret_kinds.ts";
import { MIGRATIONS } from "../../lib/cloud/store/migrations.ts";
import { Secrets } from "../../lib/cloud/store/secrets/secrets.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { svcCloud } from "./program.ts";
import { sqliteTest, storeTest, type TestDatabase } from "./stores.ts";
import { newWorld } from "./world.ts";
import { moving, until } from "../support/until.ts";
import { migrate } from "../../lib/cloud/store/open_store.ts";

const NAMES = Object.keys(SECRET_KINDS) as SecretName[];
const DAY_MS = 24 * 3600 * 1000;

function partsOf(database: TestDatabase, store: Store, records: LogRecord[] = []) {
  const clock = new FakeClock();
  const logger = new Logs(new SystemClock(), [memorySink(records)]).logger("keys");
  return { store, host: new DenoHost(), folder: `${database.folder}/keys`, clock, logger };
}

async function refusal(run: Promise<unknown>): Promise<string> {
  const error = await assertRejects(() => run, SvcError);
  assertEquals(error.code, "failed_precondition");
  return error.message;
}

storeTest("secret keys are stored in files with mode 0600 and never in the database", async (database) => {
  const store = await database.open();
  const parts = partsOf(database, store);
  const secrets = await Secrets.open(parts);
  assertEquals((await Deno.stat(parts.folder)).mode! & 0o777, 0o700);
  const rows = JSON.stringify(await store.query("SELECT * FROM secrets"));
  for (const name of NAMES) {
    const path = `${parts.folder}/${name}.json`;
    assertEquals((await Deno.stat(path)).mode! & 0o777, 0o600);
    const [value] = secrets.good(name);
    assert(value.length >= 32 && !rows.includes(value.slice(-32)), name);
  }
  // Another process gets the same ones.
  const again = await Secrets.open(partsOf(database, await database.open()));
  for (const name of NAMES) assertEquals(again.good(name), secrets.good(name));
  await Deno.chmod(`${parts.folder}/token.json`, 0o644);
  assertStringIncludes(await refusal(Secrets.open(parts)), "chmod 600");
});

storeTest("control planes that open a new database at the same time get the same keys", async (database) => {
  const opened = await Promise.all([1, 2, 3].map(async () => {
    return await Secrets.open(partsOf(database, await database.open()));
  }));
  for (const name of NAMES) {
    assertEquals(new Set(opened.map((one) => one.good(name).join())).size, 1, name);
  }
});

storeTest(
  "Secrets.open moves the keys of an older version out of the database and erases their bytes",
  async (database) => {
    const store = await database.open();
    const old: Record<string, string> = {};
    for (const name of NAMES) {
      const value = await SECRET_KINDS[name].make(0, undefined);
      old[name] = value;
      await store.transaction((sql) =>
        sql.query("INSERT INTO secrets (name, value) VALUES (?, ?)", SECRET_KINDS[name].earlier, value)
      );
    }
    const parts = partsOf(database, store);
    const secrets = await Secrets.open(parts);
    for (const name of NAMES) assertEquals(secrets.good(name), [old[name]]);
    const rows = await store.query<{ name: string; value: string }>("SELECT name, value FROM secrets");
    assertEquals(rows.map(({ name }) => name).sort(), NAMES.map((name) => `id of ${name}`).sort());
    // PostgreSQL keeps its files elsewhere.
    for (const file of database.kind === "sqlite" ? ["cloud.db", "cloud.db-wal"] : []) {
      const bytes = new TextDecoder("latin1").decode(await Deno.readFile(`${database.folder}/${file}`));
      for (const name of NAMES) {
        const secret = /-----BEGIN PRIVATE KEY-----(?:\\n|\n)([\w+/]+)/.exec(old[name])?.[1] ?? old[name];
        assert(!bytes.includes(secret), `${file} has the ${name} key`);
      }
    }
  },
);

/** A part as its tables were before hosts had names of their own. */
async function oldPart(store: Store): Promise<string> {
  await store.transaction(async (sql) => {
    await sql.query("INSERT INTO organizations (id, name, created_ms) VALUES ('o', 'o', 0)");
    await sql.query(
      "INSERT INTO locations (id, organization_id, name, created_ms) VALUES ('l', 'o', 'l', 0)",
    );
    await sql.query("INSERT INTO machines (id, location_id, name, created_ms) VALUES ('m', 'l', 'rover', 0)");
    await sql.query(
      "INSERT INTO parts (id, machine_id, name, main, created_ms) VALUES ('p', 'm', 'main', 1, 0)",
    );
  });
  return "p";
}

storeTest(
  "keys of machines are encrypted, each for its part, and those of an older version are gone",
  async (database) => {
    const store = database.connect();
    const sealing = MIGRATIONS.findIndex((step) => step.some((text) => String(text).includes("sealed_key")));
    await migrate(store, sealing);
    const part = await oldPart(store);
    const plain = "-----BEGIN PRIVATE KEY-----\nof an older version";
    await store.transaction((sql) =>
      sql.query(
        "INSERT INTO certificates (part_id, names, certificate, private_key, renew_ms) VALUES (?, ?, ?, ?, ?)",
        part,
        "rover",
        "a certificate",
        plain,
        2 ** 50,
      )
    );
    await migrate(store);
    const parts = partsOf(database, store);
    const authority = new Authority(await Secrets.open(parts), store, parts.clock);
    const { privateKey } = await authority.ofPart(part, ["rover"]);
    assertMatch(privateKey, /^-----BEGIN PRIVATE KEY-----\n/);
    assertEquals((await authority.ofPart(part, ["rover"])).privateKey, privateKey);
    const dump = JSON.stringify(await store.query("SELECT * FROM certificates"));
    assert(!dump.includes("PRIVATE KEY"), dump);
    if (database.kind === "sqlite") {
      for (const file of ["cloud.db", "cloud.db-wal"]) {
        const bytes = new TextDecoder("latin1").decode(await Deno.readFile(`${database.folder}/${file}`));
        assert(!bytes.includes("BEGIN PRIVATE KEY"), `${file} has a key`);
      }
    }
    // A sealed key that is put beside another part opens nothing there: that part gets a certificate of its own.
    const { part: other } = await newWorld(store);
    await store.transaction((sql) => sql.query("UPDATE certificates SET part_id = ?", other));
    assertNotEquals((await authority.ofPart(other, ["rover"])).privateKey, privateKey);
  },
);

storeTest("Secrets.open refuses keys that are missing or belong to another database", async (database) => {
  const store = await database.open();
  const parts = partsOf(database, store);
  await Secrets.open(parts);
  const other = { ...parts, folder: `${database.folder}/elsewhere` };
  assertStringIncludes(await refusal(Secrets.open(other)), "the file is missing");
  // A file of another database.
  await Deno.mkdir(other.folder, { recursive: true });
  const id = "0".repeat(32);
  const stranger = { id, value: "", made_ms: 0, from_ms: 0 };
  await Deno.writeTextFile(`${other.folder}/token.json`, JSON.stringify({ keys: [stranger] }), {
    mode: 0o600,
  });
  assertStringIncludes(await refusal(Secrets.open(other)), "is not of this database");
  assertEquals(
    await refusal(Secrets.open(other)).then((text) => text.includes("secret rotate token --now")),
    true,
  );
  // A command replaces lost keys, and the former ones are invalid from then on.
  await Secrets.replace(other, NAMES);
  await Secrets.open(other);
  assertStringIncludes(await refusal(Secrets.open(parts)), "is not of this database");
});

storeTest("a replaced key stays valid as long as its signatures; --now ends it", async (database) => {
  const store = await database.open();
  const parts = partsOf(database, store);
  const { clock } = parts;
  const secrets = await Secrets.open(parts);
  for (const name of NAMES) {
    const { leadMs, lifetimeMs } = SECRET_KINDS[name];
    const [old] = secrets.good(name);
    await secrets.rotate(name);
    if (name === "release") {
      assertEquals(secrets.good(name).length, 1);
      assert(secrets.good(name)[0] !== old);
      assert(!(await Deno.readTextFile(`${parts.folder}/release.json`)).includes(old.slice(-60)));
      continue;
    }
    const [signing, coming] = secrets.good(name);
    assertEquals(signing, old);
    assert(coming !== old);
    await clock.advance(leadMs);
    assertEquals(secrets.good(name), [coming, old]);
    await clock.advance(lifetimeMs);
    assertEquals(secrets.good(name), [coming]);
  }
  const before = secrets.good("token");
  await Secrets.replace(parts, ["token"]);
  const after = (await Secrets.open(parts)).good("token");
  assertEquals([after.length, before.includes(after[0])], [1, false]);
});

storeTest("a key past its time stays so when the clock is set back", async (database) => {
  const store = await database.open();
  const parts = partsOf(database, store);
  const { clock } = parts;
  const startMs = clock.nowMs();
  const secrets = await Secrets.open(parts);
  const { leadMs, lifetimeMs } = SECRET_KINDS["download-links"];
  const [old] = secrets.good("download-links");
  await secrets.rotate("download-links");
  await secrets.removeExpired(startMs + leadMs);
  assertEquals(secrets.good("download-links").includes(old), true, "it is still valid");
  await secrets.removeExpired(startMs + leadMs + lifetimeMs);
  assertEquals(clock.nowMs(), startMs, "the clock was set back");
  assertEquals([secrets.good("download-links").length, secrets.good("download-links").includes(old)], [
    1,
    false,
  ]);
  const reopened = await Secrets.open(parts);
  assertEquals(reopened.good("download-links"), secrets.good("download-links"));
  assertEquals(reopened.good("token").length, 1);
});

storeTest("a running control plane adopts key changes by commands", async (database) => {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const store = await database.open();
  const running = { ...partsOf(database, store, records), clock };
  const secrets = await Secrets.open(running);
  const copy = { ...running, folder: `${database.folder}/copy` };
  await Deno.mkdir(copy.folder);
  for await (const { name } of Deno.readDir(running.folder)) {
    await Deno.copyFile(`${running.folder}/${name}`, `${copy.folder}/${name}`);
  }
  const elsewhere = await Secrets.open(copy);
  const stop = new AbortController();
  const following = [secrets.follow(stop.signal), elsewhere.follow(stop.signal)];
  const meanwhile = moving(clock, 5_000);
  try {
    await (await Secrets.open({ ...running, store: await database.open() })).rotate("token");
    await until(() => secrets.good("token").length === 2, { meanwhile });
    // A control plane with a copy of the folder logs so, and continues with its keys.
    await until(() => records.some(({ message }) => message.includes("copy its folder of keys")), {
      meanwhile,
    });
    assertEquals(elsewhere.good("token").length, 1);
    for await (const { name } of Deno.readDir(running.folder)) {
      await Deno.copyFile(`${running.folder}/${name}`, `${copy.folder}/${name}`);
    }
    await until(() => elsewhere.good("token").length === 2, { meanwhile });
  } finally {
    stop.abort();
    await Promise.all(following);
  }
});

storeTest("clients trust the old and the new authority during its rotation", async (database) => {
  const store = await database.open();
  const parts = partsOf(database, store);
  const { clock } = parts;
  const secrets = await Secrets.open(parts);
  const authority = new Authority(secrets, store, clock);
  const { part } = await newWorld(store);
  const trusted = () =>
    authority.certificate.split(/(?<=-----END CERTIFICATE-----\n)/).filter((pem) => pem.trim() !== "")
      .map((pem) => new X509Certificate(pem));
  const issuer = async () => {
    const leaf = new X509Certificate((await authority.ofPart(part, ["rover"])).certificate);
    return trusted().findIndex((one) => leaf.checkIssued(one) && leaf.verify(one.publicKey));
  };
  const first = (await authority.ofPart(part, ["rover"])).certificate;
  await secrets.rotate("authority");
  assertEquals([trusted().length, await issuer()], [2, 0]);
  await clock.advance(31 * DAY_MS);
  // The new key signs by now; signatures of the old one are still valid.
  assertEquals([(await authority.ofPart(part, ["rover"])).certificate === first, await issuer()], [true, 1]);
  await clock.advance(40 * DAY_MS);
  assertEquals(await issuer(), 0);
  // A distrusted authority has no certificates left.
  await Secrets.replace(parts, ["authority"]);
  const renewed = new Authority(await Secrets.open(parts), store, clock);
  const leaf = new X509Certificate((await renewed.ofPart(part, ["rover"])).certificate);
  assert(leaf.verify(new X509Certificate(renewed.certificate).publicKey));
});

sqliteTest(
  "svc-cloud secret list and secret rotate manage the keys, and the audit log notes it",
  async (database) => {
    const { flags } = database;
    await database.open();
    const list = async () => {
      const { secrets }: { secrets: { name: string; id: string }[] } = JSON.parse(
        await svcCloud("secret", "list", ...flags, "--json"),
      );
      return secrets.map(({ name }) => name).sort();
    };
    assertEquals(await list(), [...NAMES].sort());
    await svcCloud("secret", "rotate", "links", ...flags);
    await svcCloud("secret", "rotate", "token", "--now", ...flags);
    assertEquals(await list(), [...NAMES, "token", "machine-token", "data-links", "download-links"].sort());
    await Deno.remove(`${database.folder}/keys`, { recursive: true });
    const lost = await assertRejects(() => svcCloud("authority", ...flags), Error);
    assertStringIncludes(lost.message, "--keys");
    for (const word of ["token", "authority", "release", "links"]) {
      await Deno.mkdir(`${database.folder}/keys`, { recursive: true });
      await svcCloud("secret", "rotate", word, "--now", ...flags).catch(() => {});
    }
    assertEquals(await list(), [...NAMES].sort());
    assertStringIncludes(await svcCloud("audit", ...flags), "secret rotate --now");
    const elsewhere = ["--keys", `${database.folder}/other`];
    await assertRejects(() => svcCloud("release", "keys", ...flags, ...elsewhere), Error, "is missing");
  },
);
