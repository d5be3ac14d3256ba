/** WebRTC on the machine's own port: who gets in, as whom, and who has to leave. */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AuthService } from "../../../proto/gen/auth_pb.ts";
import { Health } from "../../../proto/gen/health_pb.ts";
import { FakeRtc } from "../../../tests/support/fake_rtc.ts";
import { until, within } from "../../../tests/support/until.ts";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { Logs } from "../../base/log/log.ts";
import { type Auth, auth, type AuthSettings } from "../../wire/auth/auth.ts";
import { client } from "../../wire/rpc/channel.ts";
import { connectGrpc } from "../../wire/grpc/grpc_channel.ts";
import { health } from "../../wire/grpc/health.ts";
import { Metadata } from "../../wire/rpc/metadata.ts";
import { openPort } from "../../wire/port/port.ts";
import { type CallContext, ServiceTable } from "../../wire/rpc/service.ts";
import { type DialedChannel, dialWebRtc } from "../../wire/signaling/dialer.ts";
import { MachineWebRtc, type WebRtcSettings } from "./machine_webrtc.ts";

const clock = new SystemClock();
const rtc = new FakeRtc();

interface Bench {
  /** Dials with a token, or without one; `fields` is sent beside it. */
  dial(
    options?: {
      token?: string;
      host?: string;
      lost?: (error: SvcError) => void;
      fields?: readonly (readonly [string, string])[];
    },
  ): Promise<DialedChannel>;
  /** A token for the holder of a key. */
  token(id: string, key: string): Promise<string>;
  readonly guard: Auth | undefined;
  readonly webrtc: MachineWebRtc;
  /** Every call of a peer that was served, latest last; those of signaling, which come at any time, are not among them. */
  readonly calls: CallContext[];
}

/** A port with the health service and signaling; guarded if there are settings. */
async function withMachine(
  guarded: AuthSettings | undefined,
  test: (bench: Bench) => Promise<void>,
  settings: WebRtcSettings = {},
): Promise<void> {
  const guard = guarded && auth({ ...guarded, clock });
  const calls: CallContext[] = [];
  const record = (ctx: CallContext) => {
    if (ctx.peer.kind === "webrtc") calls.push(ctx);
  };
  const table = new ServiceTable(clock, guard ? [guard.gate, record] : [record]);
  for (const one of [health(table), ...guard ? [guard.service] : []]) table.add(one);
  const logger = new Logs(clock, []).logger("test");
  const webrtc = new MachineWebRtc({
    table,
    guard,
    names: () => ["machine.example"],
    settings: () => settings,
    clock,
    logger,
    rtc,
  });
  const port = await openPort({ table, bind: { host: "127.0.0.1", port: 0 }, clock });
  const signaling = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  const dialed: DialedChannel[] = [];
  try {
    await test({
      guard,
      webrtc,
      calls,
      token: async (entity, payload) => {
        const credentials = { type: "api-key", payload };
        return (await client(AuthService, signaling).authenticate({ entity, credentials })).accessToken;
      },
      dial: async ({ token, host = "machine.example", lost, fields = [] } = {}) => {
        const header = Metadata.from([
          ...fields,
          ...token === undefined ? [] : [["authorization", `Bearer ${token}`] as const],
        ]);
        const channel = await dialWebRtc({ signaling, host, clock, header, rtc, lost });
        dialed.push(channel);
        return channel;
      },
    });
  } finally {
    for (const channel of dialed) channel.close();
    signaling.close();
    await Promise.all([webrtc.close(0), port.close(0)]);
  }
}

const GUARDED: AuthSettings = {
  handlers: { apiKeys: { one: "key-1", two: "key-2" } },
  audience: ["machine.example"],
};

Deno.test("MachineWebRtc: a token opens signaling, and calls of the peer belong to the token's key", () =>
  withMachine(GUARDED, async ({ dial, token, calls }) => {
    const channel = await dial({ token: await token("one", "key-1") });
    await client(Health, channel).check({});
    const { peer, entity } = calls.at(-1)!;
    assertEquals([peer.kind, entity], ["webrtc", "one"]);
    assert(peer.remoteAddress !== undefined);
  }));

Deno.test("MachineWebRtc: a dial without a valid token is unauthenticated", () =>
  withMachine(GUARDED, async ({ dial }) => {
    for (const token of [undefined, "nonsense"]) {
      const error = await assertRejects(() => dial({ token }), SvcError);
      assertEquals(error.code, "unauthenticated");
    }
  }));

Deno.test("MachineWebRtc: accepts the machine's own names and the address it was reached by", () =>
  withMachine(undefined, async ({ dial }) => {
    for (const host of ["machine.example", "MACHINE.example:8080", "http://127.0.0.1:8080", "127.0.0.1"]) {
      await client(Health, await dial({ host })).check({});
    }
    const error = await assertRejects(() => dial({ host: "other.example" }), SvcError);
    assertEquals(error.code, "invalid_argument");
    assertStringIncludes(error.message, "host not preconfigured");
  }));

Deno.test("MachineWebRtc: behind a proxy, accepts the address of the page or the one that the proxy tells", () =>
  withMachine(undefined, async ({ dial }) => {
    const host = "robots.example";
    for (
      const [name, value] of [
        ["origin", `https://${host}`],
        ["origin", `http://${host}:8443`],
        ["x-forwarded-host", host],
      ]
    ) await client(Health, await dial({ host, fields: [[name, value]] })).check({});
    for (const value of ["https://other.example", "null", "https://robots.example.other"]) {
      const error = await assertRejects(() => dial({ host, fields: [["origin", value]] }), SvcError);
      assertStringIncludes(error.message, "host not preconfigured");
    }
  }));

Deno.test("MachineWebRtc: a removed key disconnects its own peers and no others", () =>
  withMachine(GUARDED, async ({ dial, token, guard }) => {
    const gone = Promise.withResolvers<SvcError>();
    const one = await dial({ token: await token("one", "key-1"), lost: gone.resolve });
    const two = await dial({ token: await token("two", "key-2") });
    guard!.change({ ...GUARDED, handlers: { apiKeys: { two: "key-2" } } });
    await within("the end of the peer", gone.promise);
    const error = await assertRejects(() => client(Health, one).check({}), SvcError);
    assertEquals(error.code, "unavailable");
    await client(Health, two).check({});
  }));

Deno.test("MachineWebRtc: a stream ends with its caller, and with the peer's channel", () =>
  withMachine(undefined, async ({ dial, calls }) => {
    const channel = await dial();
    const watching = client(Health, channel).watch({})[Symbol.asyncIterator]();
    await watching.next();
    const { signal } = calls.at(-1)!;
    await watching.return!();
    await until(() => signal.aborted);
    const again = client(Health, channel).watch({})[Symbol.asyncIterator]();
    await again.next();
    channel.close();
    await until(() => calls.at(-1)!.signal.aborted);
    await assertRejects(() => again.next(), SvcError);
  }));

Deno.test("MachineWebRtc: calls know when their peer has gone", () =>
  withMachine(undefined, async ({ dial, calls }) => {
    const [one, two] = [await dial(), await dial()];
    for (const channel of [one, two]) await client(Health, channel).check({});
    const [first, second] = calls.map(({ peer }) => peer.ended!);
    one.close();
    await within("the end of the first peer", first);
    assertEquals(
      await Promise.race([second.then(() => "gone"), client(Health, two).check({}).then(() => "here")]),
      "here",
    );
  }));

Deno.test("MachineWebRtc.close: gives running calls their time and then disconnects the peers", () =>
  withMachine(undefined, async ({ dial, webrtc }) => {
    const gone = Promise.withResolvers<SvcError>();
    const channel = await dial({ lost: gone.resolve });
    const watching = client(Health, channel).watch({})[Symbol.asyncIterator]();
    await watching.next();
    const closed = webrtc.close(200);
    const error = await assertRejects(() => client(Health, channel).check({}), SvcError);
    assertEquals(error.code, "unavailable");
    await closed;
    await within("the end of the peer", gone.promise);
    await assertRejects(() => watching.next(), SvcError);
  }));

Deno.test("MachineWebRtc: refuses peers beyond the limit, and accepts again after a disconnect", () =>
  withMachine(undefined, async ({ dial }) => {
    const [first] = [await dial(), await dial()];
    const error = await assertRejects(() => dial(), SvcError);
    assertEquals(error.code, "resource_exhausted");
    assertStringIncludes(error.message, "2 WebRTC peers of this server exist already");
    first.close();
    await until(() => dial().then(() => true, () => false));
  }, { limits: { peers: 2 } }));

Deno.test("MachineWebRtc: the configured ICE servers apply to the machine and its callers", () =>
  withMachine(undefined, async ({ dial }) => {
    await dial();
    assertEquals(rtc.options.slice(-2).map(({ iceServers }) => iceServers.map(({ urls }) => urls)), [
      [["stun:stun.example:3478"]],
      [["stun:stun.example:3478"]],
    ]);
  }, { iceServers: [{ urls: ["stun:stun.example:3478"] }] }));
