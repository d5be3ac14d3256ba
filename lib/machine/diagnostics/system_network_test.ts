import { assert, assertEquals, assertRejects } from "@std/assert";
import { createSocket } from "node:dgram";
import { createServer, type Socket } from "node:net";
import { SvcError } from "../../base/error.ts";
import { systemNetwork } from "./system_network.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";

const network = systemNetwork(new FakeHost());

/** A server on the loopback that does `serve` with each connection. */
async function server(serve: (socket: Socket) => void) {
  const listening = createServer((socket) => {
    socket.on("error", () => {});
    serve(socket);
  });
  await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
  const { port } = listening.address() as { port: number };
  return { port, close: () => new Promise<void>((resolve) => listening.close(() => resolve())) };
}

Deno.test("systemNetwork.tcp: connects, sends the request and returns the first bytes of the answer", async () => {
  const { signal } = new AbortController();
  const { port, close } = await server((socket) =>
    socket.on("data", (bytes) => socket.write(`got ${bytes.length}`))
  );
  assertEquals((await network.tcp("127.0.0.1", port, signal)).length, 0);
  const answer = await network.tcp("127.0.0.1", port, signal, new Uint8Array(5));
  assertEquals(new TextDecoder().decode(answer), "got 5");
  await close();
});

Deno.test("systemNetwork.tcp: a refused, closed or aborted connection rejects with its own error", async () => {
  const { signal } = new AbortController();
  const hangingUp = await server((socket) => socket.destroy());
  await assertRejects(
    () => network.tcp("127.0.0.1", hangingUp.port, signal, new Uint8Array(5)),
    SvcError,
  );
  await hangingUp.close();
  await assertRejects(() => network.tcp("127.0.0.1", hangingUp.port, signal), SvcError, "it refuses");
  const silent = await server(() => {});
  const late = new SvcError("deadline_exceeded", "no answer");
  const stop = new AbortController();
  const asked = network.tcp("127.0.0.1", silent.port, stop.signal, new Uint8Array(5));
  stop.abort(late);
  await assertRejects(() => asked, SvcError, "no answer");
  await silent.close();
});

Deno.test("systemNetwork.udp: sends and receives datagrams over the same socket", async () => {
  const echo = createSocket("udp4");
  echo.on("message", (bytes, { port, address }) => echo.send(bytes, port, address));
  await new Promise<void>((resolve) => echo.bind(0, "127.0.0.1", resolve));
  const answered = Promise.withResolvers<Uint8Array>();
  const socket = await network.udp((bytes) => answered.resolve(bytes));
  await socket.send("127.0.0.1", echo.address().port, Uint8Array.of(1, 2, 3));
  assertEquals([...await answered.promise], [1, 2, 3]);
  socket.close();
  await new Promise<void>((resolve) => echo.close(() => resolve()));
});

Deno.test("names are resolved, and a check of a system that does not show its routes fails", async () => {
  assert((await network.resolve("localhost")).length > 0);
  const error = await assertRejects(() => network.gateway(), SvcError, "does not show its routes");
  assertEquals(error.code, "unavailable");
});
