/**
 * `svc-cloud backup` and `restore`: a control plane that serves is copied, and the copy serves; what was revoked after
 * the backup is told and revoked again.
 */

import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { DATABASE_FILE } from "../../cli/cloud/data_folder.ts";
import { withS3 } from "../support/s3_server.ts";
import { type Example, serveCloud, svcCloud, svcCloudPrinted } from "./program.ts";
import { linuxProgram } from "../support/linux_program.ts";

const PROGRAM = linuxProgram();

Deno.test("a serving control plane is backed up and restored; what was revoked since is told, and revoked", async (test) => {
  const folder = await Deno.makeTempDir({ prefix: "svc-backup-" });
  const data = ["--data", `${folder}/data`];
  const place = `${folder}/backups`;
  const into = (name: string) => ["--data", `${folder}/${name}`];
  const example: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
  await Deno.writeFile(`${folder}/program`, PROGRAM);
  await svcCloud(
    "release",
    "publish",
    "svc-server",
    "1.0.0",
    `${folder}/program`,
    "--channel",
    "stable",
    ...data,
  );
  const keysIn = async (place: string[]): Promise<string> =>
    await svcCloud("key", "list", "--json", ...place);
  const newKey = async (name: string): Promise<{ id: string; key: string }> =>
    JSON.parse(await svcCloud("key", "create", "--name", name, "--role", "owner", "--json", ...data));
  const visitor = await newKey("visitor");
  const rotated = await newKey("rotated");
  const cloud = await serveCloud(data);
  const pager = JSON.parse(await svcCloud("administrator", "add", "pager", "--json", ...data));
  const account = await newAccount(cloud.url, "ann@example.com", data);
  await svcCloud("administrator", "add", "ann@example.com", ...data);
  const bob = await newAccount(cloud.url, "bob@example.com", data);
  await svcCloud("account", "invite", "eve@example.com", ...data);
  await svcCloud("account", "reset", "bob@example.com", ...data);
  const gained = gainWaysIn(`${folder}/data`, bob);
  let backupTime = "";
  try {
    await test.step("while it serves", async () => {
      const made = JSON.parse(await svcCloud("backup", place, "--json", ...data));
      assertEquals([made.contents, made.missing], [1, 0]);
      assert(made.keys >= 4);
      backupTime = made.time;
      const again = JSON.parse(await svcCloud("backup", place, "--json", ...data));
      assertEquals([again.contents, again.copied], [1, 0], "contents are stored once");
      assertEquals(
        JSON.parse(await svcCloud("backup", place, "--list", "--json", ...data)).backups.length,
        2,
      );
      const left = [...Deno.readDirSync(`${folder}/data`)].filter(({ name }) => name.includes("unfinished"));
      assertEquals(left, []);
    });
    await svcCloud("key", "revoke", visitor.id, ...data);
    const { key: newer } = JSON.parse(await svcCloud("key", "rotate", rotated.id, "--json", ...data));
    assert(newer !== rotated.key);
    for (const name of ["pager", "ann@example.com"]) await svcCloud("administrator", "remove", name, ...data);
    loseWaysIn(`${folder}/data`, bob);

    await test.step("the copy serves with the same contents and keys", async () => {
      const { output } = await svcCloudPrinted("restore", place, ...into("copy"));
      assertStringIncludes(output, "are valid again");
      assertStringIncludes(output, "--revoke-since");
      assertStringIncludes(await keysIn(into("copy")), visitor.id);
      assertEquals(Deno.statSync(`${folder}/copy/cloud.db`).mode! & 0o777, 0o600);
      const copy = await serveCloud(into("copy"));
      try {
        const found = await fetch(`${copy.url}/releases/svc-server/stable/linux-amd64`);
        assertEquals(new Uint8Array(await found.arrayBuffer()), PROGRAM);
      } finally {
        assertEquals(await copy.stop(), 0);
      }
    });

    await test.step("with the former database, exactly what was revoked since is revoked", async () => {
      const since = ["--revoke-since", backupTime];
      const restored = JSON.parse(
        await svcCloud(
          "restore",
          place,
          "--json",
          ...since,
          "--previous",
          `${folder}/data`,
          ...into("exact"),
        ),
      );
      const wanted = [
        ...[visitor.id, rotated.id, pager.id, `${account}: administrator`],
        ...[`${bob}: password`, `${bob}: session`, `${bob}: passkey phone`, `${bob}: sign-in at https://id`],
        ...["ann", "bob", "eve"].map((name) => `${name}@example.com: invitation`),
        gained,
      ];
      assertEquals(restored.revoked.toSorted(), wanted.toSorted());
      assertEquals(waysIn(`${folder}/exact`), waysIn(`${folder}/data`));
      const administrators = await svcCloud("administrator", "list", "--json", ...into("exact"));
      assertEquals(JSON.parse(administrators), { administrators: [] });
      const keys = await keysIn(into("exact"));
      assert(!keys.includes(visitor.id) && keys.includes(example.ownerKey.id));
    });

    await test.step("without it, every key is", async () => {
      await svcCloud("restore", place, "--revoke-since", backupTime, ...into("strict"));
      assert(!(await keysIn(into("strict"))).includes(example.ownerKey.id));
      const none = { accounts: [], account_sessions: [], passkeys: [], provider_links: [] };
      assertEquals(waysIn(`${folder}/strict`), { ...none, invitations: [], location_shares: [] });
    });
  } finally {
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("backup and restore refuse what would lose data, and notice damage", async (test) => {
  const folder = await Deno.makeTempDir({ prefix: "svc-backup-" });
  const data = ["--data", `${folder}/data`];
  const place = `${folder}/backups`;
  await svcCloud("init", ...data);
  try {
    await test.step("places", async () => {
      await assertRejects(
        () => svcCloud("backup", `${folder}/data/inner`, ...data),
        Error,
        "is in the data folder",
      );
      await assertRejects(
        () => svcCloud("restore", `${folder}/none`, "--data", `${folder}/new`),
        Error,
        "no folder",
      );
      await svcCloud("backup", place, ...data);
      await assertRejects(() => svcCloud("restore", place, ...data), Error, "restore into a new folder");
    });
    await test.step("times", async () => {
      for (const [time, logged] of [["tomorrow", "or a time such as"], ["2999-01-01", "after the backup"]]) {
        const wrong = () => svcCloud("restore", place, "--revoke-since", time, "--data", `${folder}/new`);
        await assertRejects(wrong, Error, logged);
      }
    });
    await test.step("damage", async () => {
      const [record] = [...Deno.readDirSync(place)].filter(({ name }) => name.endsWith(".json"));
      const { database } = JSON.parse(await Deno.readTextFile(`${place}/${record.name}`));
      const file = `${place}/files/${database.slice(0, 2)}/${database}`;
      const bytes = await Deno.readFile(file);
      bytes[bytes.length - 1] ^= 1;
      await Deno.writeFile(file, bytes);
      await assertRejects(() => svcCloud("restore", place, "--data", `${folder}/new`), Error, "is damaged");
      await assertRejects(
        () => svcCloud("key", "list", "--data", `${folder}/new`),
        Error,
        "no control plane",
      );
      await Deno.writeTextFile(`${place}/${record.name}`, "{}");
      const broken = await assertRejects(() => svcCloud("restore", place, "--data", `${folder}/new`), Error);
      assertMatch(broken.message, /backup-.*database: /);
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a backup of a control plane that lacks contents is made, and fails for whoever reads its exit code", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-backup-" });
  const data = ["--data", `${folder}/data`];
  const place = `${folder}/backups`;
  try {
    const { partId }: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
    await Deno.writeFile(`${folder}/program`, PROGRAM);
    await svcCloud("release", "publish", "svc-server", "1.0.0", `${folder}/program`, ...data);
    await Deno.rename(`${folder}/data/files`, `${folder}/unmounted`);
    const lacking = String(await assertRejects(() => svcCloud("backup", place, ...data)));
    assertStringIncludes(lacking, "1 content is missing in the control plane itself");
    const { backups } = JSON.parse(await svcCloud("backup", place, "--list", "--json", ...data));
    assertEquals(backups.length, 1);
    assertEquals(notedIn(`${folder}/data`)["last backup"].missing, 1);
    const copy = ["--data", `${folder}/copy`];
    const partly = String(await assertRejects(() => svcCloud("restore", place, ...copy)));
    assertStringIncludes(partly, "1 content is missing in the backup, of which everything else is restored");
    assertStringIncludes(await svcCloud("fleet", "--json", ...copy), partId);

    await Deno.remove(`${folder}/data/files`, { recursive: true });
    await Deno.rename(`${folder}/unmounted`, `${folder}/data/files`);
    const whole = JSON.parse(await svcCloud("backup", place, "--json", ...data));
    assertEquals([whole.contents, whole.missing], [1, 0]);
    const noted = notedIn(`${folder}/data`)["last backup"];
    assertEquals([noted.missing, noted.contents, noted.place], [0, 1, place]);
    await Deno.writeTextFile(`${folder}/file`, "");
    await assertRejects(() => svcCloud("backup", `${folder}/file`, ...data));
    assertEquals(notedIn(`${folder}/data`)["failed backup"].place, `${folder}/file`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

/** What the command has noted in the database of a data folder. */
function notedIn(data: string) {
  const database = new DatabaseSync(`${data}/${DATABASE_FILE}`, { readOnly: true });
  try {
    const rows = database.prepare("SELECT name, value FROM settings WHERE name LIKE '% backup'").all();
    const noted = rows.map(({ name, value }) => [name, value === "" ? undefined : JSON.parse(String(value))]);
    return Object.fromEntries(noted);
  } finally {
    database.close();
  }
}

Deno.test("a backup in an object store is restored", () =>
  withS3(async (server) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-backup-" });
    const data = ["--data", `${folder}/data`];
    const before = Object.keys(server.env).map((name) => [name, Deno.env.get(name)] as const);
    try {
      for (const [name, value] of Object.entries(server.env)) Deno.env.set(name, value);
      const { partId }: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
      await Deno.writeFile(`${folder}/program`, PROGRAM);
      await svcCloud("release", "publish", "svc-server", "1.0.0", `${folder}/program`, ...data);
      const place = server.address;
      await svcCloud("backup", place, ...data);
      const restored = JSON.parse(await svcCloud("restore", place, "--json", "--data", `${folder}/copy`));
      assertEquals([restored.contents, restored.missing], [1, 0]);
      assertStringIncludes(await svcCloud("fleet", "--json", "--data", `${folder}/copy`), partId);
    } finally {
      for (const [name, value] of before) {
        if (value === undefined) Deno.env.delete(name);
        else Deno.env.set(name, value);
      }
      await Deno.remove(folder, { recursive: true });
    }
  }));

/** Makes an account as a person does; returns its id. */
async function newAccount(url: string, email: string, data: readonly string[]): Promise<string> {
  const { link } = JSON.parse(await svcCloud("account", "invite", email, "--json", ...data));
  const body = JSON.stringify({ link: link.split("/").at(-1), password: "correct horse battery staple" });
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${url}/account/accept`, { method: "POST", headers, body });
  return (await answer.json()).account.id;
}

/** Gives a person every way in, and a location a guest; returns the words for the share. */
function gainWaysIn(folder: string, account: string): string {
  using database = new DatabaseSync(`${folder}/${DATABASE_FILE}`);
  const [location] = database.prepare("SELECT id FROM locations").all() as { id: string }[];
  database.exec(`INSERT INTO organizations (id, name, created_ms) VALUES ('guest', 'guest', 1);
    INSERT INTO location_shares (location_id, organization_id) VALUES ('${location.id}', 'guest');
    INSERT INTO passkeys (id, account_id, name, rp_id, public_key, counter, created_ms)
      VALUES ('p1', '${account}', 'phone', 'x', 'x', 0, 1), ('p2', '${account}', 'laptop', 'x', 'x', 0, 1);
    INSERT INTO provider_links (issuer, subject, account_id, created_ms)
      VALUES ('https://id', 'bob', '${account}', 1)`);
  return `${location.id}: shared with guest`;
}

/** Takes from the person everything but the second passkey. */
function loseWaysIn(folder: string, account: string): void {
  using database = new DatabaseSync(`${folder}/${DATABASE_FILE}`);
  database.exec(`DELETE FROM location_shares;
    DELETE FROM passkeys WHERE id = 'p1';
    DELETE FROM provider_links;
    DELETE FROM invitations;
    DELETE FROM account_sessions WHERE account_id = '${account}';
    UPDATE accounts SET password = 'another' WHERE id = '${account}'`);
}

function waysIn(folder: string): Record<string, unknown[]> {
  using database = new DatabaseSync(`${folder}/${DATABASE_FILE}`);
  const tables = [
    "accounts",
    "account_sessions",
    "passkeys",
    "provider_links",
    "invitations",
    "location_shares",
  ];
  return Object.fromEntries(
    tables.map((table) => [table, database.prepare(`SELECT * FROM ${table} ORDER BY 1`).all()]),
  );
}
