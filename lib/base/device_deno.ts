/**
 * Character devices through the C library: the only place with foreign functions.
 *
 * Owns the file descriptor and the memory it maps. Promises that nothing is read from memory that is no longer
 * mapped, and that errors say what was tried on which device. Linux only.
 */

import { type Code, SvcError } from "./error.ts";
import type { Device, DeviceMemory } from "./host.ts";

const LIBC = "libc.so.6";
const O_RDWR = 0x2;
const O_NONBLOCK = 0x800;
const O_CLOEXEC = 0x80000;
const PROT_READ = 0x1;
const MAP_SHARED = 0x1;
const POLLIN = 0x1;
const MAP_FAILED = 2n ** 64n - 1n;

const FUNCTIONS = {
  open: { parameters: ["buffer", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  read: { parameters: ["i32", "buffer", "usize"], result: "isize" },
  write: { parameters: ["i32", "buffer", "usize"], result: "isize" },
  ioctl: { parameters: ["i32", "u64", "buffer"], result: "i32" },
  mmap: { parameters: ["pointer", "usize", "i32", "i32", "i32", "i64"], result: "pointer" },
  munmap: { parameters: ["pointer", "usize"], result: "i32" },
  poll: { parameters: ["buffer", "u64", "i32"], result: "i32", nonblocking: true },
  strerror: { parameters: ["i32"], result: "pointer" },
  __errno_location: { parameters: [], result: "pointer" },
} as const;

/** What a caller can do about it, by the system's error number. */
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
};

export class DenoDevice implements Device {
  readonly #library: Deno.DynamicLibrary<typeof FUNCTIONS>;
  readonly #file: number;
  readonly #maps: { pointer: Deno.PointerValue; length: number }[] = [];
  #closed = false;

  /** `library` is the C library, or one that stands in for it. */
  constructor(readonly path: string, library = LIBC) {
    if (Deno.build.os !== "linux") {
      throw new SvcError("unimplemented", `cannot open the device "${path}": that works on Linux only`);
    }
    this.#library = Deno.dlopen(library, FUNCTIONS);
    this.#file = this.#library.symbols.open(
      new TextEncoder().encode(`${path}\0`),
      O_RDWR | O_NONBLOCK | O_CLOEXEC,
    );
    if (this.#file >= 0) return;
    const failure = this.#failure("open");
    this.#library.close();
    throw failure;
  }

  control(request: number, data: Uint8Array<ArrayBuffer>): void {
    this.#open();
    if (this.#library.symbols.ioctl(this.#file, BigInt(request), data) >= 0) return;
    throw this.#failure(`control (0x${request.toString(16)})`);
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

  read(wanted: number): Uint8Array<ArrayBuffer> {
    this.#open();
    const bytes = new Uint8Array(wanted);
    const found = Number(this.#library.symbols.read(this.#file, bytes, BigInt(wanted)));
    if (found < 0) throw this.#failure("read");
    return bytes.subarray(0, found);
  }

  write(bytes: Uint8Array<ArrayBuffer>): number {
    this.#open();
    const taken = Number(this.#library.symbols.write(this.#file, bytes, BigInt(bytes.length)));
    if (taken < 0) throw this.#failure("write");
    return taken;
  }

  async readable(withinMs: number): Promise<boolean> {
    this.#open();
    // A struct pollfd: the descriptor, then what is asked and what is found.
    const asked = new Uint8Array(8);
    const view = new DataView(asked.buffer);
    view.setInt32(0, this.#file, true);
    view.setInt16(4, POLLIN, true);
    await this.#library.symbols.poll(asked, 1n, withinMs);
    return view.getInt16(6, true) !== 0;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const { pointer, length } of this.#maps) this.#library.symbols.munmap(pointer, BigInt(length));
    this.#library.symbols.close(this.#file);
    this.#library.close();
  }

  #open(): void {
    if (this.#closed) throw new SvcError("failed_precondition", `the device "${this.path}" is closed`);
  }

  /** To be made at once after the call that failed: the number is that of the thread's last error. */
  #failure(verb: string): SvcError {
    const { symbols } = this.#library;
    const errno = new Deno.UnsafePointerView(symbols.__errno_location()!).getInt32();
    const words = new Deno.UnsafePointerView(symbols.strerror(errno)!).getCString();
    return new SvcError(CODES[errno] ?? "unknown", `cannot ${verb} the device "${this.path}": ${words}`);
  }
}
