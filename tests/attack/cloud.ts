/**
 * `deno task attack cloud`: a control plane with two tenants, one of which attacks the other's property.
 *
 * Starts svc-cloud in a process of its own on loopback, plays known chains of steps, then a matrix over every call of
 * the descriptors; prints the number of calls, every leak and every chain or call during which svc-cloud answered
 * nobody for more than 200 ms. Two other tenants work meanwhile, in a process of their own, there and at a second
 * control plane that nobody attacks: their calls may be 250 ms slower (p99) than there, and svc-cloud takes at most
 * 700 MB with its database. On a computer that is busy with other work it gives no verdict on these times. Exits with 1
 * if a limit is exceeded. `deno task attack cloud
 * SEED ONE_IN DATABASE` plays one in this many requests of the matrix, on `sqlite` or `postgres`.
 */

import { serveCloud } from "../cloud/program.ts";
import type { BystanderReport } from "./cloud/bystander.ts";
import { Bystanders, type MemoryPeaks, MemoryWatch } from "./cloud/bystanders.ts";
import { type Chain, CHAINS, type ChainSetting } from "./cloud/chains.ts";
import { BULK_CHAINS } from "./cloud/bulk_chains.ts";
import { FLOOD_CHAINS } from "./cloud/flood_chains.ts";
import { type MatrixReport, playMatrix } from "./cloud/matrix.ts";
import { newTenant, type Place } from "./cloud/tenant.ts";
import { LoopWatch } from "./cloud/loop_watch.ts";
import { ALLOWED_HOST, OUTWARD_CHAINS } from "./cloud/outward_chains.ts";
import { SIGN_IN_CHAINS } from "./cloud/sign_in_chains.ts";
import { TENANT_CHAINS } from "./cloud/tenant_chains.ts";
import { type Kind, KINDS, withDatabase } from "../cloud/stores.ts";

const STEP_CHAINS = [...CHAINS, ...TENANT_CHAINS, ...OUTWARD_CHAINS, ...SIGN_IN_CHAINS];
/** What these leave behind would be read after each call of the matrix. */
const LATE_CHAINS = [...BULK_CHAINS, ...FLOOD_CHAINS];
const BUSY_MS_MAX = 200;
/** By this much the calls of other tenants may be slower than at a control plane that nobody attacks. */
const OTHERS_P99_MS_MAX = 250;
/** And the slowest call of theirs by this much, which a single long change would not show in the 99th percentile. */
const OTHERS_MAX_MS_MAX = 2_000;
/** Where the calls at that one take longer (p99), the computer is too busy for a verdict on times. */
const CALM_P99_MS_MAX = 100;
const MEMORY_BYTES_MAX = 700e6;
const CALM = "in peace";

export interface CloudAttack {
  /** Plays only one in this many requests of the matrix; all by default. */
  readonly oneIn?: number;
  readonly seed?: number;
  /** The kind of its database; SQLite by default. */
  readonly database?: Kind;
  /** The longest stretch in which svc-cloud may compute without a turn for others. */
  readonly busyMsMax?: number;
  /** How long a model may compute that never ends. */
  readonly inferenceSeconds?: number;
  /** Whether other tenants work meanwhile, whose calls are timed, and the memory is watched. */
  readonly besides?: boolean;
  readonly say?: (line: string) => void;
}

export interface CloudReport extends MatrixReport {
  /** How many chains were played. */
  readonly chains: number;
  /** No stretch of computing was longer, and no turn of the event loop came later. */
  readonly busyMs: number;
  readonly longestMs: number;
  /** What other tenants suffered, and too much memory. */
  readonly harms: readonly string[];
}

export async function playCloud(attack: CloudAttack): Promise<CloudReport> {
  const { database = "sqlite", inferenceSeconds = 30, besides } = attack;
  let played: CloudReport | undefined;
  await withDatabase(database, async ({ folder, flags, connect }) => {
    const allowed = ["--inference-seconds", String(inferenceSeconds), "--trigger-allow", ALLOWED_HOST];
    const server = await serveCloud([...flags, ...allowed]);
    try {
      const place = { address: new URL(server.url).host, flags, connect };
      const play = () => playAt(place, { ...attack, url: server.url, folder });
      played = besides ? await playBeside(place, server.pid, attack, play) : await play();
    } finally {
      await server.stop();
    }
  });
  return played!;
}

/** Plays it while two tenants work at this control plane, and two at one that nobody attacks. */
async function playBeside(
  place: Place,
  pid: number,
  { database = "sqlite", say = () => {} }: CloudAttack,
  play: () => Promise<CloudReport>,
): Promise<CloudReport> {
  let played: CloudReport | undefined;
  await withDatabase(database, async ({ flags, connect }) => {
    const calm = await serveCloud(flags);
    try {
      const calmPlace = { address: new URL(calm.url).host, flags, connect };
      const memory = new MemoryWatch(pid);
      const bystanders = await Bystanders.begin({ "under attack": place, [CALM]: calmPlace });
      try {
        played = await play();
      } finally {
        const harms = harmsOf(await bystanders.end(), memory.end(), say);
        if (played) played = { ...played, harms };
      }
    } finally {
      await calm.stop();
    }
  });
  return played!;
}

async function playAt(
  place: Place,
  attack: CloudAttack & { readonly url: string; readonly folder: string },
): Promise<CloudReport> {
  const { oneIn = 1, seed = 1, url, folder, say = () => {}, busyMsMax = BUSY_MS_MAX } = attack;
  const watch = new LoopWatch(url, folder, busyMsMax);
  await watch.look("start");
  const setting: ChainSetting = {
    ...{ place, url, folder },
    victim: await newTenant(place, "victim"),
    attacker: await newTenant(place, "attacker"),
  };
  const steps = await playChains(STEP_CHAINS, setting, watch, say);
  const report = await playMatrix({ place, oneIn, seed, say, watch });
  const floods = await playChains(LATE_CHAINS, setting, watch, say);
  return {
    ...report,
    leaks: [...steps.leaks, ...report.leaks, ...floods.leaks],
    delays: [...steps.delays, ...report.delays, ...floods.delays],
    chains: STEP_CHAINS.length + LATE_CHAINS.length,
    busyMs: watch.busyMs,
    longestMs: watch.longestMs,
    harms: [],
  };
}

/** Plays each chain with the same two tenants: no chain destroys what the next one needs. */
async function playChains(
  chains: readonly Chain[],
  setting: ChainSetting,
  watch: LoopWatch,
  say: (line: string) => void,
): Promise<{ leaks: string[]; delays: string[] }> {
  const leaks: string[] = [];
  const delays: string[] = [];
  for (const { name, play } of chains) {
    const found = await play(setting);
    say(
      `${found.length === 0 ? "stopped" : "LEAK   "} ${name}${
        found.map((one) => `\n          ${one}`).join("")
      }`,
    );
    leaks.push(...found.map((one) => `${name}: ${one}`));
    const late = await watch.look(name);
    for (const one of late) say(`DELAY   ${one}`);
    delays.push(...late);
  }
  return { leaks, delays };
}

/** Says how the others fared, and returns what exceeds the limits. */
function harmsOf(reports: readonly BystanderReport[], memory: MemoryPeaks, say: (line: string) => void) {
  const isCalm = ({ name }: BystanderReport) => name.endsWith(CALM);
  for (const { name, calls, p50Ms, p99Ms, maxMs, slowest } of reports) {
    const times = [p50Ms, p99Ms, maxMs].map((ms) => ms.toFixed(0));
    say(
      `${name}: ${calls} calls, p50 ${times[0]} ms, p99 ${times[1]} ms, max ${
        times[2]
      } ms; slowest: ${slowest}`,
    );
  }
  const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(0)} MiB`;
  const { ownBytes, withDatabaseBytes, othersBytes } = memory;
  say(
    `memory of svc-cloud at its peak: ${mib(ownBytes)}, ${
      mib(withDatabaseBytes)
    } with the processes of its ` +
      `database; of the models, pictures and scripts that it opened: ${mib(othersBytes)}`,
  );
  const calmMs = Math.max(...reports.filter(isCalm).map(({ p99Ms }) => p99Ms));
  const isBusy = calmMs > CALM_P99_MS_MAX;
  if (isBusy) {
    say("no verdict on these times: the computer is busy with other work; repeat it on a quiet one");
  }
  const calmMaxMs = Math.max(...reports.filter(isCalm).map(({ maxMs }) => maxMs));
  const harms = reports.filter((one) => !isCalm(one)).flatMap(({ name, p99Ms, maxMs, failures }) => [
    ...!isBusy && p99Ms - calmMs > OTHERS_P99_MS_MAX
      ? [`${name}: p99 ${p99Ms.toFixed(0)} ms, in peace ${calmMs.toFixed(0)} ms`]
      : [],
    ...!isBusy && maxMs - calmMaxMs > OTHERS_MAX_MS_MAX
      ? [`${name}: the slowest call ${maxMs.toFixed(0)} ms, in peace ${calmMaxMs.toFixed(0)} ms`]
      : [],
    ...failures.filter((one) => !isBusy || !one.includes(": deadline_exceeded: ")).map((one) =>
      `${name}: ${one}`
    ),
  ]);
  if (withDatabaseBytes > MEMORY_BYTES_MAX) harms.push(`memory: ${mib(withDatabaseBytes)}`);
  for (const harm of harms) say(`HARM    ${harm}`);
  return harms;
}

/** Prints the findings; returns the exit code. */
export async function attackCloud(words: readonly string[]): Promise<number> {
  const [seed = "1", oneIn = "1", kind = "sqlite"] = words;
  const database = KINDS.find((one) => one === kind);
  if (!database) {
    console.error(`attack cloud: found the database "${kind}", wanted one of ${KINDS.join(", ")}`);
    return 2;
  }
  console.log(`seed ${seed}, one in ${oneIn} requests, ${database}`);
  const attack = { seed: Number(seed), oneIn: Number(oneIn), database, besides: true, say: console.log };
  const report = await playCloud(attack);
  console.log(
    `${report.methods} methods known, ${report.served} served, ${report.telling} of them show things to their owner`,
  );
  console.log(
    `${report.chains} chains played, ${report.calls} calls tried, ${report.leaks.length} leaks and ${report.delays.length} delays found`,
  );
  console.log(
    `event loop: no stretch of computing above ${report.busyMs} ms; longest delay ` +
      `${report.longestMs.toFixed(0)} ms, in which the computer had other work, too`,
  );
  return report.leaks.length + report.delays.length + report.harms.length === 0 ? 0 : 1;
}
