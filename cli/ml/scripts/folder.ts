/**
 * The folder of a training script: checked against the contract, and packed into an archive.
 */

import { join } from "node:path";
import type { ReadFiles } from "../../../lib/base/files/files.ts";
import {
  type ArchiveFile,
  fileToPack,
  linkToPack,
  packed,
  unpacked,
} from "../../../lib/base/files/archive.ts";
import { whyMissing } from "../../../lib/base/files/names.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { counted } from "../../../lib/base/log/counted.ts";
import { sizeText } from "../../table.ts";

/** The files that install a script; it has one of these. */
const SETUP = ["setup.py", "pyproject.toml"];
const TRAINING = "model/training.py";
/** Leftovers of tools, which are not part of a script. */
const LEFT_OUT = /^(?:\..*|__pycache__|node_modules|venv|build|dist|.*\.(?:pyc|egg-info))$/;
const FILES_MAX = 10_000;
const BYTES_MAX = 1024 ** 3;
const DEPTH_MAX = 32;

export interface ScriptArchive {
  readonly files: { readonly name: string; readonly size: bigint }[];
  /** Unpacked. */
  readonly size: number;
  readonly bytes: AsyncIterable<Uint8Array>;
}

/** A packed folder, or a `.tar.gz` unchanged. Throws `invalid_argument` if it is no training script. */
export async function scriptArchive(disk: ReadFiles, path: string): Promise<ScriptArchive> {
  const found = await disk.stat(path);
  if (!found) throw new SvcError("not_found", `cannot read "${path}": ${whyMissing(path)}`);
  const folder = found.kind === "folder";
  const files = folder ? await filesIn(disk, path) : await readArchiveFiles(disk, path);
  checkScript(path, files.map((file) => file.path));
  return {
    files: files.map(({ path: name, bytes }) => ({ name, size: BigInt(bytes) })),
    size: files.reduce((sum, { bytes }) => sum + bytes, 0),
    bytes: folder ? packed(files) : disk.readPieces(path),
  };
}

function checkScript(path: string, files: readonly string[]): void {
  const missing = [
    ...SETUP.some((one) => files.includes(one)) ? [] : [SETUP.join(" or ")],
    ...files.includes(TRAINING) ? [] : [TRAINING],
  ];
  if (missing.length === 0) return;
  const inner = files.find((one) => one.endsWith(`/${TRAINING}`));
  const hint = inner ? `; ${inner.slice(0, -TRAINING.length)} in it looks like one` : "";
  throw new SvcError(
    "invalid_argument",
    `${path} is not a training script: it has no ${missing.join(" and no ")}${hint}`,
  );
}

async function filesIn(disk: ReadFiles, root: string, prefix = "", depth = 0): Promise<ArchiveFile[]> {
  const folder = join(root, prefix);
  if (depth > DEPTH_MAX) {
    throw new SvcError("invalid_argument", `${folder} is more than ${DEPTH_MAX} folders deep`);
  }
  const files: ArchiveFile[] = [];
  for (const { name, kind } of await disk.entries(folder)) {
    if (LEFT_OUT.test(name)) continue;
    const path = `${prefix}${name}`;
    if (kind === "folder") files.push(...await filesIn(disk, root, `${path}/`, depth + 1));
    if (kind === "link") files.push(await fileOfLink(disk, root, path));
    const facts = kind === "file" ? await disk.stat(join(root, path)) : undefined;
    if (facts) files.push(fileToPack(disk, root, path, facts));
  }
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  if (files.length <= FILES_MAX && bytes <= BYTES_MAX) return files;
  const found = `${counted(files.length, "file")} of ${sizeText(bytes)}`;
  throw new SvcError(
    "resource_exhausted",
    `${folder} has ${found}, wanted at most ${FILES_MAX} of ${sizeText(BYTES_MAX)}`,
  );
}

/** Scripts' archives have no links, not even those to folders. */
async function fileOfLink(disk: ReadFiles, root: string, path: string): Promise<ArchiveFile> {
  const file = await linkToPack(disk, root, path);
  if (file.link === undefined) return file;
  throw new SvcError(
    "failed_precondition",
    `cannot pack ${root}: ${path} is a link to a folder; put the folder in its place`,
  );
}

async function readArchiveFiles(disk: ReadFiles, archive: string): Promise<ArchiveFile[]> {
  const files: ArchiveFile[] = [];
  const limits = { filesMax: FILES_MAX, bytesMax: BYTES_MAX };
  for await (const file of unpacked(disk.readPieces(archive), limits)) files.push(file);
  return files;
}
