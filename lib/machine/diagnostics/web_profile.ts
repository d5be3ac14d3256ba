/**
 * HTTP pages for developers: profiles of the running program, and the graph of its resources.
 *
 * The pages exist only while they are enabled, only callers on this computer see them unless the command line opened
 * them to all, and one recording runs at a time. They hold whatever is in memory, keys included, so a site that a
 * person visits on this computer gets none of them through the browser.
 */

import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import { textAnswer } from "../../wire/port/routes.ts";
import { isFromOtherSite, namesThisComputer } from "../../wire/port/sites.ts";
import type { BuildState, Machine, Node } from "../graph/machine.ts";
import { heapSnapshot, recordAllocations, recordCpu, type Recording } from "./profiler.ts";
import type { Route, RouteAnswer, RouteRequest } from "../../wire/port/route.ts";

/** Who may look. */
export type Audience = "nobody" | "this computer" | "everybody";

export interface WebProfileParts {
  readonly machine: Pick<Machine, "nodes">;
  readonly clock: Clock;
  readonly audience: () => Audience;
  /** Ends recordings early. */
  readonly signal: AbortSignal;
}

const DEFAULT_SECONDS = 30;
const SECONDS_MAX = 600;
/** A short profile may sample more finely. */
const SAMPLE_US = 1_000;

const INDEX = `Profiles of this program, for the developer tools of Chrome:

/debug/pprof/profile?seconds=30  CPU, save it as NAME.cpuprofile and open it under Performance
/debug/pprof/heap?seconds=30     what allocates the memory that stays in use, NAME.heapprofile, under Memory
/debug/pprof/heap                everything in memory, NAME.heapsnapshot, under Memory; the program stands still meanwhile
/debug/graph                     the resources and what they use, in the language of Graphviz
`;

export function profileRoutes(parts: WebProfileParts): ReadonlyMap<string, Route> {
  const one = oneAtATime();
  const { clock } = parts;
  const cpu: Route = async ({ query }) =>
    json(await recorded(query, () => recordCpu(clock, SAMPLE_US), parts));
  const heap: Route = async ({ query }) =>
    json(
      query.has("seconds")
        ? await recorded(query, () => recordAllocations(clock), parts)
        : await heapSnapshot(clock),
    );
  const pages: [string, Route][] = [
    ["/debug/pprof/", () => textAnswer(200, INDEX.trimEnd())],
    ["/debug/pprof/profile", (request) => one(() => cpu(request))],
    ["/debug/pprof/heap", (request) => one(() => heap(request))],
    ["/debug/graph", () => graph(parts.machine)],
  ];
  return new Map(
    pages.map(([path, page]) => [path, (request) => guarded(path, page, request, parts.audience())]),
  );
}

async function guarded(
  path: string,
  page: Route,
  request: RouteRequest,
  audience: Audience,
): Promise<RouteAnswer> {
  if (audience === "nobody") return textAnswer(404, `there is nothing at ${path}`);
  const isHere = isLoopback(request.peer.remoteAddress);
  if (audience === "this computer" && !isHere) {
    return textAnswer(
      403,
      `${path} answers only callers on the same machine, unless it was started with -webprofile`,
    );
  }
  if (isFromOtherSite(request)) return textAnswer(403, `${path} answers no pages of other sites`);
  if (isHere && !namesThisComputer(request)) {
    return textAnswer(403, `${path} answers on this computer only at localhost or an IP address`);
  }
  if (request.method !== "GET" && request.method !== "HEAD") {
    return textAnswer(405, `${path} answers GET, not ${request.method}`);
  }

  try {
    return await page(request);
  } catch (error) {
    const status = SvcError.from(error).code === "invalid_argument" ? 400 : 503;
    return textAnswer(status, chainOf(error));
  }
}

/** Recordings disturb each other and the machine. */
function oneAtATime(): (record: () => RouteAnswer | Promise<RouteAnswer>) => Promise<RouteAnswer> {
  let busy = false;
  return async (record) => {
    if (busy) {
      throw new SvcError("resource_exhausted", "a profile is being recorded already; wait for its end");
    }
    busy = true;
    try {
      return await record();
    } finally {
      busy = false;
    }
  };
}

async function recorded(
  query: URLSearchParams,
  begin: () => Promise<Recording>,
  { clock, signal }: WebProfileParts,
): Promise<string> {
  const seconds = secondsOf(query);
  const recording = await begin();
  await clock.sleep(seconds * 1_000, signal).catch(() => {});
  const document = await recording.stop();
  signal.throwIfAborted();
  return document;
}

function secondsOf(query: URLSearchParams): number {
  const written = query.get("seconds");
  const seconds = written === null ? DEFAULT_SECONDS : Number(written);
  if (seconds > 0 && seconds <= SECONDS_MAX) return seconds;
  throw new SvcError("invalid_argument", `seconds: found "${written}", wanted a number up to ${SECONDS_MAX}`);
}

const COLOURS: { readonly [S in BuildState]: string } = {
  unconfigured: "lightgrey",
  configuring: "lightyellow",
  ready: "palegreen",
  unhealthy: "lightpink",
  removing: "lightgrey",
};

/** The resources in DOT: an arrow points from a resource to each of its dependencies. */
export function graphText(nodes: Iterable<Pick<Node, "name" | "state" | "error" | "holds">>): string {
  const lines = ["digraph machine {", "  rankdir=LR;", "  node [shape=box, style=filled];"];
  for (const { name, state, error, holds } of nodes) {
    const tooltip = error === undefined ? "" : `, tooltip=${quoted(error)}`;
    const label = `label=${quoted(`${name.full}\n${state}`)}`;
    lines.push(`  ${quoted(name.full)} [${label}, fillcolor=${COLOURS[state]}${tooltip}];`);
    for (const held of holds) lines.push(`  ${quoted(name.full)} -> ${quoted(held)};`);
  }
  return [...lines, "}", ""].join("\n");
}

function quoted(content: string): string {
  return `"${content.replace(/["\\]/g, "\\$&").replaceAll("\n", "\\n")}"`;
}

function isLoopback(address: string | undefined): boolean {
  const bare = address?.replace(/^::ffff:/, "");
  return bare === "::1" || (bare?.startsWith("127.") ?? false);
}

function graph({ nodes }: Pick<Machine, "nodes">): RouteAnswer {
  return { status: 200, contentType: "text/vnd.graphviz", body: graphText(nodes) };
}

function json(body: string): RouteAnswer {
  return { status: 200, contentType: "application/json", body };
}
