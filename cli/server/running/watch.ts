/**
 * `watch`: the readings of a resource, as they change.
 *
 * Prints a line for each change, so that the output can be searched and piped. A failing method shows its error and is
 * called again: the resource may come back.
 */

import { messageOf, SvcError } from "../../../lib/base/error.ts";
import type { Json } from "../../../lib/base/schema/schema.ts";
import type { DescMethod } from "../../../lib/wire/rpc/proto.ts";
import { type Flag, UsageError } from "../../flags.ts";
import { answersOf } from "./call.ts";
import { answerJson, requestsOf, shortened } from "./messages.ts";
import type { MachineClient } from "./reach.ts";
import { findMethod, findResource, type FoundResource } from "./resources.ts";
import { machineCommand, type MachineContext } from "./machine_command.ts";

const FLAGS = [
  { name: "every", type: "duration", default: 1_000, help: "The pause between two readings." },
  { name: "count", type: "int", default: 0, help: "End after this many rounds; 0 means until interrupted." },
  { name: "all", type: "bool", default: false, help: "Print every reading, changed or not." },
] as const satisfies readonly Flag[];

/** The least pause: a machine has other callers. */
const EVERY_MS_MIN = 20;
const CALL_MS = 10_000;
/** Errors of the connection, after which nothing can be read any more. */
const LOST = ["unauthenticated", "permission_denied"];

export const WATCH = machineCommand({
  words: "watch",
  takes: ["RESOURCE", "[METHOD]", "[JSON]"],
  summary:
    "Prints the readings of a resource and its state, a line for each change: of METHOD, or of what is " +
    "captured of such resources.",
  flags: FLAGS,
  run: async (
    context,
    [wanted, method, json = ""],
    { everyMs, count, all },
  ) => {
    if (everyMs < EVERY_MS_MIN) {
      throw new UsageError(`--every: found ${everyMs}ms, wanted ${EVERY_MS_MIN}ms or more`);
    }
    if (count < 0) throw new UsageError(`--count: found ${count}, wanted 0 or more`);
    const machine = await context.machine();
    const resource = await findResource(machine, wanted);
    const methods = method === undefined ? watchedMethods(resource) : [findMethod(resource, method)];
    for (const { methodKind, name } of methods) {
      if (methodKind === "unary") continue;
      throw new UsageError(`${name} answers with a stream, which "svc-server call" prints`);
    }
    await watch(context, machine, resource, { methods, json, everyMs, count, all });
  },
});

interface Watching {
  readonly methods: readonly DescMethod[];
  readonly json: string;
  readonly everyMs: number;
  readonly count: number;
  readonly all: boolean;
}

async function watch(
  context: MachineContext,
  machine: MachineClient,
  resource: FoundResource,
  { methods, json, everyMs, count, all }: Watching,
): Promise<void> {
  const { clock, signal } = context;
  const last = new Map<string, string>();
  const tell = (what: string, value: Json) => {
    const text = JSON.stringify(value);
    if (!all && last.get(what) === text) return;
    last.set(what, text);
    const time = new Date(clock.nowMs()).toISOString();
    context.host.write(
      context.json
        ? `${JSON.stringify({ time, resource: resource.name, what, value })}\n`
        : `${time.slice(11, 19)}  ${what}  ${JSON.stringify(shortened(value))}\n`,
    );
  };
  const requests = methods.map((one) => [one, requestsOf(one, json, resource)] as const);
  try {
    for (let round = 1;; round++) {
      tell("state", await fetchState(machine, resource));
      for (const [method, asked] of requests) {
        tell(method.name, await reading(machine, method, asked, signal));
      }
      if (count > 0 && round >= count) return;
      await clock.sleep(everyMs, signal);
    }
  } catch (error) {
    // Interrupted is how a watch ends.
    if (!signal.aborted) throw error;
  }
}

async function reading(
  machine: MachineClient,
  method: DescMethod,
  requests: ReturnType<typeof requestsOf>,
  signal: AbortSignal,
): Promise<Json> {
  try {
    const answers = answersOf(machine, method, requests, { timeoutMs: CALL_MS, signal });
    const { value } = await answers.next();
    return answerJson(method.output, value);
  } catch (error) {
    signal.throwIfAborted();
    const { code } = SvcError.from(error);
    if (LOST.includes(code)) throw error;
    return { error: messageOf(error), code };
  }
}

async function fetchState({ robot, limits }: MachineClient, { api, name }: FoundResource): Promise<Json> {
  try {
    const { resources } = await robot.getMachineStatus({}, limits);
    const own = resources.find((one) =>
      one.name && `${one.name.namespace}:${one.name.type}:${one.name.subtype}` === api &&
      [one.name.name, `${one.remote}:${one.name.name}`].includes(name)
    );
    if (!own) return "gone";
    return own.error === "" ? STATES[own.state] ?? "unknown" : `unhealthy: ${own.error}`;
  } catch (error) {
    limits.signal?.throwIfAborted();
    return `no answer: ${messageOf(error)}`;
  }
}

/** By the numbers of ResourceStatus. */
const STATES: readonly string[] = [
  "unknown",
  "unconfigured",
  "configuring",
  "ready",
  "removing",
  "unhealthy",
];

/** The methods that read: those of captured data, or whatever begins with Get or Is and needs no arguments. */
function watchedMethods({ desc, watched, name, namedBy }: FoundResource): DescMethod[] {
  const unary = desc.methods.filter(({ methodKind }) => methodKind === "unary");
  const captured = unary.filter((method) =>
    watched.some((key) => method.name === key || method.name === `Get${key}`)
  );
  // An enum says how to read, as the unit of an encoder's position, and every one has a default.
  const isBare = ({ input }: DescMethod) =>
    input.fields.every(({ localName, fieldKind }) =>
      [...namedBy, "extra"].includes(localName) || fieldKind === "enum"
    );
  const usable = captured.filter(isBare);
  const reading = usable.length > 0
    ? usable
    : unary.filter((method) =>
      /^(Get(?!Kinematics|3DModels|Geometries|Properties|Status)|Is[A-Z])/.test(method.name)
    )
      .filter(isBare);
  if (reading.length > 0) return reading;
  const names = unary.map((method) => method.name).join(", ");
  throw new UsageError(`${name} has no reading without arguments: name a method: ${names}`);
}
