import { assertEquals, assertRejects } from "@std/assert";
import { AuthService } from "../../../proto/gen/auth_pb.ts";
import { RobotService } from "../../../proto/gen/robot_pb.ts";
import { SignalingService } from "../../../proto/gen/signaling_pb.ts";
import { FakeClock, passing } from "../../../tests/support/fake_clock.ts";
import { fakeInterface, FakeLan, FakeMdnsNetwork } from "../../../tests/support/fake_mdns.ts";
import { SvcError } from "../../base/error.ts";
import { Logs } from "../../base/log/log.ts";
import { Secret } from "../../base/secret.ts";
import { type Channel, client } from "../rpc/channel.ts";
import type { GrpcOptions } from "../grpc/grpc_channel.ts";
import { Announcer } from "../mdns/announcer.ts";
import { memoryChannel } from "../rpc/memory.ts";
import { Metadata } from "../rpc/metadata.ts";
import { type CallContext, service, ServiceTable } from "../rpc/service.ts";
import { dial, type DialOptions } from "./dial.ts";
import { type Connected, MachineLink } from "./machine_link.ts";

/** A world in which one machine serves every address, and records how it was dialed. */
function bench() {
  const clock = new FakeClock();
  const logger = new Logs(clock, []).logger("dial");
  const dialed: string[] = [];
  const far = {
    away: undefined as SvcError | undefined,
    carried: undefined as string | undefined,
    signaling: undefined as SvcError | undefined,
    directly: undefined as SvcError | undefined,
    sessions: undefined as SvcError | undefined,
    beats: 0,
  };
  const lost: (() => void)[] = [];
  const connect = (address: string, { tls, lost: lose = () => {} }: GrpcOptions) => {
    dialed.push(tls ? `${address} as ${tls.serverName ?? "itself"}` : address);
    lost.push(lose);
    const table = new ServiceTable(clock);
    table.add(service(AuthService, {
      authenticate: ({ entity, credentials }) => {
        if (far.directly && !address.startsWith("cloud")) throw far.directly;
        if (credentials!.payload !== "right") throw new SvcError("unauthenticated", "invalid credentials");
        return { accessToken: `token of ${entity}` };
      },
    }));
    table.add(service(RobotService, {
      startSession: () => {
        if (far.sessions) throw far.sessions;
        return { id: "session", heartbeatWindow: { seconds: 2n } };
      },
      sendSessionHeartbeat: () => {
        far.beats++;
        return {};
      },
      getVersion: (_, { requestHeader }) => {
        far.carried = requestHeader.get("authorization");
        if (far.away) throw far.away;
        return { version: "1" };
      },
    }));
    table.add(service(SignalingService, {
      optionalWebRTCConfig: () => {
        throw far.signaling ?? new SvcError("invalid_argument", "host not preconfigured");
      },
    }));
    return memoryChannel(table);
  };
  const options: DialOptions = { clock, logger, connect, signal: new AbortController().signal };
  return { clock, logger, options, connect, dialed, far, lose: () => lost.at(-1)!() };
}

/** A channel that sends a header, as those of gRPC do. */
function withHeader(channel: Channel, header: Metadata): Channel {
  return {
    call: (method, requests, options = {}) =>
      channel.call(method, requests, {
        ...options,
        header: Metadata.from([...header, ...options.header ?? []]),
      }),
    close: () => channel.close(),
  };
}

const credentials = (payload = "right") => ({ entity: "me", type: "api-key", payload: new Secret(payload) });

Deno.test("dial: connects to an address as given and exchanges credentials for a token", async () => {
  const { options, dialed, far } = bench();
  for (const address of ["far:8080", "localhost", "192.0.2.1", "unix:/m.sock", "[::1]:80"]) {
    const { channel, by } = await dial(address, { ...options, credentials: credentials() });
    await client(RobotService, channel).getVersion({});
    assertEquals([by, far.carried], ["address", "Bearer token of me"]);
    channel.close();
  }
  assertEquals(dialed, ["far:8080", "localhost", "192.0.2.1", "unix:/m.sock", "[::1]:80"]);
  const wrong = { ...options, credentials: credentials("wrong") };
  await assertRejects(() => dial("far:8080", wrong), SvcError, "invalid credentials");
});

Deno.test("dial: looks up a name over mDNS first, and the certificate must have that name", async () => {
  const { clock, logger, options, dialed } = bench();
  const lan = new FakeLan();
  const computer = (address: string) => new FakeMdnsNetwork(new Map([[fakeInterface(address), lan]]));
  const announcement = { names: ["rover.example.com"], port: 8080, serves: ["grpc"] };
  const announcer = new Announcer(announcement, {
    network: computer("10.0.0.1"),
    clock,
    logger,
    random: () => 0,
  });
  await announcer.open();
  const near = { ...options, mdns: computer("10.0.0.2"), tls: {} };
  const found = await passing(clock, 5_000, dial("rover.example.com", near));
  assertEquals([found.by, dialed.splice(0)], ["multicast DNS", ["10.0.0.1:8080 as rover.example.com"]]);
  const other = await passing(clock, 5_000, dial("other.example.com", near));
  assertEquals([other.by, dialed.splice(0)], ["address", ["other.example.com as itself"]]);
  for (const { channel } of [found, other]) channel.close();
  await announcer.close();
});

Deno.test("dial: without a path through signaling connects directly, but not after a refusal", async () => {
  const { options, far, dialed } = bench();
  const signaling = () => ({ address: "cloud:443", tls: {} });
  const through = { ...options, credentials: credentials(), signaling };
  const { channel, by, instead } = await dial("rover.example.com", through);
  assertEquals(by, "address");
  assertEquals(instead, "cannot connect through cloud:443: host not preconfigured");
  assertEquals(dialed.splice(0), ["cloud:443 as itself", "rover.example.com"]);
  channel.close();
  // A machine that neither way reaches: the error names both.
  const wrong = { ...through, signaling: () => ({ address: "cloud:443" }) };
  far.directly = new SvcError("unavailable", "no route");
  const neither = await assertRejects(() => dial("rover.example.com", wrong), SvcError);
  assertEquals(neither.code, "unavailable");
  assertEquals(neither.message, "no route; cannot connect through cloud:443: host not preconfigured");
  far.directly = undefined;
  dialed.length = 0;
  far.signaling = new SvcError("permission_denied", "not yours");
  const refused = await assertRejects(() => dial("rover.example.com", through), SvcError);
  assertEquals([refused.code, dialed], ["permission_denied", ["cloud:443 as itself"]]);
});

Deno.test("MachineLink: reconnects after random pauses, a single connection at a time", async () => {
  const { clock, logger, connect, far, lose, dialed } = bench();
  const reasons: string[] = [];
  const uses: Connected[] = [];
  const use = async (connection: Connected): Promise<never> => {
    uses.push(connection);
    for (;;) {
      await client(RobotService, connection.channel).getVersion({}, connection.limits);
      await clock.sleep(100, connection.limits.signal);
    }
  };
  const randoms = [0, 0.5, 1];
  const link = new MachineLink("far:8080", {
    ...{ clock, logger, connect, use, pauseMs: 1_000 },
    random: () => randoms.shift() ?? 0,
    credentials: () => undefined,
    lose: (reason) => void reasons.push(reason),
  });
  await clock.advance(500);
  assertEquals([uses.length, dialed.length], [1, 1]);
  for (const pauseMs of [500, 750, 1_000]) {
    lose();
    await clock.advance(pauseMs - 1);
    assertEquals(uses.at(-1)!.limits.signal.aborted, true);
    const { length } = uses;
    await clock.advance(1);
    assertEquals(uses.length, length + 1);
  }
  assertEquals(reasons, Array(3).fill("the connection was lost"));
  far.away = new SvcError("unavailable", "no answer");
  await clock.advance(200);
  assertEquals(reasons.at(-1), "no answer");
  await link.close(new SvcError("canceled", "no longer wanted"));
  assertEquals(clock.pending, 0);
});

Deno.test("MachineLink: a machine without sessions is used without heartbeats", async () => {
  for (const code of [undefined, "unimplemented", "unavailable"] as const) {
    const { clock, logger, connect, far } = bench();
    far.sessions = code && new SvcError(code, "no sessions");
    let uses = 0;
    const reasons: string[] = [];
    const link = new MachineLink("far:8080", {
      ...{ clock, logger, connect, pauseMs: 60_000, credentials: () => undefined },
      use: async ({ limits }) => {
        uses++;
        for (;;) await clock.sleep(1_000, limits.signal);
      },
      lose: (reason) => void reasons.push(reason),
    });
    await clock.advance(10_000);
    const wanted = {
      unimplemented: [1, false, []],
      unavailable: [0, false, ["no sessions"]],
      none: [1, true, []],
    };
    assertEquals([uses, far.beats > 0, reasons], wanted[code ?? "none"]);
    await link.close(new SvcError("canceled", "no longer wanted"));
    assertEquals(clock.pending, 0);
  }
});

/** A machine that takes the newest token only, and counts what it was asked for. */
function forgetful() {
  const clock = new FakeClock();
  const seen = { issued: 0, calls: 0, away: false, lifeS: 30 * 24 * 3600 };
  const claims = () => btoa(JSON.stringify({ iat: 0, exp: seen.lifeS })).replaceAll("=", "");
  const token = () => `a.${claims()}.${seen.issued}`;
  const good = (context: CallContext) => {
    seen.calls++;
    if (context.requestHeader.get("authorization") === `Bearer ${token()}`) return;
    throw new SvcError("unauthenticated", "unauthenticated: token is expired");
  };
  const connect = (_: string, { header }: GrpcOptions) => {
    const table = new ServiceTable(clock);
    table.add(service(AuthService, {
      authenticate: (_, { requestHeader }) => {
        // As every server of ours does.
        if (requestHeader.get("authorization") !== undefined) throw new SvcError("invalid_argument", "again");
        if (seen.away) throw new SvcError("unavailable", "nobody there");
        seen.issued++;
        return { accessToken: token() };
      },
    }));
    table.add(service(RobotService, {
      getVersion: (_, context) => {
        good(context);
        return { version: "1" };
      },
      streamStatus: async function* (_, context) {
        good(context);
        yield { status: [] };
      },
    }));
    return withHeader(memoryChannel(table), header!);
  };
  const signal = new AbortController().signal;
  const logger = new Logs(clock, []).logger("dial");
  const dialIt = () => dial("far:1", { clock, logger, connect, signal, credentials: credentials() });
  return { clock, seen, dialIt };
}

Deno.test("dial: a token is exchanged before it ends, once for all calls", async () => {
  const { clock, seen, dialIt } = forgetful();
  const { channel } = await dialIt();
  const { getVersion } = client(RobotService, channel);
  await getVersion({});
  await clock.advance(28 * 24 * 3600_000);
  await Promise.all([getVersion({}), getVersion({})]);
  assertEquals([seen.issued, seen.calls], [2, 3]);
  channel.close();
});

Deno.test("dial: a call that a machine refuses for its token is repeated once with a new one", async () => {
  const { seen, dialIt } = forgetful();
  const { channel } = await dialIt();
  const { getVersion, streamStatus } = client(RobotService, channel);
  seen.issued++;
  await getVersion({});
  seen.issued++;
  for await (const { status } of streamStatus({})) assertEquals(status, []);
  assertEquals([seen.issued, seen.calls], [5, 4]);

  seen.issued++;
  seen.away = true;
  await assertRejects(() => getVersion({}), SvcError, "token is expired");
  seen.away = false;
  await getVersion({});
  channel.close();
});
