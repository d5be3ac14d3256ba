/** `svc-cloud backup`: one consistent copy of database, contents and keys, while the control plane serves. */

import { onePiece } from "../../../lib/base/files/byte_reader.ts";
import { join, resolve } from "node:path";
import { messageOf, SvcError } from "../../../lib/base/error.ts";
import { neededFiles } from "../../../lib/cloud/store/file_refs.ts";
import type { FileStore } from "../../../lib/cloud/store/files.ts";
import { noteBackup, noteFailedBackup } from "../../../lib/cloud/retention/last_backup.ts";
import { isS3Address } from "../../../lib/cloud/store/s3/s3_address.ts";
import type { Store } from "../../../lib/cloud/store/store.ts";
import { ItemsProgress, type ShareHeard } from "../../progress/items_progress.ts";
import { type ProgressBar, withBar } from "../../progress/progress_bar.ts";
import { type CloudCommand, cloudCommand, type CloudCommandContext, timeOf } from "../command_context.ts";
import { sqliteIn } from "../sqlite.ts";
import { KEY_FILE, SQLITE_ENDS } from "../data_folder.ts";
import { type BackupRecord, BackupTarget, copyContent } from "./target.ts";
import { counted } from "../../../lib/base/log/counted.ts";
import { sizeText } from "../../table.ts";
import { connect } from "../../../lib/cloud/store/open_store.ts";

/** Contents that are copied at the same time; each takes one part of an upload in memory. */
const AT_ONCE = 4;
/** How often it begins anew because a content or a key changed meanwhile. */
const TRIES = 5;
/** The unfinished copy of the database in the data folder. */
const COPY = "backup.db.unfinished";

export const BACKUP: CloudCommand = cloudCommand(
  "backup",
  ["PLACE"],
  "Copies database, contents and the control plane's own keys at one moment to a folder or to " +
    "s3://BUCKET/PREFIX?endpoint=URL, while the control plane serves. Further backups in the same place store only " +
    "what is new.",
  [
    {
      name: "without-keys",
      type: "bool",
      default: false,
      help: "Leave out the control plane's own keys, which are copied otherwise (docs/keys.md).",
    },
    { name: "list", type: "bool", default: false, help: "List the backups in PLACE, and make none." },
  ],
  async (context, [place], { withoutKeys, list }) => {
    await requireElsewhere(context, place);
    if (list) {
      const to = await BackupTarget.open(place, context.host, context.clock);
      const records = await Promise.all((await to.names()).map((name) => to.record(name)));
      return context.list("backups", records, {
        columns: [{ heading: "NAME" }, { heading: "TIME" }],
        rows: records.map(({ name, timeMs }) => [name, timeOf(timeMs)]),
        empty: `There is no complete backup in ${place}.`,
      });
    }
    const copying = { withKeys: !withoutKeys, copyTo: context.store.copyTo };
    const made = await noted(context, place, async () => {
      const to = await BackupTarget.open(place, context.host, context.clock);
      return await withBar(context, { what: "contents copied" }, (bar) => {
        return backUp(context, place, to, { ...copying, bar });
      });
    });
    const size = `${counted(made.contents, "content")}, ${made.copied} of them new (${sizeText(made.bytes)})`;
    context.print(made, [`${made.name}: the database, ${counted(made.keys, "key")}, ${size}`]);
    // Whoever makes backups by a timer reads exit codes.
    if (made.missing > 0) {
      throw incomplete(made.missing, "the control plane itself, of which the backup has the rest");
    }
  },
);

interface Made {
  readonly timeMs: number;
  readonly contents: number;
  readonly missing: number;
}

/** Makes a backup, and notes in the database how that ended. */
async function noted<T extends Made>(
  { store, host, clock }: CloudCommandContext,
  given: string,
  make: () => Promise<T>,
): Promise<T> {
  const place = isS3Address(given) ? given : resolve(host.cwd(), given);
  try {
    const made = await make();
    const { timeMs, contents, missing } = made;
    await noteBackup(store, { timeMs, place, contents, missing });
    return made;
  } catch (error) {
    const failed = { timeMs: clock.nowMs(), place, reason: messageOf(error) };
    // The reason of the failure itself is worth more than that of the note.
    await noteFailedBackup(store, failed).catch(() => {});
    throw error;
  }
}

/** The error of a copy that is made, but lacks contents to which the database refers. */
export function incomplete(missing: number, where: string): SvcError {
  return new SvcError(
    "data_loss",
    `${
      counted(missing, "content is", "contents are")
    } missing in ${where}: is its folder there, or its disk mounted?`,
  );
}

/** A backup within the data folder would vanish with it. */
async function requireElsewhere({ folder, host }: CloudCommandContext, place: string): Promise<void> {
  const real = (path: string) => host.realPath(path).catch(() => path);
  const [own, other] = [await real(folder), await real(resolve(host.cwd(), place))];
  if (`${other}/`.startsWith(`${own}/`)) {
    throw new SvcError(
      "invalid_argument",
      `${place} is in the data folder: wanted another place for the backup`,
    );
  }
}

interface Copying {
  readonly withKeys: boolean;
  readonly copyTo: Store["copyTo"];
  readonly bar: ProgressBar;
}

async function backUp(context: CloudCommandContext, place: string, to: BackupTarget, copying: Copying) {
  // What is left is worth a backup, too, which then says what is missing.
  const from = await context.files({ mayLack: true });
  await requireOtherTarget(from, to.files, place);
  const amounts = { copied: 0, bytes: 0 };
  const count = (one: { bytes: number; isNew: boolean } | undefined) => {
    if (one?.isNew) Object.assign(amounts, { copied: amounts.copied + 1, bytes: amounts.bytes + one.bytes });
    return one !== undefined;
  };
  // Most of the work before the copy of the database: few contents are left that might be removed until then.
  copying.bar.phase("listing the contents");
  const all = await Array.fromAsync(from.list({ olderThanMs: Infinity }));
  await each(all, copying.bar, async (sha256, heard) => {
    count(await copyContent(from, to.files, sha256, heard));
  });
  for (let left = TRIES; left > 0; left--) {
    const taken = await takeDatabase(context, to.files, copying);
    if (!taken) continue;
    const missing: string[] = [];
    await each(taken.needed, copying.bar, async (sha256, heard) => {
      if (!count(await copyContent(from, to.files, sha256, heard)) && !await has(to.files, sha256)) {
        missing.push(sha256);
      }
    });
    if (missing.length > 0 && left > 1) continue;
    const { timeMs, database, keys } = taken;
    const name = await to.add({ timeMs, database, keys });
    return {
      name,
      timeMs,
      contents: taken.needed.length - missing.length,
      keys: keys.length,
      missing: missing.length,
      ...amounts,
    };
  }
  throw new SvcError("aborted", "the control plane's own keys change all the time: try again");
}

/** The copy of the database at one moment, and the keys that belong to it; `undefined` if they changed meanwhile. */
async function takeDatabase(
  context: CloudCommandContext,
  to: FileStore,
  { withKeys, copyTo, bar }: Copying,
): Promise<Omit<BackupRecord, "format"> & { readonly needed: readonly string[] } | undefined> {
  const { folder, host, clock } = context;
  const path = join(folder, COPY);
  const keysBefore = withKeys ? await ownKeys(context) : [];
  const timeMs = clock.nowMs();
  await removeCopy(context, path);
  try {
    // Private from its first byte on: SQLite fills an empty file.
    await host.createFile(path, "", { mode: 0o600 });
    bar.phase("copying the database");
    await copyTo(path);
    const keysAfter = withKeys ? await ownKeys(context) : [];
    if (JSON.stringify(keysBefore) !== JSON.stringify(keysAfter)) return undefined;
    const copy = connect({ sqlite: sqliteIn(path, host) }, clock);
    const needed = await neededFiles(copy).finally(() => copy.close());
    const keys = [];
    for (const { name, text } of keysAfter) {
      keys.push({ name, sha256: (await to.put(onePiece(new TextEncoder().encode(text)))).sha256 });
    }
    const stored = await to.put(host.readPieces(path));
    return { timeMs, needed, keys, database: stored.sha256 };
  } finally {
    await removeCopy(context, path);
  }
}

async function ownKeys(
  { secrets: { folder }, host }: CloudCommandContext,
): Promise<{ name: string; text: string }[]> {
  const names = (await host.readFolder(folder).catch(() => [])).filter((name) => KEY_FILE.test(name))
    .sort();
  return await Promise.all(
    names.map(async (name) => ({ name, text: await host.readTextFile(join(folder, name)) })),
  );
}

async function removeCopy({ host }: CloudCommandContext, path: string): Promise<void> {
  for (const end of ["", ...SQLITE_ENDS]) await host.remove(path + end);
}

async function has(files: FileStore, sha256: string): Promise<boolean> {
  return await files.size(sha256).then(() => true, () => false);
}

/**
 * In the place of the control plane's own contents nobody else refers to a backup's files: the control plane would remove
 * them as left behind.
 */
async function requireOtherTarget(own: FileStore, backup: FileStore, place: string): Promise<void> {
  const mark = await backup.receive(onePiece(crypto.getRandomValues(new Uint8Array(32))));
  try {
    if (!await has(own, mark.file.sha256)) return;
    throw new SvcError(
      "invalid_argument",
      `${place}: there the control plane keeps its own contents, wanted another place for the backup`,
    );
  } finally {
    await mark.abandon();
    await backup.remove(mark.file.sha256);
  }
}

/** Some at the same time; the bar shows how many are done. */
export async function each(
  all: readonly string[],
  bar: ProgressBar,
  work: (one: string, heard: ShareHeard) => Promise<void>,
): Promise<void> {
  const left = all.values();
  const items = new ItemsProgress(bar, all.length);
  const take = async () => {
    for (const one of left) await items.item((heard) => work(one, heard));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, take));
}
