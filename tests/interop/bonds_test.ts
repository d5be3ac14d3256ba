/**
 * The published Python SDK's ties to a machine: a client's motors stop when it dies or gives up, and it finds a machine
 * again after an outage. Dialled by default, which is WebRTC first and then a direct connection.
 */

import { assert, assertEquals } from "@std/assert";
import { MotorService } from "../../proto/gen/motor_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { needingTest } from "../support/needing.ts";
import { type ServerProcess, startServer, writeConfig } from "../support/server.ts";
import { until, within } from "../support/until.ts";
import { pythonProgram } from "./programs.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

const python = await pythonProgram();

needingTest(
  "a motor stops when the published Python client that moves it is killed",
  python,
  (program) =>
    withPython(program, "hold", async ({ host, python }) => {
      await python.wrote("holding");
      assert(await isMoving(host));
      python.kill();
      await stops(host);
    }),
);

needingTest(
  "a motor stops when the published Python client cancels its call",
  python,
  (program) =>
    withPython(program, "give-up", async ({ host, python }) => {
      await python.wrote("given up");
      await stops(host);
      python.kill();
    }),
);

needingTest(
  "the published Python client reconnects to a restarted machine",
  python,
  (program) =>
    withPython(program, "reconnect", async ({ python, restart }) => {
      await python.wrote("connected");
      await restart();
      await python.say("\n");
      await python.wrote("connected again");
      assertEquals(await within("the client ends", python.ended), 0);
    }),
);

interface Tied {
  readonly host: string;
  readonly python: Python;
  /** Ends the machine and starts another one at the same address. */
  restart(): Promise<void>;
}

async function withPython(
  program: string,
  way: string,
  use: (tied: Tied) => Promise<void>,
): Promise<void> {
  const demo = JSON.parse(await Deno.readTextFile(`${ROOT}examples/demo.json`));
  let server = await serve({ ...demo, network: {} });
  const { host } = new URL(server.url);
  const python = new Python([program, `${ROOT}tests/interop/python_bonds.py`, host, way]);
  const restart = async () => {
    await server.stop();
    server = await serve({ ...demo, network: { bind_address: host } });
  };
  try {
    await use({ host, python, restart });
  } finally {
    python.kill();
    await python.ended;
    await server.stop();
  }
}

async function serve(config: Record<string, unknown>): Promise<ServerProcess> {
  const path = await writeConfig(config);
  const server = await startServer(path);
  await server.wrote("machine is running");
  await Deno.remove(path);
  return server;
}

async function isMoving(host: string): Promise<boolean> {
  const channel = connectGrpc(host, { clock: new SystemClock() });
  try {
    return (await client(MotorService, channel).isMoving({ name: "motor1" })).isMoving;
  } finally {
    channel.close();
  }
}

/** Resolves when the motor stands still. It would turn on for ever. */
async function stops(host: string): Promise<void> {
  await until(async () => !await isMoving(host));
}

/** A program that says how far it is, a line each. */
class Python {
  /** Its exit code. */
  readonly ended: Promise<number>;
  readonly #child: Deno.ChildProcess;
  readonly #lines: ReadableStreamDefaultReader<string>;
  #text = "";

  constructor([program, ...args]: string[]) {
    const command = new Deno.Command(program, { args, stdin: "piped", stdout: "piped", stderr: "null" });
    this.#child = command.spawn();
    this.#lines = this.#child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    this.ended = this.#child.status.then(async ({ code }) => {
      await this.#lines.cancel();
      await this.#child.stdin.close().catch(() => {});
      return code;
    });
  }

  async say(text: string): Promise<void> {
    const writer = this.#child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(text));
    writer.releaseLock();
  }

  /** Resolves when it has written the line. */
  async wrote(line: string): Promise<void> {
    while (!this.#text.includes(`${line}\n`)) {
      const { done, value } = await within(`the client writes "${line}"`, this.#lines.read());
      if (done) throw new Error(`it ended before it wrote "${line}"; it wrote "${this.#text}"`);
      this.#text += value;
    }
    this.#text = "";
  }

  kill(): void {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has ended already.
    }
  }
}
