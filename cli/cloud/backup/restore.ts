/**
 * `svc-cloud restore`: a control plane of a backup, in a new folder.
 *
 * A restored database knows nothing of what was revoked after the backup: keys that were deleted or rotated since work
 * again, and so do former passwords, ended sessions and used invitations. The command says so, and `--revoke-since`
 * mends it.
 */

import { join, resolve } from "node:path";
import { SystemClock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import { userName } from "../../../lib/base/native/environment.ts";
import { Audit } from "../../../lib/cloud/access/audit.ts";
import {
  credentialsStoredIn,
  revokeUnlike,
  type StoredCredentials,
} from "../../../lib/cloud/access/revived.ts";
import { personActing } from "../../../lib/cloud/access/context.ts";
import { neededFiles } from "../../../lib/cloud/store/file_refs.ts";
import type { FileStore } from "../../../lib/cloud/store/files.ts";
import { isS3Address } from "../../../lib/cloud/store/s3/s3_address.ts";
import { sinceMs, UsageError, type Values } from "../../flags.ts";
import { isoTimes, printResult } from "../../table.ts";
import { type ProgressBar, withBar } from "../../progress/progress_bar.ts";
import { openContents } from "../contents/address.ts";
import {
  type CloudCommand,
  type CloudProgramContext,
  JSON_FLAG,
  located,
  timeOf,
} from "../command_context.ts";
import { sqliteIn } from "../sqlite.ts";
import { DATABASE_FILE, KEY_FILE, restIn, SQLITE_ENDS, UNFINISHED_FILE } from "../data_folder.ts";
import { each, incomplete } from "./backup.ts";
import { BackupTarget, copyContent, verifiedContent } from "./target.ts";
import { counted } from "../../../lib/base/log/counted.ts";
import { connect, openStore } from "../../../lib/cloud/store/open_store.ts";
import type { StoreFlags } from "../cloud_flags.ts";

const FLAGS = [
  {
    name: "backup",
    type: "string",
    default: "",
    value: "NAME",
    help: "A backup as `svc-cloud backup PLACE --list` names it; the newest one by default.",
  },
  {
    name: "revoke-since",
    type: "string",
    default: "",
    value: "TIME",
    help:
      "Revoke keys that may have been revoked since this time, which is not after the backup: those that --previous " +
      "shows as deleted or rotated, with people's former ways in; without it, all API keys, secrets, accounts, " +
      "invitations and shares of locations.",
  },
  {
    name: "previous",
    type: "string",
    default: "",
    value: "FOLDER",
    help: "The former data folder, if its database can still be read.",
  },
  JSON_FLAG,
] as const;

export const RESTORE: CloudCommand = {
  words: "restore",
  takes: ["PLACE"],
  summary: "Makes a control plane of a backup in a new data folder (--data), and says what is valid again.",
  flags: FLAGS,
  run: (
    { host }: CloudProgramContext,
    [place]: readonly [place: string],
    values: Values<typeof FLAGS> & StoreFlags,
  ) => restore(host, place, located(values, host)),
};

async function restore(
  host: Host,
  place: string,
  values: Values<typeof FLAGS> & StoreFlags,
): Promise<void> {
  const { data, database, backup, revokeSince, previous, json } = values;
  const clock = new SystemClock();
  if (database !== "") {
    throw new UsageError("--database: found PostgreSQL, wanted none: pg_restore restores such a database");
  }
  if (previous !== "" && revokeSince === "") throw new UsageError("--previous needs --revoke-since TIME");
  const keyFolder = values.keys || join(data, "keys");
  await requireNew(host, data, keyFolder);
  if (!isS3Address(place) && !await isFolder(host, resolve(host.cwd(), place))) {
    throw new SvcError("not_found", `there is no folder ${place}`);
  }
  const from = await BackupTarget.open(place, host, clock);
  const record = await from.record(backup);
  const revokedMs = revokeSince === "" ? undefined : timeIn(revokeSince, record.timeMs);

  await host.makeFolder(data, { mode: 0o700 });
  const path = join(data, UNFINISHED_FILE);
  const to = await openContents(values, host, clock);
  const [copied, revoked] = await withBar({ host, clock }, { what: "contents restored" }, async (bar) => {
    bar.phase("restoring the database");
    // SQLite would take what an interrupted restore left there into the new database.
    for (const end of SQLITE_ENDS) await host.remove(path + end);
    await host.writePieces(path, verifiedContent(from.files, record.database), { mode: 0o600 });
    const copied = await restoreContents(host, path, { from: from.files, to, bar });
    await host.makeFolder(keyFolder, { mode: 0o700 });
    for (const { name, sha256 } of record.keys) {
      await host.writePieces(join(keyFolder, name), verifiedContent(from.files, sha256), { mode: 0o600 });
    }
    bar.phase("preparing the database");
    return [copied, await prepareDatabase(host, path, revokedMs, previous)] as const;
  });
  await requireComplete(host, path);
  // Last: until then there is no control plane in the folder.
  await host.moveDurably(path, join(data, DATABASE_FILE));

  const { timeMs, keys } = record;
  const value = { backup: record.name, timeMs, ...copied, keys: keys.length, revoked };
  printResult(host, json, isoTimes(value), [
    `restored ${record.name} into ${data}: ${counted(copied.contents, "content")}, ${
      counted(keys.length, "key")
    } of the control plane`,
    ...revived(timeMs, revoked),
  ]);
  if (keys.length === 0) {
    host.writeError(
      `svc-cloud: the backup has no keys: put those of that time into ${keyFolder} before serving\n`,
    );
  }
  if (copied.missing > 0) {
    throw incomplete(copied.missing, "the backup, of which everything else is restored");
  }
}

/** Nothing of another control plane is overwritten, or taken for a part of this one. */
async function requireNew(host: Host, data: string, keyFolder: string): Promise<void> {
  const names = await host.readFolder(data).catch(() => []);
  const rest = names.find((name) => name.startsWith(DATABASE_FILE)) ?? await restIn(data, host);
  // An interrupted restore has found the folder new, and has made the rest.
  if (rest === UNFINISHED_FILE) return;
  const keys = (await host.readFolder(keyFolder).catch(() => [])).filter((name) => KEY_FILE.test(name));
  if (rest === undefined && keys.length === 0) return;
  const found = rest === undefined ? `${keys[0]} in ${keyFolder}` : `${rest} in ${data}`;
  throw new SvcError(
    "already_exists",
    `found ${found}: restore into a new folder, with --data (and --keys)`,
  );
}

/** The name of a database moves without the transactions beside it, so there must be none. */
async function requireComplete(host: Host, path: string): Promise<void> {
  if ((await host.fileSize(`${path}-wal`) ?? 0) === 0) return;
  throw new SvcError("data_loss", `${path} is not complete, because SQLite left ${path}-wal: restore again`);
}

function isFolder(host: Host, path: string): Promise<boolean> {
  return host.readFolder(path).then(() => true, () => false);
}

/** What is valid again, or no longer. */
function revived(timeMs: number, revoked: readonly string[] | undefined): string[] {
  const since = timeOf(timeMs);
  if (revoked) {
    return [
      `revoked: ${revoked.length === 0 ? "none" : revoked.join(", ")}`,
      "svc-cloud key create makes new keys for people and machines",
    ];
  }
  return [
    `API keys, secrets and roles that were deleted, rotated or taken away after ${since} are valid again,`,
    "and so are former passwords, ended sessions, removed passkeys, used invitations and ended shares of locations:",
    `restore with --revoke-since ${since}, and --previous FOLDER if the former database can still be read,`,
    "or delete them again; svc-cloud secret rotate … --now replaces the control plane's own keys",
  ];
}

interface Restoring {
  readonly from: FileStore;
  readonly to: FileStore;
  readonly bar: ProgressBar;
}

async function restoreContents(host: Host, path: string, { from, to, bar }: Restoring) {
  const copy = connect({ sqlite: sqliteIn(path, host) }, new SystemClock());
  const needed = await neededFiles(copy).finally(() => copy.close());
  let missing = 0;
  await each(needed, bar, async (sha256, heard) => {
    if (await copyContent(from, to, sha256, heard) === undefined) missing++;
  });
  return { contents: needed.length - missing, missing };
}

/** Migrates the copy and revokes in it. Returns the ids of revoked keys, if any were to be. */
async function prepareDatabase(
  host: Host,
  path: string,
  revokedMs: number | undefined,
  previous: string,
): Promise<string[] | undefined> {
  const clock = new SystemClock();
  const store = await openStore({ sqlite: sqliteIn(path, host) }, clock);
  try {
    const user = userName(host);
    const audit = new Audit(store, clock);
    const on = { kind: "secret", id: "all" } as const;
    if (revokedMs === undefined) {
      await audit.change(personActing(user, "restore"), on, () => Promise.resolve());
      return undefined;
    }
    const now = previous === "" ? undefined : await credentialsIn(host, resolve(host.cwd(), previous));
    const action = `restore --revoke-since ${timeOf(revokedMs)}`;
    return await audit.change(personActing(user, action), on, (sql) => revokeUnlike(sql, now));
  } finally {
    await store.close();
  }
}

/** What the former database says of keys, secrets and roles. */
async function credentialsIn(host: Host, folder: string): Promise<StoredCredentials> {
  const file = join(folder, DATABASE_FILE);
  if (await host.stat(file) === undefined) throw new SvcError("not_found", `--previous: there is no ${file}`);
  const store = connect({ sqlite: sqliteIn(file, host) }, new SystemClock());
  try {
    return await credentialsStoredIn(store);
  } catch (cause) {
    const hint = "leave --previous out to revoke all keys";
    throw new SvcError("failed_precondition", `--previous: cannot read ${file}; ${hint}`, { cause });
  } finally {
    await store.close();
  }
}

/** A time that is not after the backup: what was revoked between them would stay valid. */
function timeIn(text: string, backupMs: number): number {
  const ms = sinceMs("revoke-since", text, new SystemClock().nowMs());
  if (ms <= backupMs) return ms;
  const why = "what was revoked before that time would be valid again";
  throw new UsageError(`--revoke-since: found a time after the backup of ${timeOf(backupMs)}: ${why}`);
}
