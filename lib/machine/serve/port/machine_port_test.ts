import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { connect as connectTls } from "node:tls";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../../base/clock.ts";
import { FakeClock } from "../../../../tests/support/fake_clock.ts";
import { SvcError } from "../../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../../base/log/log.ts";
import type { JsonObject } from "../../../base/schema/schema.ts";
import { Registry } from "../../../resource/registry.ts";
import type { Auth } from "../../../wire/auth/auth.ts";
import { client } from "../../../wire/rpc/channel.ts";
import { connectGrpc } from "../../../wire/grpc/grpc_channel.ts";
import { selfSigned } from "../../../../tests/support/echo.ts";
import { health } from "../../../wire/grpc/health.ts";
import { Metadata } from "../../../wire/rpc/metadata.ts";
import { ServiceTable } from "../../../wire/rpc/service.ts";
import { AuthService } from "../../../../proto/gen/auth_pb.ts";
import { Health } from "../../../../proto/gen/health_pb.ts";
import { SignalingService } from "../../../../proto/gen/signaling_pb.ts";
import { decodeConfig, type MachineConfig } from "../../config/config.ts";
import { dialInfoOf, MachinePort } from "./machine_port.ts";
import { FakeFiles } from "../../../../tests/support/fake_files.ts";

const clock = new SystemClock();

async function configOf(json: JsonObject): Promise<MachineConfig> {
  const { config, problems, fatal } = await decodeConfig(json, new Registry([], []), {
    env: () => undefined,
  });
  assert(!fatal, JSON.stringify(problems));
  return config;
}

const at = (address: string, more: JsonObject = {}) => ({ network: { bind_address: address, ...more } });

const KEYS = { auth: { handlers: [{ type: "api-key", config: { id: "key", keys: ["id"] } }] } };

async function withPort(
  json: JsonObject,
  test: (
    port: MachinePort,
    bench: { records: LogRecord[]; files: FakeFiles; clock: FakeClock },
  ) => Promise<void>,
  { webrtc = true, files = new FakeFiles() } = {},
): Promise<void> {
  const records: LogRecord[] = [];
  // The fake clock drives only the port's own retries; sockets use the system's time.
  const fake = new FakeClock();
  const logger = new Logs(clock, [memorySink(records)]).logger("rdk");
  const parts = {
    tableFor: (guard?: Auth) => {
      const table = new ServiceTable(clock, guard ? [guard.gate] : []);
      for (const service of [health(table), ...(guard ? [guard.service] : [])]) table.add(service);
      return table;
    },
    http: {},
    noTls: false,
    webrtc,
    serving: (url: string) => logger.info("serving", { url }),
    host: files,
    home: "/home",
    clock: fake,
    logger,
  };
  const port = await MachinePort.open(await configOf(json), parts);
  try {
    await test(port, { records, files, clock: fake });
  } finally {
    const closed = port.close(0);
    await fake.advance(10_000);
    await closed;
  }
}

/** Asks over a connection of its own whether anybody serves at `url`; with a token, if one is given. */
async function serves(url: string, token?: string): Promise<boolean | string> {
  const { host, protocol } = new URL(url);
  const tls = protocol === "https:" ? { insecureSkipVerify: true } : undefined;
  const header = token === undefined ? undefined : Metadata.from([["authorization", `Bearer ${token}`]]);
  const channel = connectGrpc(host, { clock, tls, header });
  try {
    await client(Health, channel).check({});
    return true;
  } catch (error) {
    return SvcError.from(error).code;
  } finally {
    channel.close();
  }
}

function isDecoded(wanted: JsonObject | MachineConfig): wanted is MachineConfig {
  return "resources" in wanted;
}

/** `change`, with time going by for a port that is closed on the way. */
async function changed(
  port: MachinePort,
  wanted: JsonObject | MachineConfig,
  clock: FakeClock,
): Promise<void> {
  let done = false;
  const change = port.change(isDecoded(wanted) ? wanted : await configOf(wanted)).finally(() => done = true);
  while (!done) await clock.advance(1_000);
  await change;
}

Deno.test("givenPlaceOf: takes the names and the signaling address from the cloud section", async () => {
  const place = async (cloud: JsonObject) =>
    dialInfoOf(await configOf({ cloud: { id: "p", secret: "s", fqdn: "m", ...cloud } }));
  assertEquals(await place({}), { names: ["m"] });
  assertEquals(await place({ signaling_address: "a:1" }), { names: ["m"], signaling: "https://a:1" });
  const plain = { signaling_address: "a:1", signaling_insecure: true };
  assertEquals(await place(plain), { names: ["m"], signaling: "http://a:1" });
  assertEquals(await place({ signaling_address: "http://a" }), { names: ["m"], signaling: "http://a" });
});

Deno.test("MachinePort.change: equal settings keep the port open", () =>
  withPort(at("localhost:0"), async (port, { records, clock }) => {
    const { url } = port;
    assertStringIncludes(url, "http://localhost:");
    await changed(port, { ...at("localhost:0"), debug: true }, clock);
    assertEquals([port.url, records.length], [url, 1]);
    assertEquals(await serves(url), true);
  }));

/** Whether the port has signaling. */
async function signals({ url }: MachinePort): Promise<boolean> {
  const { host } = new URL(url);
  const channel = connectGrpc(host, { clock, header: Metadata.from([["rpc-host", host]]) });
  try {
    await client(SignalingService, channel).optionalWebRTCConfig({});
    return true;
  } catch (error) {
    assertEquals(SvcError.from(error).code, "unimplemented");
    return false;
  } finally {
    channel.close();
  }
}

Deno.test("with WebRTC, the port has signaling", () =>
  withPort(at("localhost:0"), async (port) => assertEquals(await signals(port), true)));

Deno.test("without WebRTC, the port has no signaling", () =>
  withPort(at("localhost:0"), async (port) => assertEquals(await signals(port), false), { webrtc: false }));

Deno.test("MachinePort.change: opens another address before it closes the old address", () =>
  withPort(at("127.0.0.1:0"), async (port, { clock }) => {
    const old = port.url;
    await changed(port, at("localhost:0"), clock);
    assert(port.url !== old);
    assertEquals([await serves(port.url), await serves(old)], [true, "unavailable"]);
  }));

Deno.test("MachinePort.change: new keys guard the open port, and tokens end with their keys", () =>
  withPort(at("localhost:0"), async (port, { clock }) => {
    const { url } = port;
    await changed(port, { ...at("localhost:0"), ...KEYS }, clock);
    assertEquals([port.url, await serves(url)], [url, "unauthenticated"]);
    const channel = connectGrpc(new URL(url).host, { clock: new SystemClock() });
    const credentials = { type: "api-key", payload: "key" };
    const { accessToken } = await client(AuthService, channel).authenticate({ entity: "id", credentials });
    channel.close();
    assertEquals(await serves(url, accessToken), true);
    const other = { handlers: [{ type: "api-key", config: { id: "other", keys: ["id"] } }] };
    await changed(port, { ...at("localhost:0"), auth: other }, clock);
    assertEquals(await serves(url, accessToken), "unauthenticated");
    await changed(port, at("localhost:0"), clock);
    assertEquals(await serves(url), true);
  }));

Deno.test("MachinePort: without keys, pages of sites on the internet may not call", () =>
  withPort(at("localhost:0"), async (port, { clock }) => {
    const preflight = async (origin: string) => {
      // The connection of an earlier answer may end at any moment.
      using http = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
      const answer = await fetch(`${port.url}/grpc.health.v1.Health/Check`, {
        method: "OPTIONS",
        headers: { origin },
        client: http,
      });
      await answer.body?.cancel();
      return answer.status;
    };
    const sites = ["http://localhost:5173", "https://site.example"];
    assertEquals(await Promise.all(sites.map(preflight)), [204, 403]);
    await changed(port, { ...at("localhost:0"), ...KEYS }, clock);
    assertEquals(await Promise.all(sites.map(preflight)), [204, 204]);
  }));

/** The token of a key, from the port itself. */
async function tokenOf({ url }: MachinePort, entity: string, payload: string): Promise<string> {
  const channel = connectGrpc(new URL(url).host, { clock });
  try {
    const credentials = { type: "api-key", payload };
    return (await client(AuthService, channel).authenticate({ entity, credentials })).accessToken;
  } finally {
    channel.close();
  }
}

Deno.test("MachinePort: with token_keys_file, tokens of unchanged keys remain valid after a restart", async () => {
  const files = new FakeFiles();
  const listed = (config: Record<string, string>, file: string | undefined = "token_keys.json") => ({
    ...at("localhost:0"),
    auth: {
      handlers: [{ type: "api-key", config: { ...config, keys: Object.keys(config) } }],
      ...file ? { token_keys_file: file } : {},
    },
  });
  const path = "/home/token_keys.json";
  let [stays, goes, replaced] = ["", "", ""];
  await withPort(listed({ stays: "a", goes: "b", replaced: "c" }), async (port) => {
    stays = await tokenOf(port, "stays", "a");
    goes = await tokenOf(port, "goes", "b");
    replaced = await tokenOf(port, "replaced", "c");
  }, { files });
  assertEquals(files.mode(path), 0o600);
  await withPort(listed({ stays: "a", replaced: "d" }), async (port, { clock: fake }) => {
    const served = async () => [
      await serves(port.url, stays),
      await serves(port.url, goes),
      await serves(port.url, replaced),
    ];
    assertEquals(await served(), [true, "unauthenticated", "unauthenticated"]);

    // Removing the file ends the tokens, and the calls that use them.
    const channel = connectGrpc(new URL(port.url).host, { clock });
    try {
      const header = Metadata.from([["authorization", `Bearer ${stays}`]]);
      const watching = client(Health, channel).watch({}, { header })[Symbol.asyncIterator]();
      await watching.next();
      const rest = watching.next().then(() => "more", (error: SvcError) => error.code);
      await files.removeDurably(path);
      assertEquals(await rest, "unauthenticated");
    } finally {
      channel.close();
    }
    assertEquals(await serves(port.url, stays), "unauthenticated");
    stays = await tokenOf(port, "stays", "a");
    // Without the setting, the keys go on for as long as the process.
    await changed(port, listed({ stays: "a" }, ""), fake);
    assertEquals(await serves(port.url, stays), true);
  }, { files });
  await withPort(listed({ stays: "a" }, ""), async (port) => {
    assertEquals(await serves(port.url, stays), "unauthenticated");
  }, { files });
});

Deno.test("MachinePort: without auth.handlers, no token_keys_file is written", async () => {
  const files = new FakeFiles();
  const open = { ...at("localhost:0"), auth: { token_keys_file: "token_keys.json" } };
  await withPort(open, () => Promise.resolve(), { files });
  assertEquals(files.paths, []);
});

Deno.test("MachinePort: logs too many wrong keys once, and auth.limits sets the number", () => {
  const limited = (wrongKeysPerKey: number) => ({
    ...at("127.0.0.1:0"),
    auth: { ...KEYS.auth, limits: { wrong_keys_per_key: wrongKeysPerKey } },
  });
  return withPort(limited(2), async (port, { records, clock: fake }) => {
    const wrong = () => tokenOf(port, "id", "wrong").then(() => "in", (error: SvcError) => error.code);
    const codes = async (count: number) => {
      const found: string[] = [];
      for (let i = 0; i < count; i++) found.push(await wrong());
      return found;
    };
    assertEquals(await codes(4), [
      "unauthenticated",
      "unauthenticated",
      "resource_exhausted",
      "resource_exhausted",
    ]);
    const logged = records.filter(({ level }) => level === "warn");
    assertEquals(logged.map(({ message, fields }) => ({ message, fields })), [{
      message: "too many wrong keys; the caller is slowed down",
      fields: { type: "api-key", key: "id", address: "127.0.0.1" },
    }]);
    await changed(port, limited(100), fake);
    await fake.advance(11 * 60_000);
    assertEquals(new Set(await codes(50)), new Set(["unauthenticated"]));
    assertEquals((await tokenOf(port, "id", "key")).split(".").length, 3);
  });
});

Deno.test("MachinePort.change: only the calls and tokens of removed keys end", () =>
  withPort(at("localhost:0"), async (port, { records, files, clock }) => {
    const keys = (config: Record<string, string>) => ({
      ...at("localhost:0"),
      auth: { handlers: [{ type: "api-key", config: { ...config, keys: Object.keys(config) } }] },
    });
    await changed(port, keys({ mine: "a", other: "b" }), clock);
    const opened = records.length;
    const channel = connectGrpc(new URL(port.url).host, { clock: new SystemClock() });
    try {
      const follow = async (entity: string, payload: string) => {
        const { authenticate } = client(AuthService, channel);
        const { accessToken } = await authenticate({ entity, credentials: { type: "api-key", payload } });
        const header = Metadata.from([["authorization", `Bearer ${accessToken}`]]);
        const watching = client(Health, channel).watch({}, { header })[Symbol.asyncIterator]();
        await watching.next();
        const rest = watching.next().then(() => "more", (error: SvcError) => error.code);
        return { token: accessToken, rest };
      };
      const [mine, other] = [await follow("mine", "a"), await follow("other", "b")];
      // Others come, and one is replaced by another key of the same id.
      await changed(port, keys({ mine: "a", other: "c", third: "d" }), clock);
      assertEquals(await other.rest, "unauthenticated");
      assertEquals(await serves(port.url, other.token), "unauthenticated");
      assertEquals(await serves(port.url, mine.token), true);
      assertEquals(records.length, opened, "the port stays open");
      // Another certificate reopens the port, and tokens stay valid.
      const { certPem, keyPem } = await selfSigned();
      files.put("cert", certPem);
      files.put("key", keyPem);
      const secure = (config: Record<string, string>) => ({
        ...keys(config),
        ...at("localhost:0", { tls_cert_file: "cert", tls_key_file: "key" }),
      });
      await changed(port, secure({ mine: "a" }), clock);
      assertEquals(await serves(port.url, mine.token), true);
      assert(["unavailable", "canceled"].includes(await mine.rest));
      // An unusable certificate does not keep the port open.
      files.removeFile("cert");
      await changed(port, secure({ third: "d" }), clock);
      assertStringIncludes(port.status!.error!, "the port stays");
      assertEquals(await serves(port.url, mine.token), "unauthenticated");
    } finally {
      channel.close();
    }
  }));

Deno.test("MachinePort: with external_auth_config, calls without a token are refused", () =>
  withPort(at("localhost:0"), async (port, { clock }) => {
    const { publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const key = { ...publicKey.export({ format: "jwk" }), alg: "RS256", kid: "k" } as JsonObject;
    const auth = { external_auth_config: { jwks: { keys: [key] } } };
    await changed(port, { ...at("localhost:0"), auth }, clock);
    assertEquals(await serves(port.url), "unauthenticated");
  }));

Deno.test("MachinePort: without bind_address, a cloud certificate opens the port on every interface", async () => {
  const { certPem, keyPem } = await selfSigned();
  const cloud = { id: "p", secret: "s", tls_certificate: certPem, tls_private_key: keyPem };
  const own = { tls_cert_file: "cert", tls_key_file: "key" };
  // Another host stands for every interface, and a free port for the usual one, so that the test sees which was taken.
  const unset = async (json: JsonObject) => {
    const config = await configOf(json);
    const { bindAddress } = config.network;
    assertEquals(bindAddress, { host: "localhost", port: 8080, managedHost: "" });
    const bind = { host: "localhost", port: 0, managedHost: "127.0.0.1" };
    return { ...config, network: { ...config.network, bindAddress: bind } };
  };
  await withPort(at("localhost:0"), async (port, { files, clock }) => {
    files.put("cert", certPem);
    files.put("key", keyPem);
    const start = async (json: JsonObject) => {
      await changed(port, await unset(json), clock);
      return port.url.replace(/\d+$/, "");
    };
    assertEquals(await start({ cloud }), "https://127.0.0.1:");
    assertEquals(await start({ cloud, network: own }), "https://localhost:");
    assertEquals(await start({ cloud, network: { no_tls: true } }), "http://localhost:");
    await changed(port, await configOf({ cloud, ...at("localhost:0") }), clock);
    assertStringIncludes(port.url, "https://localhost:");
  });
});

Deno.test("MachinePort.change: switches to TLS, to another certificate, and back to plaintext", () =>
  withPort(at("localhost:0"), async (port, { files, clock }) => {
    const tls = { tls_cert_file: "cert", tls_key_file: "key" };
    const put = ({ certPem, keyPem }: { certPem: string; keyPem: string }) => {
      files.put("cert", certPem);
      files.put("key", keyPem);
    };
    put(await selfSigned());
    await changed(port, at("localhost:0", tls), clock);
    assertStringIncludes(port.url, "https://localhost:");
    assertEquals(await serves(port.url), true);
    put(await selfSigned());
    await changed(port, at("localhost:0", tls), clock);
    assertEquals(await serves(port.url), true);
    await changed(port, at("localhost:0"), clock);
    assertEquals([port.url.slice(0, 5), await serves(port.url)], ["http:", true]);
  }));

/** The certificate that a port shows, as PEM, and a call on a connection that stays. */
function shown(url: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connectTls({ host: hostname, port: Number(port), rejectUnauthorized: false });
    socket.on("error", reject).on("secureConnect", () => {
      resolve(new X509Certificate(socket.getPeerCertificate().raw).toString());
      socket.destroy();
    });
  });
}

const pemOf = (certPem: string) => new X509Certificate(certPem).toString();

Deno.test("MachinePort: new connections see changed certificate files, and old connections stay", () =>
  withPort(at("localhost:0"), async (port, { files, clock, records }) => {
    const [one, two] = [await selfSigned(), await selfSigned()];
    files.put("cert", one.certPem);
    files.put("key", one.keyPem);
    await changed(port, at("localhost:0", { tls_cert_file: "cert", tls_key_file: "key" }), clock);
    const { url } = port;
    const tls = { insecureSkipVerify: true };
    const channel = connectGrpc(new URL(url).host, { clock: new SystemClock(), tls });
    try {
      const watching = client(Health, channel).watch({})[Symbol.asyncIterator]();
      await watching.next();
      const more = watching.next().then(() => "more", (error: SvcError) => error.code);
      assertEquals(await shown(url), pemOf(one.certPem));

      // Half of the pair is no pair: the old one stays, and the log says why.
      files.put("cert", two.certPem);
      await clock.advance(499);
      assertEquals(port.status, undefined);
      await clock.advance(1_000);
      assertStringIncludes(port.status!.error!, "key is not the key of cert");
      assertEquals(await shown(url), pemOf(one.certPem));
      files.put("key", two.keyPem);
      await clock.advance(1_000);
      assertEquals([port.status, port.url], [undefined, url]);
      assertEquals(await shown(url), pemOf(two.certPem));

      assertEquals(await Promise.race([more, Promise.resolve("open")]), "open");
      const { status } = await client(Health, channel).check({});
      assertEquals(status, 1);
      const opened = records.filter(({ message }) => message === "serving");
      assertEquals(opened.length, 2, "http, then https once");

      // The system does not tell of every change.
      files.watchFile = () => () => {};
      await clock.advance(60_000);
      files.put("cert", one.certPem);
      files.put("key", one.keyPem);
      await clock.advance(60_000);
      assertEquals(await shown(url), pemOf(one.certPem));
    } finally {
      channel.close();
    }
  }));

Deno.test("MachinePort: shows a new cloud certificate while maintenance holds back other changes", async () => {
  const [one, two] = [await selfSigned(), await selfSigned()];
  const from = ({ certPem, keyPem }: { certPem: string; keyPem: string }, address = "localhost:0") => ({
    ...at(address),
    cloud: { id: "p", secret: "s", tls_certificate: certPem, tls_private_key: keyPem },
  });
  await withPort(from(one), async (port, { clock, records }) => {
    const { url } = port;
    // The address would change, too, but only what may change at once does.
    port.admit(await configOf(from(two, "127.0.0.1:0")));
    await clock.advance(0);
    assertEquals([port.url, await shown(url)], [url, pemOf(two.certPem)]);
    port.admit(
      await configOf({ cloud: { ...from(two).cloud, tls_private_key: one.keyPem }, ...at("localhost:0") }),
    );
    await clock.advance(0);
    assertEquals([port.url, await shown(url)], [url, pemOf(two.certPem)]);
    assertStringIncludes(records.at(-1)!.message, "the certificate does not change");
  });
});

Deno.test("MachinePort.change: a failure keeps the old port, is logged once, and is retried", () =>
  withPort(at("localhost:0"), async (port, { records, files, clock }) => {
    const { url } = port;
    const wrong = at("localhost:0", { tls_cert_file: "cert", tls_key_file: "key" });
    await changed(port, wrong, clock);
    await clock.advance(20_000);
    const errors = records.filter(({ level }) => level === "error").map(({ message }) => message);
    assertEquals(errors, [`the port stays ${url}: cannot read "cert": it does not exist`]);
    const { name, state, error } = port.status!;
    assertEquals([name.full, state, error], ["rdk-internal:service:web/builtin", "unhealthy", errors[0]]);
    assertEquals(await serves(url), true);

    files.put("cert", "none");
    files.put("key", "none");
    await clock.advance(5_000);
    assertStringIncludes(port.status!.error!, "cannot read cert: wanted a PEM certificate");
    assertEquals(await serves(url), true);

    const { certPem, keyPem } = await selfSigned();
    files.put("cert", certPem);
    files.put("key", keyPem);
    while (port.status) await clock.advance(5_000);
    assertEquals([port.status, port.url.slice(0, 5)], [undefined, "https"]);
    assertEquals(await serves(port.url), true);
  }));

Deno.test("MachinePort: takes an address in use as soon as the other program frees it", () =>
  withPort(at("localhost:0"), async (port, { clock }) => {
    const { url } = port;
    const taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port: number } = taken.addr as Deno.NetAddr;
    await changed(port, at(`127.0.0.1:${number}`), clock);
    assertStringIncludes(
      port.status!.error!,
      `the port stays ${url}: network.bind_address: cannot listen on 127.0.0.1:${number}: it is in use`,
    );
    assertEquals(await serves(url), true);
    taken.close();
    await changed(port, at(`127.0.0.1:${number}`), clock);
    assertEquals([port.url, port.status], [`http://127.0.0.1:${number}`, undefined]);
  }));

Deno.test("MachinePort.open: rejects when the address does not exist", async () => {
  await assertRejects(
    () => withPort(at("192.0.2.1:0"), () => Promise.resolve()),
    SvcError,
    "no such address",
  );
});

Deno.test("MachinePort: a client certificate with a name of tls_auth_entities replaces the token", async () => {
  const [ours, stranger] = [await selfSigned(), await selfSigned()];
  const tls = { tls_cert_file: "cert", tls_key_file: "key" };
  const config = (...names: string[]) => ({ ...at("localhost:0", tls), auth: { tls_auth_entities: names } });
  const check = async (url: string, shown?: { certPem: string; keyPem: string }) => {
    const identity = shown && { cert: shown.certPem, key: shown.keyPem };
    const http = Deno.createHttpClient({ caCerts: [ours.certPem], ...identity });
    const response = await fetch(`${url}/grpc.health.v1.Health/Check`, {
      client: http,
      method: "POST",
      headers: { "content-type": "application/grpc-web+proto" },
      body: new Uint8Array(5),
    });
    const body = await response.text();
    http.close();
    return response.headers.get("grpc-status") ?? /grpc-status: ?(\d+)/.exec(body)?.[1];
  };
  await withPort(at("localhost:0"), async (port, { files, clock: fake, records }) => {
    files.put("cert", ours.certPem);
    files.put("key", ours.keyPem);
    await changed(port, config("localhost"), fake);
    assertEquals(await check(port.url, ours), "0");
    assertEquals(await check(port.url), "16");
    assertEquals(await check(port.url, stranger), "16", "nobody known has issued it");
    await changed(port, config("elsewhere"), fake);
    assertEquals(await check(port.url, ours), "16", "its name is not listed");
    await changed(port, { ...at("localhost:0"), auth: { tls_auth_entities: ["localhost"] } }, fake);
    assertEquals(await serves(port.url), "unauthenticated");
    assertStringIncludes(
      records.map(({ message }) => message).join(),
      "without TLS no client can show a certificate",
    );
  });
});
