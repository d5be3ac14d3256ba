/**
 * Triggers: what happens at machines is told to webhooks and by mail, once each, also when something stops in the midst.
 */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { createHmac } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import { type AddressInfo, createServer as createNetServer } from "node:net";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { LogEntrySchema } from "../../proto/gen/common_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import type { Json, JsonObject } from "../../lib/base/schema/schema.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { type ConfigThread, ConfigThreads, ownThread } from "../../lib/cloud/config/config_threads.ts";
import { storeReadings } from "../../lib/cloud/data/store_readings.ts";
import { sightingsStatements } from "../../lib/cloud/tenants/parts.ts";
import { ONLINE_MS } from "../../lib/cloud/tenants/presence.ts";
import { LogStore } from "../../lib/cloud/logs/logs.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { Deliveries } from "../../lib/cloud/notifications/deliveries.ts";
import { TriggerEvents } from "../../lib/cloud/notifications/events.ts";
import { mailer } from "../../lib/cloud/notifications/mailer.ts";
import { keepTriggers, noteEvent, oldestEvents } from "../../lib/cloud/triggers/outbox.ts";
import { TriggerWatch } from "../../lib/cloud/notifications/watch.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { create } from "../../lib/wire/rpc/proto.ts";
import { PublicAddresses } from "../../lib/wire/outward/public_addresses.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { until } from "../support/until.ts";
import { svcCloud } from "./program.ts";
import { sqliteTest, storeTest } from "./stores.ts";
import { newWorld, withCloud } from "./world.ts";

/** No readings are in files here. */
const files = undefined as never;
const START_MS = 1_700_000_000_000;
const HOUR_MS = 3600 * 1000;

interface Heard {
  readonly path: string;
  readonly method: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** A receiver of webhooks: `/status/410` answers with this status, everything else with 200. */
async function withReceiver(run: (url: string, heard: readonly Heard[]) => Promise<void>): Promise<void> {
  const heard: Heard[] = [];
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { url: path = "", method = "", headers } = request;
    let body = "";
    for await (const piece of request as AsyncIterable<Uint8Array>) body += new TextDecoder().decode(piece);
    heard.push({ path, method, headers, body });
    const status = Number(/^\/status\/(\d+)/.exec(path)?.[1] ?? 200);
    response.writeHead(status, { location: "/followed" });
    response.end();
  };
  const server = createServer((request, response) => void answer(request, response)).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await run(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, heard);
  } finally {
    server.close();
    await once(server, "close");
  }
}

/** A mail server that keeps what it gets, except for what it refuses: its greeting, or a command, by its first word. */
async function withMailServer(
  run: (port: number, mails: readonly string[]) => Promise<void>,
  refusals: Readonly<Record<string, string>> = {},
): Promise<void> {
  const mails: string[] = [];
  const server = createNetServer((socket) => {
    let [text, isData] = ["", false];
    socket.on("error", () => {});
    socket.write(`${refusals.greeting ?? "220 test"}\r\n`);
    socket.on("data", (data: Uint8Array) => {
      text += new TextDecoder().decode(data);
      for (let end = text.indexOf("\r\n"); end >= 0; end = text.indexOf("\r\n")) {
        if (isData) {
          const stop = text.indexOf("\r\n.\r\n");
          if (stop < 0) return;
          mails.push(text.slice(0, stop));
          [text, isData] = [text.slice(stop + 5), false];
          socket.write("250 kept\r\n");
          continue;
        }
        const line = text.slice(0, end);
        text = text.slice(end + 2);
        const refusal = refusals[line.split(/[ :]/)[0]];
        isData = line === "DATA" && refusal === undefined;
        if (refusal !== undefined) socket.write(`${refusal}\r\n`);
        else if (line.startsWith("RCPT TO:<nobody@")) socket.write("550 unknown\r\n");
        else socket.write(isData ? "354 go on\r\n" : "250 good\r\n");
      }
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await run((server.address() as AddressInfo).port, mails);
  } finally {
    server.close();
    await once(server, "close");
  }
}

const onData = (...types: string[]) => ({ type: "part_data_ingested", data_ingested: { data_types: types } });
const onCondition = (operator: string, value: Json) => ({
  type: "conditional_data_ingested",
  conditional: {
    data_capture_method: "sensor:thermo:meter:Readings",
    conditions: { evals: [{ operator, value }] },
  },
});

function readings(partId: string, celsius: readonly number[]) {
  return {
    metadata: {
      partId,
      componentType: "rdk:component:sensor",
      componentName: "thermo:meter",
      methodName: "Readings",
      type: DataType.TABULAR_SENSOR,
    },
    sensorContents: celsius.map((value, index) => ({
      metadata: { timeRequested: toTimestamp(START_MS + index), timeReceived: toTimestamp(START_MS + index) },
      data: { case: "struct" as const, value: { readings: { celsius: value } } },
    })),
  };
}

function image(partId: string, type: DataType) {
  return {
    metadata: { partId, componentType: "camera", componentName: "cam", methodName: "GetImages", type },
    sensorContents: [{ data: { case: "binary" as const, value: new Uint8Array([1, 2, type]) } }],
  };
}

storeTest(
  "data that arrives is told once, with a signature; what cannot be told is kept",
  async (database) => {
    await withReceiver(async (url, heard) => {
      const triggers = { addresses: new PublicAddresses(["127.0.0.1"]) };
      await withCloud(database, async (cloud) => {
        const { store } = cloud;
        const { owner, part: id, organization } = await newWorld(store);
        const hook = (path: string, more: JsonObject = {}) => ({
          type: "webhook",
          value: `${url}${path}`,
          ...more,
        });
        const trigger = (name: string, event: Json, ...notifications: Json[]) => ({
          name,
          event,
          notifications,
        });
        const auth = { basic: { username: "svc", password: "open" } };
        const config = {
          triggers: [
            trigger("all readings", onData("tabular"), hook("/readings", { auth })),
            trigger("seldom", onData("tabular"), hook("/seldom", { seconds_between_notifications: 3600 })),
            trigger("hot", onCondition("gt", { celsius: 30 }), hook("/hot")),
            trigger("cold", onCondition("lt", { celsius: -30 }), hook("/cold")),
            trigger("images", onData("binary"), hook("/images")),
            trigger("gone", onData("binary"), hook("/status/410"), hook("/status/307")),
            trigger("inside", onData("binary"), { type: "webhook", value: "http://10.0.0.1/" }),
            trigger("mail", onData("binary"), { type: "email", value: "you@example.com" }),
          ],
        };
        await (await cloud.app(owner)).updateRobotPart({ id, name: "rover-main", robotConfig: config });
        const sync = client(DataSyncService, await cloud.channel(owner));
        await sync.dataCaptureUpload(readings(id, [20, 35, 40]));
        // The same again, as after a lost acknowledgement, is nothing new.
        await sync.dataCaptureUpload(readings(id, [20, 35, 40]));
        await sync.dataCaptureUpload(readings(id, [20, 35, 40, 25]));
        await sync.dataCaptureUpload(image(id, DataType.BINARY_SENSOR));
        await sync.dataCaptureUpload(image(id, DataType.UNSPECIFIED));

        const all = () => new Deliveries(store).list({ organizationId: organization, limit: 100 });
        const ended = await until(async () => {
          if ((await oldestEvents(store, 10)).length > 0) return undefined;
          const found = await all();
          return found.length > 0 && found.every(({ state }) => state !== "pending") && found;
        });
        const outcomes = ended.map(({ trigger, state, target }) =>
          `${trigger} ${state} ${new URL(target, url).pathname}`
        );
        assertEquals(outcomes.sort(), [
          "all readings delivered /readings",
          "all readings delivered /readings",
          "gone dead /status/307",
          "gone dead /status/410",
          "hot delivered /hot",
          "images delivered /images",
          "inside dead /",
          "mail dead /you@example.com",
          "seldom delivered /seldom",
        ]);
        const errors = new Map(ended.map(({ trigger, error }) => [trigger, error]));
        assertStringIncludes(errors.get("inside")!, "10.0.0.1 is no public address");
        assertStringIncludes(errors.get("mail")!, "--smtp");
        assertEquals(heard.filter(({ path }) => path === "/followed"), []);

        const hot = heard.find(({ path }) => path === "/hot")!;
        const body = JSON.parse(hot.body);
        assertEquals([hot.method, body.component_name, body.method_name], [
          "POST",
          "thermo:meter",
          "Readings",
        ]);
        assertEquals([body.org_name !== "", body.machine_name], [true, "rover"]);
        assertEquals(body.data.data, { readings: { celsius: 35 } });
        assertEquals(body.data.metadata.requested_at, "2023-11-14T22:13:20.001Z");
        assertEquals(body.trigger_condition, { evals: [{ operator: "gt", value: { celsius: 30 } }] });
        assertEquals([hot.headers["org-id"], hot.headers["part-id"]], [organization, id]);
        const plain = heard.find(({ path }) => path === "/readings")!;
        assertEquals(plain.headers.authorization, `Basic ${btoa("svc:open")}`);
        assertEquals(JSON.parse(heard.find(({ path }) => path === "/images")!.body).data_type, "binary");

        const secret = JSON.parse(await svcCloud("trigger", "secret", "--json", ...database.flags))
          .secret as string;
        const { "webhook-id": hookId, "webhook-timestamp": time, "webhook-signature": signature } =
          hot.headers;
        const key = Uint8Array.fromBase64(secret.replace("whsec_", ""));
        const wanted = createHmac("sha256", key).update(`${hookId}.${time}.${hot.body}`).digest("base64");
        assertEquals(signature, `v1,${wanted}`);

        // People of the machine find in its log what did not arrive, once that is noted.
        const app = await cloud.app(owner);
        const logged = async () => {
          const { logs } = await app.getRobotPartLogs({ id });
          return logs.filter(({ loggerName }) => loggerName.startsWith("app.trigger.")).length;
        };
        await until(async () => await logged() === 4, { found: logged });

        const listed = JSON.parse(await svcCloud("trigger", "list", "--json", ...database.flags)).triggers;
        assertEquals(listed.length, 8);
        const output = await svcCloud("trigger", "test", id, "hot", ...database.flags);
        assertStringIncludes(output, "delivered");
        const test = heard.findLast(({ path }) => path === "/hot")!;
        assertEquals([test.headers["svc-trigger-test"], JSON.parse(test.body).component_name], [
          "true",
          "thermo",
        ]);
        const failed = await assertRejects(() =>
          svcCloud("trigger", "test", id, "inside", ...database.flags)
        );
        assertStringIncludes(String(failed), "did not arrive");
        await assertRejects(() => svcCloud("trigger", "test", id, "none", ...database.flags));
      }, { triggers });
    });
  },
);

/** A world with triggers, and the parts that look after them, on a clock of the test's own. */
async function watched(store: Store, clock: FakeClock, triggers: Json) {
  const world = await newWorld(store);
  await store.transaction((sql) => keepTriggers(sql, world.part, triggers, false));
  const configs = new ConfigThreads(ownThread(() => Promise.resolve([])), defaultLimits(), clock);
  const events = new TriggerEvents({ store, files, clock, configs, limits: defaultLimits() });
  const sees = () =>
    store.batch(sightingsStatements(new Map([[world.part, { atMs: clock.nowMs() }]]), ONLINE_MS));
  const logged = async () => {
    for (const event of await oldestEvents(store, 100)) await events.handle(event);
    const all = await new Deliveries(store).list({ organizationId: world.organization, limit: 100 });
    return all.map(({ trigger }) => trigger).toReversed();
  };
  return { ...world, configs, events, sees, logged };
}

const HOOK = [{ type: "webhook", value: "https://example.com/", seconds_between_notifications: 600 }];

storeTest(
  "each change between online and offline is told once, and a pause of the control plane is none",
  async (database) => {
    const clock = new FakeClock(START_MS);
    const store = await database.open();
    const { sees, logged, configs } = await watched(store, clock, [
      { name: "on", event: { type: "part_online" }, notifications: HOOK },
      { name: "off", event: { type: "part_offline" }, notifications: HOOK },
    ]);
    const [watch, other] = [new TriggerWatch(store, clock), new TriggerWatch(store, clock)];
    const look = () => Promise.all([watch.lookAtParts(), other.lookAtParts()]);
    const pass = async (seconds: number, isSeen: boolean) => {
      for (let at = 0; at < seconds; at += 10) {
        await clock.advance(10_000);
        if (isSeen) await sees();
        await look();
      }
    };
    await pass(100, false);
    assertEquals(await logged(), []);
    await pass(20, true);
    assertEquals(await logged(), ["on"]);
    await pass(20, false);
    assertEquals(await logged(), ["on"]);
    await pass(30, false);
    assertEquals(await logged(), ["on", "off"]);
    await pass(60, true);
    assertEquals(await logged(), ["on", "off", "on"]);

    // Nobody looked, so nobody could report either: machines get time to do so.
    await clock.advance(HOUR_MS);
    await pass(80, false);
    assertEquals((await logged()).length, 3);
    await sees();
    await pass(100, true);
    assertEquals((await logged()).length, 3);
    // A control plane that has just started.
    const fresh = new TriggerWatch(store, clock);
    await clock.advance(20_000);
    await fresh.lookAtParts();
    await clock.advance(20_000);
    await fresh.lookAtParts();
    assertEquals((await logged()).length, 3);
    configs.close();
  },
);

storeTest("log lines of a level are told once an hour, all of them", async (database) => {
  const clock = new FakeClock(START_MS);
  const store = await database.open();
  const { part: id, organization: organizationId, logged, configs } = await watched(store, clock, [
    { name: "bad", event: { type: "conditional_logs_ingested", log_levels: ["error"] }, notifications: HOOK },
    {
      name: "both",
      event: { type: "conditional_logs_ingested", log_levels: ["info", "error"] },
      notifications: HOOK,
    },
  ]);
  const logs = new LogStore(store, clock);
  const log = (level: string, message: string, loggerName = "rdk") => {
    const entry = create(LogEntrySchema, { level, message, loggerName, time: toTimestamp(clock.nowMs()) });
    return logs.add({ id, organizationId }, [entry], clock.nowMs());
  };
  const watch = new TriggerWatch(store, clock);
  const look = async () => {
    await clock.advance(60_000);
    await Promise.all([watch.lookAtLogs(), new TriggerWatch(store, clock).lookAtLogs()]);
    return await logged();
  };
  await log("debug", "nothing");
  await log("error", "of a notification", "app.trigger.bad");
  assertEquals(await look(), []);
  await log("info", "one");
  assertEquals(await look(), ["both"]);
  await log("error", "two");
  await log("error", "three");
  assertEquals(await look(), ["both", "bad"]);
  await log("error", "four");
  assertEquals(await look(), ["both", "bad"]);
  await clock.advance(HOUR_MS);
  assertEquals((await look()).toSorted(), ["bad", "bad", "both", "both"]);
  const deliveries = new Deliveries(store);
  const claimed = await store.transaction((sql) => {
    return new Deliveries(sql).claim({ all: 10, ofOrganization: 10 }, [], clock.nowMs(), clock.nowMs() + 1);
  });
  const messages = claimed.filter(({ trigger }) => trigger === "bad").map(({ message }) =>
    JSON.parse(message.body).map((entry: { message: string }) => entry.message).join()
  );
  assertEquals(messages, ["two,three", "four"]);
  assertEquals((await deliveries.find(claimed[0].id))?.state, "pending");
  configs.close();
});

storeTest(
  "an event counts once, a notification has one sender at a time, and quotas hold",
  async (database) => {
    // Commands of today find everything of that time due.
    const clock = new FakeClock(Date.parse("2100-01-01T12:00:00Z"));
    const store = await database.open();
    const other = await database.open();
    const world = await watched(store, clock, [{
      name: "on",
      event: { type: "part_online" },
      notifications: HOOK,
    }]);
    const { part: id, organization: organizationId, configs } = world;
    await store.transaction((sql) => noteEvent(sql, { id, organizationId }, { kind: "online" }, START_MS));
    const [event] = await oldestEvents(store, 10);
    const limits = { ...defaultLimits(), webhooksPerOrganizationDay: 1 };
    const second = new TriggerEvents({ store: other, files, clock, configs, limits });
    await Promise.all([world.events.handle(event), second.handle(event)]);
    const all = () => new Deliveries(store).list({ organizationId, limit: 10 });
    assertEquals((await all()).length, 1);

    const claim = (from: Store) =>
      from.transaction((sql) => {
        return new Deliveries(sql).claim(
          { all: 5, ofOrganization: 5 },
          [],
          clock.nowMs(),
          clock.nowMs() + 60_000,
        );
      });
    const claimed = await Promise.all([claim(store), claim(other)]);
    assertEquals(claimed.flat().length, 1);
    // Whoever had it is gone.
    await clock.advance(61_000);
    const [again] = await claim(other);
    assertEquals(again.id, claimed.flat()[0].id);
    await store.transaction((sql) => new Deliveries(sql).failed(again.id, "busy", clock.nowMs() + 10_000));
    assertEquals(await claim(store), []);
    await clock.advance(10_000);
    assertEquals((await claim(store))[0].attempts, 1);
    await store.transaction((sql) => new Deliveries(sql).died(again.id, "gone", clock.nowMs()));
    await clock.advance(HOUR_MS);
    assertEquals(await claim(store), []);
    assertStringIncludes(
      await svcCloud("trigger", "deliveries", "--state", "dead", ...database.flags),
      "gone",
    );
    assertEquals(
      await svcCloud("trigger", "retry", "all", ...database.flags),
      "1 notification is sent again\n",
    );
    assertEquals((await claim(store)).length, 1);
    await store.transaction((sql) => new Deliveries(sql).delivered(again.id, clock.nowMs()));

    // The second notification of the day exceeds the quota, which is told once.
    for (const _ of [1, 2, 3]) {
      await store.transaction((sql) => noteEvent(sql, { id, organizationId }, { kind: "online" }, START_MS));
      for (const event of await oldestEvents(store, 10)) await second.handle(event);
    }
    const over = (await all()).filter(({ state }) => state === "dead");
    assertEquals(over.length, 1);
    assertStringIncludes(over[0].error, "webhooks_per_organization_day");

    await clock.advance(40 * 24 * HOUR_MS);
    assertEquals(await store.transaction((sql) => new Deliveries(sql).forget(clock.nowMs())), false);
    assertEquals((await all()).length, 0);
    const secrets = () =>
      store.transaction((sql) => new Deliveries(sql).secrets(organizationId, clock.nowMs()));
    const [before] = await secrets();
    await store.transaction((sql) => new Deliveries(sql).rotateSecret(organizationId, false, clock.nowMs()));
    assertEquals((await secrets())[1], before);
    await clock.advance(8 * 24 * HOUR_MS);
    assertEquals((await secrets()).length, 1);
    configs.close();
  },
);

sqliteTest("mails go to one receiver each, and a refused one is not sent again", async () => {
  await withMailServer(async (port, mails) => {
    const send = mailer({ url: new URL(`smtp://127.0.0.1:${port}`), from: "cloud@example.com" });
    const mail = { subject: "rover is öffline\r\nBcc: other@example.com", text: "one\n.\ntwo\n", id: "1234" };
    await send({ ...mail, to: "you@example.com" }, 30_000);
    assertEquals(mails.length, 1);
    const [head] = mails[0].split("\r\n\r\n");
    assertStringIncludes(head, "To: you@example.com");
    assertStringIncludes(head, "Message-ID: <1234@example.com>");
    assert(!/^Bcc:/m.test(head));
    const refused = await assertRejects(() => send({ ...mail, to: "nobody@example.com" }, 30_000));
    assertEquals((refused as { code?: string }).code, "permission_denied");
  });
  const refusals: readonly [Readonly<Record<string, string>>, string][] = [
    [{ greeting: "554 your address is listed" }, "unavailable"],
    [{ EHLO: "550 go away", HELO: "550 go away" }, "unavailable"],
    [{ EHLO: "250-test\r\n250 STARTTLS", STARTTLS: "554 not now" }, "unavailable"],
    [{ MAIL: "530 5.7.0 Must issue a STARTTLS command first" }, "unavailable"],
    [{ MAIL: "550 5.7.1 sender not allowed" }, "unavailable"],
    [{ RCPT: "450 4.2.0 greylisted" }, "unavailable"],
    [{ RCPT: "530 authentication required" }, "unavailable"],
    [{ RCPT: "550 5.1.1 no such user" }, "permission_denied"],
    [{ DATA: "554 5.6.0 no" }, "permission_denied"],
  ];
  for (const [refusal, code] of refusals) {
    await withMailServer(async (port) => {
      const send = mailer({ url: new URL(`smtp://127.0.0.1:${port}`), from: "cloud@example.com" });
      const mail = { to: "you@example.com", subject: "rover", text: "one", id: "1" };
      const error = await assertRejects(() => send(mail, 30_000));
      assertEquals((error as { code?: string }).code, code, JSON.stringify(refusal));
    }, refusal);
  }
  const closed = mailer({ url: new URL("smtp://127.0.0.1:1"), from: "cloud@example.com" });
  const away = await assertRejects(() => closed({ to: "a@b.c", subject: "", text: "", id: "1" }, 5_000));
  assertEquals((away as { code?: string }).code, "unavailable");
});

sqliteTest("conditions that take for ever rest, and hold up nothing else", async (database) => {
  const clock = new FakeClock(START_MS);
  const store = await database.open();
  const triggers = [
    { name: "slow", event: onCondition("regex", { note: "(a+)+$" }), notifications: HOOK },
    {
      name: "plain",
      event: onData("tabular"),
      notifications: [{ ...HOOK[0], seconds_between_notifications: 0 }],
    },
  ];
  const { part, organization, logged, configs: unused } = await watched(store, clock, triggers);
  unused.close();
  // A thread that says that it is ready and then nothing more.
  let asked = 0;
  const create = () => {
    const thread: ConfigThread = { post: () => void asked++, onAnswer: () => {}, end: () => {} };
    queueMicrotask(() => thread.onAnswer({ ready: true }));
    return thread;
  };
  const configs = new ConfigThreads(create, defaultLimits(), new SystemClock(), 10);
  const events = new TriggerEvents({ store, files, clock, configs, limits: defaultLimits() });
  const origin = {
    organizationId: organization,
    locationId: "",
    machineId: "",
    machineName: "",
    partId: part,
    partName: "",
    componentType: "sensor",
    componentName: "thermo:meter",
    methodName: "Readings",
    parameters: "{}",
  };
  for (const at of [1, 2]) {
    const reading = { capturedUs: at, receivedUs: at, payload: { note: "aaaa!" } };
    await storeReadings({ store }, origin, [reading], [], START_MS + at);
    for (const event of await oldestEvents(store, 10)) await events.handle(event);
    assertEquals((await oldestEvents(store, 10)).length, 0);
  }
  assertEquals([asked, await logged()], [1, ["plain", "plain"]]);
  configs.close();
});
