/**
 * Copies to the machine: each file is whole under its name, or not there. A file that is there already is replaced as
 * scp does: through a link, and it keeps its owner, and its permissions if the sender tells none.
 */

import type { CopiedFile, CopyToMachine, FilePart } from "../../lib/api/services/shell.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { FileFacts, Files } from "../../lib/base/files/files.ts";
import type { Environment } from "../../lib/base/host.ts";
import { FILES_MAX, partsOfName, pathHere, splitPath } from "./paths.ts";

/** A copy leaves this much of the disk free, and checks again after this many bytes. */
const FREE_BYTES_MIN = 64 * 1024 * 1024;
const LOOK_EVERY_BYTES = 16 * 1024 * 1024;

/** Of files and folders whose permissions the sender does not tell. */
const FILE_MODE = 0o640;
const FOLDER_MODE = 0o750;
const PERMISSIONS = 0o777;

interface Target {
  readonly folder: string;
  /** In place of the first part of each name. */
  readonly rename?: string;
}

/** Receives the parts of files and yields when each file is complete. */
export async function* copyIn(
  host: Files & Environment,
  to: CopyToMachine,
  parts: AsyncIterable<FilePart>,
  signal: AbortSignal,
): AsyncGenerator<void> {
  const target = await resolveTarget(host, to);
  const iterator = parts[Symbol.asyncIterator]();
  try {
    for (let files = 0;; files++) {
      const first = await iterator.next();
      signal.throwIfAborted();
      if (first.done) return;
      if (files >= FILES_MAX) throw tooMany();
      await copyFile(host, to, target, first.value, iterator, signal);
      yield;
    }
  } finally {
    await iterator.return?.();
  }
}

function tooMany(): SvcError {
  return new SvcError("resource_exhausted", `a copy has at most ${FILES_MAX} files`);
}

/** The rules of scp: an existing folder takes the source; otherwise the destination is the new name. */
async function resolveTarget(
  host: Files & Environment,
  { source, destination }: CopyToMachine,
): Promise<Target> {
  const path = pathHere(host, destination);
  const found = await host.stat(path);
  if (found?.kind === "folder") return { folder: path };
  if (source === "files") {
    throw new SvcError("not_found", `"${path}" does not exist or is not a directory`);
  }
  if (found && source === "folder") {
    throw new SvcError("failed_precondition", `destination "${path}" is an existing file`);
  }
  const { folder, name } = splitPath(path);
  const parent = await host.stat(folder);
  if (!parent) throw new SvcError("not_found", `destination "${path}": "${folder}" does not exist`);
  if (parent.kind === "folder") return { folder, rename: name };
  throw new SvcError("failed_precondition", `parent of destination "${path}" is an existing file`);
}

async function copyFile(
  host: Files,
  { preserve }: CopyToMachine,
  { folder, rename }: Target,
  first: FilePart,
  rest: AsyncIterator<FilePart>,
  signal: AbortSignal,
): Promise<void> {
  const { file } = first;
  if (!file) throw new SvcError("invalid_argument", "a file began without its name");

  const names = partsOfName(file.name);
  if (rename !== undefined) names[0] = rename;
  const { path, facts } = await resolveDestination(host, `${folder}/${names.join("/")}`);
  const mode = modeOf(file, facts);
  if (names.length > 1) await host.makeFolder(splitPath(path).folder, { mode: 0o755 });
  const content = contentOf(host, folder, file, first, rest, signal);
  if (file.isFolder) {
    for await (const _ of content);
    await host.makeFolder(path, { mode });
  } else {
    await host.writePieces(path, content, { mode });
    if (facts) await keepOwner(host, path, facts);
  }

  if (!preserve) return;
  await host.setMode(path, mode);
  if (file.modifiedMs !== undefined) await host.setModified(path, file.modifiedMs);
}

/** Where a file goes, and the facts of the file that it replaces there. */
async function resolveDestination(host: Files, path: string): Promise<{ path: string; facts?: FileFacts }> {
  const facts = await host.stat(path);
  switch (facts?.kind) {
    case "file":
      return { path: await host.realPath(path), facts };
    case undefined:
    case "folder":
      return { path };
    default:
      // A file in place of a device or a pipe would break every program that uses it.
      throw new SvcError(
        "failed_precondition",
        `cannot copy over "${path}": it is neither a file nor a folder`,
      );
  }
}

/** Gives a file back to the owner of the one that it has replaced. Only the administrator can. */
async function keepOwner(host: Files, path: string, { uid, gid }: FileFacts): Promise<void> {
  const now = await host.stat(path);
  if (uid === undefined || gid === undefined || (now?.uid === uid && now.gid === gid)) return;
  await host.setOwner(path, uid, gid).catch(() => {});
}

/** Bits beyond the permissions, such as set-user-id, are not taken from others. */
function modeOf({ mode = 0, isFolder }: CopiedFile, replaced: FileFacts | undefined): number {
  return mode & PERMISSIONS || (replaced?.mode ?? (isFolder ? FOLDER_MODE : FILE_MODE));
}

async function* contentOf(
  host: Files,
  folder: string,
  file: CopiedFile,
  first: FilePart,
  rest: AsyncIterator<FilePart>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let unchecked = file.isFolder ? 0 : Math.max(0, file.sizeBytes);
  await requireFreeSpace(host, folder, file, unchecked);
  unchecked = 0;

  for (let part = first;;) {
    if (part.data.length > 0) yield part.data;
    if (part.isLast) return;
    unchecked += part.data.length;
    if (unchecked > LOOK_EVERY_BYTES) {
      await requireFreeSpace(host, folder, file, 0);
      unchecked = 0;
    }
    const next = await rest.next();
    signal.throwIfAborted();
    if (next.done) throw new SvcError("data_loss", `the copy ended within "${file.name}"`);
    part = next.value;
    if (part.file) {
      throw new SvcError("invalid_argument", `"${part.file.name}" began before "${file.name}" had ended`);
    }
  }
}

async function requireFreeSpace(
  host: Files,
  folder: string,
  { name }: CopiedFile,
  bytes: number,
): Promise<void> {
  const free = await host.freeBytes(folder);
  if (free - bytes >= FREE_BYTES_MIN) return;
  throw new SvcError(
    "resource_exhausted",
    `no room for "${name}": ${bytes} bytes to write, ${free} free on the disk, of which ${FREE_BYTES_MIN} stay free`,
  );
}
