/**
 * `deno task attack cloud`: a control plane with two tenants, one of which attacks the other's property.
 *
 * Starts svc-cloud in a process of its own on loopback, plays known chains of steps, then a matrix over every call of
 * the descriptors; prints the number of calls, every leak and every chain or call during which svc-cloud answered
 * nobody for more than 200 ms. Exits with 1 if there is one. `deno task attack cloud
 * SEED ONE_IN DATABASE` plays one in this many requests of the matrix, on `sqlite` or `postgres`.
 */

import { serveCloud } from "../cloud/program.ts";
import { type Chain, CHAINS, type ChainSetting } from "./cloud/chains.ts";
import { FLOOD_CHAINS } from "./cloud/flood_chains.ts";
import { type MatrixReport, playMatrix } from "./cloud/matrix.ts";
import { newTenant } from "./cloud/tenant.ts";
import { LoopWatch } from "./cloud/loop_watch.ts";
import { TENANT_CHAINS } from "./cloud/tenant_chains.ts";
import { type Kind, KINDS, withDatabase } from "../cloud/stores.ts";

const STEP_CHAINS = [...CHAINS, ...TENANT_CHAINS];
const BUSY_MS_MAX = 200;

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
  readonly say?: (line: string) => void;
}

export interface CloudReport extends MatrixReport {
  /** How many chains were played. */
  readonly chains: number;
}

export async function playCloud(
  attack: CloudAttack,
): Promise<CloudReport> {
  const { oneIn = 1, seed = 1, database = "sqlite", say = () => {} } = attack;
  const { busyMsMax = BUSY_MS_MAX, inferenceSeconds = 30 } = attack;
  let played: CloudReport | undefined;
  await withDatabase(database, async ({ folder, flags, connect }) => {
    const server = await serveCloud([...flags, "--inference-seconds", String(inferenceSeconds)]);
    try {
      const place = { address: new URL(server.url).host, flags, connect };
      const watch = new LoopWatch(server.url, folder, busyMsMax);
      await watch.look("start");
      const setting: ChainSetting = {
        ...{ place, url: server.url, folder },
        victim: await newTenant(place, "victim"),
        attacker: await newTenant(place, "attacker"),
      };
      const steps = await playChains(STEP_CHAINS, setting, watch, say);
      const report = await playMatrix({ place, oneIn, seed, say, watch });
      // What these leave behind would be read after each call of the matrix.
      const floods = await playChains(FLOOD_CHAINS, setting, watch, say);
      played = {
        ...report,
        leaks: [...steps.leaks, ...report.leaks, ...floods.leaks],
        delays: [...steps.delays, ...report.delays, ...floods.delays],
        chains: STEP_CHAINS.length + FLOOD_CHAINS.length,
      };
    } finally {
      await server.stop();
    }
  });
  return played!;
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

/** Prints the findings; returns the exit code. */
export async function attackCloud(words: readonly string[]): Promise<number> {
  const [seed = "1", oneIn = "1", kind = "sqlite"] = words;
  const database = KINDS.find((one) => one === kind);
  if (!database) {
    console.error(`attack cloud: found the database "${kind}", wanted one of ${KINDS.join(", ")}`);
    return 2;
  }
  console.log(`seed ${seed}, one in ${oneIn} requests, ${database}`);
  const report = await playCloud({ seed: Number(seed), oneIn: Number(oneIn), database, say: console.log });
  console.log(
    `${report.methods} methods known, ${report.served} served, ${report.telling} of them show things to their owner`,
  );
  console.log(
    `${report.chains} chains played, ${report.calls} calls tried, ${report.leaks.length} leaks and ${report.delays.length} delays found`,
  );
  return report.leaks.length + report.delays.length === 0 ? 0 : 1;
}
