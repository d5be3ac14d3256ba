/**
 * Runs ONNX models on the processor, off the program's main thread.
 *
 * The runtime is `onnxruntime-node`. Measured beside `onnxruntime-web` 1.30 (five 3x3 convolutions over
 * 224x224x3, two cores): 2.7 ms a run against 30 ms, 40 ms to open against 380 ms; it makes an executable
 * larger by 47 MB (linux-x64; linux-arm64 27 MB, windows-x64 30 MB) against 14 MB and more. It needs no
 * install script. Its `run` blocks its caller, so each session has its own thread.
 *
 * Owns that thread. Promises: it refuses unsuitable inputs before a run, with names, types and sizes; runs
 * finish in the order of the requests; a closed session has released its memory.
 *
 * The room owns models as ONNX: written, checked and run.
 */

import { type Clock, deadline, SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { suggest } from "../../base/schema/suggest.ts";
import {
  MODEL_BYTES_MAX,
  ONNX_WORKER,
  type OnnxAnswer,
  type OnnxRequest,
  type OnnxSignature,
  sizeError,
} from "./requests.ts";
import { ARRAYS, type OnnxData, type OnnxTensorInfo, type OnnxTensors, type OnnxType } from "./tensors.ts";

export { MODEL_BYTES_MAX };

/** How long closing waits for running work. */
export const CLOSE_MS = 5_000;

/** Most runs that may wait for an earlier run. */
export const RUNS_WAITING_MAX = 64;

export interface OnnxSession extends OnnxSignature {
  /**
   * Every output for one set of inputs. Throws `invalid_argument` for inputs that do not fit the model,
   * `resource_exhausted` beyond `RUNS_WAITING_MAX`; `signal` ends the wait, not the computation.
   */
  run(inputs: OnnxTensors, signal?: AbortSignal): Promise<OnnxTensors>;
  /**
   * Releases the memory after the requested runs; runs that take longer than `CLOSE_MS` fail. Idempotent.
   * Nothing can stop a computation itself: the thread of a model that never ends lives until the program
   * ends.
   */
  close(): Promise<void>;
}

interface OpenOptions {
  /** Threads that share one run; absent means the number of cores. */
  readonly threads?: number;
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
}

/**
 * Opens an ONNX model from its bytes or from the path of its file. The model must contain all its parts
 * (`check.ts`). Throws `invalid_argument` if it is not a model, refers to other files or needs an unknown
 * operator, `unavailable` if the system cannot load the runtime.
 */
export async function openOnnx(
  model: Uint8Array | string,
  { threads, signal, clock = new SystemClock() }: OpenOptions = {},
): Promise<OnnxSession> {
  if (model.length === 0 || typeof model !== "string" && model.length > MODEL_BYTES_MAX) {
    throw sizeError(model.length);
  }
  const thread = new Thread();
  try {
    const graph = await thread.ask<OnnxSignature>({ open: { model, threads } }, signal);
    for (const tensor of [...graph.inputs, ...graph.outputs]) checkType(tensor);
    return new ThreadSession(graph, thread, clock);
  } catch (thrown) {
    thread.end();
    throw thrown;
  }
}

/**
 * The type of a tensor with this data. `bool` shares its data type with `uint8`, which is returned for both.
 */
export function typeOfData(data: OnnxData): OnnxType {
  return (Object.keys(ARRAYS) as OnnxType[]).find((type) => data instanceof ARRAYS[type])!;
}

/**
 * The values of a tensor, from their bytes. Throws `invalid_argument` if the bytes do not fit type and shape.
 */
export function tensorData(
  type: OnnxType,
  bytes: Uint8Array<ArrayBuffer>,
  shape: readonly number[],
): OnnxData {
  const count = shape.reduce((product, size) => product * size, 1);
  const whole = Object.hasOwn(ARRAYS, type) && shape.every((size) => Number.isSafeInteger(size) && size >= 0);
  if (!whole || bytes.length !== count * ARRAYS[type].BYTES_PER_ELEMENT) {
    const found = `${bytes.length} bytes`;
    throw new SvcError("invalid_argument", `found ${found} for a tensor of ${described({ type, shape })}`);
  }
  return new ARRAYS[type](bytes.buffer, bytes.byteOffset, count);
}

class ThreadSession implements OnnxSession {
  readonly inputs: readonly OnnxTensorInfo[];
  readonly outputs: readonly OnnxTensorInfo[];
  #closing?: Promise<void>;

  constructor(graph: OnnxSignature, private readonly thread: Thread, private readonly clock: Clock) {
    this.inputs = graph.inputs;
    this.outputs = graph.outputs;
  }

  async run(inputs: OnnxTensors, signal?: AbortSignal): Promise<OnnxTensors> {
    this.#check(inputs);
    return await this.thread.ask<OnnxTensors>({ run: inputs }, signal);
  }

  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    if (this.thread.ended) return;
    const why = `it was closed while a run took more than ${CLOSE_MS / 1000} s`;
    const late = deadline(this.clock, CLOSE_MS, () => new SvcError("deadline_exceeded", why));
    try {
      await this.thread.ask({ close: true }, late.signal);
    } catch (error) {
      if (!late.signal.aborted) throw error;
    } finally {
      late.done();
      this.thread.end(late.signal.aborted ? why : undefined);
    }
  }

  #check(inputs: OnnxTensors): void {
    const names = this.inputs.map(({ name }) => name);
    for (const name of Object.keys(inputs)) {
      if (names.includes(name)) continue;
      const likely = suggest(name, names);
      const hint = likely ? `did you mean "${likely}"?` : `its inputs are ${names.join(", ")}`;
      throw refused(`it has no input "${name}"; ${hint}`);
    }
    for (const wanted of this.inputs) {
      const found = inputs[wanted.name];
      if (!found) throw refused(`input "${wanted.name}" is missing, wanted ${described(wanted)}`);
      const alike = found.shape.length === wanted.shape.length &&
        found.shape.every((size, axis) => wanted.shape[axis] === -1 || wanted.shape[axis] === size);
      if (found.type !== wanted.type || !alike) {
        throw refused(`input "${wanted.name}" is ${described(found)}, wanted ${described(wanted)}`);
      }
      const count = found.shape.reduce((product, size) => product * size, 1);
      if (found.data.length !== count || !(found.data instanceof ARRAYS[found.type])) {
        throw refused(
          `input "${wanted.name}" has ${found.data.length} values, wanted ${count} of ${described(found)}`,
        );
      }
    }
  }
}

function refused(why: string): SvcError {
  return new SvcError("invalid_argument", `cannot run the ONNX model: ${why}`);
}

function described({ type, shape }: { type: string; shape: readonly number[] }): string {
  return `${type} [${shape.map((size) => size < 0 ? "any" : size).join(", ")}]`;
}

function checkType({ name, type }: OnnxTensorInfo): void {
  if (type in ARRAYS) return;
  const wanted = `one of ${Object.keys(ARRAYS).join(", ")}`;
  throw new SvcError("unimplemented", `cannot use the ONNX model: "${name}" holds ${type}, wanted ${wanted}`);
}

/** Requests to the thread and their answers, which come in the same order. */
class Thread {
  ended = false;
  readonly #worker: Worker;
  readonly #waiting: PromiseWithResolvers<unknown>[] = [];

  constructor() {
    this.#worker = new Worker(new URL("./worker.ts", import.meta.url), {
      type: "module",
      name: ONNX_WORKER,
    });
    this.#worker.onmessage = ({ data }: MessageEvent<OnnxAnswer>) => {
      const asked = this.#waiting.shift();
      if ("done" in data) asked?.resolve(data.done);
      else asked?.reject(new SvcError(data.code, data.message));
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.end(`it failed: ${event.message}`);
    };
  }

  async ask<T>(request: OnnxRequest, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    if (this.ended) throw new SvcError("failed_precondition", "the ONNX session is closed");
    if ("run" in request && this.#waiting.length >= RUNS_WAITING_MAX) {
      const found = `${this.#waiting.length} runs are waiting already`;
      throw new SvcError("resource_exhausted", `cannot run the ONNX model: ${found}; ask less often`);
    }

    const asked = Promise.withResolvers<unknown>();
    this.#waiting.push(asked);
    this.#worker.postMessage(request);
    if (!signal) return await asked.promise as T;

    const aborted = Promise.withResolvers<never>();
    const abort = () => aborted.reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });

    try {
      return await Promise.race([asked.promise, aborted.promise]) as T;
    } finally {
      signal.removeEventListener("abort", abort);
      // The answer still comes in its turn, but nobody waits for it any more.
      asked.promise.catch(() => {});
    }
  }

  end(why = "it was closed"): void {
    if (this.ended) return;
    this.ended = true;
    this.#worker.terminate();
    for (const asked of this.#waiting.splice(0)) {
      asked.reject(new SvcError("unavailable", `the ONNX session ended before it answered: ${why}`));
    }
  }
}
