/**
 * `call`: calls a method of a resource.
 */

import { client } from "../../../lib/wire/rpc/channel.ts";
import type { DescMethod, Message } from "../../../lib/wire/rpc/proto.ts";
import { type Flag, UsageError } from "../../flags.ts";
import { printResult } from "../../table.ts";
import { answerJson, requestsOf, shapeText, shortened } from "./messages.ts";
import type { MachineClient } from "./reach.ts";
import { findMethod, findResource, type FoundResource, requireHealthy } from "./resources.ts";
import { machineCommand, type MachineContext } from "./machine_command.ts";

/** Of a request on standard input. */
const REQUEST_BYTES_MAX = 32 * 1024 * 1024;

const FLAGS = [
  {
    name: "timeout",
    type: "duration",
    default: 0,
    help: "Give up after this time; without it, when interrupted.",
  },
] as const satisfies readonly Flag[];

export const CALL = machineCommand({
  words: "call",
  takes: ["RESOURCE", "[METHOD]", "[JSON]"],
  summary:
    "Calls a method of a resource and prints its answer. The request is JSON, or - for standard input; " +
    "the resource's name is added. Without METHOD, lists the methods.",
  flags: FLAGS,
  run: async (
    context,
    [wanted, method, json = ""],
    { timeoutMs },
  ) => {
    const machine = await context.machine();
    const resource = await findResource(machine, wanted);
    if (method === undefined) return printMethods(context, resource);
    const called = findMethod(resource, method);
    requireHealthy(resource);
    const requests = requestsOf(called, json === "-" ? await inputText() : json, resource);
    const limit = timeoutMs > 0 ? timeoutMs : undefined;
    for await (
      const answer of answersOf(machine, called, requests, { timeoutMs: limit, signal: context.signal })
    ) {
      const shown = answerJson(called.output, answer);
      context.host.write(
        context.json ? `${JSON.stringify(shown)}\n` : `${JSON.stringify(shortened(shown), null, 2)}\n`,
      );
    }
  },
});

/** The answers of a call of any kind. */
export async function* answersOf(
  { channel }: Pick<MachineClient, "channel">,
  method: DescMethod,
  requests: readonly Message[],
  limits: { readonly timeoutMs?: number; readonly signal: AbortSignal },
): AsyncGenerator<Message> {
  const methods = client(method.parent, channel) as Record<
    string,
    (input: unknown, limits: unknown) => unknown
  >;
  const takesStream = method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming";
  const answer = methods[method.localName]?.(takesStream ? streamed(requests) : requests[0], limits);
  if (method.methodKind === "unary" || method.methodKind === "client_streaming") {
    yield await (answer as Promise<Message>);
  } else yield* answer as AsyncIterable<Message>;
}

async function* streamed(requests: readonly Message[]): AsyncGenerator<Message> {
  yield* requests;
}

function printMethods({ host, json }: MachineContext, { name, api, desc, namedBy }: FoundResource): void {
  const methods = desc.methods.map((method) => ({
    name: method.name,
    request: shapeText(method.input, namedBy),
    answer: shapeText(method.output, []),
  }));
  const lines = methods.map((one) => `  ${one.name}  ${one.request}`);
  printResult(host, json, { name, api, methods }, [`${name} (${api}) has the methods`, ...lines]);
}

async function inputText(): Promise<string> {
  const reader = Deno.stdin.readable.getReader();
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  for (let bytes = 0;;) {
    const { value, done } = await reader.read();
    if (done) return await new Blob(chunks).text();
    bytes += value.length;
    if (bytes > REQUEST_BYTES_MAX) {
      throw new UsageError(`the request on standard input has more than ${REQUEST_BYTES_MAX} bytes`);
    }
    chunks.push(value);
  }
}
