/**
 * Durable writes, built from the few primitives of a file system.
 *
 * A file system keeps bytes for certain only after their file is synced, and a name only after its folder is synced.
 * The methods below combine this into one operation (temporary file → sync → rename → sync of the folder), for the
 * real files and for those of the simulations alike, which lose whatever is not synced.
 */

import { basename, dirname, join, normalize } from "node:path";
import {
  type AppendFile,
  FileError,
  type FileFacts,
  type FileKind,
  type Files,
  type FoundFile,
  type HeldFile,
  type OpenFile,
  type OpenHow,
  TEMPORARY,
} from "./files.ts";

const FILE_MODE = 0o644;
/** Folders of the system's devices, and of the open files of processes; anybody may leave files in `/dev/shm`. */
const DEVICES = /^\/(dev\/(?!shm\/)|proc\/)/;

export abstract class DurableFiles implements Files {
  abstract readFile(path: string): Promise<Uint8Array<ArrayBuffer>>;
  abstract readPieces(path: string, from?: number): AsyncIterable<Uint8Array<ArrayBuffer>>;
  abstract openUnlinked(path: string): Promise<HeldFile>;
  abstract entries(path: string): Promise<{ readonly name: string; readonly kind: FileKind }[]>;
  abstract realPath(path: string): Promise<string>;
  abstract freeBytes(folder: string): Promise<number>;
  abstract totalBytes(folder: string): Promise<number>;
  abstract openAppend(path: string): AppendFile;
  abstract moveFile(from: string, to: string): void;
  abstract emptyFile(path: string): void;
  abstract removeFile(path: string): void;
  abstract open(path: string, how: OpenHow, mode?: number): Promise<OpenFile>;
  abstract makeFolder(path: string, options?: { readonly mode?: number }): Promise<void>;
  abstract temporaryFolder(prefix: string, use?: "sockets"): Promise<string>;
  abstract addName(path: string, name: string): Promise<void>;
  abstract remove(path: string): Promise<void>;
  abstract removeTree(path: string): Promise<void>;
  abstract setMode(path: string, mode: number): Promise<void>;
  abstract setModified(path: string, modifiedMs: number): Promise<void>;
  abstract setOwner(path: string, uid: number, gid: number): Promise<void>;
  abstract lock(path: string): Promise<(() => void) | undefined>;
  abstract syncFile(path: string): Promise<void>;
  abstract syncFolder(path: string): Promise<void>;
  abstract readLink(path: string): Promise<string | undefined>;
  abstract watchFile(
    path: string,
    changed: () => void,
    options?: { readonly promptly?: boolean },
  ): () => void;

  /** Throws if nothing is at the path. */
  protected abstract look(path: string, links: boolean): Promise<FileFacts>;
  /** Opens a new file that will replace the one at `path`. */
  protected openTemporary(temporary: string, _path: string, mode: number): Promise<OpenFile> {
    return this.open(temporary, "exclusive", mode);
  }
  protected abstract rename(from: string, to: string): Promise<void>;
  /** Throws if something is at the path. */
  protected abstract makeLink(path: string, text: string): Promise<void>;
  /** A new name that no other file has. */
  protected abstract temporaryName(): string;

  async readTextFile(path: string): Promise<string> {
    return new TextDecoder().decode(await this.readFile(path));
  }

  async readFolder(path: string): Promise<string[]> {
    return (await this.entries(path)).map(({ name }) => name);
  }

  async fileSize(path: string): Promise<number | undefined> {
    return (await this.stat(path))?.sizeBytes;
  }

  async stat(path: string, { links = false } = {}): Promise<FileFacts | undefined> {
    return await this.look(path, links).catch(() => undefined);
  }

  async findFile(path: string): Promise<FileFacts | undefined> {
    const found = await this.stat(path);
    return found?.kind === "file" ? found : undefined;
  }

  filesAt(path: string): Promise<readonly FoundFile[]> {
    return this.#foundAt(path, "");
  }

  async writeFile(path: string, content: string | Uint8Array, { mode = FILE_MODE } = {}): Promise<void> {
    await this.#replace(path, mode, content);
  }

  async writePieces(
    path: string,
    pieces: AsyncIterable<Uint8Array>,
    { mode = FILE_MODE } = {},
  ): Promise<void> {
    await this.#replace(path, mode, pieces);
  }

  async copyFile(from: string, to: string, { mode = FILE_MODE } = {}): Promise<void> {
    await this.#replace(to, mode, this.readPieces(from));
  }

  async createFile(
    path: string,
    content: string | Uint8Array | AsyncIterable<Uint8Array>,
    { mode = FILE_MODE } = {},
  ): Promise<void> {
    const file = await this.open(path, "exclusive", mode);
    try {
      await writeAll(file, content);
    } finally {
      file.close();
    }
  }

  async moveDurably(from: string, to: string): Promise<void> {
    await this.rename(from, to);
    await this.syncFolder(dirname(to));
  }

  async removeDurably(path: string): Promise<void> {
    await this.remove(path);
    await this.syncFolder(dirname(path));
  }

  createLink(path: string, text: string): Promise<void> {
    return this.makeLink(path, text);
  }

  async turnLink(path: string, text: string): Promise<void> {
    const temporary = `${path}${TEMPORARY}`;
    await this.remove(temporary);
    await this.makeLink(temporary, text);
    await this.#giveName(temporary, path);
  }

  async #replace(
    path: string,
    mode: number,
    content: string | Uint8Array | AsyncIterable<Uint8Array>,
  ): Promise<void> {
    if (await this.#isDevice(path)) return await this.#writeInto(path, content);
    const temporary = `${path}.${this.temporaryName()}${TEMPORARY}`;
    try {
      const file = await this.openTemporary(temporary, path, mode);
      try {
        await writeAll(file, content);
        await file.sync();
      } finally {
        file.close();
      }
      await this.#giveName(temporary, path);
    } catch (error) {
      // A full disk needs the space.
      await this.remove(temporary).catch(() => {});
      throw writeFailure(error, temporary, path);
    }
  }

  /** Whether a path is one of the system's devices, or leads to one (`/dev/null`, `/dev/stdout`). */
  async #isDevice(path: string): Promise<boolean> {
    if (!DEVICES.test(normalize(path))) return false;
    const found = await this.stat(path, { links: true });
    return found?.kind === "other" || found?.kind === "link";
  }

  /** Replacing a device would take it from every program. */
  async #writeInto(path: string, content: string | Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    const device = await this.open(path, "append");
    try {
      await writeAll(device, content);
    } finally {
      device.close();
    }
  }

  async #giveName(temporary: string, path: string): Promise<void> {
    try {
      await this.rename(temporary, path);
    } catch (error) {
      await this.remove(temporary).catch(() => {});
      throw error;
    }
    await this.syncFolder(dirname(path));
  }

  /** `name` is the entry's path below the requested folder; empty for that folder itself. */
  async #foundAt(path: string, name: string): Promise<FoundFile[]> {
    const { kind, sizeBytes, modifiedMs } = await this.look(path, name !== "");
    if (kind === "file") return [{ path, name: name || basename(path), sizeBytes, modifiedMs }];
    if (kind !== "folder") return [];
    const found: FoundFile[] = [];
    for (const entry of await this.readFolder(path)) {
      found.push(...await this.#foundAt(join(path, entry), name === "" ? entry : `${name}/${entry}`));
    }
    return found;
  }
}

async function writeAll(
  file: OpenFile,
  content: string | Uint8Array | AsyncIterable<Uint8Array>,
): Promise<void> {
  if (typeof content === "string") await file.write(new TextEncoder().encode(content));
  else if (content instanceof Uint8Array) await file.write(content);
  else for await (const piece of content) await file.write(piece);
}

/** Tells of the file itself: nobody but these methods knows the temporary one. */
function writeFailure(error: unknown, temporary: string, path: string): unknown {
  if (!(error instanceof FileError) || error.path !== temporary) return error;
  const { code, message, cause } = error;
  const why = code === "not_found" ? "its folder does not exist" : message.slice(message.indexOf('": ') + 3);
  return new FileError(code, `cannot write "${path}": ${why}`, path, { cause });
}
