/**
 * Servers of the echo service (`proto/echo.proto`), each a process of its own: ours and those of `@grpc/grpc-js`.
 *
 * As a program this file is ours. Each prints its port and serves until its input ends.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { openPort } from "../../lib/wire/port/port.ts";
import { service, ServiceTable } from "../../lib/wire/rpc/service.ts";
import { EchoService } from "../../proto/gen/echo_pb.ts";

export const ECHO_PROTO = new URL("../../proto/echo.proto", import.meta.url).pathname;
const INTEROP = new URL("../interop/", import.meta.url).pathname;
const START_MS = 60_000;

export interface EchoServer {
  readonly port: number;
  stop(): Promise<void>;
}

export function ourEchoServer(): Promise<EchoServer> {
  return start([Deno.execPath(), "run", "-A", import.meta.filename!]);
}

/** The server of grpc-js in Node, as `nodeFolder` installs it, or in Deno; with a limit of calls at once, or without. */
export function grpcJsServer(runtime: { node: string } | "deno", maxStreams?: number): Promise<EchoServer> {
  const program = "grpc_js_server.mjs";
  const command = runtime === "deno"
    ? [Deno.execPath(), "run", "-A", "--no-lock", "--config", `${INTEROP}packages.json`, INTEROP + program]
    : ["node", `${runtime.node}/${program}`];
  return start([...command, ECHO_PROTO, ...(maxStreams === undefined ? [] : [String(maxStreams)])]);
}

async function start([program, ...args]: string[]): Promise<EchoServer> {
  const child = new Deno.Command(program, { args, stdin: "piped", stdout: "piped" }).spawn();
  const late = setTimeout(() => child.kill("SIGKILL"), START_MS);
  const output = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part; !text.includes("\n") && !(part = await output.read()).done;) text += part.value;
  clearTimeout(late);
  const stop = async () => {
    await child.stdin.close();
    await output.cancel();
    await child.status;
  };
  const port = Number(text);
  if (port > 0) return { port, stop };
  await stop().catch(() => {});
  throw new Error(
    `${[program, ...args].join(" ")} did not print its port within ${START_MS / 1000} s: "${text}"`,
  );
}

if (import.meta.main) {
  const clock = new SystemClock();
  const table = new ServiceTable(clock);
  table.add(service(EchoService, {
    echo: ({ message }) => ({ message }),
  }));
  const port = await openPort({ table, clock, bind: { host: "127.0.0.1", port: 0 } });
  console.log(port.port);
  for await (const _ of Deno.stdin.readable);
  await port.close(0);
}
