/**
 * Where backups are kept: a folder or an S3-compatible store.
 *
 * Each backup is a small file `backup-TIME.json`, written last; it names by their sums what belongs to it. Contents, the
 * copies of the database among them, are stored once for all backups.
 *
 * The room owns backups: where they are kept, how they are made, and how a control plane is made of one.
 */

import { createHash } from "node:crypto";
import { join, resolve } from "node:path";
import type { Clock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import { parseJsonc } from "../../../lib/base/schema/jsonc.ts";
import { DecodeContext, integer, list, object, text } from "../../../lib/base/schema/schema.ts";
import { type FileStore, requireSameSum, requireSha256 } from "../../../lib/cloud/store/files.ts";
import { FolderFiles } from "../../../lib/cloud/store/folder_files.ts";
import { findS3Credentials, isS3Address, parseS3Address } from "../../../lib/cloud/store/s3/s3_address.ts";
import { S3Client } from "../../../lib/cloud/store/s3/s3_client.ts";
import { S3Files } from "../../../lib/cloud/store/s3/s3_files.ts";
import { KEY_FILE } from "../data_folder.ts";
import { heardPieces, type ShareHeard } from "../../progress/items_progress.ts";

const FORMAT = 1;
const NAME = /^backup-[\dTZ.-]{10,40}\.json$/;
const RECORD_BYTES_MAX = 1024 * 1024;
const UNFINISHED_MS = 24 * 3600 * 1000;

const recordField = object({
  format: integer("").required(),
  timeMs: integer("").required(),
  database: text("").required(),
  keys: list(object({ name: text("").required(), sha256: text("").required() })).default([]),
});

/** What belongs to a backup. */
export interface BackupRecord {
  readonly format: number;
  /** When the copy of the database was begun. */
  readonly timeMs: number;
  /** Sum of the database. */
  readonly database: string;
  /** The control plane's own keys, unless they were left out. */
  readonly keys: readonly { readonly name: string; readonly sha256: string }[];
}

/** Access to the records beside the contents. */
interface Records {
  names(): Promise<string[]>;
  read(name: string): Promise<Uint8Array>;
  write(name: string, text: string): Promise<void>;
}

export class BackupTarget {
  private constructor(
    private readonly shown: string,
    readonly files: FileStore,
    private readonly records: Records,
  ) {}

  static async open(target: string, host: Host, clock: Clock): Promise<BackupTarget> {
    const olderThanMs = clock.nowMs() - UNFINISHED_MS;
    if (!isS3Address(target)) {
      const folder = resolve(host.cwd(), target);
      const files = await FolderFiles.open(host, join(folder, "files"), { olderThanMs });
      return new BackupTarget(target, files, {
        names: () => host.readFolder(folder),
        read: (name) => host.readFile(join(folder, name)),
        write: (name, text) => host.writeFile(join(folder, name), text, { mode: 0o600 }),
      });
    }
    const env = (name: string) => host.env(name) || undefined;
    const address = parseS3Address(target, env);
    const findCredentials = () => findS3Credentials(env, host);
    const credentials = await findCredentials();
    const client = new S3Client({ address, credentials, findCredentials, clock });
    const { prefix } = address;
    const files = await S3Files.open(client, { prefix: `${prefix}files/`, olderThanMs });
    return new BackupTarget(`s3://${address.bucket}/${prefix}`, files, {
      names: async () => {
        const found = await Array.fromAsync(client.list(`${prefix}backup-`));
        return found.map(({ key }) => key.slice(prefix.length));
      },
      read: async (name) => {
        const content = await client.get(`${prefix}${name}`, 0);
        if (!content) throw new SvcError("not_found", `there is no ${name} in ${target}`);
        return await joined(content.pieces, RECORD_BYTES_MAX);
      },
      write: (name, text) => client.put(`${prefix}${name}`, new TextEncoder().encode(text)),
    });
  }

  /** The names of complete backups, oldest first. */
  async names(): Promise<string[]> {
    return (await this.records.names()).filter((name) => NAME.test(name)).sort();
  }

  /** A backup by its name; the newest one by default. Throws `not_found`, or `data_loss` for a damaged record. */
  async record(name = ""): Promise<BackupRecord & { readonly name: string }> {
    const names = await this.names();
    const chosen = name === "" ? names.at(-1) : names.find((one) => one === name || one === `${name}.json`);
    if (chosen === undefined) {
      const found = names.length === 0 ? "no complete backup" : names.join(", ");
      throw new SvcError("not_found", `found ${found} in ${this.shown}, wanted ${name || "a backup"}`);
    }
    const file = `${this.shown}: ${chosen}`;
    const at = new DecodeContext();
    const record = recordField.decode(parseJsonc(await this.records.read(chosen), { file }), at);
    const wrong = at.problems.filter(({ severity }) => severity === "error");
    if (!record || wrong.length > 0) {
      const reported = wrong.map(({ path, message }) => `${path}: ${message}`).join("; ");
      throw new SvcError("data_loss", `${file}: ${reported}`);
    }
    if (record.format > FORMAT) {
      throw new SvcError("failed_precondition", `${file} is of a newer svc-cloud: restore with that one`);
    }
    for (const { name, sha256 } of record.keys) {
      requireSha256(sha256);
      if (!KEY_FILE.test(name)) throw new SvcError("data_loss", `${file}: found a key named "${name}"`);
    }
    requireSha256(record.database);
    return { ...record, name: chosen };
  }

  /** Completes a backup. */
  async add({ timeMs, database, keys }: Omit<BackupRecord, "format">): Promise<string> {
    const record = { format: FORMAT, time_ms: timeMs, database, keys };
    const name = `backup-${new Date(timeMs).toISOString().replaceAll(":", "-")}.json`;
    await this.records.write(name, `${JSON.stringify(record, undefined, 1)}\n`);
    return name;
  }
}

/** Copies a content unless it is there; its bytes, or `undefined` if the source does not have it. */
export async function copyContent(
  from: FileStore,
  to: FileStore,
  sha256: string,
  heard: ShareHeard = () => {},
): Promise<{ readonly bytes: number; readonly isNew: boolean } | undefined> {
  const bytes = await from.size(sha256).catch(ifGone);
  if (bytes === undefined) return undefined;
  if (await to.size(sha256).catch(ifGone) === bytes) return { bytes, isNew: false };
  try {
    const upload = await to.receive(heardPieces(from.read(sha256), bytes, heard));
    try {
      requireSameSum(upload.file.sha256, sha256);
      await upload.keep();
    } catch (error) {
      await upload.abandon();
      throw error;
    }
  } catch (error) {
    return ifGone(error);
  }
  return { bytes, isNew: true };
}

/** A content's pieces; throws `data_loss` at its end unless it has the sum that names it. */
export async function* verifiedContent(files: FileStore, sha256: string): AsyncGenerator<Uint8Array> {
  const hash = createHash("sha256");
  for await (const piece of files.read(sha256)) {
    hash.update(piece);
    yield piece;
  }
  requireSameSum(hash.digest("hex"), sha256);
}

/** Contents come and go while the control plane serves. */
function ifGone(error: unknown): undefined {
  if (SvcError.from(error).code !== "not_found") throw error;
}

async function joined(pieces: AsyncIterable<Uint8Array>, bytesMax: number): Promise<Uint8Array> {
  const all: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of pieces) {
    bytes += piece.length;
    if (bytes > bytesMax) {
      throw new SvcError("data_loss", `the record of a backup has more than ${bytesMax} bytes`);
    }
    all.push(piece);
  }
  return new Uint8Array(await new Blob(all as Uint8Array<ArrayBuffer>[]).arrayBuffer());
}
