/**
 * The files of this computer, as far as they are read: contents, folders, links, facts, space, and their changes.
 */

import { DurableFiles } from "./durable_files.ts";
import type { FileFacts, FileKind, HeldFile } from "./files.ts";
import { attempt } from "./refusal.ts";
import { openUnlinked } from "./unlinked.ts";
import { watchFile } from "./watch.ts";

const PIECE_BYTES = 64 * 1024;

export abstract class SystemReads extends DurableFiles {
  readFile(path: string): Promise<Uint8Array<ArrayBuffer>> {
    return attempt("read", path, () => Deno.readFile(path));
  }

  async *readPieces(path: string, from = 0): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    using file = await attempt("read", path, () => Deno.open(path));
    if (from > 0) await attempt("read", path, () => file.seek(from, Deno.SeekMode.Start));
    const buffer = new Uint8Array(PIECE_BYTES);
    for (;;) {
      const length = await attempt("read", path, () => file.read(buffer));
      if (length === null) return;
      yield buffer.slice(0, length);
    }
  }

  openUnlinked(path: string): Promise<HeldFile> {
    return attempt("read", path, () => openUnlinked(path));
  }

  entries(path: string): Promise<{ readonly name: string; readonly kind: FileKind }[]> {
    return attempt("list", path, async () => {
      const found = await Array.fromAsync(
        Deno.readDir(path),
        (entry) => ({ name: entry.name, kind: kindOf(entry) }),
      );
      return found.sort((a, b) => a.name < b.name ? -1 : 1);
    });
  }

  realPath(path: string): Promise<string> {
    return attempt("find", path, () => Deno.realPath(path));
  }

  freeBytes(folder: string): Promise<number> {
    return attempt("look for space in", folder, async () => {
      const { statfs } = await import("node:fs/promises");
      const { bavail, bsize } = await statfs(folder);
      return bavail * bsize;
    });
  }

  totalBytes(folder: string): Promise<number> {
    return attempt("look for the size of the disk with", folder, async () => {
      const { statfs } = await import("node:fs/promises");
      const { blocks, bsize } = await statfs(folder);
      return blocks * bsize;
    });
  }

  readLink(path: string): Promise<string | undefined> {
    return attempt("read", path, async () => {
      try {
        return await (onWindows() ? Deno.readTextFile(path) : Deno.readLink(path));
      } catch (error) {
        if (error instanceof Deno.errors.NotFound) return undefined;
        throw error;
      }
    });
  }

  watchFile(path: string, changed: () => void, options?: { readonly promptly?: boolean }): () => void {
    return watchFile(path, changed, options);
  }

  protected look(path: string, links: boolean): Promise<FileFacts> {
    return attempt("look at", path, async () => {
      const info = await (links ? Deno.lstat(path) : Deno.stat(path));
      return {
        kind: kindOf(info),
        sizeBytes: info.size,
        diskBytes: (info.blocks ?? 0) * 512,
        modifiedMs: info.mtime?.getTime() ?? 0,
        mode: onWindows() ? 0 : (info.mode ?? 0) & 0o777,
        uid: info.uid ?? undefined,
        gid: info.gid ?? undefined,
      };
    });
  }
}

export function onWindows(): boolean {
  return Deno.build.os === "windows";
}

function kindOf(info: { isFile: boolean; isDirectory: boolean; isSymlink: boolean }): FileKind {
  if (info.isFile) return "file";
  if (info.isDirectory) return "folder";
  return info.isSymlink ? "link" : "other";
}
