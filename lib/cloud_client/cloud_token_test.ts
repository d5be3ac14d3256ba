/** Tokens of our own clients: exchanged before they end, and when they are refused. */

import { assertEquals, assertRejects } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { SystemClock } from "../base/clock.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../base/error.ts";
import { Secret } from "../base/secret.ts";
import { auth } from "../wire/auth/auth.ts";
import { client } from "../wire/rpc/channel.ts";
import { memoryChannel } from "../wire/rpc/memory.ts";
import type { Metadata } from "../wire/rpc/metadata.ts";
import { openPort } from "../wire/port/port.ts";
import { service, ServiceTable } from "../wire/rpc/service.ts";
import { TOKEN_MS } from "../wire/auth/tokens.ts";
import { connectApp } from "./app_channel.ts";
import { CloudToken } from "./cloud_token.ts";

const KEY = { id: "key-1", key: "secret" };

Deno.test("CloudToken: exchanges a token before it expires, once for all concurrent callers", async () => {
  const clock = new FakeClock();
  const guard = auth({ handlers: { apiKeys: { [KEY.id]: KEY.key } }, audience: ["app"], clock });
  let exchanged = 0;
  const table = new ServiceTable(new SystemClock(), [(ctx) => {
    if (ctx.method === AuthService.method.authenticate) exchanged++;
  }]);
  table.add(guard.service);
  const credentials = { type: "api-key", entity: KEY.id, payload: new Secret(KEY.key) };
  const token = new CloudToken(memoryChannel(table), credentials, clock);
  const use = () => token.call({}, (header: Metadata) => Promise.resolve(header.get("authorization")));
  const [first, same] = await Promise.all([use(), use()]);
  assertEquals([first === same, exchanged], [true, 1]);
  await clock.advance(TOKEN_MS / 2);
  assertEquals([await use() === first, exchanged], [true, 1]);
  await clock.advance(TOKEN_MS / 2 - 1);
  const later = await Promise.all([use(), use()]);
  assertEquals([later[0] === later[1], later[0] === first, exchanged], [true, false, 2]);
  const refused = await assertRejects(
    () => token.call({}, () => Promise.reject(new SvcError("unauthenticated", "no"))),
    SvcError,
  );
  assertEquals([refused.code, exchanged], ["unauthenticated", 3]);
});

Deno.test("CloudToken: a slow exchange goes on for the other callers when one gives up", async () => {
  const clock = new FakeClock();
  let [begun, finish] = [0, (_: string) => {}];
  const table = new ServiceTable(new SystemClock(), []);
  table.add(service(AuthService, {
    authenticate: (_, ctx) => {
      begun++;
      return new Promise((resolve, reject) => {
        finish = (accessToken) => resolve({ accessToken });
        ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason));
      });
    },
  }));
  const credentials = { type: "api-key", entity: KEY.id, payload: new Secret(KEY.key) };
  const token = new CloudToken(memoryChannel(table), credentials, clock);
  const use = (limits: { timeoutMs?: number; signal?: AbortSignal }) =>
    token.call(limits, (header: Metadata) => Promise.resolve(header.get("authorization")));

  const ended = new AbortController();
  const [hasty, stopped] = [use({ timeoutMs: 1_000 }), use({ signal: ended.signal })].map((one) =>
    assertRejects(() => one, SvcError)
  );
  const patient = use({ timeoutMs: 15_000 });
  await clock.advance(1_000);
  assertEquals((await hasty).code, "deadline_exceeded");
  ended.abort(new SvcError("canceled", "the program ends"));
  assertEquals((await stopped).code, "canceled");

  // A later call waits for the same exchange.
  const later = use({});
  finish("late");
  assertEquals([await patient, await later, begun], ["Bearer late", "Bearer late", 1]);
});

Deno.test("CloudToken: the call ends when its caller wants no more answers", async () => {
  const channel = memoryChannel(new ServiceTable(new SystemClock(), []));
  const token = new CloudToken(channel, () => Promise.resolve("token"), new FakeClock());
  let isOver = false;
  const answers = async function* () {
    try {
      yield* [1, 2];
    } finally {
      isOver = true;
    }
  };
  for await (const answer of token.answers({}, answers)) {
    assertEquals(answer, 1);
    break;
  }
  assertEquals(isOver, true);
});

Deno.test("CloudToken: every kind of call exchanges a refused token", async () => {
  const clock = new SystemClock();
  const opened = () => auth({ handlers: { apiKeys: { [KEY.id]: KEY.key } }, audience: ["app"], clock });
  let guard = opened();
  // As after a restart of a control plane with other keys: whatever was issued before is strange to it.
  const forget = () => guard = opened();
  const table = new ServiceTable(clock, [{ authenticate: (ctx) => guard.gate.authenticate(ctx) }]);
  table.add(service(AuthService, {
    authenticate: (request, ctx) => guard.service.handlers.authenticate!(request, ctx),
  }));
  table.add(service(AppService, {
    listOrganizations: () => ({}),
    async *tailRobotPartLogs() {
      yield { logs: [{ message: "one" }] };
    },
    async uploadModuleFile(requests) {
      for await (const _ of requests);
      return { url: "done" };
    },
  }));
  const port = await openPort({ table, clock, bind: { host: "127.0.0.1", port: 0 } });
  const channel = connectApp({ address: port.url, keyId: KEY.id, key: new Secret(KEY.key), clock });
  const app = client(AppService, channel);
  const upload = () => app.uploadModuleFile((async function* () {})());
  const tail = () => Array.fromAsync(app.tailRobotPartLogs({ id: "part" }));
  try {
    await app.listOrganizations({});
    forget();
    assertEquals((await tail()).length, 1);
    forget();
    await app.listOrganizations({});
    forget();
    // A consumed upload cannot be repeated, but the next one succeeds.
    await assertRejects(upload, SvcError);
    assertEquals((await upload()).url, "done");
  } finally {
    channel.close();
    await port.close(0);
  }
});
