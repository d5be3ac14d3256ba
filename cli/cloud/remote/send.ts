/** Sends an order to a control plane, prints what comes, and stores the files that come back. */

import { CommandService, type RunRequestSchema, type RunResponse } from "../../../proto/gen/commands_pb.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import { client } from "../../../lib/wire/rpc/channel.ts";
import type { MessageInitShape } from "../../../lib/wire/rpc/proto.ts";
import { withBar } from "../../progress/progress_bar.ts";
import { openChannel } from "./channel.ts";
import type { Order, OrderFile } from "./order.ts";
import type { RemoteOutput } from "./output.ts";
import type { NamedProfile } from "./profiles.ts";

export interface RemoteContext extends NamedProfile {
  readonly host: Host;
}

type Request = MessageInitShape<typeof RunRequestSchema>;

/** Sends an order, and hands its output on; returns the exit code. */
export async function sendOrder(
  { host, profile, name }: RemoteContext,
  { message, files }: Order,
  output: Pick<RemoteOutput, "output" | "remarks" | "end">,
): Promise<number> {
  const channel = await openChannel(profile, host);
  const stopping = Promise.withResolvers<void>();
  const cut = new AbortController();
  let times = 0;
  const ignore = host.onTermination(() => {
    // Asked once more, it does not wait for the other side.
    if (++times > 1) cut.abort(new SvcError("canceled", "stopped"));
    stopping.resolve();
  });
  try {
    const { run } = client(CommandService, channel);
    const requests = requestsOf(host, message, files, stopping.promise);
    const answers = run(requests, { signal: cut.signal })[Symbol.asyncIterator]();
    return await printed(answers, { host, files, output });
  } catch (error) {
    if (cut.signal.aborted) return INTERRUPTED;
    const { code, message } = SvcError.from(error);
    const remedy = code === "unauthenticated" ? `; svc-cloud login ${profile.baseUrl} --profile ${name}` : "";
    throw new SvcError(code, `profile ${name} (${profile.baseUrl}): ${message}${remedy}`, { cause: error });
  } finally {
    ignore();
    stopping.resolve();
    output.end();
    channel.close();
  }
}

/** As shells report it. */
const INTERRUPTED = 130;

async function* requestsOf(
  host: Host,
  order: Order["message"],
  files: readonly OrderFile[],
  stopping: Promise<void>,
): AsyncGenerator<Request> {
  yield { part: { case: "order", value: order } };
  const sent = files.filter(({ isResult }) => !isResult);
  const total = sent.reduce((sum, { bytes }) => sum + bytes, 0);
  const over = Promise.withResolvers<void>();
  let show = (_: number) => {};
  // A command line with a small file says nothing of it.
  const bar = total < SHOWN_BYTES ? undefined : withBar(
    { host, clock: new SystemClock() },
    { what: "sent", inBytes: true },
    async (bar) => {
      show = (done) => bar.show(Math.min(done, total), total);
      await over.promise;
    },
  );
  let done = 0;
  try {
    for (const [file, { isResult, content }] of files.entries()) {
      if (isResult) continue;
      for await (const data of content()) {
        yield { part: { case: "content", value: { file, data } } };
        show(done += data.length);
      }
    }
  } finally {
    over.resolve();
    await bar;
  }
  yield { part: { case: "begin", value: true } };
  await stopping;
  yield { part: { case: "stop", value: true } };
}

const SHOWN_BYTES = 1024 ** 2;

interface Printing {
  readonly host: Host;
  readonly files: readonly OrderFile[];
  readonly output: Pick<RemoteOutput, "output" | "remarks">;
}

async function printed(
  answers: AsyncIterator<RunResponse>,
  { host, files, output }: Printing,
): Promise<number> {
  let next = await answers.next();
  while (!next.done) {
    const { part } = next.value;
    if (part.case === "exitCode") return part.value;
    if (part.case === "result") {
      const file = files[part.value.file];
      if (!file?.isResult) {
        throw new SvcError("data_loss", "the control plane sent a file that the command does not write");
      }
      const pieces = async function* (index: number) {
        while (!next.done && next.value.part.case === "result" && next.value.part.value.file === index) {
          yield next.value.part.value.data;
          next = await answers.next();
        }
      };
      await host.writePieces(file.given, pieces(part.value.file), { mode: 0o600 });
      continue;
    }
    if (part.case === "output") output.output(part.value);
    else if (part.case === "remarks") output.remarks(part.value);
    next = await answers.next();
  }
  throw new SvcError(
    "unavailable",
    "the connection ended before the command did; it may have been carried out",
  );
}
