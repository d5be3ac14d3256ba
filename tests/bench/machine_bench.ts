/**
 * How fast a machine follows its configuration: the plan and how it grows, from a changed file to the change applied,
 * and the end.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { planOf, type Standing, type Wanted } from "../../lib/machine/plan.ts";
import { wire } from "../../lib/resource/graph.ts";
import { client } from "../../lib/wire/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { startServer, writeConfig } from "../server.ts";
import { heading, median, row } from "./figures.ts";

const clock = new SystemClock();
const PLANNED = [100, 300, 1_000, 3_000, 10_000];

/**
 * Time of a plan, and the exponent of its growth over the larger sizes. The plan takes no more steps than n log n, whose
 * exponent here is 1.12; what is above that is the processor's cache, in which the small ones fit and the large do not.
 */
export function plans(): Promise<void> {
  heading(`plan of ${PLANNED.join(", ")} resources, each of which uses up to three others (ms)`);
  const cases: Record<string, (graph: Graph) => unknown> = {
    "everything is new": ({ wanted }) => planOf(new Map(), wanted),
    "nothing changed": ({ wanted, standing }) => planOf(standing, wanted),
    "one changed": ({ one, standing }) => planOf(standing, one),
    "everything changed": ({ all, standing }) => planOf(standing, all),
    "everything goes": ({ standing }) => planOf(standing, new Map()),
  };
  for (const [shape, pick] of Object.entries(SHAPES)) {
    const graphs = PLANNED.map((count) => graphOf(count, pick));
    for (const [name, plan] of Object.entries(cases)) {
      const times = graphs.map((graph) => fastestMs(() => plan(graph)));
      const exponent = growth(PLANNED.slice(2), times.slice(2));
      row(`${shape}: ${name}`, times.map((ms) => ms.toFixed(2)).join("  "), `n^${exponent.toFixed(2)}`);
    }
  }
  return Promise.resolve();
}

/** From the file that was replaced to the status that tells of it, of a server as users run it. */
export async function changes(): Promise<void> {
  heading("change to applied, generic components in 10 levels (the file is watched by a server of its own)");
  for (const count of [1, 100, 1_000]) {
    const path = await writeConfig(configOf(count, 0, 0));
    const server = await startServer(path);
    const channel = connectGrpc(new URL(server.url).host, { clock });
    const robot = client(RobotService, channel);
    await server.wrote("machine is running");
    let revision = 0;
    let version = 0;
    const apply = (changes: number) =>
      median(async () => {
        const config = configOf(count, ++revision, changes === 0 ? version : ++version, changes);
        const text = JSON.stringify({ ...config, network: { bind_address: "localhost:0" } });
        await Deno.writeTextFile(`${path}.new`, text);
        const began = performance.now();
        await Deno.rename(`${path}.new`, path);
        for (;;) {
          if ((await robot.getMachineStatus({})).config?.revision === String(revision)) break;
          await clock.sleep(2);
        }
        return performance.now() - began;
      });
    const figures = [await apply(0), await apply(1), await apply(count)].map((ms) => `${ms.toFixed(0)} ms`);
    const [none, one, all] = figures;
    row(`${count} resources`, `none changed ${none}`, `one changed ${one}`, `all changed ${all}`);
    channel.close();
    await server.stop();
    await Deno.remove(path);
  }
}

/** From the signal to the end of the process. */
export async function ends(): Promise<void> {
  heading("shutdown, from SIGTERM to the end of the process");
  for (const count of [0, 100, 1_000]) {
    const took = await median(async () => {
      const path = await writeConfig(configOf(count, 0, 0));
      const server = await startServer(path);
      await server.wrote("machine is running");
      const began = performance.now();
      await server.stop();
      const ms = performance.now() - began;
      await Deno.remove(path);
      return ms;
    });
    row(`${count} resources`, `${took.toFixed(0)} ms`);
  }
}

/** Of `count` components the last `changes` have this version, the others the one that never changes. */
function configOf(
  count: number,
  revision: number,
  version: number,
  changes = count,
): Record<string, unknown> {
  const width = Math.max(1, count / 10);
  const components = Array.from({ length: count }, (_, index) => ({
    name: `g${index}`,
    api: "rdk:component:generic",
    model: "fake",
    depends_on: index < width ? [] : [`g${index - width}`],
    attributes: { version: index >= count - changes ? version : 0 },
  }));
  return { revision: String(revision), components };
}

interface Graph {
  readonly wanted: Map<string, Wanted>;
  /** With one changed, and with all. */
  readonly one: Map<string, Wanted>;
  readonly all: Map<string, Wanted>;
  readonly standing: Map<string, Standing>;
}

/** Which others the resource at `index` uses. */
const SHAPES: Record<string, (index: number) => number[]> = {
  mixed: (index) => index < 10 ? [] : [index - 1 - (index * 7) % 10, Math.floor(index / 2), index % 10],
  chain: (index) => index === 0 ? [] : [index - 1],
  star: (index) => index === 0 ? [] : [0],
};

function graphOf(count: number, uses: (index: number) => number[]): Graph {
  const fullOf = (index: number) => `rdk:component:generic/g${index}`;
  const wanted = new Map(
    Array.from({ length: count }, (_, index): [string, Wanted] => {
      const needs = [...new Set(uses(index))].map((used) => ({ name: `g${used}`, optional: used % 5 === 0 }));
      return [fullOf(index), { fingerprint: "1", needs }];
    }),
  );
  const wiring = wire(wanted);
  const standing = new Map(
    [...wanted.keys()].map((full): [string, Standing] => {
      return [full, { fingerprint: "1", holds: new Set(wiring.uses.get(full)), condition: "ready" }];
    }),
  );
  return { wanted, one: changed(wanted, 1), all: changed(wanted, count), standing };
}

/** The last `count` resources have changed. */
function changed(wanted: Map<string, Wanted>, count: number): Map<string, Wanted> {
  const first = wanted.size - count;
  return new Map(
    [...wanted].map(([full, one], index) => [full, index < first ? one : { ...one, fingerprint: "2" }]),
  );
}

function fastestMs(work: () => unknown): number {
  let fastest = Infinity;
  for (let repeat = 0; repeat < 20; repeat++) {
    const began = performance.now();
    work();
    fastest = Math.min(fastest, performance.now() - began);
  }
  return fastest;
}

/** The slope of a straight line through the points in logarithms. */
function growth(counts: readonly number[], times: readonly number[]): number {
  const mean = (list: readonly number[]) => list.reduce((sum, one) => sum + one) / list.length;
  const [x, y] = [counts.map(Math.log), times.map(Math.log)];
  const [meanX, meanY] = [mean(x), mean(y)];
  const rise = mean(x.map((one, index) => (one - meanX) * (y[index] - meanY)));
  return rise / mean(x.map((one) => (one - meanX) ** 2));
}
