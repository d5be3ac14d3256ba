import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { type CloudConfigSchema, RobotConfigSchema } from "../../../proto/gen/robot_config_pb.ts";
import { robotConfigMessage } from "../../cloud/config/config_message.ts";
import { FakeChanges } from "../../../tests/support/fake_changes.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { create, type MessageInitShape } from "../../wire/rpc/proto.ts";
import { CloudSource } from "./cloud_source.ts";
import type { ConfigCache } from "./cache.ts";
import type { ConfigDraft } from "./source.ts";

const PAIR = { certPem: "cert", keyPem: "key" };
const LOCAL = {
  cloud: {
    id: "part",
    app_address: "https://app",
    api_key: { id: "id", key: "local key" },
    refresh_interval: "10s",
  },
};

/** A source over a control plane that answers as the test says, and a copy in memory. */
function bench({ copy, local = LOCAL }: { copy?: JsonObject; local?: JsonObject } = {}) {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const app = {
    config: {} as JsonObject | SvcError,
    cloud: { fqdn: "m.example.com" } as MessageInitShape<typeof CloudConfigSchema>,
    certificate: undefined as typeof PAIR | SvcError | undefined,
    calls: [] as string[],
  };
  const changes = new FakeChanges();
  const kept: JsonObject[] = copy ? [copy] : [];
  const source = new CloudSource({
    client: {
      address: "https://app",
      config: (limits = {}) => {
        app.calls.push(limits.timeoutMs === undefined ? "config" : `config in ${limits.timeoutMs} ms`);
        if (app.config instanceof SvcError) return Promise.reject(app.config);
        const { revision } = app.config;
        const message = {
          ...robotConfigMessage(app.config),
          revision: String(revision ?? ""),
          cloud: app.cloud,
        };
        return Promise.resolve(create(RobotConfigSchema, message));
      },
      certificate: () => {
        app.calls.push("certificate");
        const { certificate } = app;
        return certificate instanceof SvcError ? Promise.reject(certificate) : Promise.resolve(certificate);
      },
    },
    local,
    cache: {
      read: () => Promise.resolve(kept.at(-1)),
      write: (json: JsonObject) => {
        kept.push(json);
        return Promise.resolve();
      },
    } as ConfigCache,
    refreshMs: 10_000,
    changes,
    rareMs: 1_800_000,
    clock,
    logger: new Logs(clock, [memorySink(records)]).logger("rdk.config"),
  });
  return {
    source,
    app,
    changes,
    clock,
    kept,
    took: () => app.calls.splice(0),
    logged: () => records.splice(0).map(({ level, message }) => `${level} ${message}`),
  };
}

function follow(source: CloudSource) {
  const heard: (ConfigDraft | SvcError)[] = [];
  const end = source.follow((news) => heard.push(news));
  return { end, heard: () => heard.splice(0) };
}

Deno.test("takes the configuration from the control plane, with the credentials and the address in the file", async () => {
  const local = {
    ...LOCAL,
    network: { bind_address: "localhost:9", fqdn: "left aside", webrtc: { max_peers: 3 } },
    auth: { token_keys_file: "keys.json", tls_auth_entities: ["left aside"] },
    debug: true,
    components: [{ name: "left aside" }],
  };
  const { source, app, took } = bench({ local });
  app.config = { revision: "r1", components: [{ name: "a", api: "rdk:component:generic", model: "fake" }] };
  app.config.network = { bind_address: ":8080", fqdn: "m" };
  app.cloud = { fqdn: "m.example.com", secret: "not this one", id: "nor this" };
  app.certificate = PAIR;
  const { json } = await source.first();
  assertEquals(json, {
    revision: "r1",
    debug: true,
    network: { bind_address: "localhost:9", fqdn: "m", webrtc: { max_peers: 3 } },
    auth: { token_keys_file: "keys.json" },
    components: [{
      name: "a",
      api: "rdk:component:generic",
      namespace: "rdk",
      type: "generic",
      model: "rdk:builtin:fake",
    }],
    cloud: {
      ...LOCAL.cloud,
      fqdn: "m.example.com",
      secret: "not this one",
      tls_certificate: "cert",
      tls_private_key: "key",
    },
  });
  assertEquals(took(), ["config in 15000 ms", "certificate"]);
});

Deno.test("asks again after a fifth of the interval, then after each interval; reports only differences", async () => {
  const { source, app, clock, took } = bench();
  await source.first();
  const { end, heard } = follow(source);
  await clock.advance(1_999);
  took();
  await clock.advance(1);
  assertEquals([took(), heard()], [["config", "certificate"], []]);
  app.certificate = PAIR;
  app.config = { revision: "r2" };
  await clock.advance(9_999);
  assertEquals(heard(), []);
  await clock.advance(1);
  const [news] = heard() as ConfigDraft[];
  assertEquals([news.json.revision, (news.json.cloud as JsonObject).tls_certificate], ["r2", "cert"]);
  await clock.advance(60_000);
  assertEquals([heard(), took().filter((call) => call === "certificate").length], [[], 1]);
  await end();
  await clock.advance(60_000);
  assertEquals([took(), clock.pending], [[], 0]);
});

Deno.test("asks at once when the control plane announces a change, and keeps asking at its interval", async () => {
  const { source, app, changes, clock, took } = bench();
  await source.first();
  const { end, heard } = follow(source);
  await clock.advance(2_000);
  took();
  for (const revision of ["r2", "r3"]) {
    app.config = { revision };
    changes.tell("config");
    await clock.advance(0);
    const [news, ...more] = heard() as ConfigDraft[];
    assertEquals([news.json.revision, more], [revision, []]);
  }
  took();
  await clock.advance(30_000);
  assertEquals(took().filter((call) => call === "config").length, 3);
  await end();
  assertEquals([changes.listeners, clock.pending], [0, 0]);
});

Deno.test("CloudSource: asks rarely while every change is announced, and at its interval as soon as none is", async () => {
  const { source, app, changes, clock, took } = bench();
  const asked = () => took().filter((call) => call === "config").length;
  await source.first();
  const { end, heard } = follow(source);
  await clock.advance(1_000);
  changes.open();
  await clock.advance(1_000);
  assertEquals(asked(), 1, "what changed before the connection is asked for");
  await clock.advance(25 * 60_000);
  assertEquals(asked(), 0);
  app.config = { revision: "unannounced" };
  await clock.advance(5 * 60_000);
  assertEquals([asked(), heard().length], [1, 1]);
  changes.end();
  await clock.advance(30_000);
  assertEquals(asked(), 3);
  // An answer that failed is repeated soon, although the connection is open.
  changes.open();
  await clock.advance(10_000);
  app.config = new SvcError("unavailable", "restarting");
  changes.tell("config");
  await clock.advance(0);
  app.config = { revision: "announced" };
  await clock.advance(10_000);
  assertEquals((heard() as ConfigDraft[]).map(({ json }) => json.revision), ["announced"]);
  await end();
});

Deno.test("CloudSource: fetches the certificate every hour and when the machine's FQDN changes", async () => {
  const { source, app, clock, took } = bench();
  app.certificate = PAIR;
  await source.first();
  const { end, heard } = follow(source);
  took();
  app.cloud = { fqdn: "other.example.com" };
  await clock.advance(2_000);
  assertEquals([took(), heard().length], [["config", "certificate"], 1]);
  app.certificate = { certPem: "new", keyPem: "key" };
  await clock.advance(3_600_000);
  assertEquals(took().filter((call) => call === "certificate").length, 1);
  const [news, ...more] = heard() as ConfigDraft[];
  assertEquals([(news.json.cloud as JsonObject).tls_certificate, more], ["new", []]);
  // A temporary failure to get a certificate keeps the present one.
  app.certificate = new SvcError("unavailable", "not now");
  await clock.advance(3_700_000);
  assertEquals(heard(), []);
  await end();
});

Deno.test("CloudSource: a certificate that cannot be had is asked for again without another configuration", async () => {
  const certificate = { tls_certificate: "kept", tls_private_key: "key" };
  const { source, app, clock, took } = bench({ copy: { cloud: { fqdn: "m.example.com", ...certificate } } });
  app.certificate = new SvcError("unavailable", "not now");
  const { json } = await source.first();
  assertEquals((json.cloud as JsonObject).tls_certificate, "kept");
  const { end, heard } = follow(source);
  took();
  await clock.advance(60_000);
  assertEquals([heard().length, took().filter((call) => call === "certificate").length], [0, 6]);
  // The new one is news, once, and so is the next owner's.
  app.certificate = PAIR;
  await clock.advance(60_000);
  assertEquals([heard().length, took().filter((call) => call === "certificate").length], [1, 1]);
  app.cloud = { fqdn: "m.example.com", primaryOrgId: "another" };
  await clock.advance(60_000);
  assertEquals([heard().length, took().filter((call) => call === "certificate").length], [1, 1]);
  await end();
});

Deno.test("CloudSource: logs once that the control plane is away and once that it is back", async () => {
  const { source, app, clock, logged } = bench();
  await source.first();
  const { end, heard } = follow(source);
  for (const code of ["unavailable", "deadline_exceeded", "unauthenticated"] as const) {
    app.config = new SvcError(code, "not now");
    await clock.advance(30_000);
  }
  assertEquals([heard(), logged()], [[], [
    "warn https://app gives no configuration, the present one stays: not now",
  ]]);
  app.config = {};
  await clock.advance(30_000);
  assertEquals([heard(), logged()], [[], ["info https://app gives configurations again"]]);
  await end();
});

Deno.test("CloudSource: reports an unusable configuration once, and the later return of a usable configuration", async () => {
  const { source, app, clock } = bench();
  app.config = { revision: "r1" };
  await source.first();
  const { end, heard } = follow(source);
  for (const code of ["unknown", "invalid_argument", "failed_precondition"] as const) {
    app.config = new SvcError(code, `it is ${code}`);
    await clock.advance(60_000);
    const [news, ...more] = heard();
    assertStringIncludes(SvcError.from(news).message, "https://app has no usable configuration");
    assertEquals(more, []);
  }
  app.config = { revision: "r1" };
  await clock.advance(10_000);
  assertEquals(heard().map((news) => (news as ConfigDraft).json.revision), ["r1"]);
  await end();
});

Deno.test("CloudSource: without the control plane, first rejects after 1 s and kept returns the cached copy", async () => {
  const { source, app, kept, took } = bench();
  app.config = { revision: "r1" };
  app.certificate = PAIR;
  await source.keep(await source.first());
  assertEquals(kept, [{
    revision: "r1",
    cloud: { fqdn: "m.example.com", tls_certificate: "cert", tls_private_key: "key" },
  }]);
  took();

  const next = bench({ copy: kept[0] });
  next.app.config = new SvcError("unavailable", "nobody there");
  const error = await assertRejects(() => next.source.first(), SvcError, "no configuration from https://app");
  assertEquals([error.code, next.took()], ["unavailable", ["config in 1000 ms"]]);
  const { json } = (await next.source.kept())!;
  assertEquals(json, {
    revision: "r1",
    cloud: { ...LOCAL.cloud, fqdn: "m.example.com", tls_certificate: "cert", tls_private_key: "key" },
  });
  // The first answer after an outage counts as new, even if it is the same; until it has a certificate, the cached one
  // serves.
  const { end, heard } = follow(next.source);
  next.app.config = { revision: "r1" };
  await next.clock.advance(2_000);
  const [news] = heard() as ConfigDraft[];
  assertEquals([(news.json.cloud as JsonObject).tls_certificate, next.took()], ["cert", [
    "config",
    "certificate",
  ]]);
  await end();

  const bare = bench();
  bare.app.config = new SvcError("unavailable", "nobody there");
  await assertRejects(() => bare.source.first(), SvcError);
  assertEquals(await bare.source.kept(), undefined);
});

Deno.test("CloudSource: keep skips a configuration that lacks the certificate it needs for signaling", async () => {
  const { source, app, kept } = bench();
  app.cloud = { signalingAddress: "app:443" };
  await source.keep(await source.first());
  assertEquals(kept.length, 0);
  app.cloud = { signalingAddress: "app:443", signalingInsecure: true };
  await source.keep(await source.first());
  assertEquals(kept.length, 1);
});

Deno.test("CloudSource: asks a busy control plane no earlier than it wants, from the first call on", async () => {
  const { source, app, changes, clock, took } = bench();
  app.config = new SvcError("unavailable", "busy", { retryMs: 60_000 });
  await assertRejects(() => source.first(), SvcError);
  took();
  const end = source.follow(() => {});
  await clock.advance(59_000);
  changes.tell("config");
  assertEquals(took(), []);
  await clock.advance(1_000);
  assertEquals(took(), ["config"]);
  await end();
  assertEquals(clock.pending, 0);
});
