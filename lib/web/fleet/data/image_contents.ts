/**
 * Contents of images from the control plane: a few at a time, the last ones kept, so that a person who pages back sees
 * them at once.
 */

import type { dataApi } from "@viamrobotics/sdk";
import type { FleetCalls } from "../account/fleet_calls.ts";

const AT_ONCE = 4;
const KEPT_BYTES_MAX = 128 * 1024 * 1024;

export function imageId({ binaryDataId, id }: dataApi.BinaryMetadata): string {
  return binaryDataId || id;
}

export class ImageContents {
  readonly #kept = new Map<string, Promise<Uint8Array>>();
  readonly #sizes = new Map<string, number>();
  #bytes = 0;
  #loading = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(private readonly calls: () => FleetCalls | undefined) {}

  /** The content of an image. Rejects with the call's error. */
  load(id: string): Promise<Uint8Array> {
    const kept = this.#kept.get(id);
    if (kept) {
      // The last used one goes last.
      this.#kept.delete(id);
      this.#kept.set(id, kept);
      return kept;
    }
    const loading = this.#fetch(id);
    this.#kept.set(id, loading);
    loading.then((bytes) => this.#keep(id, bytes.length), () => this.#kept.delete(id));
    return loading;
  }

  async #fetch(id: string): Promise<Uint8Array> {
    if (this.#loading >= AT_ONCE) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#loading++;
    try {
      const [found] = await this.calls()?.data.binaryDataByIds([id], true) ?? [];
      if (!found) throw new Error("the image is no longer there");
      return found.binary;
    } finally {
      this.#loading--;
      this.#waiting.shift()?.();
    }
  }

  #keep(id: string, bytes: number): void {
    this.#sizes.set(id, bytes);
    this.#bytes += bytes;
    for (const oldest of this.#kept.keys()) {
      if (this.#bytes <= KEPT_BYTES_MAX || oldest === id) return;
      this.#bytes -= this.#sizes.get(oldest) ?? 0;
      this.#sizes.delete(oldest);
      this.#kept.delete(oldest);
    }
  }
}
