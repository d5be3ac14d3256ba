/**
 * Who gets in, on each transport: every published method of a machine, without a token and with each kind of bad one.
 */

import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { connect } from "node:net";
import { assertEquals, assertNotEquals } from "@std/assert";
import { APIS } from "../lib/api/mod.ts";
import { nextTurn, SystemClock } from "../lib/base/clock.ts";
import { CODES, SvcError } from "../lib/base/error.ts";
import { Secret } from "../lib/base/secret.ts";
import { type Auth, auth, type AuthSettings } from "../lib/wire/auth/auth.ts";
import { type Channel, client } from "../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../lib/wire/grpc/grpc_channel.ts";
import { memoryChannel } from "../lib/wire/rpc/memory.ts";
import { openPort } from "../lib/wire/port/port.ts";
import { PortAllowance } from "../lib/wire/flow/byte_budget.ts";
import { create, type DescService, toBinary } from "../lib/wire/rpc/proto.ts";
import { pathOf, type Peer, service, ServiceTable } from "../lib/wire/rpc/service.ts";
import type { DataChannel } from "../lib/wire/webrtc/addon.ts";
import { FrameClient } from "../lib/wire/webrtc/client.ts";
import { FrameServer } from "../lib/wire/webrtc/server.ts";
import { AuthenticateRequestSchema, AuthService } from "../proto/gen/auth_pb.ts";
import { Health } from "../proto/gen/health_pb.ts";
import { ServerReflection } from "../proto/gen/reflection_pb.ts";
import { ServerReflection as ServerReflectionV1Alpha } from "../proto/gen/reflection_v1alpha_pb.ts";
import { RobotService } from "../proto/gen/robot_pb.ts";
import { SignalingService } from "../proto/gen/signaling_pb.ts";
import { StreamService } from "../proto/gen/stream_pb.ts";
import { overChannel, overWeb, statusOf, type Transport, unsigned } from "./support/bare_calls.ts";
import { FakeClock } from "./support/fake_clock.ts";

const clock = new SystemClock();
const SERVICES: readonly DescService[] = [
  ...APIS.map(({ desc }) => desc),
  RobotService,
  Health,
  ServerReflection,
  ServerReflectionV1Alpha,
  SignalingService,
  StreamService,
];
const METHODS = SERVICES.flatMap(({ methods }) => methods);

const SETTINGS: AuthSettings = { handlers: { apiKeys: { id: "key" } }, audience: ["machine.example"] };
const DAY_MS = 24 * 3600 * 1000;

/** The tokens that are not good for `guard`, which signs with `key`. */
async function badTokens(guard: Auth, key: KeyObject): Promise<Record<string, string | undefined>> {
  const other = generateKeyPairSync("ed25519").privateKey;
  const longAgo = new FakeClock(clock.nowMs() - 31 * DAY_MS);
  const issue = (settings: AuthSettings, signingKey: KeyObject, at = clock as typeof clock | FakeClock) =>
    tokenOf(auth({ ...settings, signingKeys: () => [signingKey], clock: at }));
  return {
    "no token": undefined,
    "a wrong token": "nonsense",
    "an empty token": "",
    "a token that has expired": await issue(SETTINGS, key, longAgo),
    "a token that another key has signed": await issue(SETTINGS, other),
    "a token that nobody has signed": unsigned(await tokenOf(guard)),
    "a token for another machine": await issue({ ...SETTINGS, audience: ["other.example"] }, key),
    "a token of a key that was replaced": await issue(
      { ...SETTINGS, handlers: { apiKeys: { id: "old" } } },
      key,
    ),
  };
}

async function tokenOf(guard: Auth): Promise<string> {
  const table = new ServiceTable(clock);
  table.add(guard.service);
  const authenticate = client(AuthService, memoryChannel(table)).authenticate;
  for (const payload of ["key", "old"]) {
    const asked = authenticate({ entity: "id", credentials: { type: "api-key", payload } });
    const answer = await asked.catch(() => undefined);
    if (answer) return answer.accessToken;
  }
  throw new Error("no key of the test is good");
}

/** Runs `test` for each transport to one guarded table. */
async function onEach(
  test: (name: string, call: Transport, guard: Auth, key: KeyObject) => Promise<void>,
): Promise<void> {
  const key = generateKeyPairSync("ed25519").privateKey;
  const guard = auth({ ...SETTINGS, signingKeys: () => [key], clock });
  const table = new ServiceTable(clock, [guard.gate]);
  for (const desc of SERVICES) table.add(service(desc, {}));
  table.add(guard.service);
  const port = await openPort({ table, bind: { host: "127.0.0.1", port: 0 }, clock });
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  try {
    const transports = {
      grpc: overChannel(channel),
      "gRPC-web": overWeb(port.url),
      WebRTC: overWebRtc(table),
    };
    for (const [name, call] of Object.entries(transports)) await test(name, call, guard, key);
  } finally {
    channel.close();
    await port.close(0);
  }
}

/** A peer that was let in with this token, as if it had been good then. */
function overWebRtc(table: ServiceTable): Transport {
  return async (method, token) => {
    const { frames, over } = webRtcPeer(table, token === undefined ? {} : { token: new Secret(token) });
    const status = await statusOf(frames, method, {});
    over();
    return status;
  };
}

function webRtcPeer(
  table: ServiceTable,
  identity: Omit<Peer, "kind">,
): { frames: FrameClient; over(): void } {
  const [toServer, toClient] = [new Wire(), new Wire()];
  const frames = new FrameClient({ peer: { data: toServer, close: () => {} }, clock });
  const peer = { kind: "webrtc" as const, ...identity };
  const allowance = new PortAllowance().connection();
  const leave = () => {};
  const server = new FrameServer({ table, channel: toClient, peer, allowance, callsMax: 8, leave });
  toServer.to = (bytes) => server.frame(bytes);
  toClient.to = (bytes) => frames.frame(bytes);
  return { frames, over: () => server.gone(new SvcError("unavailable", "over")) };
}

class Wire implements DataChannel {
  readonly bufferedBytes = 0;
  readonly messageBytesMax = 65_536;
  to: (bytes: Uint8Array) => void = () => {};

  send(message: Uint8Array): void {
    nextTurn(() => this.to(message.slice()));
  }
}

Deno.test("every method of a machine refuses bad tokens on every transport", () =>
  onEach(async (name, call, guard, key) => {
    for (const [what, token] of Object.entries(await badTokens(guard, key))) {
      const answered: string[] = [];
      await Promise.all(METHODS.map(async (method) => {
        const status = await call(method, token);
        if (status !== CODES.unauthenticated) answered.push(`${pathOf(method)}: ${status}`);
      }));
      assertEquals(answered, [], `${what} over ${name}`);
    }
  }));

Deno.test("a valid token opens every method on every transport", () =>
  onEach(async (name, call, guard) => {
    const token = await tokenOf(guard);
    for (const method of METHODS) {
      const status = await call(method, token);
      assertNotEquals(status, CODES.unauthenticated, `${pathOf(method)} over ${name}`);
    }
  }));

/** Shows a key from an address; gives the gRPC status. */
type Attempt = (address: string, id: string, key: string) => Promise<number>;

/** The same over HTTP/1.1, from an address of this computer's. */
function keyOverWeb(port: number): Attempt {
  return (localAddress, entity, payload) => {
    const message = create(AuthenticateRequestSchema, { entity, credentials: { type: "api-key", payload } });
    const bytes = toBinary(AuthenticateRequestSchema, message);
    const frame = new Uint8Array(5 + bytes.length);
    new DataView(frame.buffer).setUint32(1, bytes.length);
    frame.set(bytes, 5);
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: "127.0.0.1", localAddress });
      const head = `POST /${AuthService.typeName}/Authenticate HTTP/1.1\r\nhost: localhost\r\n` +
        `content-type: application/grpc-web+proto\r\ncontent-length: ${frame.length}\r\n\r\n`;
      let answer = "";
      socket.on("error", reject).on("data", (more) => {
        answer += more.toString("latin1");
        const [, status] = /grpc-status: (\d+)/.exec(answer) ?? [];
        if (status === undefined) return;
        socket.destroy();
        resolve(Number(status));
      });
      socket.write(head);
      socket.write(frame);
    });
  };
}

function statusOfKey(channel: Channel, entity: string, payload: string): Promise<number> {
  const asked = client(AuthService, channel).authenticate({
    entity,
    credentials: { type: "api-key", payload },
  });
  return asked.then(() => 0, (error: SvcError) => CODES[error.code]);
}

Deno.test("wrong keys slow down only their own address on every transport", async () => {
  const limits = { wrongKeysPerAddress: 6, wrongKeysPerKey: 3, keyChecksAtOnce: 2 };
  const still = new FakeClock();
  for (const transport of ["gRPC", "gRPC-web", "WebRTC", "WebRTC through another signaling"]) {
    const logged: string[] = [];
    const guard = auth({
      ...SETTINGS,
      handlers: { apiKeys: { id: "key", other: "key 2" } },
      limits,
      tooManyTries: ({ id, address }) => logged.push(`${id} ${address}`),
      clock: still,
    });
    const table = new ServiceTable(clock, [guard.gate]);
    table.add(guard.service);
    const port = await openPort({ table, bind: { host: "127.0.0.1", port: 0 }, clock });
    const overGrpc: Attempt = async (_address, id, key) => {
      const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
      return await statusOfKey(channel, id, key).finally(() => channel.close());
    };
    const overPeer =
      (identity: (address: string) => Omit<Peer, "kind">): Attempt => async (address, id, key) => {
        const { frames, over } = webRtcPeer(table, identity(address));
        return await statusOfKey(frames, id, key).finally(over);
      };
    let show: Attempt;
    if (transport === "gRPC") show = overGrpc;
    else if (transport === "gRPC-web") show = keyOverWeb(port.port);
    else {
      show = overPeer((address) => {
        // Peers of one caller come from a port of their own each.
        const remoteAddress = `192.0.2.1:${Math.random()}`;
        return transport === "WebRTC"
          ? { signaledFrom: address, remoteAddress }
          : { entity: address, remoteAddress };
      });
    }
    try {
      const [attacker, neighbour] = ["127.0.0.1", "127.0.0.2"];
      const times = async (count: number, id: (index: number) => string, key: string) => {
        const found: number[] = [];
        for (let i = 0; i < count; i++) found.push(await show(attacker, id(i), key));
        return found;
      };
      const { unauthenticated: wrong, resource_exhausted: tooMany } = CODES;
      assertEquals(await times(5, () => "id", "wrong"), [wrong, wrong, wrong, tooMany, tooMany], transport);
      const unknown = await times(8, (index) => `nobody ${index}`, "wrong");
      assertEquals(unknown, [...Array(6).fill(wrong), tooMany, tooMany], transport);
      // Neighbours of the attacker's key and of its address still get in.
      assertEquals(await show(attacker, "other", "key 2"), 0, transport);
      const where = transport === "gRPC" ? "another transport's address" : neighbour;
      const elsewhere = transport === "gRPC" ? keyOverWeb(port.port) : show;
      assertEquals(await elsewhere(neighbour, "id", "key"), 0, where);
      // Who was let in once is let in, from anywhere.
      assertEquals(await show(attacker, "id", "key"), 0, transport);
      assertEquals(logged.length, 2, transport);
    } finally {
      await port.close(0);
    }
  }
});
