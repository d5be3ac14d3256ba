/**
 * CallBatchService: many calls in one. Each passes through the table of the port like a separate call, so
 * that authorization, limits, operations and sessions apply to it.
 */

import { CallBatchService } from "../../../proto/gen/machine_page_pb.ts";
import { KeyCounts } from "../../base/async/key_counts.ts";
import { nextTurn, race } from "../../base/clock.ts";
import { CODES, SvcError } from "../../base/error.ts";
import { Cancellation } from "../rpc/cancellation.ts";
import { Metadata } from "../rpc/metadata.ts";
import {
  type CallContext,
  canceledByCaller,
  type RawSink,
  type Service,
  service,
  type ServiceTable,
  type Status,
} from "../rpc/service.ts";

const CALLS_MAX = 64;
const REQUEST_BYTES_MAX = 4096;
const ANSWER_BYTES_MAX = 16 * 1024;
/** Limit of calls under way for one caller. */
const CALLER_CALLS_MAX = 512;

interface BatchedCall {
  readonly path: string;
  readonly request: Uint8Array;
}

interface BatchedAnswer {
  readonly call: number;
  readonly response?: Uint8Array;
  readonly code?: number;
  readonly problem?: string;
  readonly alone?: boolean;
}

/** The service of a port, for the calls in its table. Metadata under `batchOnly` is the batch's own. */
export function callBatchService(table: ServiceTable, batchOnly: string): Service {
  const underWay = new KeyCounts();
  return service(CallBatchService, {
    callMany: async function* ({ calls }, ctx) {
      checkCalls(calls);
      const caller = ctx.entity ?? `${ctx.peer.kind} ${ctx.peer.signaledFrom ?? ctx.peer.remoteAddress}`;
      if (underWay.of(caller) + calls.length > CALLER_CALLS_MAX) {
        const problem = `more than ${CALLER_CALLS_MAX} calls in batches are under way for this caller`;
        throw new SvcError("resource_exhausted", problem);
      }

      const ended: BatchedAnswer[] = [];
      let wake = Promise.withResolvers<void>();
      const end = (answer: BatchedAnswer) => {
        underWay.add(caller, -1);
        ended.push(answer);
        wake.resolve();
      };
      underWay.add(caller, calls.length);
      const header = Metadata.from([...ctx.requestHeader].filter(([key]) => key !== batchOnly));
      const stop = startCalls(table, calls, ctx, header, end);

      try {
        for (let left = calls.length; left > 0;) {
          await race(wake.promise, ctx.signal);
          // Calls that end in the same turn are answered in one message.
          await new Promise<void>((resolve) => void nextTurn(resolve));
          wake = Promise.withResolvers();
          const answers = ended.splice(0);
          left -= answers.length;
          yield { answers };
        }
      } finally {
        stop();
      }
    },
  });
}

function checkCalls(calls: readonly BatchedCall[]): void {
  if (calls.length > CALLS_MAX) {
    throw new SvcError("invalid_argument", `a batch of ${calls.length} calls, wanted at most ${CALLS_MAX}`);
  }
  for (const { path, request } of calls) {
    if (request.length <= REQUEST_BYTES_MAX) continue;
    const sizes = `${request.length} bytes, wanted at most ${REQUEST_BYTES_MAX}`;
    throw new SvcError("invalid_argument", `the request of ${path.slice(0, 100)} has ${sizes}`);
  }
}

/** Makes the calls, and reports each one's answer once; the returned function cancels those under way. */
function startCalls(
  table: ServiceTable,
  calls: readonly BatchedCall[],
  { peer }: CallContext,
  header: Metadata,
  end: (answer: BatchedAnswer) => void,
): () => void {
  const cancellations = calls.map(({ path, request }, call) => {
    const cancellation = new Cancellation();
    if (table.find(path)?.method.methodKind === "unary") {
      const sink = new AnswerSink(call, end);
      void table.handle({ path, header, peer, cancellation, requests: once(request) }, sink);
    } else {
      const problem = `no unary method ${path.slice(0, 100)}`;
      end({ call, code: CODES.unimplemented, problem });
    }
    return cancellation;
  });
  return () => {
    for (const [call, { path }] of calls.entries()) cancellations[call]?.cancel(canceledByCaller(path));
  };
}

async function* once(request: Uint8Array): AsyncGenerator<Uint8Array> {
  yield request;
}

/** One call's answer, as a part of the batch. */
class AnswerSink implements RawSink {
  readonly roomBytes = ANSWER_BYTES_MAX;
  #response: Uint8Array | undefined;
  #alone = false;

  constructor(private readonly call: number, private readonly answered: (answer: BatchedAnswer) => void) {}

  header(): void {}

  checkRoom(bytes: number): void {
    if (bytes <= ANSWER_BYTES_MAX) return;
    this.#alone = true;
    throw new SvcError("resource_exhausted", "the answer is too large for a batch of calls");
  }

  message(bytes: Uint8Array): undefined {
    this.checkRoom(bytes.length);
    this.#response = bytes;
  }

  end({ code, message }: Status): void {
    const { call } = this;
    if (this.#alone) this.answered({ call, alone: true });
    else if (code !== 0) this.answered({ call, code, problem: message });
    else this.answered({ call, response: this.#response });
  }
}
