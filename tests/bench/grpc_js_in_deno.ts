/**
 * Whether `@grpc/grpc-js` could take the place of our own HTTP/2 on this Deno: `deno task bench:grpc-js [TRIES]`.
 *
 * Prints how many of its clients end abnormally when their server says GOAWAY after an idle moment, and whether its
 * server survives clients that leave without a word. docs/decisions/http2.md has the figures, and what follows.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { EchoService } from "../../proto/gen/echo_pb.ts";
import { ECHO_PROTO, grpcJsServer, ourEchoServer } from "../support/echo_server.ts";

const HERE = new URL("./", import.meta.url).pathname;
const CONFIG = new URL("../interop/packages.json", import.meta.url).pathname;
const IDLE_MS = 200;
const AFTER_GOAWAY_MS = 500;
const DEPARTURES = 200;

if (import.meta.main) {
  const tries = Number(Deno.args[0] ?? 20);
  let abnormal = 0;
  const codes = new Map<number, number>();
  for (let at = 0; at < tries; at++) {
    const code = await idleClient();
    if (code !== 0) abnormal++;
    codes.set(code, (codes.get(code) ?? 0) + 1);
  }
  const logged = [...codes].map(([code, times]) => `${times} with ${code}`).join(", ");
  console.log(
    `Deno ${Deno.version.deno}: clients whose server says GOAWAY: ${abnormal} of ${tries} end abnormally (${logged})`,
  );
  console.log(
    `Deno ${Deno.version.deno}: a server that ${DEPARTURES} clients left: ${await abandonedServer()}`,
  );
}

/** The exit code of a client whose server goes away while it does nothing. */
async function idleClient(): Promise<number> {
  const server = await ourEchoServer();
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "--no-lock",
      "--config",
      CONFIG,
      `${HERE}grpc_js_idle_client.mjs`,
      ECHO_PROTO,
      `127.0.0.1:${server.port}`,
    ],
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const output = child.stdout.getReader();
  await output.read();
  await pause(IDLE_MS);
  await server.stop();
  await pause(AFTER_GOAWAY_MS);
  await child.stdin.close().catch(() => {});
  await output.cancel();
  const { code } = await child.status;
  return code;
}

async function abandonedServer(): Promise<string> {
  const server = await grpcJsServer("deno");
  const address = `127.0.0.1:${server.port}`;
  const call = async () => {
    const channel = connectGrpc(address, { clock: new SystemClock() });
    try {
      await client(EchoService, channel).echo({ message: "hello" });
    } finally {
      channel.close();
    }
  };
  try {
    for (let at = 0; at < DEPARTURES; at++) await call();
    return "still answers";
  } catch (error) {
    return `does not answer: ${error}`;
  } finally {
    await server.stop();
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
