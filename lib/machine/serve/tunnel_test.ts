import { assert, assertEquals, assertRejects } from "@std/assert";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { SvcError } from "../../base/error.ts";
import { bench } from "../../../tests/support/machine_bench.ts";

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const bytes = (words: string) => new TextEncoder().encode(words);

/** A port of this computer where `serve` answers, and a machine that opens it. */
async function withPort(
  serve: (socket: Socket) => void,
  work: (port: number, robot: ReturnType<typeof bench>["robot"], server: Server) => Promise<void>,
): Promise<void> {
  const { robot, apply, close } = bench();
  const server = createServer({ allowHalfOpen: true }, serve).listen(0, "localhost");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  try {
    await apply({ network: { traffic_tunnel_endpoints: [{ port }] } });
    await work(port, robot, server);
  } finally {
    await close();
    if (server.listening) await new Promise((closed) => server.close(closed));
  }
}

async function* messages(destinationPort: number, ...words: string[]) {
  yield { destinationPort };
  for (const word of words) yield { data: bytes(word) };
}

async function heard(answers: AsyncIterable<{ data: Uint8Array }>): Promise<string> {
  let all = "";
  for await (const { data } of answers) all += text(data);
  return all;
}

Deno.test("Tunnel: carries data both ways, and each side may close its direction first", async () => {
  // Answers only when it has heard everything.
  const serve = (socket: Socket) => {
    let all = "";
    socket.on("data", (chunk) => all += chunk);
    socket.on("end", () => socket.end(all.toUpperCase()));
  };
  await withPort(serve, async (port, robot) => {
    assertEquals(await heard(robot.tunnel(messages(port, "one, ", "two"))), "ONE, TWO");
  });
});

Deno.test("Tunnel: ends when the port closes, and data of the first message is sent", async () => {
  const serve = (socket: Socket) => void socket.on("data", (chunk) => socket.end(chunk));
  await withPort(serve, async (port, robot) => {
    const never = Promise.withResolvers<void>();
    const talk = async function* () {
      yield { destinationPort: port, data: bytes("bye") };
      await never.promise;
    };
    assertEquals(await heard(robot.tunnel(talk())), "bye");
    never.resolve();
  });
});

Deno.test("Tunnel: carries 8 MB both ways at once", async () => {
  const size = 8 * 1024 * 1024;
  await withPort((socket) => void socket.pipe(socket), async (port, robot) => {
    const talk = async function* () {
      yield { destinationPort: port };
      for (let sent = 0; sent < size; sent += 1 << 16) {
        yield { data: new Uint8Array(1 << 16).fill(sent >> 16) };
      }
    };
    let at = 0;
    for await (const { data } of robot.tunnel(talk())) {
      for (const byte of data) assert(byte === at++ >> 16, `byte ${at - 1}`);
    }
    assertEquals(at, size);
  });
});

Deno.test("Tunnel: closes the connection to the port when the client cancels", async () => {
  const left = Promise.withResolvers<void>();
  const serve = (socket: Socket) => {
    socket.write("hello");
    socket.on("error", () => {});
    socket.on("close", () => left.resolve());
    // It would say more if it was asked.
    socket.resume();
    socket.on("end", () => socket.destroy());
  };
  await withPort(serve, async (port, robot) => {
    const leave = new AbortController();
    const talk = async function* () {
      yield { destinationPort: port };
      await left.promise;
    };
    const answers = robot.tunnel(talk(), { signal: leave.signal });
    await assertRejects(async () => {
      for await (const { data } of answers) {
        assertEquals(text(data), "hello");
        leave.abort();
      }
    });
    await left.promise;
  });
});

Deno.test("Tunnel: refuses ports that are not configured, and reports a port that does not answer", async () => {
  await withPort(() => {}, async (port, robot, server) => {
    const other = port === 1 ? 2 : port - 1;
    const refused = await assertRejects(() => heard(robot.tunnel(messages(other))), SvcError);
    const wanted = "wanted one of network.traffic_tunnel_endpoints";
    assertEquals(
      [refused.code, refused.message],
      ["permission_denied", `tunnel not available at port ${other}, ${wanted}`],
    );
    const empty = await assertRejects(() => heard(robot.tunnel((async function* () {})())), SvcError);
    assertEquals(empty.code, "invalid_argument");
    await new Promise((closed) => server.close(closed));
    const error = await assertRejects(() => heard(robot.tunnel(messages(port))), SvcError);
    assertEquals(error.code, "unavailable");
    assert(error.message.startsWith(`cannot connect to port ${port}: `), error.message);
  });
});
