/**
 * Keeps this program's descriptors from the programs that it starts.
 *
 * The runtime marks its own descriptors so that they end with an exec; native libraries, such as the one of WebRTC, do
 * not. A program that inherits them could read and write connections that are not its own.
 */

import { C_LIBRARY } from "./reader_worker.ts";

const FUNCTIONS = {
  /** syscall(2): `close_range` has no function in older C libraries. */
  syscall: { parameters: ["i64", "u32", "u32", "u32"], result: "i64" },
  fcntl: { parameters: ["i32", "i32", "i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** The same number on x86-64 and AArch64. */
const CLOSE_RANGE = 436n;
const CLOSE_RANGE_CLOEXEC = 4;
const ALL = 0xffff_ffff;
const F_SETFD = 2;
const FD_CLOEXEC = 1;
/** The bit in the flags of `/proc/self/fdinfo`. */
const O_CLOEXEC = 0o2000000;
/** Standard input, output and errors are the child's own. */
const FIRST = 3;
/** With more descriptors the call is cheaper than looking at each one. */
const LOOKED_AT_MAX = 200;

/** Marks all descriptors of this process, just before it starts another program. Does nothing on other systems. */
export function keepDescriptors(): void {
  if (Deno.build.os !== "linux") return;
  try {
    const numbers = [...Deno.readDirSync("/proc/self/fd")].map(({ name }) => Number(name));
    const open = numbers.filter((number) => number >= FIRST);
    if (open.length <= LOOKED_AT_MAX && open.every(isMarked)) return;
    mark(open);
  } catch {
    // Without the rights for it, or another C library: the process has loaded no native code.
  }
}

function isMarked(descriptor: number): boolean {
  try {
    const [, flags = "0"] =
      /^flags:\s*(\d+)/m.exec(Deno.readTextFileSync(`/proc/self/fdinfo/${descriptor}`)) ?? [];
    return (parseInt(flags, 8) & O_CLOEXEC) !== 0;
  } catch {
    // Closed meanwhile.
    return true;
  }
}

function mark(open: readonly number[]): void {
  const library = Deno.dlopen(C_LIBRARY, FUNCTIONS);
  try {
    const { syscall, fcntl } = library.symbols;
    if (syscall(CLOSE_RANGE, FIRST, ALL, CLOSE_RANGE_CLOEXEC) === 0n) return;
    // Linux before 5.11.
    for (const descriptor of open) fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  } finally {
    library.close();
  }
}
