/**
 * The folder of a training script: whether it has what the contract wants, and the archive that is made of it.
 */

import { open, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { type ArchiveFile, packed, unpacked } from "../../../lib/base/files/archive.ts";
import { messageOf, SvcError } from "../../../lib/base/error.ts";

/** How a script says how it is installed; one of these. */
const SETUP = ["setup.py", "pyproject.toml"];
const TRAINING = "model/training.py";
/** What tools leave behind is no part of a script. */
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

/** A folder, packed, or a `.tar.gz` as it is. Throws `invalid_argument` where it is no training script. */
export async function scriptArchive(path: string): Promise<ScriptArchive> {
  const found = await stat(path).catch((cause) => {
    throw new SvcError("not_found", `cannot read "${path}": ${messageOf(cause)}`, { cause });
  });
  const files = found.isDirectory() ? await filesIn(path) : await filesOf(path);
  checkScript(path, files.map((file) => file.path));
  return {
    files: files.map(({ path: name, bytes }) => ({ name, size: BigInt(bytes) })),
    size: files.reduce((sum, { bytes }) => sum + bytes, 0),
    bytes: found.isDirectory() ? packed(files) : contentOf(path),
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
    `${path} is no training script: it has no ${missing.join(" and no ")}${hint}`,
  );
}

async function filesIn(folder: string, prefix = "", depth = 0): Promise<ArchiveFile[]> {
  if (depth > DEPTH_MAX) {
    throw new SvcError("invalid_argument", `${folder} is more than ${DEPTH_MAX} folders deep`);
  }
  const entries = await readdir(folder, { withFileTypes: true }).catch((cause) => {
    throw new SvcError("not_found", `cannot read "${folder}": ${messageOf(cause)}`, { cause });
  });
  const files: ArchiveFile[] = [];
  for (const entry of entries.sort((a, b) => a.name < b.name ? -1 : 1)) {
    if (LEFT_OUT.test(entry.name)) continue;
    const [path, own] = [`${prefix}${entry.name}`, join(folder, entry.name)];
    if (entry.isDirectory()) files.push(...await filesIn(own, `${path}/`, depth + 1));
    else if (entry.isFile()) {
      const { size, mode } = await stat(own);
      files.push({ path, bytes: size, executable: (mode & 0o111) !== 0, content: contentOf(own) });
    }
  }
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  if (files.length <= FILES_MAX && bytes <= BYTES_MAX) return files;
  const found = `${files.length} files of ${bytes} bytes`;
  throw new SvcError(
    "resource_exhausted",
    `${folder} has ${found}, wanted at most ${FILES_MAX} of ${BYTES_MAX} bytes`,
  );
}

async function filesOf(archive: string): Promise<ArchiveFile[]> {
  const files: ArchiveFile[] = [];
  const limits = { filesMax: FILES_MAX, bytesMax: BYTES_MAX };
  for await (const file of unpacked(contentOf(archive), limits)) files.push(file);
  return files;
}

async function* contentOf(path: string): AsyncGenerator<Uint8Array> {
  const file = await open(path);
  try {
    // The stream would close the file by itself, but not where nobody reads to its end.
    for await (const chunk of file.createReadStream({ autoClose: false })) yield chunk as Uint8Array;
  } finally {
    await file.close();
  }
}
