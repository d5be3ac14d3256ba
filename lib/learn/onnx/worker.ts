/**
 * The thread of one ONNX session: loads the native runtime, holds the model, and answers one request after
 * the other.
 *
 * `session.ts` starts it by its address, because what it imports of Node.js costs a start some milliseconds and two
 * megabytes. The thread answers every problem with an error; it never fails itself.
 */

import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import process from "node:process";
import type { InferenceSession, Tensor } from "onnxruntime-node";
import { messageOf, SvcError } from "../../base/error.ts";
import { withPacked } from "../../base/native/packed.ts";
import { checkModel } from "./check.ts";
import { ONNX_ADDON, ONNX_PACKAGE } from "./package.ts";
import {
  MODEL_BYTES_MAX,
  ONNX_WORKER,
  type OnnxAnswer,
  type OnnxRequest,
  type OnnxSignature,
  sizeError,
} from "./requests.ts";
import type { OnnxData, OnnxTensor, OnnxTensorInfo, OnnxTensors, OnnxType } from "./tensors.ts";

type Ort = typeof import("onnxruntime-node");

const HALF = "float16";

/** The parts of a worker's scope that this file uses. */
interface Scope {
  readonly name?: string;
  onmessage: ((event: { data: OnnxRequest }) => void) | null;
  postMessage(answer: OnnxAnswer, options?: { transfer: ArrayBufferLike[] }): void;
}

/** The interface is asynchronous, the runtime is not: the thread does nothing else during a computation. */
class SessionWorker {
  #ort?: Ort;
  #session?: InferenceSession;
  /** The inputs of 16-bit floats, which nobody else knows: their tensors come and go as `float32`. */
  readonly #halves = new Set<string>();

  async handle(request: OnnxRequest): Promise<OnnxSignature | OnnxTensors | undefined> {
    if ("open" in request) return await this.#open(request.open.model, request.open.threads);
    if ("run" in request) return await this.#run(request.run);
    await this.#session?.release();
  }

  async #open(model: Uint8Array | string, threads?: number): Promise<OnnxSignature> {
    // The runtime receives bytes and never a path, because it would look for more files beside the path.
    const bytes = typeof model === "string" ? readModel(model) : model;
    checkModel(bytes);
    this.#ort = await loadRuntime();

    // The runtime reports problems as errors; without this it would also print them in its own format.
    this.#ort.env.logLevel = "fatal";
    try {
      const options: InferenceSession.SessionOptions = {
        intraOpNumThreads: threads ?? 0,
        logSeverityLevel: 4,
        // Spinning threads would keep a small board's cores busy between two pictures.
        extra: { session: { intra_op: { allow_spinning: "0" } } },
      };
      this.#session = await this.#ort.InferenceSession.create(bytes, options);
    } catch (cause) {
      const why = firstLine(cause);
      const hint = /protobuf parsing failed/i.test(why) ? " Is it an ONNX file?" : "";
      throw new SvcError("invalid_argument", `cannot load the ONNX model: ${why}${hint}`);
    }

    const { inputMetadata, outputMetadata } = this.#session;
    for (const one of inputMetadata) if (one.isTensor && one.type === HALF) this.#halves.add(one.name);
    return { inputs: inputMetadata.map(infoOf), outputs: outputMetadata.map(infoOf) };
  }

  async #run(inputs: OnnxTensors): Promise<OnnxTensors> {
    const ort = this.#ort!;
    const feeds = Object.entries(inputs).map(([name, { type, shape, data }]) => {
      if (!this.#halves.has(name)) return [name, new ort.Tensor(type, data as never, shape)] as const;
      return [name, halfTensor(ort, data as Float32Array, shape)] as const;
    });
    const outputs = await this.#session!.run(Object.fromEntries(feeds)).catch((cause) => {
      throw new SvcError("invalid_argument", `cannot run the ONNX model: ${messageOf(cause).trim()}`);
    });
    return Object.fromEntries(Object.entries(outputs).map(([name, value]) => [name, tensorOf(value)]));
  }
}

function readModel(path: string): Uint8Array {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would block.
  const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const found = fstatSync(file);
    if (!found.isFile()) throw new SvcError("invalid_argument", "cannot load the ONNX model: it is no file");
    if (found.size === 0 || found.size > MODEL_BYTES_MAX) throw sizeError(found.size);
    return readFileSync(file);
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw new SvcError("unavailable", `cannot read the ONNX model: ${messageOf(cause)}`, { cause });
  } finally {
    closeSync(file);
  }
}

function infoOf(value: InferenceSession.ValueMetadata): OnnxTensorInfo {
  if (!value.isTensor) {
    throw new SvcError(
      "unimplemented",
      `"${value.name}" of the ONNX model is no tensor, which nothing here reads`,
    );
  }
  // A dimension of any length has a name, possibly empty, in place of its size.
  const shape = value.shape.map((size) => typeof size === "number" ? size : -1);
  const type = value.type === HALF ? "float32" : value.type as OnnxType;
  return { name: value.name, type, shape };
}

/** The runtime's native side takes the bits of 16-bit floats, and its constructor does not. */
function halfTensor(ort: Ort, values: Float32Array, shape: readonly number[]): Tensor {
  const bits = new Uint16Array(Float16Array.from(values).buffer);
  return Object.assign(new ort.Tensor("uint16", bits, shape), { type: HALF } as never);
}

function tensorOf({ type, dims, data }: Tensor): OnnxTensor {
  if (type === HALF) {
    const { buffer, byteOffset, length } = data as Uint16Array<ArrayBuffer>;
    return {
      type: "float32",
      shape: dims,
      data: Float32Array.from(new Float16Array(buffer, byteOffset, length)),
    };
  }
  return { type: type as OnnxType, shape: dims, data: data as OnnxData };
}

function firstLine(cause: unknown): string {
  const [line = ""] = messageOf(cause).trim().split("\n", 1);
  return line;
}

/** The runtime's package. Its addon loads its library from its own folder, where it is under `deno run`. */
async function loadRuntime(): Promise<Ort> {
  try {
    await preload();
    return await import("onnxruntime-node");
  } catch (cause) {
    const { platform, arch } = process;
    const needs = platform === "win32"
      ? "; it needs the Microsoft Visual C++ redistributable (vc_redist.x64.exe)"
      : "; it needs glibc 2.28 or newer, libstdc++ and a folder for temporary files that may hold programs";
    throw new SvcError(
      "unavailable",
      `cannot load ONNX Runtime for ${platform}-${arch}: ${firstLine(cause)}${needs}`,
    );
  }
}

/**
 * Loads an executable's embedded addon and library before the package asks for its addon: the executable would unpack
 * that addon alone into the folder for temporary files, where anybody may put a library beside it. The system does not
 * search for a library that is already loaded.
 */
async function preload(): Promise<void> {
  await withPacked(ONNX_PACKAGE, (folder) => {
    createRequire(import.meta.url)(join(folder, ONNX_ADDON));
  });
}

function serve(scope: Scope): void {
  const session = new SessionWorker();
  let last: Promise<unknown> = Promise.resolve();
  scope.onmessage = ({ data }) => {
    last = last.then(() => session.handle(data)).then(
      (done) => {
        const buffers = data !== null && "run" in data ? Object.values(done as OnnxTensors) : [];
        const transfer = [...new Set(buffers.map((tensor) => tensor.data.buffer))];
        scope.postMessage({ done }, { transfer });
      },
      (thrown) => {
        const { code, message } = SvcError.from(thrown);
        scope.postMessage({ code, message });
      },
    );
  };
}

const scope = globalThis as unknown as Scope;
if (scope.name === ONNX_WORKER) serve(scope);
