/**
 * How many calls a second our server answers, beside `@grpc/grpc-js` in Node and in Deno: the load comes from `ghz`, a
 * program of others.
 *
 * The servers take turns in every round, so that what else the computer does hits all of them; compare the ratios.
 */

import { ECHO_PROTO, type EchoServer, grpcJsServer, ourEchoServer } from "../support/echo_server.ts";
import { nodeFolder, run } from "../interop/programs.ts";
import { heading, rate, row } from "./figures.ts";

const GHZ = "github.com/bojand/ghz/cmd/ghz@v0.93.0";
const CONCURRENCIES = [1, 64, 256];
const ROUNDS = 3;
const ROUND_SECONDS = 3;
const WARM_SECONDS = 2;

/** The used part of `ghz`'s results. */
interface Load {
  readonly rps: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export async function wire(): Promise<void> {
  heading("unary calls of an external load generator (ghz, one connection)");
  const ghz = await ghzProgram();
  if (ghz === undefined) return;
  const servers: [name: string, server: EchoServer][] = [];
  try {
    servers.push(["svc", await ourEchoServer()]);
    servers.push(["grpc-js in Node", await grpcJsServer({ node: await nodeFolder() })]);
    servers.push(["grpc-js in Deno", await grpcJsServer("deno")]);
    for (const [, { port }] of servers) await load(ghz, port, 64, WARM_SECONDS);
    for (const concurrency of CONCURRENCIES) await compare(ghz, servers, concurrency);
  } finally {
    for (const [, server] of servers) await server.stop();
  }
}

async function compare(ghz: string, servers: [string, EchoServer][], concurrency: number): Promise<void> {
  const found = servers.map((): Load[] => []);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [index, [, { port }]] of servers.entries()) {
      found[index].push(await load(ghz, port, concurrency, ROUND_SECONDS));
    }
  }
  const middle = (loads: Load[], figure: keyof Load) =>
    loads.map((one) => one[figure]).sort((a, b) => a - b)[Math.floor(ROUNDS / 2)];
  const ours = middle(found[0], "rps");
  for (const [index, [name]] of servers.entries()) {
    const perSecond = middle(found[index], "rps");
    const latency = `p50 ${middle(found[index], "p50Ms").toFixed(2)} ms, p99 ${
      middle(found[index], "p99Ms").toFixed(2)
    } ms`;
    const ratio = index === 0 ? [] : [`svc is ${(ours / perSecond).toFixed(2)} x`];
    row(`${concurrency} at once, ${name}`, rate(perSecond), latency, ...ratio);
  }
}

/** Calls from `concurrency` callers for some seconds; a call that fails fails the measurement. */
async function load(ghz: string, port: number, concurrency: number, seconds: number): Promise<Load> {
  const call = "proto.rpc.examples.echo.v1.EchoService.Echo";
  const message = JSON.stringify({ message: "how are you?" });
  const { code, stdout, stderr } = await run([
    ghz,
    ...["--insecure", "--proto", ECHO_PROTO, "--call", call, "--data", message, "--format", "json"],
    // Excludes the calls under way at the end.
    ...["--concurrency", String(concurrency), "--duration", `${seconds}s`, "--duration-stop", "ignore"],
    `127.0.0.1:${port}`,
  ]);
  if (code !== 0) throw new Error(`ghz ended with code ${code}: ${stderr}`);
  const { rps, count, statusCodeDistribution, latencyDistribution } = JSON.parse(stdout);
  if (statusCodeDistribution.OK !== count) {
    throw new Error(`not all of ${count} calls succeeded: ${JSON.stringify(statusCodeDistribution)}`);
  }
  const atMs = (share: number) =>
    latencyDistribution.find((one: { percentage: number }) => one.percentage === share).latency / 1e6;
  return { rps, p50Ms: atMs(50), p99Ms: atMs(99) };
}

/** `ghz`, built once and kept in the folder for temporary files; `undefined` if it is not available. */
async function ghzProgram(): Promise<string | undefined> {
  const folder = `${Deno.env.get("TMPDIR") ?? "/tmp"}/svc-bench-${GHZ.split("@")[1]}`;
  const program = `${folder}/ghz`;
  try {
    if (await Deno.stat(program).then(() => true, () => false)) return program;
    const { code, stderr } = await run(["go", "install", GHZ], { GOBIN: folder });
    if (code === 0) return program;
    row("skipped", `ghz cannot be built here: ${stderr.trim().split("\n").at(-1)}`);
  } catch {
    row("skipped", "there is no Go toolchain to build ghz with (the command go, from https://go.dev)");
  }
  return undefined;
}
