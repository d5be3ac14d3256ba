/** Sign-in by passkey, with an authenticator that answers honestly or lies. */

import { assert, assertEquals, assertMatch, assertNotEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Audit } from "../../lib/cloud/access/audit.ts";
import { newKeySecret } from "../../lib/cloud/access/keys.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { Accounts } from "../../lib/cloud/accounts/accounts.ts";
import { Invitations } from "../../lib/cloud/accounts/invitations.ts";
import { PasskeyChallenges } from "../../lib/cloud/accounts/passkeys/challenges.ts";
import { relyingPartyOf } from "../../lib/cloud/accounts/passkeys/proof.ts";
import { Passkeys, PASSKEYS_MAX } from "../../lib/cloud/accounts/passkeys/passkeys.ts";
import { Addresses } from "../../lib/cloud/addresses/addresses.ts";
import { AccountBrowser } from "../support/account_browser.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { type Asked, type Lie, PasskeyDevice } from "../support/passkey_device.ts";
import { storeTest, type TestDatabase } from "./stores.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "./world.ts";

const PUBLIC_URL = "https://fleet.example";
const PASSWORD = "correct horse battery";

class Browser extends AccountBrowser {
  async begin(page: string, body: object = {}): Promise<Asked> {
    const { status, value } = await this.ask(page, body);
    assertEquals(status, 200, JSON.stringify(value));
    return value.options as Asked;
  }

  async add(device: PasskeyDevice, name: string, lie?: Lie) {
    const asked = await this.begin("passkey-add", { name, password: PASSWORD });
    return await this.ask("passkey-finish", { answer: device.create(asked, lie) });
  }

  async signIn(device: PasskeyDevice, body: object = {}, lie?: Lie) {
    const asked = await this.begin("passkey-sign-in", body);
    return await this.ask("passkey-finish", { answer: device.get(asked, lie) });
  }
}

interface Served extends ServedCloud {
  readonly world: World;
  /** A browser in which a new person has signed in. */
  person(email: string): Promise<Browser>;
}

async function withPeople(
  database: TestDatabase,
  run: (served: Served) => Promise<void>,
  options: { readonly clock?: FakeClock; readonly most?: number } = {},
): Promise<void> {
  const { clock, most = 1000 } = options;
  const limits = { ...defaultLimits(), wrongKeysPerAddress: most };
  await withCloud(database, async (cloud) => {
    const world = await newWorld(cloud.store);
    const person = async (email: string) => {
      const grant = { role: "operator", kind: "organization", resourceId: world.organization } as const;
      const { opener: link } = await cloud.store.transaction((sql) =>
        new Invitations(sql).invite(
          world.organization,
          email,
          [grant],
          (clock ?? new SystemClock()).nowMs(),
        )
      );
      const browser = new Browser(cloud.url);
      assertEquals((await browser.ask("accept", { link, password: PASSWORD })).status, 200);
      return browser;
    };
    await run({ ...cloud, world, person });
  }, { clock, limits, addresses: new Addresses([PUBLIC_URL]) });
}

storeTest(
  "a person adds passkeys, signs in by one without a password, and a removed one opens nothing at once",
  (database) =>
    withPeople(database, async ({ store, url, person }) => {
      const ann = await person("ann@example.com");
      const device = new PasskeyDevice(PUBLIC_URL);
      assertEquals((await ann.ask("passkey-add", { name: "Phone", password: "a wrong one" })).status, 401);
      assertEquals((await ann.ask("passkey-add", { name: " ", password: PASSWORD })).status, 400);
      assertEquals((await new Browser(url).ask("passkey-add", { name: "Phone" })).status, 401);
      assertEquals((await ann.add(device, "Phone")).status, 200);
      device.counter = 1;

      const listed = (await ann.ask("passkeys")).value;
      const [phone] = listed.passkeys as Record<string, unknown>[];
      assertEquals([listed.origin, listed.rpId, listed.hasPassword], [PUBLIC_URL, "fleet.example", true]);
      assertEquals([phone.id, phone.name, phone.rpId, phone.usedMs], [
        device.id,
        "Phone",
        "fleet.example",
        null,
      ]);
      assertEquals((await new Browser(url).ask("passkeys")).value, {
        origin: PUBLIC_URL,
        rpId: "fleet.example",
      });

      // Any passkey of here, and one of the account with an address.
      const elsewhere = new Browser(url);
      const back = await elsewhere.signIn(device, { stays: true });
      assertEquals(back.status, 200, JSON.stringify(back.value));
      assertMatch(back.cookies[0], /^svc-session=.*; Max-Age=\d+$/);
      assertEquals(await elsewhere.email(), "ann@example.com");
      const named = new Browser(url);
      const asked = await named.begin("passkey-sign-in", { email: " Ann@Example.com" });
      assertEquals((asked as unknown as { allowCredentials: object[] }).allowCredentials, [
        { type: "public-key", id: device.id },
      ]);
      const short = await named.ask("passkey-finish", { answer: device.get(asked, { userHandle: null }) });
      assertEquals(short.status, 200);
      assert(!short.cookies[0].includes("Max-Age"));
      const used = (await ann.ask("passkeys")).value.passkeys as Record<string, unknown>[];
      assert(Number(used[0].usedMs) > 0);

      // A removed one opens nothing, and what it has opened ends.
      assertEquals((await ann.ask("passkey-remove", { id: "other" })).status, 404);
      assertEquals((await ann.ask("passkey-remove", { id: device.id })).status, 200);
      assertEquals(await elsewhere.email(), undefined);
      assertEquals(await ann.email(), "ann@example.com");
      assertEquals((await elsewhere.signIn(device)).status, 401);

      const { id } = (await new Accounts(store).byEmail("ann@example.com"))!;
      const audit = await new Audit(store, new SystemClock()).newest(50);
      const own = audit.filter(({ who }) => who === id).map(({ action }) => action);
      for (const action of ["AddPasskey", "SignInByPasskey", "RemovePasskey"]) {
        assert(own.includes(action), action);
      }
    }),
);

storeTest(
  "an answer for another origin, party, challenge, person or counter signs nobody in by passkey",
  (database) =>
    withPeople(database, async ({ store, url, person }) => {
      const ann = await person("ann@example.com");
      const bob = await person("bob@example.com");
      const [annDevice, bobDevice] = [new PasskeyDevice(PUBLIC_URL), new PasskeyDevice(PUBLIC_URL)];
      assertEquals((await ann.add(annDevice, "Ann's")).status, 200);
      assertEquals((await bob.add(bobDevice, "Bob's")).status, 200);
      annDevice.counter = 10;
      const annId = (await new Accounts(store).byEmail("ann@example.com"))!.id;
      const bobHandle = Buffer.from((await new Accounts(store).byEmail("bob@example.com"))!.id).toString(
        "base64url",
      );

      const lies: Readonly<Record<string, Lie>> = {
        "another origin": { origin: "https://fleet.example.evil.example" },
        "the origin without TLS": { origin: "http://fleet.example" },
        "another port": { origin: "https://fleet.example:8443" },
        "a foreign party": { rpId: "evil.example" },
        "another challenge": { challenge: "A".repeat(43) },
        "another kind of answer": { type: "webauthn.create" },
        "a frame of another site": { crossOrigin: true },
        "nobody verified": { flags: 0x01 },
        "nobody present": { flags: 0x04 },
        "another key": { otherKey: true },
        "another person": { userHandle: bobHandle },
        "no person": { userHandle: null },
      };
      for (const [name, lie] of Object.entries(lies)) {
        const browser = new Browser(url);
        const { status, value } = await browser.signIn(annDevice, {}, lie);
        assertEquals([status, await browser.email()], [401, undefined], name);
        assertMatch(String(value.error), /^the passkey's answer proves nothing: /, name);
      }
      const audit = await new Audit(store, new SystemClock()).newest(50, { action: "SignInByPasskey" });
      assert(audit.some(({ outcome, resource }) => outcome === "refused" && resource.includes(annId)));

      // The counter goes up, never back, and never stays.
      const browser = new Browser(url);
      assertEquals((await browser.signIn(annDevice, {}, { counter: 50 })).status, 200);
      for (const counter of [50, 49, 0]) {
        assertEquals((await browser.signIn(annDevice, {}, { counter })).status, 401, String(counter));
      }
      assertEquals((await browser.signIn(annDevice, {}, { counter: 51 })).status, 200);

      // With an address, the passkey of another person is no answer, and an address without any looks like one with.
      const foreign = await browser.signIn(bobDevice, { email: "ann@example.com" });
      assertEquals(foreign.status, 401);
      const ids = async (email: string) => {
        const asked = await new Browser(url).begin("passkey-sign-in", { email });
        return (asked as unknown as { allowCredentials: { id: string }[] }).allowCredentials.map(({ id }) =>
          id
        );
      };
      const nobody = await ids("nobody@example.com");
      assertEquals([nobody.length, nobody[0].length], [1, (await ids("ann@example.com"))[0].length]);
      assertEquals(await ids("nobody@example.com"), nobody);
      assertNotEquals(await ids("other@example.com"), nobody);

      // A challenge is the browser's own and works once, whatever the answer.
      const asked = await browser.begin("passkey-sign-in");
      const answer = annDevice.get(asked, { counter: 60 });
      assertEquals((await new Browser(url).ask("passkey-finish", { answer })).status, 401);
      const other = new Browser(url);
      await other.begin("passkey-sign-in");
      assertEquals((await other.ask("passkey-finish", { answer })).status, 401);
      assertEquals((await browser.ask("passkey-finish", { answer })).status, 200);
      assertEquals((await browser.ask("passkey-finish", { answer })).status, 401);
      const spoilt = await browser.begin("passkey-sign-in");
      assertEquals((await browser.ask("passkey-finish", { answer: {} })).status, 401);
      const late = annDevice.get(spoilt, { counter: 61 });
      assertEquals((await browser.ask("passkey-finish", { answer: late })).status, 401);
    }),
);

storeTest(
  "a passkey is added by its session alone, once, for one person, and without an attestation",
  (database) =>
    withPeople(database, async ({ store, url, person }) => {
      const ann = await person("ann@example.com");
      const bob = await person("bob@example.com");
      const device = new PasskeyDevice(PUBLIC_URL);
      const bad: Readonly<Record<string, Lie>> = {
        "another origin": { origin: "https://evil.example" },
        "a foreign party": { rpId: "example" },
        "another challenge": { challenge: "B".repeat(43) },
        "another kind of answer": { type: "webauthn.get" },
        "a frame of another site": { crossOrigin: true },
        "nobody verified": { flags: 0x01 },
      };
      for (const [name, lie] of Object.entries(bad)) {
        assertEquals((await ann.add(device, "x", lie)).status, 401, name);
      }

      // The session that asked, no other one.
      const asked = await ann.begin("passkey-add", { name: "x", password: PASSWORD });
      const planted = new Browser(url);
      await planted.ask("sign-in", { email: "bob@example.com", password: PASSWORD });
      planted.cookies.set("svc-passkey", ann.cookies.get("svc-passkey")!);
      assertEquals((await planted.ask("passkey-finish", { answer: device.create(asked) })).status, 401);
      const ended = await ann.begin("passkey-add", { name: "x", password: PASSWORD });
      await ann.ask("sign-out");
      assertEquals((await ann.ask("passkey-finish", { answer: device.create(ended) })).status, 401);
      await ann.ask("sign-in", { email: "ann@example.com", password: PASSWORD });

      // Statements of authenticators are not looked at: a certificate in one leads nowhere.
      const statement = Buffer.from("a163783563814401020304", "hex");
      const attested = await ann.add(device, "Key", { attestation: { fmt: "tpm", statement } });
      assertEquals(attested.status, 200, JSON.stringify(attested.value));
      assertEquals((await bob.add(device, "Copy")).status, 409);

      // Malformed, deep and large answers.
      const deep = Buffer.concat([Buffer.alloc(5_000, 0x81), Buffer.from([0])]).toString("base64url");
      const clientDataJSON = device.create(await ann.begin("passkey-add", { name: "x", password: PASSWORD }))
        .response.clientDataJSON;
      for (
        const answer of [
          undefined,
          "text",
          [],
          { id: 1 },
          { id: "a", response: null },
          { id: "a".repeat(1_365), response: {} },
          { id: device.id, response: { clientDataJSON: "a", attestationObject: "a" } },
          { id: device.id, response: { clientDataJSON: "!!", attestationObject: "a" } },
          { id: device.id, response: { clientDataJSON, attestationObject: deep } },
          { id: device.id, response: { clientDataJSON, attestationObject: "oA" } },
        ]
      ) {
        await ann.begin("passkey-add", { name: "x", password: PASSWORD });
        const { status } = await ann.ask("passkey-finish", { answer });
        assertEquals(status, 401, JSON.stringify(answer)?.slice(0, 100));
      }
      const large = await ann.ask("passkey-finish", { answer: { id: "a".repeat(20_000) } });
      assertEquals(large.status, 400);
      assertMatch(String(large.value.error), /more than 16384 bytes/);

      // Requests of other sites begin, finish and remove nothing.
      for (const page of ["passkeys", "passkey-add", "passkey-sign-in", "passkey-finish", "passkey-remove"]) {
        const elsewhere = await ann.ask(page, { id: device.id }, { "sec-fetch-site": "cross-site" });
        assertEquals(elsewhere.status, 403, page);
      }

      const { id: accountId } = (await new Accounts(store).byEmail("ann@example.com"))!;
      const more = (id: string) => ({ id, accountId, name: id, rpId: "x", publicKey: "x", counter: 0 });
      await store.transaction(async (sql) => {
        for (let at = 1; at < PASSKEYS_MAX; at++) await new Passkeys(sql).add(more(`${at}`), 0);
      });
      assertEquals((await ann.add(new PasskeyDevice(PUBLIC_URL), "One too many")).status, 429);

      // Whoever loses the account's trust loses the passkeys too.
      await store.transaction(async (sql) =>
        await new Accounts(sql).endPassword(accountId, await newKeySecret())
      );
      assertEquals((await new Passkeys(store).of(accountId)).length, 0);
    }),
);

storeTest(
  "challenges of passkeys expire, are shared among addresses, and attempts of an address are limited",
  (database) => {
    const clock = new FakeClock();
    return withPeople(database, async ({ store, url, person }) => {
      const ann = await person("ann@example.com");
      const device = new PasskeyDevice(PUBLIC_URL);
      assertEquals((await ann.add(device, "Phone")).status, 200);
      const asked = await ann.begin("passkey-sign-in");
      await clock.advance(5 * 60_000);
      assertEquals((await ann.ask("passkey-finish", { answer: device.get(asked) })).status, 401);

      const count = async () =>
        Number((await store.query<{ n: number }>("SELECT COUNT(*) AS n FROM passkey_challenges"))[0].n);
      const challenge = { origin: PUBLIC_URL, sessionId: null, name: "", email: null, stays: false };
      await store.transaction(async (sql) => {
        const challenges = new PasskeyChallenges(sql);
        for (let at = 0; at < 30; at++) {
          await challenges.begin({ ...challenge, address: "192.0.2.1" }, clock.nowMs() + at);
        }
      });
      assertEquals(await count(), 20);
      await clock.advance(6 * 60_000);
      await store.transaction((sql) => new PasskeyChallenges(sql).forgetOld(clock.nowMs()));
      assertEquals(await count(), 0);

      const statuses: number[] = [];
      for (let at = 0; at < 9; at++) {
        statuses.push((await new Browser(url).ask("passkey-finish", {})).status);
      }
      assertEquals([statuses.at(0), statuses.at(-1)], [401, 429]);
      assertEquals((await new Browser(url).ask("passkey-sign-in")).status, 429);
      const audit = await new Audit(store, clock).newest(20, { action: "SignInByPasskey" });
      assert(audit.some(({ who, outcome }) => who.startsWith("address") && outcome === "refused"));
      // Nobody is signed out by it.
      assertEquals(await ann.email(), "ann@example.com");
    }, { clock, most: 8 });
  },
);

Deno.test("passkeys are of the public address, which has a name and TLS, or nobody has any", () => {
  const party = (...configured: string[]) =>
    relyingPartyOf(new Addresses(configured), { kind: "grpc", origin: "https://second.example" });
  assertEquals(party("https://fleet.example:8443"), {
    id: "fleet.example",
    origin: "https://fleet.example:8443",
  });
  assertEquals(party("https://fleet.example", "https://second.example").id, "second.example");
  assertEquals(party("http://localhost:8080").id, "localhost");
  assertThrows(() => party(), SvcError, "does not know its name: start svc-cloud serve with --public-url");
  for (const address of ["https://192.0.2.7:8080", "http://127.0.0.1:8080", "https://[2001:db8::1]"]) {
    assertThrows(() => party(address), SvcError, `the public address ${address} has an IP address`);
  }
  assertThrows(() => party("http://fleet.example"), SvcError, "only over TLS");
});
