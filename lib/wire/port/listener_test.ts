/** A port that runs out of files accepts again when there are some. */

import { assertEquals } from "@std/assert";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { EchoService } from "../../../proto/gen/echo_pb.ts";
import { settle, SystemClock } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { client } from "../rpc/channel.ts";
import { connectGrpc } from "../grpc/grpc_channel.ts";
import { until, within } from "../../../tests/support/until.ts";
import { Listener } from "./listener.ts";

/**
 * Prints the number of a port, then its log, until its standard input ends. As every program of ours it listens for
 * signals from the start on. The port may have more connections than the system allows, as where the program itself has
 * used up the rest.
 */
const PROGRAM = `
  import { SystemClock } from "${new URL("../../base/clock.ts", import.meta.url)}";
  import { echoTable } from "${new URL("../../../tests/support/echo.ts", import.meta.url)}";
  import { openPort } from "${new URL("port.ts", import.meta.url)}";
  Deno.addSignalListener("SIGTERM", () => Deno.exit(1));
  const say = (text) => Deno.stdout.write(new TextEncoder().encode(text));
  const note = (message) => void say(message + "\\n");
  const logger = { debug() {}, info: note, warn: note, error: note };
  const bind = { host: "127.0.0.1", port: 0 };
  const { table } = echoTable();
  const port = await openPort({ table, clock: new SystemClock(), logger, bind, connections: 4096 });
  await say(port.port + "\\n");
  for await (const _ of Deno.stdin.readable) break;
  await port.close(0);
  Deno.exit(0);
`;

Deno.test({
  name: "Listener: accepts again after the program ran out of file descriptors, and logs it once",
  // The limit of files is that of a Unix shell.
  ignore: Deno.build.os !== "linux",
  async fn() {
    const clock = new SystemClock();
    const program = new Deno.Command("sh", {
      args: ["-c", `ulimit -n 96; exec "$0" eval "$1"`, Deno.execPath(), PROGRAM],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const output = program.stdout.pipeThrough(new TextDecoderStream()).getReader();
    let written = "";
    const wrote = async (form: RegExp) => {
      for (let next; !form.test(written) && !(next = await output.read()).done;) written += next.value;
      return form.exec(written)?.[1];
    };
    const port = Number(await within("the port opens", wrote(/^(\d+)$/m)));
    const sockets: Socket[] = Array.from(
      { length: 150 },
      () => connect(port, "127.0.0.1").on("error", () => {}),
    );
    const closed = Promise.all(
      sockets.map((socket) => new Promise((resolve) => socket.once("close", resolve))),
    );
    await within("all connect", Promise.all(sockets.map((socket) => once(socket, "connect"))));
    await within("the files are used up", wrote(/no more open files/));
    for (const socket of sockets) socket.destroy();
    await within("all close", closed);
    const channel = connectGrpc(`127.0.0.1:${port}`, { clock });
    const { echo } = client(EchoService, channel);
    await until(() => echo({ message: "again" }, { timeoutMs: 3_000 }).then(() => true, () => false));
    channel.close();
    await program.stdin.getWriter().close();
    await within("the program ends", wrote(/^never$/));
    await program.status;
    assertEquals(written.split("the program has no more open files").length, 2);
  },
});

/** What a port at `host` logs of a check whose time is over before the program hears of its own connection. */
async function loggedWhenBusy(host: string): Promise<string[]> {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logger = new Logs(clock, [memorySink(records)]).logger("port");
  const sockets: Socket[] = [];
  const listener = new Listener({
    backlog: 64,
    crowd: 64,
    clock,
    logger,
    accept: (socket) => void sockets.push(socket),
  });
  await listener.listen("here", { host, port: 0 });
  const { port } = listener.address;
  const clients = Array.from({ length: 8 }, () => connect(port, host));
  while (sockets.length < clients.length) await settle();
  await clock.advance(5_000);
  await clock.advance(2_000);
  for (let turn = 0; turn < 400; turn++) {
    await settle();
    await clock.advance(10);
  }
  for (const socket of [...clients, ...sockets]) socket.destroy();
  await listener.close();
  return records.map(({ message }) => message);
}

Deno.test("Listener: a program that is too busy to accept is not reported as out of descriptors", async () => {
  assertEquals(await loggedWhenBusy("127.0.0.1"), []);
});

Deno.test({
  name: "Listener: a port at one address checks itself there",
  // Others need the address to be added first.
  ignore: Deno.build.os !== "linux",
  fn: async () => assertEquals(await loggedWhenBusy("127.0.0.2"), []),
});

Deno.test("Listener: a crowded port checks within 500 ms whether it still accepts", async () => {
  const clock = new FakeClock();
  const sockets: Socket[] = [];
  const accept = (socket: Socket) => void sockets.push(socket);
  const listener = new Listener({ backlog: 64, crowd: 12, clock, accept });
  await listener.listen("here", { host: "127.0.0.1", port: 0 });
  const { port } = listener.address;
  const clients: Socket[] = [];
  const come = async (count: number) => {
    while (clients.length < count) clients.push(connect(port, "127.0.0.1"));
    await until(() => sockets.length === count);
  };
  // The check after five seconds is still to come when the crowd does.
  await come(8);
  await come(12);
  await clock.advance(500);
  await until(() => sockets.length === 13);
  for (const socket of [...clients, ...sockets]) socket.destroy();
  await listener.close();
});
