/**
 * Who gets in, on each transport: every published method of a machine, without a token and with each kind of bad one.
 */

import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { assertEquals, assertNotEquals } from "@std/assert";
import { APIS } from "../lib/api/mod.ts";
import { nextTurn, SystemClock } from "../lib/base/clock.ts";
import { CODES, SvcError } from "../lib/base/error.ts";
import { Secret } from "../lib/base/secret.ts";
import { type Auth, auth, type AuthSettings } from "../lib/wire/auth.ts";
import { client } from "../lib/wire/channel.ts";
import { connectGrpc } from "../lib/wire/grpc/grpc_channel.ts";
import { memoryChannel } from "../lib/wire/memory.ts";
import { Metadata } from "../lib/wire/metadata.ts";
import { openPort } from "../lib/wire/port/port.ts";
import { PortAllowance } from "../lib/wire/port/byte_budget.ts";
import type { DescMethod, DescService } from "../lib/wire/proto.ts";
import { pathOf, service, ServiceTable } from "../lib/wire/service.ts";
import type { DataChannel } from "../lib/wire/webrtc/addon.ts";
import { FrameClient } from "../lib/wire/webrtc/client.ts";
import { FrameServer } from "../lib/wire/webrtc/server.ts";
import { AuthService } from "../proto/gen/auth_pb.ts";
import { Health } from "../proto/gen/health_pb.ts";
import { ServerReflection } from "../proto/gen/reflection_pb.ts";
import { ServerReflection as ServerReflectionV1Alpha } from "../proto/gen/reflection_v1alpha_pb.ts";
import { RobotService } from "../proto/gen/robot_pb.ts";
import { SignalingService } from "../proto/gen/signaling_pb.ts";
import { StreamService } from "../proto/gen/stream_pb.ts";
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

/** A call of a method with an empty message; gives its gRPC status. */
type Transport = (method: DescMethod, token: string | undefined) => Promise<number>;

/** The tokens that are not good for `guard`, which signs with `key`. */
async function badTokens(guard: Auth, key: KeyObject): Promise<Record<string, string | undefined>> {
  const other = generateKeyPairSync("ed25519").privateKey;
  const longAgo = new FakeClock(clock.nowMs() - 31 * DAY_MS);
  const issue = (settings: AuthSettings, signingKey: KeyObject, at = clock as typeof clock | FakeClock) =>
    tokenOf(auth({ ...settings, signingKeys: () => [signingKey], clock: at }));
  const [, claims] = (await tokenOf(guard)).split(".");
  const none = btoa(JSON.stringify({ alg: "none", typ: "JWT" })).replace(/=+$/, "");
  return {
    "no token": undefined,
    "a wrong token": "nonsense",
    "an empty token": "",
    "a token that has expired": await issue(SETTINGS, key, longAgo),
    "a token that another key has signed": await issue(SETTINGS, other),
    "a token that nobody has signed": `${none}.${claims}.`,
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
    const header = (token: string | undefined) =>
      token === undefined ? new Metadata() : Metadata.from([["authorization", `Bearer ${token}`]]);
    const grpc: Transport = (method, token) => statusOf(channel, method, { header: header(token) });
    const transports = { grpc, "gRPC-web": overWeb(port.url), WebRTC: overWebRtc(table) };
    for (const [name, call] of Object.entries(transports)) await test(name, call, guard, key);
  } finally {
    channel.close();
    await port.close(0);
  }
}

type Calls = Pick<ReturnType<typeof connectGrpc>, "call">;

async function statusOf(channel: Calls, method: DescMethod, options: { header?: Metadata }): Promise<number> {
  const empty = async function* () {
    yield new Uint8Array();
  };
  try {
    for await (const _ of channel.call(method, empty(), options));
    return 0;
  } catch (error) {
    return CODES[(error as SvcError).code];
  }
}

function overWeb(url: string): Transport {
  return async (method, token) => {
    const headers = new Headers({ "content-type": "application/grpc-web+proto" });
    if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
    const answer = await fetch(`${url}${pathOf(method)}`, {
      method: "POST",
      headers,
      body: new Uint8Array(5),
    });
    const status = /grpc-status: (\d+)/.exec(await answer.text())?.[1];
    return Number(status);
  };
}

/** A peer that was let in with this token, as if it had been good then. */
function overWebRtc(table: ServiceTable): Transport {
  return async (method, token) => {
    const [toServer, toClient] = [new Wire(), new Wire()];
    const frames = new FrameClient({ peer: { data: toServer, close: () => {} }, clock });
    const peer = { kind: "webrtc" as const, token: token === undefined ? undefined : new Secret(token) };
    const allowance = new PortAllowance().connection();
    const leave = () => {};
    const server = new FrameServer({ table, channel: toClient, peer, allowance, callsMax: 8, leave });
    toServer.to = (bytes) => server.frame(bytes);
    toClient.to = (bytes) => frames.frame(bytes);
    const status = await statusOf(frames, method, {});
    server.gone(new SvcError("unavailable", "over"));
    return status;
  };
}

class Wire implements DataChannel {
  readonly bufferedBytes = 0;
  to: (bytes: Uint8Array) => void = () => {};

  send(message: Uint8Array): void {
    nextTurn(() => this.to(message.slice()));
  }
}

Deno.test("no method of a machine answers without a good token, on any transport", () =>
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

Deno.test("a good token opens every method, on every transport", () =>
  onEach(async (name, call, guard) => {
    const token = await tokenOf(guard);
    for (const method of METHODS) {
      const status = await call(method, token);
      assertNotEquals(status, CODES.unauthenticated, `${pathOf(method)} over ${name}`);
    }
  }));
