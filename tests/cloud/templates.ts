/**
 * What control planes in tests get copies of, because to make it takes longer than most tests: databases with tables up
 * to date and nothing in them, and RSA keys.
 *
 * A run of all tests makes them for all of its processes and names their folder in `SVC_TEST_TEMPLATES`. A process
 * without that variable makes its own when a test first needs one.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { Secrets } from "../../lib/cloud/store/secrets/secrets.ts";
import { sqliteIn } from "../../cli/cloud/sqlite.ts";
import { createPostgresDatabase, POSTGRES_VARIABLE, type PostgresDatabase } from "../support/postgres.ts";
import { openStore } from "../../lib/cloud/store/open_store.ts";

/** Names the folder of templates that another process made. */
export const TEMPLATES_VARIABLE = "SVC_TEST_TEMPLATES";
const FILE = "cloud.db";
/** The file of the RSA key in a control plane's folder of keys. */
const KEY_FILE = "machine-token.json";
/** Control planes that one process opens in turn have different keys. */
const KEYS = 4;

const clock = new SystemClock();
let ownFolder: string | undefined;
let sqlite: Promise<void> | undefined;
let postgres: Promise<void> | undefined;
const keys: Promise<void>[] = [];
let keysTaken = 0;

/** Makes both kinds, for this process and those that it starts; returns what removes the folder. */
export async function makeTemplates(
  { withPostgres }: { readonly withPostgres: boolean },
): Promise<() => void> {
  const folder = Deno.makeTempDirSync({ prefix: "svc-templates-" });
  await makeSqlite(folder);
  Deno.env.set(TEMPLATES_VARIABLE, folder);
  if (withPostgres) await makePostgres(folder);
  for (let number = 0; number < KEYS; number++) await makeKey(folder, number);
  return () => Deno.removeSync(folder, { recursive: true });
}

/** Writes an SQLite database with its tables to `file`. */
export async function copySqlite(file: string): Promise<void> {
  const folder = Deno.env.get(TEMPLATES_VARIABLE) ?? ownTemplates();
  if (folder === ownFolder) await (sqlite ??= makeSqlite(folder));
  await Deno.copyFile(`${folder}/${FILE}`, file);
}

/** Creates a PostgreSQL database with its tables. */
export async function copyPostgres(): Promise<PostgresDatabase> {
  // A process with a server of its own has no templates of others on it.
  const isShared = Deno.env.get(POSTGRES_VARIABLE) !== undefined;
  const folder = isShared && Deno.env.get(TEMPLATES_VARIABLE) || ownTemplates();
  if (folder === ownFolder) await (postgres ??= makePostgres(folder));
  return createPostgresDatabase({ template: templateName(folder) });
}

/** Writes an RSA key to a folder of keys that is not there yet, as if the control plane had made it now. */
export async function copyKey(keysFolder: string, nowMs: number): Promise<void> {
  if (await Deno.stat(keysFolder).then(() => true, () => false)) return;
  const number = keysTaken++ % KEYS;
  const folder = Deno.env.get(TEMPLATES_VARIABLE) ?? ownTemplates();
  if (folder === ownFolder) await (keys[number] ??= makeKey(folder, number));
  const [key] = JSON.parse(await Deno.readTextFile(`${folder}/keys${number}/${KEY_FILE}`)).keys;
  await Deno.mkdir(keysFolder, { mode: 0o700 });
  const text = JSON.stringify({ keys: [{ ...key, made_ms: nowMs, from_ms: nowMs }] });
  await Deno.writeTextFile(`${keysFolder}/${KEY_FILE}`, text, { mode: 0o600 });
}

/** A control plane makes its keys at its first start, on a database that is then thrown away. */
async function makeKey(folder: string, number: number): Promise<void> {
  const file = `${folder}/keys${number}.db`;
  await copySqlite(file);
  const host = new DenoHost();
  const store = await openStore({ sqlite: sqliteIn(file, host) }, clock);
  const logger = silentLogs(clock).logger("cloud");
  await Secrets.open({ store, host, folder: `${folder}/keys${number}`, clock, logger });
  await store.close();
}

async function makeSqlite(folder: string): Promise<void> {
  const store = await openStore({ sqlite: sqliteIn(`${folder}/${FILE}`, new DenoHost()) }, clock);
  await store.close();
}

async function makePostgres(folder: string): Promise<void> {
  const { url } = createPostgresDatabase({ name: templateName(folder) });
  const store = await openStore({ url }, clock);
  await store.close();
}

function templateName(folder: string): string {
  return `template_${folder.replace(/.*[/\\]/, "").replaceAll(/\W/g, "_").toLowerCase()}`;
}

function ownTemplates(): string {
  if (ownFolder !== undefined) return ownFolder;
  const folder = ownFolder = Deno.makeTempDirSync({ prefix: "svc-templates-" });
  globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
  return folder;
}
