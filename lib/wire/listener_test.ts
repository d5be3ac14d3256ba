/** A port that runs out of files accepts again when there are some. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { connect, type Socket } from "node:net";
import { EchoService } from "../../proto/gen/echo_pb.ts";
import { SystemClock } from "../base/clock.ts";
import { client } from "./channel.ts";
import { connectGrpc } from "./grpc.ts";

/**
 * Prints the number of a port, and its log when its standard input ends. As every program of ours it listens for
 * signals from the start on. The port may have more connections than the system allows, as where the program itself has
 * used up the rest.
 */
const PROGRAM = `
  import { SystemClock } from "${new URL("../base/clock.ts", import.meta.url)}";
  import { echoTable } from "${new URL("echo_fixture.ts", import.meta.url)}";
  import { openPort } from "${new URL("port.ts", import.meta.url)}";
  Deno.addSignalListener("SIGTERM", () => Deno.exit(1));
  const logged = [];
  const note = (message) => void logged.push(message);
  const logger = { debug() {}, info: note, warn: note, error: note };
  const bind = { host: "127.0.0.1", port: 0 };
  const { table } = echoTable();
  const port = await openPort({ table, clock: new SystemClock(), logger, bind, connections: 4096 });
  const say = (text) => Deno.stdout.write(new TextEncoder().encode(text));
  await say(port.port + "\\n");
  for await (const _ of Deno.stdin.readable) break;
  await say(logged.join("\\n"));
  await port.close(0);
  Deno.exit(0);
`;

Deno.test({
  name: "a port accepts again after the program had no more open files, and says so once",
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
    const port = Number((await output.read()).value);
    const sockets: Socket[] = Array.from(
      { length: 150 },
      () => connect(port, "127.0.0.1").on("error", () => {}),
    );
    await clock.sleep(1_500);
    await Promise.all(sockets.map((socket) => {
      const closed = new Promise((resolve) => socket.once("close", resolve));
      socket.destroy();
      return closed;
    }));
    const channel = connectGrpc(`127.0.0.1:${port}`, { clock });
    const endMs = clock.monotonicMs() + 40_000;
    for (let answer = ""; answer !== "again";) {
      const { message } = await client(EchoService, channel).echo({ message: "again" }, { timeoutMs: 3_000 })
        .catch((error) => {
          if (clock.monotonicMs() > endMs) throw error;
          return { message: "" };
        });
      answer = message;
    }
    channel.close();
    await program.stdin.getWriter().close();
    let log = "";
    for (let next; !(next = await output.read()).done;) log += next.value;
    await program.status;
    assertStringIncludes(log, "the program has no more open files");
    assertEquals(log.split("the program has no more open files").length, 2);
  },
});
