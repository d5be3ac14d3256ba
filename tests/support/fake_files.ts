/**
 * Files in memory that fail when told: for tests of what has to survive a full disk or a killed process.
 *
 * It is the part of `Host` that has to do with files. Every operation that changes something has a number, counted
 * from 0; `fault` decides what goes wrong with it.
 */

import { SvcError } from "../../lib/base/error.ts";
import type { AppendFile, Host } from "../../lib/base/host.ts";

export interface Fault {
  /**
   * `error`: the operation fails. `full`: it fails because the disk is full. `kill`: it is the last one, and so are
   * all others until `restart`.
   */
  readonly kind: "error" | "full" | "kill";
  /** Of the bytes to be written, the share that is. What cannot be half done is done when it is 1. */
  readonly share: number;
}

type FileHost = Pick<
  Host,
  | "readFile"
  | "readTextFile"
  | "readFolder"
  | "writeFile"
  | "fileSize"
  | "makeFolder"
  | "openAppend"
  | "moveFile"
  | "removeFile"
>;

export class FakeFiles implements FileHost {
  /** How many operations there have been. */
  operations = 0;
  /** Files open now. */
  open = 0;
  killed = false;
  /** Files by path; a file that is open keeps its bytes when it is renamed or removed. */
  readonly #files: Map<string, { bytes: Uint8Array }>;

  constructor(
    readonly fault: (operation: number) => Fault | undefined = () => undefined,
    earlier?: FakeFiles,
  ) {
    this.#files = earlier ? earlier.#files : new Map();
  }

  /** The same files for the next process. */
  restart(fault?: (operation: number) => Fault | undefined): FakeFiles {
    return new FakeFiles(fault, this);
  }

  /** Sorted. */
  get paths(): string[] {
    return [...this.#files.keys()].sort();
  }

  text(path: string): string {
    return new TextDecoder().decode(this.#file(path, "read").bytes);
  }

  // deno-lint-ignore require-await
  async readFile(path: string): Promise<Uint8Array> {
    this.#check("read", path);
    return this.#file(path, "read").bytes;
  }

  async readTextFile(path: string): Promise<string> {
    return new TextDecoder().decode(await this.readFile(path));
  }

  // deno-lint-ignore require-await
  async readFolder(path: string): Promise<string[]> {
    this.#check("list", path);
    const names = this.paths.filter((one) => one.startsWith(`${path}/`)).map((one) =>
      one.slice(path.length + 1)
    );
    if (names.length === 0) throw missing("list", path);
    return names;
  }

  // deno-lint-ignore require-await
  async writeFile(path: string, content: string | Uint8Array): Promise<void> {
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    this.#change("write", path, (share) => {
      if (share === 1) this.#files.set(path, { bytes });
    });
  }

  fileSize(path: string): Promise<number | undefined> {
    return Promise.resolve(this.#files.get(path)?.bytes.length);
  }

  /** Folders are there as soon as something is in them. */
  makeFolder(_path: string): Promise<void> {
    return Promise.resolve();
  }

  openAppend(path: string): AppendFile {
    this.#change("append to", path, (share) => {
      if (share === 1 && !this.#files.has(path)) this.#files.set(path, { bytes: new Uint8Array() });
    });
    const file = this.#file(path, "append to");
    this.open++;
    return {
      sizeBytes: file.bytes.length,
      endsLine: file.bytes.length === 0 || file.bytes.at(-1) === 10,
      regular: true,
      append: (bytes) =>
        this.#change("append to", path, (share) => {
          file.bytes = Uint8Array.from([
            ...file.bytes,
            ...bytes.subarray(0, Math.floor(bytes.length * share)),
          ]);
        }),
      close: () => void this.open--,
    };
  }

  moveFile(from: string, to: string): void {
    this.#check("rename", from);
    const file = this.#file(from, "rename");
    this.#change("rename", from, (share) => {
      if (share < 1) return;
      this.#files.delete(from);
      this.#files.set(to, file);
    });
  }

  removeFile(path: string): void {
    this.#check("remove", path);
    this.#file(path, "remove");
    this.#change("remove", path, (share) => {
      if (share === 1) this.#files.delete(path);
    });
  }

  #change(verb: string, path: string, run: (share: number) => void): void {
    this.#check(verb, path);
    const fault = this.fault(this.operations++);
    run(fault?.share ?? 1);
    if (!fault) return;
    this.killed = fault.kind === "kill";
    const code = fault.kind === "full" ? "resource_exhausted" : "unknown";
    throw new SvcError(code, `cannot ${verb} "${path}": a fault that the test made`);
  }

  #check(verb: string, path: string): void {
    if (this.killed) throw new SvcError("unknown", `cannot ${verb} "${path}": the process is dead`);
  }

  #file(path: string, verb: string): { bytes: Uint8Array } {
    const file = this.#files.get(path);
    if (!file) throw missing(verb, path);
    return file;
  }
}

function missing(verb: string, path: string): SvcError {
  return new SvcError("not_found", `cannot ${verb} "${path}": it does not exist`);
}
