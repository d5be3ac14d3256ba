import { assertEquals } from "@std/assert";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { openUdp, type UdpSocket } from "../../base/udp.ts";
import type { IceServer } from "./ice_choice.ts";
import { chooseServers } from "./ice_choice.ts";
import { stunAnswer } from "./stun.ts";
import type { StreamServer } from "./turn_stream.ts";

const clock = new SystemClock();

/** The chosen servers in words, and the stand-ins that were opened. */
async function chosen(servers: readonly IceServer[]) {
  const opened: (readonly StreamServer[])[] = [];
  let open = 0;
  const { servers: found, close } = await chooseServers(servers, () => {}, {
    clock,
    openRelay: (ends) => {
      opened.push(ends);
      open++;
      return Promise.resolve({ host: "127.0.0.1", port: 1000 + opened.length, close: () => open-- });
    },
  });
  close();
  assertEquals(open, 0);
  const words = found.map((one) =>
    typeof one === "string" ? one : `turn:${one.hostname}:${one.port} ${one.username}:${one.password}`
  );
  return { words, opened };
}

const user = (name: string, ...urls: string[]): IceServer => ({
  urls,
  username: name,
  credential: `of ${name}`,
});

/** Runs with the ports of servers that answer STUN, and of one that is silent. */
async function withStun(
  answering: number,
  run: (ports: readonly number[], silent: number) => Promise<void>,
): Promise<void> {
  const sockets: (UdpSocket & { readonly port: number })[] = [];
  for (let index = 0; index < answering; index++) {
    const socket = await openUdp((bytes, { address, port }) => {
      const answer = stunAnswer(bytes, address, port);
      if (answer) void socket.send(address, port, answer);
    }, { host: "127.0.0.1", port: 0 });
    sockets.push(socket);
  }
  const silent = await openUdp(() => {}, { host: "127.0.0.1", port: 0 });
  try {
    await run(sockets.map(({ port }) => port), silent.port);
  } finally {
    for (const socket of [...sockets, silent]) socket.close();
  }
}

Deno.test("chooseServers: takes what there is in the addon's notation, and leaves out what nobody here can use", async () => {
  const { words, opened } = await chosen([
    { urls: ["stun:[2001:db8::1]:99", "stuns:stun.example", "stun:stun.example?transport=tcp"] },
    user(
      "ann",
      "turn:turn.example",
      "turns:turn.example?transport=udp",
      "turn:turn.example:99999",
      "http://x",
    ),
  ]);
  assertEquals([words, opened], [["stun:[2001:db8::1]:99", "turn:turn.example:3478 ann:of ann"], []]);
});

Deno.test("chooseServers: TURN over TCP and TLS has a stand-in for each user, beside one over UDP", async () => {
  const streams = [
    "turn:a.example?transport=tcp",
    "turns:a.example",
    "turns:[2001:db8::1]:443?transport=tcp",
  ];
  const ends = [
    { host: "a.example", port: 3478, secure: false },
    { host: "a.example", port: 5349, secure: true },
    { host: "2001:db8::1", port: 443, secure: true },
  ];
  const mixed = await chosen([user("ann", "turn:a.example", ...streams), user("bob", "turns:b.example")]);
  assertEquals(mixed, {
    words: ["turn:a.example:3478 ann:of ann", "turn:127.0.0.1:1001 ann:of ann"],
    opened: [ends],
  });
  const alone = await chosen([
    user("ann", ...streams),
    user("bob", "turns:b.example"),
    user("cay", "turns:c.example"),
  ]);
  assertEquals(alone, {
    words: ["turn:127.0.0.1:1001 ann:of ann", "turn:127.0.0.1:1002 bob:of bob"],
    opened: [ends, [{ host: "b.example", port: 5349, secure: true }]],
  });
});

Deno.test("chooseServers: of more servers than the addon asks, those that answer", () =>
  withStun(2, async ([first, second], silent) => {
    const dead = ["stun:nobody.invalid", `stun:127.0.0.1:${silent}`];
    for (const urls of [[...dead, `stun:127.0.0.1:${first}`], [`stun:127.0.0.1:${first}`, ...dead]]) {
      assertEquals((await chosen([{ urls }])).words, [`stun:127.0.0.1:${first}`]);
    }
    const turns = [`turn:127.0.0.1:${silent}`, "turn:nobody.invalid", `turn:127.0.0.1:${first}`];
    const { words } = await chosen([user("ann", ...turns), user("bob", `turn:127.0.0.1:${second}`)]);
    assertEquals(
      words.toSorted(),
      [`turn:127.0.0.1:${first} ann:of ann`, `turn:127.0.0.1:${second} bob:of bob`].toSorted(),
    );
  }));

Deno.test("chooseServers: if none answers, the first ones", () =>
  withStun(0, async (_, silent) => {
    const { words } = await chosen([{ urls: [`stun:127.0.0.1:${silent}`, "stun:nobody.invalid"] }]);
    assertEquals(words, [`stun:127.0.0.1:${silent}`]);
  }));

Deno.test("chooseServers: a stand-in without a port is a problem that the peer can do without", async () => {
  const problems: string[] = [];
  const { servers } = await chooseServers(
    [user("ann", "turns:a.example")],
    ({ message }) => problems.push(message),
    {
      clock,
      openRelay: () => Promise.reject(new SvcError("unavailable", "no port")),
    },
  );
  assertEquals([servers, problems], [[], ["no port"]]);
});
