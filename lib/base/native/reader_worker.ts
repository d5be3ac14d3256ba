/**
 * The thread that reads one device: fetches what comes at once, so that the device's own small buffer does not
 * overflow while the program's main thread is busy.
 *
 * `device.ts` starts it and imports it too, so that an executable embeds it.
 */

/** By this name the module knows that it runs as the thread and is not merely imported. */
export const READER_WORKER = "svc-reader";

export const C_LIBRARY = "libc.so.6";

/** How long the thread waits before it looks whether it is to end. */
const LOOK_MS = 100;
const POLLIN = 0x1;
const EAGAIN = 11;

export type ReaderRequest =
  | { readonly file: number; readonly batchBytes: number }
  | { readonly end: true };

/** The bytes of a batch; the number of the system's error; or that the thread no longer reads. */
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

class Reader {
  #ending = false;

  constructor(private readonly scope: Scope) {}

  handle(request: ReaderRequest): void {
    if ("end" in request) this.#ending = true;
    else void this.#follow(request.file, request.batchBytes);
  }

  async #follow(file: number, batchBytes: number): Promise<void> {
    const library = Deno.dlopen(C_LIBRARY, {
      poll: { parameters: ["buffer", "u64", "i32"], result: "i32", nonblocking: true },
      read: { parameters: ["i32", "buffer", "usize"], result: "isize" },
      __errno_location: { parameters: [], result: "pointer" },
    });
    const asked = new Uint8Array(8);
    const view = new DataView(asked.buffer);
    view.setInt32(0, file, true);
    view.setInt16(4, POLLIN, true);
    const batch = new Uint8Array(batchBytes);
    while (!this.#ending) {
      view.setInt16(6, 0);
      await library.symbols.poll(asked, 1n, LOOK_MS);
      if (this.#ending || view.getInt16(6, true) === 0) continue;
      const count = Number(library.symbols.read(file, batch, BigInt(batch.length)));
      if (count > 0) {
        const bytes = batch.slice(0, count);
        this.scope.postMessage({ bytes }, { transfer: [bytes.buffer] });
        continue;
      }
      const errno = count === 0
        ? 0
        : new Deno.UnsafePointerView(library.symbols.__errno_location()!).getInt32();
      if (errno === EAGAIN) continue;
      this.scope.postMessage({ errno });
      break;
    }
    library.close();
    this.scope.postMessage({ ended: true });
  }
}

const scope = globalThis as unknown as Scope;
if (scope.name === READER_WORKER) {
  const reader = new Reader(scope);
  scope.onmessage = ({ data }) => reader.handle(data);
}
