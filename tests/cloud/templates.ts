/**
 * Databases with tables up to date and nothing in them, of which tests get copies: to migrate one takes longer than most tests.
 *
 * A run of all tests makes them for all of its processes and names their folder in `SVC_TEST_TEMPLATES`. A process
 * without that variable makes its own when a test first needs one.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { openStore } from "../../lib/cloud/store/store.ts";
import { sqliteIn } from "../../cli/cloud/sqlite.ts";
import { createPostgresDatabase, type PostgresDatabase } from "../support/postgres.ts";

/** Names the folder of templates that another process made. */
export const TEMPLATES_VARIABLE = "SVC_TEST_TEMPLATES";
const FILE = "cloud.db";

const clock = new SystemClock();
let ownFolder: string | undefined;
let sqlite: Promise<void> | undefined;
let postgres: Promise<void> | undefined;

/** Makes both kinds, for this process and those that it starts; returns what removes the folder. */
export async function makeTemplates(
  { withPostgres }: { readonly withPostgres: boolean },
): Promise<() => void> {
  const folder = Deno.makeTempDirSync({ prefix: "svc-templates-" });
  await makeSqlite(folder);
  if (withPostgres) await makePostgres(folder);
  Deno.env.set(TEMPLATES_VARIABLE, folder);
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
  const folder = Deno.env.get(TEMPLATES_VARIABLE) ?? ownTemplates();
  if (folder === ownFolder) await (postgres ??= makePostgres(folder));
  return createPostgresDatabase({ template: templateName(folder) });
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
