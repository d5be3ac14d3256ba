/** Authentication over real connections: tokens, refusals with their published codes and wording. */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { generateKeyPairSync, sign } from "node:crypto";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { fingerprintOf, hashOfKey } from "../../base/key_hash.ts";
import { AuthService } from "../../../proto/gen/auth_pb.ts";
import { EchoService } from "../../../proto/gen/echo_pb.ts";
import { auth, type AuthOptions } from "./auth.ts";
import { type Channel, client } from "../rpc/channel.ts";
import { echoTable, withChannel } from "../../../tests/support/echo.ts";
import { memoryChannel } from "../rpc/memory.ts";
import { Metadata } from "../rpc/metadata.ts";
import { externalToken, publicJwk, TOKEN_MS } from "./tokens.ts";

const HOST = "robot.example.com";
const KEYS = { apiKeys: { "id-1": "key-1", "id-2": "key-2" }, locationSecrets: ["old", "new"] };

async function withAuth(
  options: Partial<AuthOptions>,
  test: (channel: Channel, entities: (string | undefined)[]) => Promise<void>,
): Promise<void> {
  const guard = auth({
    handlers: KEYS,
    audience: [HOST, "localhost:8080"],
    clock: new FakeClock(),
    ...options,
  });
  const entities: (string | undefined)[] = [];
  const { table } = echoTable([guard.gate, (ctx) => void entities.push(ctx.entity)]);
  table.add(guard.service);
  await withChannel({ table }, (channel) => test(channel, entities));
}

function login(channel: Channel, entity: string, type: string, payload: string, header?: Metadata) {
  return client(AuthService, channel).authenticate({ entity, credentials: { type, payload } }, { header });
}

function bearer(token: string): Metadata {
  return Metadata.from([["authorization", `Bearer ${token}`]]);
}

async function refusal(work: Promise<unknown>): Promise<[string, string]> {
  const error = await assertRejects(() => work, SvcError);
  return [error.code, error.message];
}

function claimsOf(token: string): Record<string, unknown>[] {
  return token.split(".").slice(0, 2).map((part) => JSON.parse(Buffer.from(part, "base64url").toString()));
}

function jwt(header: unknown, claims: unknown, signer: (text: string) => Buffer): string {
  const text = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(
    ".",
  );
  return `${text}.${signer(text).toString("base64url")}`;
}

Deno.test("auth: Authenticate exchanges an API key for a token, which identifies the caller", () =>
  withAuth({}, async (channel, entities) => {
    const { accessToken } = await login(channel, "id-1", "api-key", "key-1");
    const [header, claims] = claimsOf(accessToken);
    assertEquals([header.alg, header.typ], ["EdDSA", "JWT"]);
    assertEquals(Buffer.from(String(header.kid), "base64url").length, 32);
    assertEquals([claims.sub, claims.aud, claims.iss], ["id-1", [HOST, "localhost:8080"], HOST]);
    assertEquals([claims.iat, claims.exp, claims.rpc_creds_type], [
      1_700_000_000,
      1_700_000_000 + TOKEN_MS / 1000,
      "api-key",
    ]);
    assertEquals(String(claims.jti).length, 36);
    for (let i = 0; i < 2; i++) {
      const answer = await client(EchoService, channel).echo({ message: "in" }, {
        header: bearer(accessToken),
      });
      assertEquals(answer.message, "in");
    }
    assertEquals(entities, [undefined, "id-1", "id-1"]);
  }));

Deno.test("auth: a location secret is accepted only with the server's own names as entity", () =>
  withAuth({}, async (channel) => {
    for (const secret of ["old", "new"]) {
      for (const entity of [HOST, "localhost:8080"]) {
        assert((await login(channel, entity, "robot-location-secret", secret)).accessToken.length > 0);
      }
    }
    const invalid = ["unauthenticated", "invalid credentials"] as [string, string];
    assertEquals(await refusal(login(channel, "other.com", "robot-location-secret", "old")), invalid);
    assertEquals(await refusal(login(channel, HOST, "robot-location-secret", "")), invalid);
  }));

Deno.test("auth: a location secret may be stored as a hash, and the hash itself is no secret", async () => {
  const hash = await hashOfKey("sesame");
  const guard = auth({
    handlers: { locationSecrets: ["other", hash] },
    audience: [HOST],
    clock: new FakeClock(),
  });
  const { table } = echoTable([guard.gate]);
  table.add(guard.service);
  await withChannel({ table }, async (channel) => {
    const type = "robot-location-secret";
    const { accessToken } = await login(channel, HOST, type, "sesame");
    const header = bearer(accessToken);
    assertEquals((await client(EchoService, channel).echo({ message: "in" }, { header })).message, "in");
    const invalid = ["unauthenticated", "invalid credentials"] as [string, string];
    for (const secret of [hash, "", "Sesame"]) {
      assertEquals(await refusal(login(channel, HOST, type, secret)), invalid);
    }
    assertEquals(await refusal(login(channel, "other.com", type, "sesame")), invalid);
    guard.change({ handlers: { locationSecrets: ["other"] }, audience: [HOST] });
    assertEquals((await refusal(client(EchoService, channel).echo({}, { header })))[0], "unauthenticated");
  });
});

Deno.test("auth: Authenticate refuses wrong keys, unknown types and repeated authentication", () =>
  withAuth({}, async (channel) => {
    const invalid = ["unauthenticated", "invalid credentials"] as [string, string];
    for (
      const [entity, key] of [["id-1", "key-2"], ["id-3", "key-1"], ["id-1", ""], ["", ""], ["__proto__", ""]]
    ) {
      assertEquals(await refusal(login(channel, entity, "api-key", key)), invalid);
    }
    assertEquals(await refusal(login(channel, "id-1", "password", "key-1")), [
      "invalid_argument",
      'do not know how to handle credential type "password"',
    ]);
    assertEquals((await refusal(login(channel, "id-1", "external", "key-1")))[0], "invalid_argument");
    assertEquals(await refusal(login(channel, "id-1", "api-key", "key-1", bearer("x"))), [
      "invalid_argument",
      "already authenticated; cannot re-authenticate",
    ]);
    const without = client(AuthService, channel).authenticate({ entity: "id-1" });
    assertEquals((await refusal(without))[0], "invalid_argument");
  }));

Deno.test("auth: calls with a missing, malformed or forged token are unauthenticated", () =>
  withAuth({}, async (channel) => {
    const { accessToken } = await login(channel, "id-1", "api-key", "key-1");
    const [head, claims, signature] = accessToken.split(".");
    const [header, content] = claimsOf(accessToken);
    const stranger = generateKeyPairSync("ed25519").privateKey;
    const forged = (change: object, changedHeader: object = {}) =>
      jwt(
        { ...header, ...changedHeader },
        { ...content, ...change },
        (text) => sign(null, Buffer.from(text), stranger),
      );
    const cases: [Metadata, string][] = [
      [new Metadata(), "authentication required"],
      [
        Metadata.from([["authorization", "Bearer a"], ["authorization", "Bearer b"]]),
        "authentication required",
      ],
      [Metadata.from([["authorization", "Basic YTpi"]]), "expected Authorization: Bearer "],
      [bearer(""), "unauthenticated: token is malformed"],
      [bearer("a.b.c"), "unauthenticated: token is malformed"],
      [bearer(`${head}.${claims}.`), "unauthenticated: signature is invalid"],
      [
        bearer(`${head}.${claims}.${signature.slice(0, -8)}AAAAAAAA`),
        "unauthenticated: signature is invalid",
      ],
      // One token has one spelling.
      [bearer(`${accessToken}=`), "unauthenticated: signature is invalid"],
      [bearer(`${head}.${claims}.${signature.slice(0, -1)}${neighbour(signature)}`), "signature is invalid"],
      [bearer(`${head}=.${claims}.${signature}`), "unauthenticated: token is malformed"],
      [bearer(`${head}.${claims.slice(0, 9)}.${claims.slice(9)}.${signature}`), "token is malformed"],
      [bearer(forged({})), "unauthenticated: signature is invalid"],
      [bearer(forged({}, { kid: "other" })), 'unauthenticated: this server knows no key with id "other"'],
      [bearer(forged({}, { alg: "none" })), 'unauthenticated: unexpected signing method "none"'],
      [bearer(forged({}, { alg: "HS256" })), 'unauthenticated: unexpected signing method "HS256"'],
      [
        bearer(forged({ rpc_creds_type: "magic" })),
        "unauthenticated: do not know how to handle credential type",
      ],
      [bearer("x".repeat(30_000)), "unauthenticated: token is malformed"],
    ];
    for (const [header, want] of cases) {
      const [code, message] = await refusal(client(EchoService, channel).echo({ message: "" }, { header }));
      assertEquals(code, "unauthenticated");
      assertStringIncludes(message, want);
    }
  }));

Deno.test("auth: a token of another process is refused", () =>
  withAuth({}, async (channel) => {
    await withAuth({}, async (other) => {
      const { accessToken } = await login(other, "id-1", "api-key", "key-1");
      const call = client(EchoService, channel).echo({ message: "" }, { header: bearer(accessToken) });
      assertStringIncludes((await refusal(call))[1], "knows no key");
    });
  }));

Deno.test("auth: a token expires after TOKEN_MS", async () => {
  const clock = new FakeClock();
  await withAuth({ clock }, async (channel) => {
    const { accessToken } = await login(channel, "id-1", "api-key", "key-1");
    const echo = () => client(EchoService, channel).echo({ message: "" }, { header: bearer(accessToken) });
    await clock.advance(TOKEN_MS - 1_000);
    await echo();
    await clock.advance(1_000);
    assertEquals(await refusal(echo()), ["unauthenticated", "unauthenticated: token is expired"]);
  });
});

Deno.test("auth: a replaced or removed key invalidates its tokens", async () => {
  const keys = new Map([["id-1", "key-1"], ["id-2", "key-2"]]);
  const apiKeys = {
    check: (id: string, key: string) => Promise.resolve(keys.get(id) === key ? `of ${key}` : undefined),
    isCurrent: (id: string, generation: string) =>
      Promise.resolve(keys.has(id) && generation === `of ${keys.get(id)}`),
  };
  await withAuth({ handlers: { apiKeys } }, async (channel) => {
    const { accessToken: mine } = await login(channel, "id-1", "api-key", "key-1");
    const { accessToken: other } = await login(channel, "id-2", "api-key", "key-2");
    const echo = (token: string) =>
      client(EchoService, channel).echo({ message: "" }, { header: bearer(token) });
    await echo(mine);
    for (const change of [() => keys.set("id-1", "key-3"), () => keys.delete("id-1")]) {
      change();
      const [code, message] = await refusal(echo(mine));
      assertEquals(code, "unauthenticated");
      assertStringIncludes(message, "has been replaced or no longer exists");
    }
    await echo(other);
  });
});

Deno.test("auth: change ends the tokens and running calls of removed credentials only", async () => {
  const guard = auth({ handlers: KEYS, audience: [HOST], clock: new FakeClock() });
  const { table } = echoTable([guard.gate]);
  table.add(guard.service);
  await withChannel({ table }, async (channel) => {
    const credentials = [
      ["id-1", "api-key", "key-1"],
      ["id-2", "api-key", "key-2"],
      [HOST, "robot-location-secret", "old"],
      [HOST, "robot-location-secret", "new"],
    ] as const;
    const hanging = credentials.map(async ([entity, type, secret]) => {
      const header = bearer((await login(channel, entity, type, secret)).accessToken);
      const stop = new AbortController();
      const call = client(EchoService, channel).echoMultiple({ message: "hang" }, {
        header,
        signal: stop.signal,
      })[Symbol.asyncIterator]();
      for (let i = 0; i < "hang".length; i++) await call.next();
      return { header, stop, rest: call.next().then(() => "ended", (error: SvcError) => error.code) };
    });
    const [gone, stays, old, current] = await Promise.all(hanging);
    guard.change({
      handlers: { apiKeys: { "id-2": "key-2", "id-3": "key-3" }, locationSecrets: ["new"] },
      audience: [HOST],
    });
    assertEquals([await gone.rest, await old.rest], ["unauthenticated", "unauthenticated"]);
    const echo = (header: Metadata) => client(EchoService, channel).echo({ message: "" }, { header });
    assertEquals((await refusal(echo(gone.header)))[0], "unauthenticated");
    for (const { header, stop, rest } of [stays, current]) {
      await echo(header);
      stop.abort(new SvcError("canceled", "enough"));
      assertEquals(await rest, "canceled");
    }
  });
});

Deno.test("auth: accepts tokens of an external issuer with a listed public key", async () => {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const key = { ...publicKey.export({ format: "jwk" }), kid: "cloud" };
  const clock = new FakeClock();
  const nowSeconds = clock.nowMs() / 1000;
  await withAuth({ handlers: { ...KEYS, externalKeys: [key] }, clock }, async (channel, entities) => {
    const token = (claims: object, header: object = {}) =>
      jwt(
        { alg: "RS256", kid: "cloud", ...header },
        { sub: "someone", aud: HOST, rpc_creds_type: "external", ...claims },
        (text) => sign("sha256", Buffer.from(text), privateKey),
      );
    const echo = (given: string) =>
      client(EchoService, channel).echo({ message: "" }, { header: bearer(given) });
    const good = token({ exp: nowSeconds + 60 });
    await echo(good);
    assertEquals(entities, ["someone"]);
    assertEquals((await refusal(echo(token({ aud: ["elsewhere"] }))))[1], "invalid audience");
    assertEquals((await refusal(echo(token({ sub: "" }))))[1], "expected entity (sub) in claims");
    assertEquals((await refusal(echo(token({}, { alg: "EdDSA" }))))[0], "unauthenticated");
    assertStringIncludes((await refusal(echo(token({ nbf: nowSeconds + 60 }))))[1], "not valid yet");
    assertStringIncludes((await refusal(echo(token({ rpc_creds_type: "api-key" }))))[1], "knows no key");
    await clock.advance(60_000);
    assertStringIncludes((await refusal(echo(good)))[1], "expired");
    const direct = await refusal(login(channel, "someone", "external", "x"));
    assertEquals(direct, ["unimplemented", 'direct authentication not supported for "external"']);
  });
});

Deno.test("auth: an external token that names an API key is valid while that key is listed", async () => {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const [hash, other] = [await hashOfKey("key-1"), await hashOfKey("key-2")];
  const clock = new FakeClock();
  const settings = (apiKeys: Record<string, string>) => ({
    handlers: { apiKeys, externalKeys: [publicJwk(privateKey)] },
    audience: [HOST],
  });
  const guard = auth({ ...settings({ "id-1": hash }), clock });
  const token = (entity: string, generation: string) => {
    const claims = { entity, audience: [HOST], issuer: "cloud", generation };
    return externalToken(claims, privateKey, clock.nowMs());
  };
  const outcome = async (given: string) => {
    try {
      return await guard.entityOf(given);
    } catch (error) {
      return SvcError.from(error).code;
    }
  };
  const good = token("id-1", fingerprintOf(hash));
  assertEquals(await outcome(good), "id-1");
  assertEquals(await outcome(token("id-2", fingerprintOf(hash))), "unauthenticated");
  assertEquals(await outcome(token("id-1", fingerprintOf(other))), "unauthenticated");
  guard.change(settings({ "id-1": other }));
  assertEquals(await outcome(good), "unauthenticated");
  guard.change(settings({ "id-2": hash }));
  assertEquals(await outcome(good), "unauthenticated");
});

Deno.test("auth: calls over memoryChannel need no token", async () => {
  const guard = auth({ handlers: KEYS, audience: [HOST], clock: new FakeClock() });
  const { table } = echoTable([guard.gate]);
  assertEquals((await client(EchoService, memoryChannel(table)).echo({ message: "home" })).message, "home");
});

/** Another last character of a text in base64url that stands for the same bytes. */
function neighbour(text: string): string {
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  return letters[letters.indexOf(text.at(-1)!) ^ 1];
}
