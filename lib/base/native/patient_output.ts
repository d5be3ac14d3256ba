/**
 * Writes to standard output that do not block the program for long.
 *
 * Whoever reads it may stall: a terminal after Ctrl-S or in scroll mode, a pager, a journal. A plain write then blocks
 * this thread, and with it a whole machine with everything that it has moving. On systems other than Linux, and without
 * the right to native code, writes are plain.
 */

import { C_LIBRARY } from "./reader_worker.ts";

const FUNCTIONS = {
  poll: { parameters: ["buffer", "u64", "i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const STDOUT = 1;
const POLLOUT = 4;
/** A chunk: bytes for which a pipe has room if it has any. */
const CHUNK_BYTES = 4096;

/** Standard output as a `PatientOutput` of `log.ts`, which also runs without Deno. */
export function patientOutput() {
  const hasRoom = createSpaceCheck();
  const encoder = new TextEncoder();
  const write = (text: string, patienceMs: number) => {
    const bytes = encoder.encode(text);
    for (let at = 0; at < bytes.length;) {
      if (!hasRoom(patienceMs)) return false;
      at += Deno.stdout.writeSync(bytes.subarray(at, at + CHUNK_BYTES));
    }
    return true;
  };
  return { hasRoom, write };
}

function createSpaceCheck(): (waitMs: number) => boolean {
  const plain = () => true;
  if (Deno.build.os !== "linux") return plain;
  try {
    const { poll } = Deno.dlopen(C_LIBRARY, FUNCTIONS).symbols;
    // struct pollfd: the descriptor, what is asked, what is found.
    const entry = new DataView(new ArrayBuffer(8));
    entry.setInt32(0, STDOUT, true);
    entry.setInt16(4, POLLOUT, true);
    // A failure of the check, or of the output, is the write's to report.
    return (waitMs) => poll(entry.buffer, 1n, waitMs) !== 0;
  } catch {
    return plain;
  }
}
