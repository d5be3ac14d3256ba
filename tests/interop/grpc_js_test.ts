/**
 * gRPC as others speak it: our client with the server of `@grpc/grpc-js`, and its client with our server, in Node.
 */

import { assertEquals } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { all, each, withPort } from "../support/echo.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { EchoService } from "../../proto/gen/echo_pb.ts";
import { ECHO_PROTO, grpcJsServer } from "../support/echo_server.ts";
import { nodeFolder, run } from "./programs.ts";

const MAX_STREAMS = 10;

Deno.test("the gRPC client makes 200 calls at once to a grpc-js server with 10 streams", async () => {
  const server = await grpcJsServer({ node: await nodeFolder() }, MAX_STREAMS);
  const channel = connectGrpc(`127.0.0.1:${server.port}`, { clock: new SystemClock() });
  try {
    const echo = client(EchoService, channel);
    const texts = Array.from({ length: 200 }, (_, index) => `call ${index}`);
    const options = { timeoutMs: 60_000 };
    const answers = await Promise.all(texts.map((message) => echo.echo({ message }, options)));
    assertEquals(answers.map(({ message }) => message), texts);
    const streams = texts.map((message) => all(echo.echoBiDi(each({ message }, { message }), options)));
    const wanted = texts.map((message) => [message, message]);
    assertEquals((await Promise.all(streams)).map((stream) => stream.map(({ message }) => message)), wanted);
    const letters = await all(echo.echoMultiple({ message: "hello" }, options));
    assertEquals(letters.map(({ message }) => message), [..."hello"]);
  } finally {
    channel.close();
    await server.stop();
  }
});

Deno.test("the grpc-js client makes every kind of call to the gRPC server, 1,000 at once", () =>
  withPort({}, async (port) => {
    const program = `${await nodeFolder()}/grpc_js_client.mjs`;
    const { code, stdout, stderr } = await run(["node", program, ECHO_PROTO, `127.0.0.1:${port.port}`]);
    assertEquals(code, 0, stderr);
    assertEquals(JSON.parse(stdout), {
      unary: "grüß dich",
      letters: { messages: [..."hello"] },
      turns: { messages: ["a", "b", "c"] },
      broken: { messages: [..."broken"], error: { code: 15, details: "it broke" } },
      stopped: { messages: [..."endless"], error: { code: 1, details: "Cancelled on client" } },
      failure: { code: 5, details: "no ümläut, 100 %" },
      late: 4,
      canceled: 1,
      metadata: {
        header: { "content-type": "application/grpc", "x-text": "a, b", "x-bytes-bin": [0, 1, 2, 255] },
        trailer: { "t-x-text": "a, b", "t-x-bytes-bin": [0, 1, 2, 255] },
      },
      sent: 5_000_000,
      received: 5_000_000,
      atOnce: 1000,
    });
  }));
