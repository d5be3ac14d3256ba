/**
 * How fast a machine follows its configuration: the plan and its growth, the time from a changed file to the applied
 * change, and the end.
 */

import { cpuUsage } from "node:process";
import { SystemClock } from "../../lib/base/clock.ts";
import { planOf, type Standing, type WantedResource } from "../../lib/machine/graph/pass/plan.ts";
import { resolveDependencies } from "../../lib/resource/graph.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { startServer, writeConfig } from "../support/server.ts";
import { heading, median, row } from "./figures.ts";

const clock = new SystemClock();
const PLANNED = [300, 1_000, 3_000, 10_000];
const TURNS = 15;

/**
 * Compares the time of a plan with sorting as many names, which takes n log n steps by definition. Both are measured in
 * turns, as the least of many processor times, so that other load affects both alike. A ratio that does not rise with n
 * shows a plan that grows no faster than n log n. (With 30,000 it is a third higher, because the plan's objects no
 * longer fit the caches and the young part of the heap.)
 */
export function plans(): Promise<void> {
  const sizes = PLANNED.join(", ");
  heading(
    `plan of ${sizes} resources, each of which uses up to three others: ms, and times a sort of as many names`,
  );
  const cases: Record<string, (graph: Graph) => unknown> = {
    "everything is new": ({ wanted }) => planOf(new Map(), wanted),
    "nothing changed": ({ wanted, standing }) => planOf(standing, wanted),
    "one changed": ({ one, standing }) => planOf(standing, one),
    "everything changed": ({ all, standing }) => planOf(standing, all),
    "everything goes": ({ standing }) => planOf(standing, new Map()),
  };
  for (const [shape, pick] of Object.entries(SHAPES)) {
    const graphs = PLANNED.map((count) => graphOf(count, pick));
    const names = PLANNED.map((count) => Array.from({ length: count }, () => crypto.randomUUID()));
    for (const [name, plan] of Object.entries(cases)) {
      const ours = PLANNED.map(() => Infinity);
      const sorts = PLANNED.map(() => Infinity);
      for (let turn = 0; turn < TURNS; turn++) {
        for (const index of PLANNED.keys()) {
          const times = PLANNED.at(-1)! / PLANNED[index];
          ours[index] = Math.min(ours[index], processorMs(times, () => plan(graphs[index])));
          sorts[index] = Math.min(sorts[index], processorMs(times, () => names[index].toSorted()));
        }
      }
      const ratios = ours.map((ms, index) => ms / sorts[index]);
      const rise = ratios.at(-1)! / ratios[0];
      row(
        `${shape}: ${name}`,
        ours.map((ms) => ms.toFixed(2)).join("  "),
        ratios.map((ratio) => ratio.toFixed(1)).join("  "),
        `x ${rise.toFixed(2)} from first to last`,
      );
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

/** The last `changes` of `count` components have this version, the others a constant one. */
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
  readonly wanted: Map<string, WantedResource>;
  /** With one changed, and with all. */
  readonly one: Map<string, WantedResource>;
  readonly all: Map<string, WantedResource>;
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
    Array.from({ length: count }, (_, index): [string, WantedResource] => {
      const needs = [...new Set(uses(index))].map((used) => ({ name: `g${used}`, optional: used % 5 === 0 }));
      return [fullOf(index), { fingerprint: "1", needs }];
    }),
  );
  const wiring = resolveDependencies(wanted);
  const standing = new Map(
    [...wanted.keys()].map((full): [string, Standing] => {
      return [full, { fingerprint: "1", holds: new Set(wiring.uses.get(full)), condition: "ready" }];
    }),
  );
  return { wanted, one: changed(wanted, 1), all: changed(wanted, count), standing };
}

/** The last `count` resources have changed. */
function changed(wanted: Map<string, WantedResource>, count: number): Map<string, WantedResource> {
  const first = wanted.size - count;
  return new Map(
    [...wanted].map(([full, one], index) => [full, index < first ? one : { ...one, fingerprint: "2" }]),
  );
}

/** Processor time of one of this many runs. */
function processorMs(times: number, work: () => unknown): number {
  const began = cpuUsage();
  for (let time = 0; time < times; time++) work();
  const { user, system } = cpuUsage(began);
  return (user + system) / 1000 / Math.ceil(times);
}
