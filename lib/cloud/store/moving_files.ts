/**
 * Contents that are moving from one place to another: new ones go to the new place, and all are readable meanwhile.
 *
 * Whatever is removed is removed from both places, so that the old one does not bring it back.
 */

import { SvcError } from "../../base/error.ts";
import type { DiskState, DiskUse } from "./disk_space.ts";
import type { FileStore, StoredFile, Upload } from "./files.ts";

export class MovingFiles implements FileStore {
  constructor(private readonly now: FileStore, private readonly before: FileStore) {}

  async requireSpace(use: DiskUse, bytes: number): Promise<void> {
    await this.now.requireSpace(use, bytes);
  }

  async diskState(): Promise<DiskState | undefined> {
    return await this.now.diskState();
  }

  async requireReachable(): Promise<void> {
    await this.now.requireReachable();
  }

  async put(content: AsyncIterable<Uint8Array>, bytesMax?: number): Promise<StoredFile> {
    return await this.now.put(content, bytesMax);
  }

  async receive(content: AsyncIterable<Uint8Array>, bytesMax?: number): Promise<Upload> {
    return await this.now.receive(content, bytesMax);
  }

  async *read(sha256: string, offset = 0): AsyncGenerator<Uint8Array> {
    let hasBegun = false;
    try {
      for await (const piece of this.now.read(sha256, offset)) {
        hasBegun = true;
        yield piece;
      }
      return;
    } catch (error) {
      if (hasBegun || !isMissing(error)) throw error;
    }
    yield* this.before.read(sha256, offset);
  }

  async link(sha256: string, path: string): Promise<boolean> {
    try {
      return await this.now.link(sha256, path);
    } catch (error) {
      if (!isMissing(error)) throw error;
      return await this.before.link(sha256, path);
    }
  }

  async size(sha256: string): Promise<number> {
    try {
      return await this.now.size(sha256);
    } catch (error) {
      if (!isMissing(error)) throw error;
      return await this.before.size(sha256);
    }
  }

  async *list(range: { readonly olderThanMs: number }): AsyncGenerator<string> {
    const listed = new Set<string>();
    for await (const sha256 of this.now.list(range)) {
      listed.add(sha256);
      yield sha256;
    }
    for await (const sha256 of this.before.list(range)) if (!listed.has(sha256)) yield sha256;
  }

  async remove(sha256: string): Promise<void> {
    await this.now.remove(sha256);
    await this.before.remove(sha256);
  }

  async removeUnless(sha256: string, isNeeded: () => Promise<boolean>): Promise<void> {
    await this.now.removeUnless(sha256, isNeeded);
    await this.before.removeUnless(sha256, isNeeded);
  }
}

function isMissing(error: unknown): boolean {
  return SvcError.from(error).code === "not_found";
}
