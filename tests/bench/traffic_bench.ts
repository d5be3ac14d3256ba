/**
 * The traffic of an idle device with its control plane: real svc-cloud, svc-agent and svc-server with a clock that runs
 * faster, and a relay before each program that counts bytes.
 *
 * `traffic metered` prints the same with `metered` in the credentials. Connecting and the first minutes are printed
 * apart; the rest is scaled to 30 days.
 */

import { type CloudProcess, type Example, serveCloud, svcCloud } from "../cloud/program.ts";
import { heading, row } from "./figures.ts";
import { Relay } from "./relay.ts";

const PROGRAM = new URL("./fast_program.ts", import.meta.url).pathname;
const RUN = [Deno.execPath(), "run", "-A", PROGRAM];
/** How much faster the clock runs: limits of 15 s still leave a busy computer 750 ms. */
const PACE = 20;
const MINUTE_MS = 60_000 / PACE;
const MONTH_MINUTES = 30 * 24 * 60;
const START_MINUTES = 10;
/** Longer than two intervals of the rare polls; those of metered devices are counted once at their start. */
const IDLE_MINUTES = 65;
const LIMIT_MB = 30;
/** Of a packet's TCP and IPv4 headers, which another packet acknowledges, and of a TLS record. */
const PACKET_BYTES = 2 * 52;
const RECORD_BYTES = 22;

export async function traffic(): Promise<void> {
  for (const metered of [false, true]) await measure(metered);
}

async function measure(metered: boolean): Promise<void> {
  heading(`an idle device${metered ? ", metered" : ""}`);
  const folder = await Deno.makeTempDir({ prefix: "svc-traffic-" });
  const example: Example = JSON.parse(await svcCloud("init", "--data", `${folder}/data`, "--json"));
  const env = { SVC_BENCH_PACE: String(PACE), SVC_BENCH_BEGAN: String(Date.now()) };
  const cloud = await serveCloud(["--data", `${folder}/data`], { env, command: [...RUN, "cloud"] });
  const relays = { "svc-agent": relayTo(cloud), "svc-server": relayTo(cloud) };
  const programs: Deno.ChildProcess[] = [];
  try {
    await svcCloud("config", "set", example.partId, await machineFile(folder), "--data", `${folder}/data`);
    for (const [name, { url }] of Object.entries(relays)) {
      const file = `${folder}/${name}.json`;
      const { api_key } = example.config.cloud;
      const own = { app_address: url, id: example.partId, api_key, metered };
      await Deno.writeTextFile(file, JSON.stringify({ cloud: own }));
      programs.push(start(name, file, folder, env));
    }
    await pause(START_MINUTES);
    const before = figuresOf(relays);
    await pause(IDLE_MINUTES);
    report(before, figuresOf(relays));
  } finally {
    for (const program of programs) program.kill("SIGTERM");
    for (const program of programs) await program.status;
    for (const relay of Object.values(relays)) relay.close();
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

type Figures = { readonly [program: string]: Pick<Relay, "bytes" | "pieces" | "connections"> };

function figuresOf(relays: Record<string, Relay>): Figures {
  return Object.fromEntries(
    Object.entries(relays).map((
      [name, { bytes, pieces, connections }],
    ) => [name, { bytes, pieces, connections }]),
  );
}

function report(before: Figures, after: Figures): void {
  let [payload, wire] = [0, 0];
  for (const [name, now] of Object.entries(after)) {
    const then = before[name];
    const [bytes, pieces] = [now.bytes - then.bytes, now.pieces - then.pieces];
    const monthly = mbOfMonth(bytes);
    payload += monthly;
    wire += mbOfMonth(bytes + pieces * (RECORD_BYTES + PACKET_BYTES));
    const detail = `${bytes} bytes in ${pieces} pieces in ${IDLE_MINUTES} minutes`;
    row(
      name,
      `${monthly.toFixed(1)} MB a month`,
      `${detail}; ${now.connections - then.connections} connections`,
    );
    row(`${name}, first ${START_MINUTES} minutes`, `${then.bytes} bytes`, `${then.connections} connections`);
  }
  row(
    "together",
    `${payload.toFixed(1)} MB a month`,
    payload <= LIMIT_MB ? "ok" : `more than ${LIMIT_MB} MB`,
  );
  row("with TLS, TCP and IP headers", `${wire.toFixed(1)} MB a month`);
}

function mbOfMonth(bytes: number): number {
  return bytes / IDLE_MINUTES * MONTH_MINUTES / 1e6;
}

function relayTo({ url }: CloudProcess): Relay {
  return new Relay(Number(new URL(url).port));
}

async function machineFile(folder: string): Promise<string> {
  const path = `${folder}/machine.json`;
  const names = ["arm", "camera", "motor", "sensor"];
  const components = names.map((name) => ({ name, api: `rdk:component:${name}`, model: "fake" }));
  await Deno.writeTextFile(path, JSON.stringify({ network: { bind_address: "localhost:0" }, components }));
  return path;
}

function start(name: string, file: string, folder: string, env: Record<string, string>): Deno.ChildProcess {
  const own = name === "svc-agent"
    ? ["agent", "--dev-mode", "--dir", `${folder}/agent`, "--config", file]
    : ["server", "-config", file, "-allow-insecure-creds", "-disable-mdns"];
  return new Deno.Command(RUN[0], {
    args: [...RUN.slice(1), ...own],
    env: { ...env, SVC_HOME: `${folder}/home` },
    ...{ stdin: "null", stdout: "null", stderr: "null" },
  }).spawn();
}

function pause(minutes: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, minutes * MINUTE_MS));
}
