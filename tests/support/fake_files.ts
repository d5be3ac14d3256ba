/**
 * Files in memory with the failures of real ones: the disk fills up, operations fail, the writing process is killed,
 * and a power cut takes unsynced data, in whole or in part, and in another order than it was written.
 *
 * The only double of the files port, for unit tests and simulations alike. Every changing operation has a number, from
 * 0; `fault` decides its failure. Files below `/run/` are in memory: they never fail, and a power cut takes them.
 */

import { dirname, join, normalize } from "node:path";
import type { Code } from "../../lib/base/error.ts";
import { DurableFiles } from "../../lib/base/files/durable_files.ts";
import {
  type AppendFile,
  FileError,
  type FileFacts,
  type FileKind,
  type HeldFile,
  type OpenFile,
  type OpenHow,
} from "../../lib/base/files/files.ts";

export interface Fault {
  /**
   * `error`: the operation fails. `full`: it fails because the disk is full. `denied`: it is not allowed. `kill`: it
   * is the process's last one; `restart` gives the next process. `cut`: the power fails; `cut` turns it on again.
   */
  readonly kind: "error" | "full" | "denied" | "kill" | "cut";
  /** The written share of the bytes; random by default. Indivisible operations happen if it is 1. */
  readonly share?: number;
}

interface Node {
  /** The text of a link, or `undefined` for a file. */
  readonly link?: string;
  bytes: Uint8Array<ArrayBuffer>;
  /** The content that surely survives a power cut. */
  synced: Uint8Array<ArrayBuffer>;
  mode: number;
  /** Only what `setModified` has set: nothing else tells the time here. */
  modifiedMs?: number;
}

/** One change of the entries of a folder; it happens in whole or not at all. */
type Change = ReadonlyMap<string, Node | undefined>;

interface Disk {
  /** The programs' view; an open file keeps its bytes when it is renamed or removed. */
  entries: Map<string, Node>;
  /** The entries that surely survive a power cut. */
  durable: Map<string, Node>;
  /** Not yet certain, in order, by folder. */
  changes: { folder: string; change: Change }[];
  readonly folders: Set<string>;
  names: number;
}

const MEMORY = "/run/";
const PIECE_BYTES = 64;
const LINKS_MAX = 8;
const CODES: { readonly [K in Fault["kind"]]: readonly [Code, string] } = {
  error: ["unknown", "input/output error"],
  full: ["resource_exhausted", "the disk is full"],
  denied: ["permission_denied", "it is not allowed"],
  kill: ["unknown", "the process is killed"],
  cut: ["unknown", "the power is cut"],
};

export class FakeFiles extends DurableFiles {
  /** Number of changes so far. */
  operations = 0;
  /** Number of files open for appending. */
  opened = 0;
  /** Number of files that `open` gave and nobody has closed. */
  writing = 0;
  /** The disk is full: nothing grows any more. */
  full = false;
  /** Killed, or without power. */
  dead = false;
  /** Awaited before every asynchronous operation. */
  late: () => Promise<void> = () => Promise.resolve();
  /** Paths of locks that are taken. */
  readonly locked = new Set<string>();
  readonly #watchers = new Set<{ readonly path: string; readonly changed: () => void }>();

  constructor(
    public fault: (operation: number) => Fault | undefined = () => undefined,
    private readonly random: () => number = () => 0.5,
    private readonly disk: Disk = {
      entries: new Map(),
      durable: new Map(),
      changes: [],
      folders: new Set(["/"]),
      names: 0,
    },
  ) {
    super();
  }

  /** A disk with these files. */
  static with(files: { readonly [path: string]: string | Uint8Array }): FakeFiles {
    const made = new FakeFiles();
    for (const [path, content] of Object.entries(files)) made.put(path, content);
    return made;
  }

  /** The same files for the next process. */
  restart(fault?: (operation: number) => Fault | undefined): FakeFiles {
    return new FakeFiles(fault, this.random, this.disk);
  }

  /** Cuts the power; the next process finds the remains. */
  cut(): void {
    const { disk } = this;
    const all = this.random() < 0.5;
    const kept = all ? Math.floor(this.random() * (disk.changes.length + 1)) : 0;
    disk.changes.forEach(({ change }, at) => {
      if (all ? at < kept : this.random() < 0.5) apply(disk.durable, change);
    });
    disk.changes = [];
    disk.entries = new Map([...disk.durable].filter(([path]) => !path.startsWith(MEMORY)));
    for (const node of new Set(disk.entries.values())) {
      if (node.link !== undefined || node.bytes === node.synced) continue;
      const lengths = [node.synced.length, node.bytes.length, Math.floor(this.random() * node.bytes.length)];
      const length = lengths[Math.floor(this.random() * 3)];
      node.bytes = length === node.synced.length ? node.synced : node.bytes.slice(0, length);
      node.synced = node.bytes;
    }
    this.dead = false;
  }

  /** A copy of the files, for experiments. */
  copy(): FakeFiles {
    const entries = new Map([...this.disk.entries].map(([path, node]) => [path, { ...node }]));
    const disk = { ...this.disk, entries, durable: new Map(entries), changes: [] };
    const copy = new FakeFiles(undefined, this.random, disk);
    copy.full = this.full;
    return copy;
  }

  /** Damages a file silently. */
  spoil(path: string): void {
    const node = this.disk.entries.get(path);
    if (node) node.bytes = node.synced = node.bytes.slice(0, Math.floor(node.bytes.length / 2));
  }

  /** Creates a file durably. */
  put(path: string, content: string | Uint8Array, mode = 0o644): void {
    const bytes = Uint8Array.from(typeof content === "string" ? new TextEncoder().encode(content) : content);
    const node = { bytes, synced: bytes, mode };
    this.disk.entries.set(path, node);
    this.disk.durable.set(path, node);
    this.#tell([path]);
  }

  /** Sorted. */
  get paths(): string[] {
    return [...this.disk.entries.keys()].sort();
  }

  mode(path: string): number {
    return this.#node("look at", path).mode;
  }

  text(path: string): string {
    return new TextDecoder().decode(this.#node("read", path).bytes);
  }

  async readFile(path: string): Promise<Uint8Array<ArrayBuffer>> {
    await this.#begin("read", path);
    return this.#node("read", path).bytes;
  }

  async *readPieces(path: string, from = 0): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    this.#alive("read", path);
    const { bytes } = this.#node("read", path);
    for (let at = from; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
  }

  async openUnlinked(path: string): Promise<HeldFile> {
    await this.#begin("read", path);
    const node = this.disk.entries.get(path);
    if (!node) throw missing("read", path);
    if (node.link !== undefined) {
      throw new FileError(
        "permission_denied",
        `cannot read "${path}": "${path}" on its path is a link`,
        path,
      );
    }
    const { bytes, modifiedMs = 0 } = node;
    const close = () => Promise.resolve();
    return { path, sizeBytes: bytes.length, modifiedMs, pieces: () => this.readPieces(path), close };
  }

  async entries(path: string): Promise<{ readonly name: string; readonly kind: FileKind }[]> {
    await this.#begin("list", path);
    const inside = path.endsWith("/") ? path : `${path}/`;
    const found = new Map<string, FileKind>();
    for (const [entry, node] of this.disk.entries) {
      if (!entry.startsWith(inside)) continue;
      const [name, ...more] = entry.slice(inside.length).split("/");
      const kind = node.link === undefined ? "file" : "link";
      found.set(name, more.length > 0 ? "folder" : kind);
    }
    for (const folder of this.disk.folders) {
      const name = folder.startsWith(inside) ? folder.slice(inside.length).split("/")[0] : "";
      if (name !== "") found.set(name, "folder");
    }
    if (found.size === 0 && !this.disk.folders.has(path)) throw missing("list", path);
    return [...found].map(([name, kind]) => ({ name, kind })).sort((a, b) => a.name < b.name ? -1 : 1);
  }

  async realPath(path: string): Promise<string> {
    await this.#begin("find", path);
    return this.#followed("find", normalize(path));
  }

  async freeBytes(folder: string): Promise<number> {
    await this.#begin("look for space in", folder);
    return this.full ? 0 : 2 ** 40;
  }

  async totalBytes(folder: string): Promise<number> {
    await this.#begin("look for space in", folder);
    return 2 ** 41;
  }

  openAppend(path: string): AppendFile {
    this.#change("append to", path, false, (share) => {
      if (share === 1 && !this.disk.entries.has(path)) this.#record(path, new Map([[path, blank(0o640)]]));
    });
    const file = this.#node("append to", path);
    this.opened++;
    return {
      sizeBytes: file.bytes.length,
      endsLine: file.bytes.length === 0 || file.bytes.at(-1) === 10,
      regular: true,
      append: (bytes) => this.#write("append to", path, file, bytes),
      look: () => this.disk.entries.get(path) === file ? file.bytes.length : undefined,
      close: () => void this.opened--,
    };
  }

  moveFile(from: string, to: string): void {
    this.#alive("rename", from);
    const node = this.disk.entries.get(from);
    if (!node) throw missing("rename", from);
    this.#change("rename", from, false, (share) => {
      if (share < 1) return;
      this.#record(to, new Map<string, Node | undefined>([[from, undefined], [to, node]]));
    });
  }

  emptyFile(path: string): void {
    this.#alive("empty", path);
    const node = this.#node("empty", path);
    this.#change("empty", path, false, (share) => {
      if (share === 1) node.bytes = new Uint8Array();
    });
  }

  removeFile(path: string): void {
    this.#alive("remove", path);
    if (!this.disk.entries.has(path)) throw missing("remove", path);
    this.#change("remove", path, false, (share) => {
      if (share === 1) this.#record(path, new Map([[path, undefined]]));
    });
  }

  async open(path: string, how: OpenHow, mode = 0o644): Promise<OpenFile> {
    await this.#begin("write", path);
    const there = this.disk.entries.get(path);
    if (there && how === "exclusive") {
      throw new FileError("already_exists", `cannot write "${path}": it already exists`, path);
    }
    this.#change("write", path, false, (share) => {
      if (share === 1 && !(there && how === "append")) {
        this.#record(path, new Map([[path, blank(there?.mode ?? mode)]]));
      }
    });
    const file = this.#node("write", path);
    this.writing++;
    let isOpen = true;
    return {
      write: async (bytes) => {
        await this.#begin("write", path);
        this.#write("write", path, file, bytes);
      },
      sync: async () => {
        await this.#begin("sync", path);
        this.#change("sync", path, false, (share) => {
          if (share === 1) file.synced = file.bytes;
        });
      },
      close: () => {
        if (isOpen) this.writing--;
        isOpen = false;
      },
    };
  }

  async makeFolder(path: string): Promise<void> {
    await this.#begin("make", path);
    for (let folder = path; !this.disk.folders.has(folder); folder = dirname(folder)) {
      this.disk.folders.add(folder);
    }
  }

  async temporaryFolder(prefix: string): Promise<string> {
    const path = `/tmp/${prefix}${this.temporaryName()}`;
    await this.makeFolder(path);
    return path;
  }

  async addName(path: string, name: string): Promise<void> {
    await this.#begin("give the name", name);
    const node = this.#node("give the name", path);
    if (this.disk.entries.has(name)) {
      throw new FileError("already_exists", `cannot give the name "${name}": it already exists`, name);
    }
    this.#change("give the name", name, false, (share) => {
      if (share === 1) this.#record(name, new Map([[name, node]]));
    });
  }

  async remove(path: string): Promise<void> {
    await this.#begin("remove", path);
    this.#change("remove", path, false, (share) => {
      if (share === 1 && this.disk.entries.has(path)) this.#record(path, new Map([[path, undefined]]));
    });
  }

  async removeTree(path: string): Promise<void> {
    await this.#begin("remove", path);
    const below = (one: string) => one === path || one.startsWith(`${path}/`);
    for (const one of this.paths.filter(below)) await this.remove(one);
    for (const one of [...this.disk.folders].filter(below)) this.disk.folders.delete(one);
  }

  async setMode(path: string, mode: number): Promise<void> {
    await this.#begin("change the permissions of", path);
    const node = this.disk.entries.get(path);
    if (node) node.mode = mode;
  }

  async setModified(path: string, modifiedMs: number): Promise<void> {
    await this.#begin("change the time of", path);
    this.#node("change the time of", path).modifiedMs = modifiedMs;
  }

  async setOwner(path: string): Promise<void> {
    await this.#begin("change the owner of", path);
  }

  async lock(path: string): Promise<(() => void) | undefined> {
    await this.#begin("lock", path);
    const { locked } = this;
    if (locked.has(path)) return undefined;
    locked.add(path);
    return () => void locked.delete(path);
  }

  async syncFile(path: string): Promise<void> {
    await this.#begin("sync", path);
    const node = this.#node("sync", path);
    this.#change("sync", path, false, (share) => {
      if (share === 1) node.synced = node.bytes;
    });
  }

  async syncFolder(path: string): Promise<void> {
    await this.#begin("sync", path);
    this.#change("sync", path, false, (share) => {
      if (share < 1) return;
      this.disk.changes = this.disk.changes.filter(({ folder, change }) => {
        if (folder !== path) return true;
        apply(this.disk.durable, change);
        return false;
      });
    });
  }

  async readLink(path: string): Promise<string | undefined> {
    await this.#begin("read", path);
    return this.disk.entries.get(path)?.link;
  }

  watchFile(path: string, changed: () => void): () => void {
    const watcher = { path, changed };
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  protected async look(path: string, links: boolean): Promise<FileFacts> {
    await this.#begin("look at", path);
    const there = links ? path : this.#followed("look at", path);
    const node = this.disk.entries.get(there);
    if (!node) {
      const folder = this.disk.folders.has(there) || this.paths.some((one) => one.startsWith(`${there}/`));
      if (!folder) throw missing("look at", path);
      return { kind: "folder", sizeBytes: 0, diskBytes: 0, modifiedMs: 0, mode: 0o755 };
    }
    const { length } = node.bytes;
    const kind = node.link === undefined ? "file" : "link";
    const { mode, modifiedMs = 0 } = node;
    return { kind, sizeBytes: length, diskBytes: length, modifiedMs, mode };
  }

  protected async rename(from: string, to: string): Promise<void> {
    await this.#begin("rename", from);
    this.moveFile(from, to);
  }

  protected async makeLink(path: string, text: string): Promise<void> {
    await this.#begin("make the link", path);
    if (this.disk.entries.has(path)) {
      throw new FileError("already_exists", `cannot make the link "${path}": it already exists`, path);
    }
    this.#change("make the link", path, true, (share) => {
      if (share === 1) this.#record(path, new Map([[path, { ...blank(0o777), link: text }]]));
    });
  }

  protected temporaryName(): string {
    return String(this.disk.names++).padStart(8, "0");
  }

  #write(verb: string, path: string, file: Node, bytes: Uint8Array): void {
    this.#change(verb, path, true, (share) => {
      file.bytes = Uint8Array.from([...file.bytes, ...bytes.subarray(0, Math.floor(bytes.length * share))]);
    });
    this.#tell([path]);
  }

  #change(verb: string, path: string, grows: boolean, run: (share: number) => void): void {
    this.#alive(verb, path);
    if (path.startsWith(MEMORY)) return run(1);
    const fault: Fault | undefined = this.fault(this.operations++) ??
      (grows && this.full ? { kind: "full" } : undefined);
    if (!fault) return run(1);
    run(fault.share ?? this.random());
    this.dead = fault.kind === "kill" || fault.kind === "cut";
    const [code, why] = CODES[fault.kind];
    throw new FileError(code, `cannot ${verb} "${path}": ${why}`, path);
  }

  #record(path: string, change: Change): void {
    apply(this.disk.entries, change);
    this.disk.changes.push({ folder: dirname(path), change });
    this.#tell([...change.keys()]);
  }

  #tell(paths: readonly string[]): void {
    for (const { path, changed } of this.#watchers) if (paths.includes(path)) changed();
  }

  #node(verb: string, path: string): Node {
    const node = this.disk.entries.get(this.#followed(verb, path));
    if (!node) throw missing(verb, path);
    return node;
  }

  #followed(verb: string, path: string): string {
    let there = path;
    for (let links = 0; links < LINKS_MAX; links++) {
      const link = this.disk.entries.get(there)?.link;
      if (link === undefined) return there;
      there = link.startsWith("/") ? link : join(dirname(there), link);
    }
    throw missing(verb, path);
  }

  async #begin(verb: string, path: string): Promise<void> {
    await this.late();
    this.#alive(verb, path);
  }

  #alive(verb: string, path: string): void {
    if (this.dead) throw new FileError("unknown", `cannot ${verb} "${path}": the process is dead`, path);
  }
}

function blank(mode: number): Node {
  const bytes = new Uint8Array();
  return { bytes, synced: bytes, mode };
}

function apply(entries: Map<string, Node>, change: Change): void {
  for (const [path, node] of change) {
    if (node) entries.set(path, node);
    else entries.delete(path);
  }
}

function missing(verb: string, path: string): FileError {
  return new FileError("not_found", `cannot ${verb} "${path}": it does not exist`, path);
}
