/**
 * Character devices through the C library.
 *
 * Owns the file descriptor and its mapped memory. Never reads memory that is no longer mapped. Errors name the
 * operation and the device. Linux only.
 *
 * The room owns every foreign function: devices, real-time threads, freed memory, and job objects of Windows.
 */

import { type Code, SvcError } from "../error.ts";
import type { Device, DeviceMemory, Follower, Pointed } from "../host.ts";
import { C_LIBRARY, READER_WORKER, type ReaderAnswer, type ReaderRequest } from "./reader_worker.ts";

const O_RDONLY = 0x0;
const O_RDWR = 0x2;
/** Keeps a serial line from becoming the controlling terminal of this process. */
const O_NOCTTY = 0x100;
const O_NONBLOCK = 0x800;
const O_CLOEXEC = 0x80000;
const F_SETFL = 4;
const PROT_READ = 0x1;
const MAP_SHARED = 0x1;
const POLLIN = 0x1;
const POLLPRI = 0x2;
const LOCK_EX = 2;
const LOCK_NB = 4;
const EWOULDBLOCK = 11;
const MAP_FAILED = 2n ** 64n - 1n;

const FUNCTIONS = {
  open: { parameters: ["buffer", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  ioctl: { parameters: ["i32", "u64", "buffer"], result: "i32" },
  tell: { name: "ioctl", parameters: ["i32", "u64", "usize"], result: "i32" },
  fcntl: { parameters: ["i32", "i32", "i32"], result: "i32" },
  flock: { parameters: ["i32", "i32"], result: "i32" },
  read: { parameters: ["i32", "buffer", "usize"], result: "isize" },
  pread: { parameters: ["i32", "buffer", "usize", "i64"], result: "isize" },
  write: { parameters: ["i32", "buffer", "usize"], result: "isize" },
  mmap: { parameters: ["pointer", "usize", "i32", "i32", "i32", "i64"], result: "pointer" },
  munmap: { parameters: ["pointer", "usize"], result: "i32" },
  poll: { parameters: ["buffer", "u64", "i32"], result: "i32", nonblocking: true },
  strerror: { parameters: ["i32"], result: "pointer" },
  __errno_location: { parameters: [], result: "pointer" },
} as const;

/** Codes by the system's error number, which tell the caller what to do. */
const CODES: { readonly [errno: number]: Code } = {
  1: "permission_denied",
  2: "not_found",
  5: "unavailable",
  6: "unavailable",
  11: "aborted",
  13: "permission_denied",
  16: "resource_exhausted",
  19: "unavailable",
  22: "invalid_argument",
  25: "unimplemented",
  95: "unimplemented",
  110: "unavailable",
  121: "unavailable",
};

export class DenoDevice implements Device {
  readonly #library: Deno.DynamicLibrary<typeof FUNCTIONS>;
  readonly #file: number;
  readonly #maps: { pointer: Deno.PointerValue; length: number }[] = [];
  #closed = false;

  /** `library` is the C library or a test's replacement; `opened` a descriptor that is open already. */
  constructor(readonly path: string, private readonly library = C_LIBRARY, opened?: number) {
    if (Deno.build.os !== "linux") {
      throw new SvcError("unimplemented", `cannot open the device "${path}": that works on Linux only`);
    }
    this.#library = Deno.dlopen(library, FUNCTIONS);
    if (opened !== undefined) {
      this.#file = opened;
      return;
    }

    this.#file = this.#openFile(O_RDWR);
    // A read-only file of sysfs can be polled, too.
    if (this.#file < 0 && path.startsWith("/sys/")) this.#file = this.#openFile(O_RDONLY);
    if (this.#file >= 0) return;

    const failure = this.#failure("open");
    this.#library.close();
    throw failure;
  }

  get file(): number {
    return this.#file;
  }

  adopt(file: number, path: string): Device {
    this.#library.symbols.fcntl(file, F_SETFL, O_NONBLOCK);
    return new DenoDevice(path, this.library, file);
  }

  control(request: number, data: Uint8Array<ArrayBuffer>, pointed: readonly Pointed[] = []): void {
    this.#open();
    const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    for (const { at, bytes } of pointed) {
      view.setBigUint64(at, Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes)), true);
    }
    if (this.#library.symbols.ioctl(this.#file, BigInt(request), data) >= 0) return;
    throw this.#failure(`control (0x${request.toString(16)})`);
  }

  tell(request: number, value: number): void {
    this.#open();
    if (this.#library.symbols.tell(this.#file, BigInt(request), BigInt(value)) >= 0) return;
    throw this.#failure(`control (0x${request.toString(16)})`);
  }

  read(wanted: number, at?: number): Uint8Array<ArrayBuffer> {
    this.#open();
    const { symbols } = this.#library;
    const bytes = new Uint8Array(wanted);
    const count = Number(
      at === undefined
        ? symbols.read(this.#file, bytes, BigInt(wanted))
        : symbols.pread(this.#file, bytes, BigInt(wanted), BigInt(at)),
    );
    if (count < 0) throw this.#failure("read");
    return bytes.subarray(0, count);
  }

  write(bytes: Uint8Array<ArrayBuffer>): number {
    this.#open();
    const taken = Number(this.#library.symbols.write(this.#file, bytes, BigInt(bytes.length)));
    if (taken < 0) throw this.#failure("write");
    return taken;
  }

  lock(): boolean {
    this.#open();
    return this.#library.symbols.flock(this.#file, LOCK_EX | LOCK_NB) === 0 || this.#errno() !== EWOULDBLOCK;
  }

  map(offset: number, length: number): DeviceMemory {
    this.#open();
    const pointer = this.#library.symbols.mmap(
      null,
      BigInt(length),
      PROT_READ,
      MAP_SHARED,
      this.#file,
      BigInt(offset),
    );
    if (pointer === null || Deno.UnsafePointer.value(pointer) === MAP_FAILED) throw this.#failure("map");

    this.#maps.push({ pointer, length });
    const view = new Deno.UnsafePointerView(pointer);
    return {
      read: (wanted) => {
        this.#open();
        const bytes = new Uint8Array(Math.min(wanted, length));
        view.copyInto(bytes);
        return bytes;
      },
    };
  }

  readable(withinMs: number): Promise<boolean> {
    return this.#poll(POLLIN, withinMs);
  }

  urgent(withinMs: number): Promise<boolean> {
    return this.#poll(POLLPRI, withinMs);
  }

  async #poll(events: number, withinMs: number): Promise<boolean> {
    this.#open();
    // A struct pollfd: the descriptor, then the requested and the returned events.
    const asked = new Uint8Array(8);
    const view = new DataView(asked.buffer);
    view.setInt32(0, this.#file, true);
    view.setInt16(4, events, true);
    await this.#library.symbols.poll(asked, 1n, withinMs);
    return view.getInt16(6, true) !== 0;
  }

  follow(batchBytes: number, { heard, failed }: Follower): () => Promise<void> {
    this.#open();
    const ended = Promise.withResolvers<void>();
    const thread = new Worker(new URL("./reader_worker.ts", import.meta.url), {
      type: "module",
      name: READER_WORKER,
    });
    const ending = new Int32Array(new SharedArrayBuffer(4));
    thread.onmessage = ({ data }: MessageEvent<ReaderAnswer>) => {
      if ("bytes" in data) return heard(data.bytes);
      if ("ended" in data) return ended.resolve();
      failed(data.errno === 0 ? this.#ended() : this.#error(data.errno, "read"));
    };
    thread.onerror = (event) => {
      event.preventDefault();
      failed(new SvcError("internal", `the thread that reads "${this.path}" failed: ${event.message}`));
      ended.resolve();
    };

    const request: ReaderRequest = { file: this.#file, batchBytes, ending };
    thread.postMessage(request);
    return async () => {
      Atomics.store(ending, 0, 1);
      await ended.promise;
      thread.terminate();
    };
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const { pointer, length } of this.#maps) this.#library.symbols.munmap(pointer, BigInt(length));
    this.#library.symbols.close(this.#file);
    this.#library.close();
  }

  #openFile(access: number): number {
    const flags = access | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    return this.#library.symbols.open(new TextEncoder().encode(`${this.path}\0`), flags);
  }

  #open(): void {
    if (this.#closed) throw new SvcError("failed_precondition", `the device "${this.path}" is closed`);
  }

  #failure(verb: string): SvcError {
    return this.#error(this.#errno(), verb);
  }

  /** Must follow the failed call directly: the number is that of the thread's last error. */
  #errno(): number {
    return new Deno.UnsafePointerView(this.#library.symbols.__errno_location()!).getInt32();
  }

  #error(errno: number, verb: string): SvcError {
    const words = new Deno.UnsafePointerView(this.#library.symbols.strerror(errno)!).getCString();
    return new SvcError(CODES[errno] ?? "unknown", `cannot ${verb} the device "${this.path}": ${words}`);
  }

  #ended(): SvcError {
    return new SvcError("unavailable", `the device "${this.path}" gives nothing more`);
  }
}
