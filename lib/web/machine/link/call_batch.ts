/**
 * A client whose unary calls go to the machine in batches, for what the page asks again and again. Each call over WebRTC
 * costs a browser several messages both ways; a batch costs as many.
 *
 * What a batch cannot carry (large answers, calls with a time limit, machines that know no batches) is called as usual.
 */

import { Code, ConnectError, createClient, type Transport, type UnaryResponse } from "@connectrpc/connect";
import type { AnyMessage, Message, MethodInfo, PartialMessage, ServiceType } from "@bufbuild/protobuf";
import type { RobotClient } from "@viamrobotics/sdk";
import { wireMessage, wireService } from "./wire.ts";

/** Calls wait this long for others. */
const FRAME_MS = 16;
/** What a frame has time for; those above it go with the next one. */
const CALLS_PER_FRAME = 24;
/** The machine takes no longer ones. */
const REQUEST_BYTES_MAX = 4096;

const CallMessage = wireMessage("svc.page.v1.CallManyRequest.Call", {
  path: [1, "string"],
  request: [2, "bytes"],
});
const AnswerMessage = wireMessage("svc.page.v1.CallManyResponse.Answer", {
  call: [1, "uint32"],
  response: [2, "bytes"],
  code: [3, "uint32"],
  problem: [4, "string"],
  alone: [5, "bool"],
});
const BatchService = wireService("svc.page.v1.CallBatchService", {
  CallMany: [
    wireMessage("svc.page.v1.CallManyRequest", { calls: [1, CallMessage, "repeated"] }),
    wireMessage("svc.page.v1.CallManyResponse", { answers: [1, AnswerMessage, "repeated"] }),
    "stream",
  ],
});

interface Answer {
  readonly call: number;
  readonly response: Uint8Array;
  readonly code: number;
  readonly problem: string;
  readonly alone: boolean;
}

interface BatchClient {
  callMany(request: {
    readonly calls: readonly { readonly path: string; readonly request: Uint8Array }[];
  }): AsyncIterable<{ readonly answers: readonly Answer[] }>;
}

/** A call that waits to be sent or answered. */
interface Waiting {
  readonly path: string;
  readonly request: Uint8Array;
  readonly answered: (response: Uint8Array) => void;
  readonly failed: (error: unknown) => void;
  /** Makes the call by itself. */
  readonly callAlone: () => void;
}

const batched = new WeakMap<RobotClient, RobotClient>();

/** The same client, whose service clients call in batches. One for each client. */
export function batchedClient(client: RobotClient): RobotClient {
  const known = batched.get(client);
  if (known) return known;

  const batches = new CallBatches(client);
  const made: RobotClient = Object.create(client, {
    createServiceClient: {
      value: (service: ServiceType) => createClient(service, batches),
    },
  });
  batched.set(client, made);
  return made;
}

class CallBatches implements Transport {
  readonly #client: RobotClient;
  readonly #batch: BatchClient;
  /** Methods whose answers are too large. */
  readonly #alone = new Set<string>();
  #knowsBatches = true;
  #waiting: Waiting[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(client: RobotClient) {
    this.#client = client;
    this.#batch = client.createServiceClient(BatchService) as unknown as BatchClient;
  }

  async unary<I extends Message<I> = AnyMessage, O extends Message<O> = AnyMessage>(
    service: ServiceType,
    method: MethodInfo<I, O>,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
    headers: HeadersInit | undefined,
    input: PartialMessage<I>,
  ): Promise<UnaryResponse<I, O>> {
    const path = `/${service.typeName}/${method.name}`;
    const alone = () => this.#callAlone<I, O>(service, method, { signal, timeoutMs, headers }, input);
    const response = (message: O): UnaryResponse<I, O> => ({
      stream: false,
      service,
      method,
      header: new Headers(),
      trailer: new Headers(),
      message,
    });
    const isPlain = signal === undefined && timeoutMs === undefined && [...new Headers(headers)].length === 0;
    if (!isPlain || !this.#knowsBatches || this.#alone.has(path)) return response(await alone());

    const request = (input instanceof method.I ? input as I : new method.I(input)).toBinary();
    if (request.length > REQUEST_BYTES_MAX) return response(await alone());
    const message = await new Promise<O>((resolve, reject) => {
      this.#waiting.push({
        path,
        request,
        answered: (bytes) => resolve(method.O.fromBinary(bytes)),
        failed: reject,
        callAlone: () => void alone().then(resolve, reject),
      });
      this.#timer ??= setTimeout(this.#send, FRAME_MS);
    });
    return response(message);
  }

  stream(): never {
    throw new ConnectError("streams are not called in batches", Code.Internal);
  }

  #callAlone<I extends Message<I>, O extends Message<O>>(
    service: ServiceType,
    method: MethodInfo<I, O>,
    options: object,
    input: PartialMessage<I>,
  ): Promise<O> {
    const client = this.#client.createServiceClient(service) as unknown as Record<
      string,
      (input: PartialMessage<I>, options: object) => Promise<O>
    >;
    const [name = ""] = Object.entries(service.methods).find(([, { name }]) => name === method.name) ?? [];
    const call = client[name];
    if (!call) throw new ConnectError(`the service has no method ${method.name}`, Code.Internal);
    return call(input, options);
  }

  readonly #send = () => {
    const calls = this.#waiting.splice(0, CALLS_PER_FRAME);
    this.#timer = this.#waiting.length > 0 ? setTimeout(this.#send, FRAME_MS) : undefined;
    if (calls.length > 1) void this.#callMany(calls);
    else calls[0]?.callAlone();
  };

  async #callMany(calls: readonly Waiting[]): Promise<void> {
    const left = new Set(calls);
    try {
      const request = { calls: calls.map(({ path, request }) => ({ path, request })) };
      for await (const { answers } of this.#batch.callMany(request)) {
        for (const answer of answers) {
          const call = calls[answer.call];
          if (call && left.delete(call)) this.#settle(call, answer);
        }
      }
      for (const { failed } of left) failed(new ConnectError("the machine gave no answer", Code.Unavailable));
    } catch (error) {
      const isUnknown = error instanceof ConnectError && error.code === Code.Unimplemented;
      if (isUnknown) this.#knowsBatches = false;
      for (const { callAlone, failed } of left) isUnknown ? callAlone() : failed(error);
    }
  }

  #settle({ path, answered, failed, callAlone }: Waiting, { response, code, problem, alone }: Answer): void {
    if (alone) {
      this.#alone.add(path);
      return callAlone();
    }
    if (code !== 0) return failed(new ConnectError(problem, code));
    try {
      answered(response);
    } catch (error) {
      failed(error);
    }
  }
}
