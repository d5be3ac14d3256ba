/**
 * A disk in memory that does what a real one may do: it loses on a power cut what was not synced, in whole or in
 * part, and in another order than it was written; it is full, and it fails.
 */

import { dirname } from "node:path";
import { SvcError } from "../../lib/base/error.ts";
import type { Disk, DiskFile } from "../../lib/agent/update/disk.ts";

interface Node {
  /** The text of a link, or `undefined` for a file. */
  readonly link?: string;
  bytes: Uint8Array;
  /** What a power cut leaves for certain. */
  synced: Uint8Array;
}

/** One change of the entries of a folder; it happens in whole or not at all. */
type Change = ReadonlyMap<string, Node | undefined>;

const MEMORY = "/run/";

export class FakeDisk implements Disk {
  /** Changes so far. */
  operations = 0;
  full = false;
  dead = false;
  /** What happens at an operation. */
  fault: (operation: number) => "cut" | "error" | undefined = () => undefined;
  /** As programs see it. */
  #entries = new Map<string, Node>();
  /** As a power cut leaves it for certain. */
  #durable = new Map<string, Node>();
  /** Not yet certain, in order, by folder. */
  #changes: { folder: string; change: Change }[] = [];

  constructor(private readonly random: () => number) {}

  /** What the next process finds after the power was cut. */
  cut(): void {
    const all = this.random() < 0.5;
    const kept = all ? Math.floor(this.random() * (this.#changes.length + 1)) : 0;
    this.#changes.forEach(({ change }, at) => {
      if (all ? at < kept : this.random() < 0.5) apply(this.#durable, change);
    });
    this.#changes = [];
    // What is in memory is never full, and gone.
    this.#entries = new Map([...this.#durable].filter(([path]) => !path.startsWith(MEMORY)));
    for (const node of new Set(this.#entries.values())) {
      if (node.link !== undefined || node.bytes === node.synced) continue;
      const lengths = [node.synced.length, node.bytes.length, Math.floor(this.random() * node.bytes.length)];
      const length = lengths[Math.floor(this.random() * 3)];
      node.bytes = length === node.synced.length ? node.synced : node.bytes.slice(0, length);
      node.synced = node.bytes;
    }
    this.dead = false;
  }

  /** The same disk as it is, to try something on. */
  copy(): FakeDisk {
    const copy = new FakeDisk(this.random);
    copy.#entries = new Map(this.#entries);
    copy.#durable = new Map(this.#entries);
    copy.full = this.full;
    return copy;
  }

  /** Damages a file behind everybody's back. */
  spoil(path: string): void {
    const node = this.#entries.get(path);
    if (node) node.bytes = node.synced = node.bytes.slice(0, Math.floor(node.bytes.length / 2));
  }

  /** Puts a file there for good. */
  put(path: string, bytes: Uint8Array): void {
    const node = { bytes, synced: bytes };
    this.#entries.set(path, node);
    this.#durable.set(path, node);
  }

  async read(path: string): Promise<Uint8Array> {
    await this.#alive(path);
    return this.#file(path).bytes;
  }

  async *chunks(path: string): AsyncIterable<Uint8Array> {
    const bytes = await this.read(path);
    for (let at = 0; at < bytes.length; at += 64) yield bytes.subarray(at, at + 64);
  }

  async open(path: string, how: "new" | "append"): Promise<DiskFile> {
    await this.#change(path, false);
    let node = how === "append" ? this.#entries.get(path) : undefined;
    if (!node) {
      node = { bytes: new Uint8Array(), synced: new Uint8Array() };
      this.#record(path, new Map([[path, node]]));
    }
    const file = node;
    return {
      write: async (bytes) => {
        // A short write: part of it is there.
        const short = Math.floor(this.random() * bytes.length);
        const failed = await this.#change(path, true).then(() => undefined, (error) => ({ error }));
        const more = failed ? bytes.subarray(0, short) : bytes;
        if (!this.dead || failed) file.bytes = Uint8Array.from([...file.bytes, ...more]);
        if (failed) throw failed.error;
      },
      sync: async () => {
        await this.#change(path, false);
        file.synced = file.bytes;
      },
      close: () => Promise.resolve(),
    };
  }

  async readLink(path: string): Promise<string | undefined> {
    await this.#alive(path);
    return this.#entries.get(path)?.link;
  }

  async makeLink(path: string, text: string): Promise<void> {
    await this.#change(path, true);
    if (this.#entries.has(path)) throw new SvcError("already_exists", `${path} is there`);
    const bytes = new Uint8Array();
    this.#record(path, new Map([[path, { link: text, bytes, synced: bytes }]]));
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#change(from, false);
    const node = this.#entries.get(from);
    if (!node) throw new SvcError("not_found", `cannot rename "${from}": it does not exist`);
    this.#record(to, new Map<string, Node | undefined>([[from, undefined], [to, node]]));
  }

  async remove(path: string): Promise<void> {
    await this.#change(path, false);
    if (this.#entries.has(path)) this.#record(path, new Map([[path, undefined]]));
  }

  async list(folder: string): Promise<string[]> {
    await this.#alive(folder);
    const inside = folder.endsWith("/") ? folder : `${folder}/`;
    const names = [...this.#entries.keys()].filter((path) => path.startsWith(inside));
    return names.map((path) => path.slice(inside.length)).filter((name) => !name.includes("/")).sort();
  }

  async stat(path: string) {
    await this.#alive(path);
    const node = this.#entries.get(path);
    return node && node.link === undefined ? { sizeBytes: node.bytes.length, modifiedMs: 0 } : undefined;
  }

  async makeFolder(path: string): Promise<void> {
    await this.#alive(path);
  }

  async makeExecutable(path: string): Promise<void> {
    await this.#alive(path);
  }

  async syncFolder(path: string): Promise<void> {
    await this.#change(path, false);
    this.#changes = this.#changes.filter(({ folder, change }) => {
      if (folder !== path) return true;
      apply(this.#durable, change);
      return false;
    });
  }

  async freeBytes(folder: string): Promise<number> {
    await this.#alive(folder);
    return this.full ? 0 : 2 ** 40;
  }

  #record(path: string, change: Change): void {
    apply(this.#entries, change);
    this.#changes.push({ folder: dirname(path), change });
  }

  #file(path: string): Node {
    const node = this.#entries.get(path);
    if (!node || node.link !== undefined) {
      throw new SvcError("not_found", `cannot read "${path}": it does not exist`);
    }
    return node;
  }

  async #change(path: string, grows: boolean): Promise<void> {
    await this.#alive(path);
    if (path.startsWith(MEMORY)) return;
    const fault = this.fault(this.operations++);
    if (fault === "cut") {
      this.dead = true;
      throw new SvcError("unknown", "the power is cut");
    }
    if (fault === "error") throw new SvcError("unknown", `${path}: input/output error`);
    if (grows && this.full) throw new SvcError("resource_exhausted", `${path}: the disk is full`);
  }

  async #alive(path: string): Promise<void> {
    await Promise.resolve();
    if (this.dead) throw new SvcError("unknown", `${path}: the power is cut`);
  }
}

function apply(entries: Map<string, Node>, change: Change): void {
  for (const [path, node] of change) {
    if (node) entries.set(path, node);
    else entries.delete(path);
  }
}
