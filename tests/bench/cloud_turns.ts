/**
 * `deno task bench:cloud:turns [ROUNDS (20)] [REVISION…]`: what calls of machines cost at svc-cloud of several revisions.
 *
 * Each revision and the present tree serve beside each other, each with a database of its own, and are called in turns,
 * so that what else the computer does meets all of them alike: compare the figures of one run. The lower quartile is
 * what other work disturbs least; processor time is the lower quartile of the rounds, that of svc-cloud and of its
 * processes together.
 */

import { toTimestamp } from "../../lib/api/shared/time.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import { type CloudProcess, type Example, serveCloud } from "../cloud/program.ts";
import { quantile } from "../support/quantile.ts";
import { heading, row } from "./figures.ts";
import { cpuMsOf } from "./process_time.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
/** Calls of one kind at one server in a round, one after another and then all at once. */
const CALLS = 25;
/** Rounds before the measured ones: svc-cloud serves for weeks, and the runtime compiles what is called often. */
const WARM_ROUNDS = 40;
const LOG_ENTRIES = 5;
const LIMITS = { timeoutMs: 60_000 };
const WAYS = ["one by one", "at once"] as const;
const clock = new SystemClock();

interface Contender {
  readonly name: string;
  readonly cloud: CloudProcess;
  readonly calls: Readonly<Record<string, () => Promise<unknown>>>;
  /** By call and way: how long each call took, and the processor time of a call in each round. */
  readonly took: Map<string, number[]>;
  readonly cpuMs: Map<string, number[]>;
  /** The same of svc-cloud without the processes that it has started. */
  readonly ownCpuMs: Map<string, number[]>;
}

/** A working tree of a revision; `undefined` means the present one. */
async function treeOf(revision: string | undefined): Promise<{ root: string; remove: () => Promise<void> }> {
  if (revision === undefined) return { root: ROOT, remove: () => Promise.resolve() };
  const root = await Deno.makeTempDir({ prefix: "svc-bench-" });
  await run("git", ["-C", ROOT, "worktree", "add", "--quiet", "--force", "--detach", root, revision]);
  const remove = () => run("git", ["-C", ROOT, "worktree", "remove", "--force", root]).then(() => {});
  return { root: `${root}/`, remove };
}

async function run(program: string, args: readonly string[], cwd?: string): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args: [...args], cwd }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  if (!success) throw new Error(`${program} ${args.join(" ")}: ${text(stderr)}`);
  return text(stdout);
}

/** Serves a revision. What it has begun ends with `close`, also if it does not get as far. */
async function contend(revision: string | undefined, ends: (() => Promise<unknown>)[]): Promise<Contender> {
  const tree = await treeOf(revision);
  ends.push(tree.remove);
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  ends.push(() => Deno.remove(folder, { recursive: true }));
  const program = ["run", "-A", "--no-check", `${tree.root}cli/cloud/main.ts`];
  const data = ["--data", folder];
  const init = await run(Deno.execPath(), [...program, "init", "--json", ...data], tree.root);
  const { partId, config }: Example = JSON.parse(init);
  const cloud = await serveCloud(data, { cwd: tree.root, command: [Deno.execPath(), ...program] });
  ends.push(() => cloud.stop());
  const host = new URL(cloud.url).host;
  const { id: entity, key: payload } = config.cloud.api_key;
  const door = connectGrpc(host, { clock });
  const credentials = { type: "api-key", payload };
  const { accessToken } = await client(AuthService, door).authenticate({ entity, credentials }, LIMITS);
  door.close();
  const header = Metadata.from([["authorization", `Bearer ${accessToken}`]]);
  const channel = connectGrpc(host, { clock, header });
  ends.push(() => Promise.resolve(channel.close()));
  const name = revision ?? "this tree";
  return {
    name,
    cloud,
    calls: callsOf(channel, partId),
    took: new Map(),
    cpuMs: new Map(),
    ownCpuMs: new Map(),
  };
}

function callsOf(channel: Channel, id: string): Contender["calls"] {
  const robot = client(RobotService, channel);
  let number = 0;
  const entry = () => ({
    message: `the motor turned ${number++} times and is at ${Math.random().toFixed(3)}`,
    level: "info",
    loggerName: "rdk.resource_manager.rdk:component:motor/left",
    time: toTimestamp(Date.now()),
  });
  return {
    Config: () => robot.config({ id }, LIMITS),
    NeedsRestart: () => robot.needsRestart({ id }, LIMITS),
    Log: () => robot.log({ id, logs: Array.from({ length: LOG_ENTRIES }, entry) }, LIMITS),
  };
}

async function round(contenders: readonly Contender[], isMeasured: boolean): Promise<void> {
  for (const call of Object.keys(contenders[0].calls)) {
    for (const way of WAYS) {
      for (const one of contenders) await play(one, call, way, isMeasured);
    }
  }
}

async function play(
  { cloud, calls, ...figures }: Contender,
  call: string,
  way: string,
  isMeasured: boolean,
) {
  const times: number[] = [];
  const timed = async () => {
    const began = performance.now();
    await calls[call]();
    times.push(performance.now() - began);
  };
  const before = cpuMsOf(cloud.pid);
  if (way === "at once") await Promise.all(Array.from({ length: CALLS }, timed));
  else for (let number = 0; number < CALLS; number++) await timed();
  const after = cpuMsOf(cloud.pid);
  if (!isMeasured) return;
  const what = `${call}, ${way}`;
  figures.took.getOrInsertComputed(what, () => []).push(...times);
  figures.cpuMs.getOrInsertComputed(what, () => []).push((after.all - before.all) / CALLS);
  figures.ownCpuMs.getOrInsertComputed(what, () => []).push((after.own - before.own) / CALLS);
}

function print(contenders: readonly Contender[]): void {
  const [first] = contenders;
  const cpuOf = ({ cpuMs }: Contender, what: string) => quantile(cpuMs.get(what)!, 0.25);
  const ownOf = ({ ownCpuMs }: Contender, what: string) => quantile(ownCpuMs.get(what)!, 0.25);
  const whats = [...first.took.keys()];
  for (const what of whats) {
    heading(what);
    for (const one of contenders) {
      const ms = [0.25, 0.5, 0.99].map((share) => quantile(one.took.get(what)!, share).toFixed(2));
      row(
        one.name,
        `p25 ${ms[0]}, p50 ${ms[1]}, p99 ${ms[2]} ms`,
        `processor ${cpuOf(one, what).toFixed(2)} ms, without processes ${ownOf(one, what).toFixed(2)} ms`,
        `${(cpuOf(one, what) / cpuOf(first, what)).toFixed(2)} x the first`,
      );
    }
  }
  const meanOf = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;
  heading("processor time of a call, the mean of the above");
  const means = contenders.map((one) => meanOf(whats.map((what) => cpuOf(one, what))));
  for (const [at, { name }] of contenders.entries()) {
    row(name, `${means[at].toFixed(2)} ms`, `${(means[at] / means[0]).toFixed(2)} x the first`);
  }
  // Ratios, because the calls take times of different sizes.
  heading("p25 of a call, the geometric mean of its ratios to the first");
  const p25Of = ({ took }: Contender, what: string) => quantile(took.get(what)!, 0.25);
  for (const one of contenders) {
    const ratios = whats.map((what) => p25Of(one, what) / p25Of(first, what));
    row(one.name, `${Math.exp(meanOf(ratios.map(Math.log))).toFixed(2)} x the first`);
  }
}

const words = [...Deno.args];
const rounds = /^\d+$/.test(words[0] ?? "") ? Number(words.shift()) : 20;
const contenders: Contender[] = [];
const ends: (() => Promise<unknown>)[] = [];
try {
  for (const revision of [...words, undefined]) contenders.push(await contend(revision, ends));
  const load = () => Deno.loadavg()[0].toFixed(1);
  console.log(`${rounds} rounds of ${CALLS} calls each; load of the computer before ${load()}`);
  for (let number = 0; number < WARM_ROUNDS; number++) await round(contenders, false);
  for (let number = 0; number < rounds; number++) await round(contenders, true);
  print(contenders);
  console.log(`load of the computer behind it ${load()}, with this measurement in it`);
} finally {
  for (const end of ends.reverse()) await end();
}
