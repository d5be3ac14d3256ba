import { assertEquals, assertStringIncludes } from "@std/assert";
import { createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { openUdp, type UdpSocket } from "../../base/udp.ts";
import { until } from "../../../tests/support/until.ts";
import { inStream, lengthsOf, openStreamRelay, StreamReader, type StreamServer } from "./turn_stream.ts";

/** A STUN message with so many bytes of attributes. */
function stun(attributes: number, first = 0): Uint8Array {
  const bytes = new Uint8Array(20 + attributes).fill(7, 20);
  bytes.set([first, 3, attributes >> 8, attributes & 255]);
  return bytes;
}

/** Data of a channel, as it stands in a datagram. */
function channelData(length: number): Uint8Array {
  const bytes = new Uint8Array(4 + length).fill(9, 4);
  bytes.set([0x40, 1, length >> 8, length & 255]);
  return bytes;
}

Deno.test("lengthsOf: of STUN and of a channel's data; of nothing else", () => {
  assertEquals(lengthsOf(stun(8)), { bytes: 28, inStream: 28 });
  assertEquals(lengthsOf(channelData(5)), { bytes: 9, inStream: 12 });
  assertEquals(lengthsOf(channelData(0)), { bytes: 4, inStream: 4 });
  assertEquals(lengthsOf(channelData(65_535)), { bytes: 65_539, inStream: 65_540 });
  // Half a head, STUN that is no multiple of 4 bytes, RTP, and anything.
  const foreign = [
    channelData(8).subarray(0, 3),
    stun(5),
    Uint8Array.of(0x80, 1, 2, 3),
    Uint8Array.of(0xff, 3, 3, 0),
  ];
  assertEquals(foreign.map(lengthsOf), foreign.map(() => undefined));
});

Deno.test("inStream: pads a channel's data, and drops what a datagram has beyond its message", () => {
  assertEquals(inStream(channelData(5)), Uint8Array.of(...channelData(5), 0, 0, 0));
  assertEquals(
    inStream(Uint8Array.of(...channelData(5), 1, 2, 3)),
    Uint8Array.of(...channelData(5), 0, 0, 0),
  );
  assertEquals(inStream(stun(4)), stun(4));
  assertEquals(inStream(stun(8).subarray(0, 24)), undefined);
});

Deno.test("StreamReader: messages in any pieces", () => {
  const messages = [stun(0), channelData(1), channelData(0), stun(64), channelData(1023), channelData(4)];
  const stream = messages.flatMap((one) => [...inStream(one)!]);
  for (const piece of [1, 3, 7, 100, stream.length]) {
    const reader = new StreamReader();
    const read: Uint8Array[] = [];
    for (let at = 0; at < stream.length; at += piece) {
      read.push(...reader.read(Uint8Array.from(stream.slice(at, at + piece))));
    }
    assertEquals(read.map((one) => [...one]), messages.map((one) => [...one]), `pieces of ${piece}`);
  }
});

interface Bench {
  /** Sends as the addon does. */
  send(bytes: Uint8Array): void;
  /** What came back to it. */
  readonly back: Uint8Array[];
  /** What the servers received, and their connections. */
  readonly received: number[][];
  readonly connections: Socket[];
  readonly failures: string[];
  readonly relayPort: number;
  sendTo(socket: UdpSocket, bytes: Uint8Array): void;
}

/** A relay in front of servers that send every message back; `false` is a port where none listens. */
async function withRelay(serves: readonly boolean[], run: (bench: Bench) => Promise<void>): Promise<void> {
  const received: number[][] = [];
  const connections: Socket[] = [];
  const opened = serves.map((isServed, index) => {
    const server = createServer((socket) => {
      connections.push(socket);
      socket.on("error", () => {}).on("data", (bytes: Uint8Array) => {
        received[index].push(...bytes);
        socket.write(bytes);
      });
    });
    received.push([]);
    return new Promise<{ at: StreamServer; close(): void }>((resolve) => {
      server.listen(0, "127.0.0.1", () => {
        const at = { host: "127.0.0.1", port: (server.address() as AddressInfo).port, secure: false };
        if (!isServed) server.close();
        resolve({ at, close: () => void (isServed && server.close()) });
      });
    });
  });
  const servers = await Promise.all(opened);
  const back: Uint8Array[] = [], failures: string[] = [];
  const relay = await openStreamRelay(servers.map(({ at }) => at), (error) => failures.push(error.message));
  const addon = await openUdp((bytes) => back.push(Uint8Array.from(bytes)));
  const sendTo = (socket: UdpSocket, bytes: Uint8Array) => void socket.send(relay.host, relay.port, bytes);
  try {
    await run({
      send: (bytes) => sendTo(addon, bytes),
      back,
      received,
      connections,
      failures,
      relayPort: relay.port,
      sendTo,
    });
  } finally {
    relay.close();
    addon.close();
    for (const socket of connections) socket.destroy();
    for (const server of servers) server.close();
  }
}

Deno.test("openStreamRelay: passes messages both ways, over one connection", () =>
  withRelay([true], async ({ send, back, received: [first], connections }) => {
    send(stun(8));
    await until(() => back.length === 1);
    send(channelData(5));
    send(Uint8Array.of(0xff, 1, 2, 3, 4));
    send(channelData(6));
    await until(() => back.length === 3);
    assertEquals(
      back.map((one) => [...one]),
      [stun(8), channelData(5), channelData(6)].map((one) => [...one]),
    );
    assertEquals(first.length, 28 + 12 + 12);
    assertEquals(connections.length, 1);
  }));

Deno.test("openStreamRelay: a server that is away gives way to the next one", () =>
  withRelay([false, false, true], async ({ send, back, received, failures }) => {
    send(stun(8));
    await until(() => back.length === 1);
    assertEquals([received.map((one) => one.length), failures], [[0, 0, 28], []]);
  }));

Deno.test("openStreamRelay: without a server says what is wrong, and a later question tries again", () =>
  withRelay([false], async ({ send, failures }) => {
    send(stun(8));
    await until(() => failures.length === 1);
    assertStringIncludes(failures[0], "cannot connect to the TURN server 127.0.0.1:");
    await until(() => {
      send(stun(8));
      return failures.length > 1;
    });
  }));

Deno.test("openStreamRelay: listens to its first sender alone, and ends a server that speaks anything else", () =>
  withRelay([true], async ({ send, sendTo, back, received: [first], connections }) => {
    send(stun(8));
    await until(() => back.length === 1);
    const stranger = await openUdp(() => {});
    sendTo(stranger, stun(4));
    send(channelData(4));
    await until(() => back.length === 2);
    stranger.close();
    assertEquals(first.length, 28 + 8);

    const [socket] = connections;
    socket.write(Uint8Array.of(0xff, 0xff, 0xff, 0xff));
    await until(() => socket.destroyed);
    // A later question connects anew.
    await until(() => {
      send(stun(8));
      return connections.length > 1;
    });
  }));

Deno.test("openStreamRelay: closed while it connects, it leaves no connection", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const seen: boolean[] = [];
  const relay = await openStreamRelay(
    [{ host: "turn.example", port: 1, secure: true }],
    () => seen.push(true),
    {
      clock: new SystemClock(),
      connect: (_server, signal) =>
        new Promise((_resolve, reject) => {
          resolve();
          signal.addEventListener("abort", () => reject(new SvcError("canceled", "over")), { once: true });
        }),
    },
  );
  const addon = await openUdp(() => {});
  await addon.send(relay.host, relay.port, stun(8));
  await promise;
  relay.close();
  addon.close();
  assertEquals(seen, []);
});
