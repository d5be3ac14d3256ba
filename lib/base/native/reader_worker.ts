/**
 * The thread that reads one device: it fetches data at once, so that the device's small buffer does not overflow while
 * the program's main thread is busy.
 *
 * `device.ts` starts it and imports it too, so that an executable embeds it.
 */

/** The worker's name, by which the module detects that it runs as the thread rather than being imported. */
export const READER_WORKER = "svc-reader";

export const C_LIBRARY = "libc.so.6";

/** How often the waiting thread checks whether it is to end. */
const LOOK_MS = 100;
const POLLIN = 0x1;
const EAGAIN = 11;
const FIRST_IN_FIRST_OUT = 1;
/** Priority, if the system allows it: above everything without real time, below the thread that makes pulses. */
const PRIORITY = 9;

export interface ReaderRequest {
  readonly file: number;
  readonly batchBytes: number;
  /** Shared: any value except 0 asks the thread to end. */
  readonly ending: Int32Array;
}

/** A batch of bytes, the number of a system error, or the end of the thread. */
export type ReaderAnswer =
  | { readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly errno: number }
  | { readonly ended: true };

/** The parts of a worker's scope that this file uses. */
interface Scope {
  readonly name?: string;
  onmessage: ((event: { data: ReaderRequest }) => void) | null;
  postMessage(answer: ReaderAnswer, options?: { transfer: ArrayBuffer[] }): void;
}

/** Reads until the end flag is set. The thread never yields: nothing but the system delays a batch. */
function follow({ file, batchBytes, ending }: ReaderRequest, scope: Scope): void {
  const library = Deno.dlopen(C_LIBRARY, {
    poll: { parameters: ["buffer", "u64", "i32"], result: "i32" },
    read: { parameters: ["i32", "buffer", "usize"], result: "isize" },
    sched_setscheduler: { parameters: ["i32", "i32", "buffer"], result: "i32" },
    __errno_location: { parameters: [], result: "pointer" },
  });
  const { symbols } = library;
  symbols.sched_setscheduler(0, FIRST_IN_FIRST_OUT, Uint8Array.of(PRIORITY, 0, 0, 0));

  const asked = new Uint8Array(8);
  const view = new DataView(asked.buffer);
  view.setInt32(0, file, true);
  view.setInt16(4, POLLIN, true);

  const batch = new Uint8Array(batchBytes);
  while (Atomics.load(ending, 0) === 0) {
    view.setInt16(6, 0);
    symbols.poll(asked, 1n, LOOK_MS);
    if (view.getInt16(6, true) === 0) continue;
    const count = Number(symbols.read(file, batch, BigInt(batch.length)));
    if (count > 0) {
      const bytes = batch.slice(0, count);
      scope.postMessage({ bytes }, { transfer: [bytes.buffer] });
      continue;
    }
    const errno = count === 0 ? 0 : new Deno.UnsafePointerView(symbols.__errno_location()!).getInt32();
    if (errno === EAGAIN) continue;
    scope.postMessage({ errno });
    break;
  }

  library.close();
  scope.postMessage({ ended: true });
}

const scope = globalThis as unknown as Scope;
if (scope.name === READER_WORKER) {
  scope.onmessage = ({ data }) => follow(data, scope);
}
