/** Sign-in at an OpenID Connect provider: the real one on loopback, and one that lies. */

import { assert, assertEquals, assertMatch, assertNotEquals, assertThrows } from "@std/assert";
import { generateKeyPairSync } from "node:crypto";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Secret } from "../../lib/base/secret.ts";
import { Audit } from "../../lib/cloud/access/audit.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { Accounts } from "../../lib/cloud/accounts/accounts.ts";
import { Invitations } from "../../lib/cloud/accounts/invitations.ts";
import { IdentityProvider, RETURN_PAGE } from "../../lib/cloud/accounts/provider.ts";
import { ProviderVisits } from "../../lib/cloud/accounts/provider_visits.ts";
import { type AccountAnswer, AccountBrowser } from "../support/account_browser.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { asJson, description, idToken, serveHostileProvider } from "../support/hostile_provider.ts";
import { CLIENT_ID, CLIENT_SECRET, serveProvider, signInAtProvider } from "../support/oidc_provider.ts";
import { storeTest, type TestDatabase } from "./stores.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "./world.ts";

const PUBLIC_URL = "https://fleet.example";
const REDIRECT = `${PUBLIC_URL}${RETURN_PAGE}`;
const PASSWORD = "correct horse battery";

class Browser extends AccountBrowser {
  async begin(body: object = {}): Promise<URL> {
    const { status, value } = await this.ask("provider-begin", body);
    assertEquals(status, 200, JSON.stringify(value));
    return new URL(value.url as string);
  }

  /** Goes to the provider and comes back. */
  async visit(login: string, body: object = {}): Promise<AccountAnswer> {
    const url = await this.begin(body);
    return await this.ask("provider-finish", { query: await signInAtProvider(url.href, login, REDIRECT) });
  }
}

interface Served extends ServedCloud {
  readonly world: World;
  readonly issuer: string;
  invite(email: string): Promise<string>;
}

/** A control plane whose people may sign in at the real provider. */
async function withProvider(
  database: TestDatabase,
  run: (served: Served) => Promise<void>,
  options: { readonly domains?: readonly string[]; readonly clock?: FakeClock; readonly most?: number } = {},
): Promise<void> {
  const served = await serveProvider(REDIRECT);
  const { domains, clock, most } = options;
  const provider = new IdentityProvider(
    { ...providerOptions(served.issuer), domains, clientSecret: new Secret(CLIENT_SECRET) },
    new SystemClock(),
  );
  const limits = { ...defaultLimits(), ...most === undefined ? {} : { wrongKeysPerAddress: most } };
  try {
    await withCloud(database, async (cloud) => {
      const world = await newWorld(cloud.store);
      const nowMs = (clock ?? new SystemClock()).nowMs();
      const invite = async (email: string) => {
        const grant = { role: "operator", kind: "organization", resourceId: world.organization } as const;
        const { opener } = await cloud.store.transaction((sql) =>
          new Invitations(sql).invite(world.organization, email, [grant], nowMs)
        );
        return opener;
      };
      await run({ ...cloud, world, issuer: served.issuer, invite });
    }, { provider, clock, limits });
  } finally {
    await served.close();
  }
}

const providerOptions = (issuer: string) => ({
  issuer,
  clientId: CLIENT_ID,
  name: "Example",
  publicUrl: PUBLIC_URL,
});

storeTest(
  "a person accepts an invitation at the provider, signs in there again, and is named in the audit log",
  (database) =>
    withProvider(database, async ({ store, url, issuer, invite }) => {
      const ann = new Browser(url);
      assertEquals((await ann.ask("provider")).value, { name: "Example" });
      const stranger = await ann.visit("ann@example.com");
      assertEquals(stranger.status, 403);
      assertMatch(String(stranger.value.error), /ann@example\.com of Example has no account here/);

      const link = await invite("ann@example.com");
      const request = await ann.begin({ purpose: "invitation", link, name: "Ann" });
      const sent = request.searchParams;
      assertEquals(request.origin, issuer);
      assertEquals(sent.get("redirect_uri"), REDIRECT);
      assertEquals([sent.get("response_type"), sent.get("code_challenge_method")], ["code", "S256"]);
      const query = await signInAtProvider(request.href, "ann@example.com", REDIRECT);
      const accepted = await ann.ask("provider-finish", { query });
      assertEquals(accepted.status, 200, JSON.stringify(accepted.value));
      assertMatch(accepted.cookies[0], /^svc-session=\S+; Path=\/account; HttpOnly; SameSite=Strict$/);
      assertEquals(await ann.email(), "ann@example.com");
      const { id } = (await new Accounts(store).byEmail("ann@example.com"))!;
      assertEquals((await ann.ask("provider")).value, {
        name: "Example",
        isLinked: true,
        hasPassword: false,
      });
      // The link is used up, and the account has no password that somebody could guess.
      assertEquals((await ann.ask("provider-begin", { purpose: "invitation", link })).status, 404);
      const guessed = await ann.ask("sign-in", { email: "ann@example.com", password: PASSWORD });
      assertEquals(guessed.status, 401);

      const elsewhere = new Browser(url);
      const back = await elsewhere.visit("ann@example.com", { returnTo: "#/machine/1", stays: true });
      assertEquals([back.status, back.value.returnTo], [200, "#/machine/1"]);
      assertMatch(back.cookies[0], /; Max-Age=\d+$/);
      assertEquals(await elsewhere.email(), "ann@example.com");
      const audit = await new Audit(store, new SystemClock()).newest(20);
      assertEquals(
        audit.filter(({ who, action }) => who === id && action === "SignInByProvider").map(({ outcome }) =>
          outcome
        ),
        ["done", "done"],
      );
      assert(
        audit.some(({ action, who }) => action === "AcceptInvitationByProvider" && who === "ann@example.com"),
      );
      assert(audit.some(({ action, outcome }) => action === "SignInByProvider" && outcome === "refused"));

      // A revoked session is over at once; signing out ends one's own alone.
      await elsewhere.ask("end-session");
      assertEquals((await ann.ask("token")).status, 401);
      await elsewhere.ask("sign-out");
      assertEquals((await elsewhere.ask("token")).status, 401);
    }),
);

storeTest(
  "an account with a password is linked by its signed-in person alone, never by an address",
  (database) =>
    withProvider(database, async ({ url, invite }) => {
      const ann = new Browser(url);
      await ann.ask("accept", { link: await invite("ann@example.com"), password: PASSWORD });
      // The provider says that somebody has her address: that gives nothing, with an invitation neither.
      const other = new Browser(url);
      assertEquals((await other.visit("ann@example.com")).status, 403);
      const second = await invite("ann@example.com");
      const refused = await other.visit("ann@example.com", { purpose: "invitation", link: second });
      assertEquals(refused.status, 409);
      assertMatch(String(refused.value.error), /not linked with this person of Example/);

      const asked = { purpose: "link" };
      assertEquals((await other.ask("provider-begin", asked)).status, 401);
      assertEquals((await ann.ask("provider-begin", asked)).status, 400);
      assertEquals((await ann.ask("provider-begin", { ...asked, password: "a wrong one" })).status, 401);
      const linked = await ann.visit("ann-at-work@example.com", { ...asked, password: PASSWORD });
      assertEquals(linked.status, 200, JSON.stringify(linked.value));
      assertEquals((await ann.ask("provider")).value.isLinked, true);
      assertEquals((await other.visit("ann-at-work@example.com")).status, 200);
      assertEquals(await other.email(), "ann@example.com");

      // One account each way.
      const bob = new Browser(url);
      await bob.ask("accept", { link: await invite("bob@example.com"), password: PASSWORD });
      assertEquals(
        (await bob.visit("ann-at-work@example.com", { ...asked, password: PASSWORD })).status,
        409,
      );
      assertEquals((await ann.visit("another@example.com", { ...asked, password: PASSWORD })).status, 409);
      const elsewhere = await invite("carol@example.com");
      const mine = await new Browser(url).visit("ann-at-work@example.com", {
        purpose: "invitation",
        link: elsewhere,
      });
      assertEquals(mine.status, 409);

      // Without the link, what it opened ends.
      assertEquals((await ann.ask("provider-unlink", { password: "a wrong one" })).status, 401);
      assertEquals((await ann.ask("provider-unlink", { password: PASSWORD })).status, 200);
      assertEquals(await other.email(), undefined);
      assertEquals(await ann.email(), "ann@example.com");
      assertEquals((await other.visit("ann-at-work@example.com")).status, 403);
    }),
);

storeTest(
  "another session, browser, state, issuer or time finishes no sign-in, and a code works once",
  (database) => {
    const clock = new FakeClock();
    return withProvider(database, async ({ store, url, invite }) => {
      const ann = new Browser(url);
      await ann.visit("ann@example.com", { purpose: "invitation", link: await invite("ann@example.com") });
      const planted = ann.cookies.get("svc-session");
      const query = async (browser: Browser, body: object = {}) =>
        await signInAtProvider((await browser.begin(body)).href, "ann@example.com", REDIRECT);
      const finish = async (browser: Browser, given: string) =>
        (await browser.ask("provider-finish", { query: given })).status;

      // Somebody who has begun a sign-in cannot have another browser finish it.
      const mallory = new Browser(url);
      const stolen = await query(mallory);
      const victim = new Browser(url);
      assertEquals(await finish(victim, stolen), 401);
      await victim.begin();
      assertEquals(await finish(victim, stolen), 401);
      // The refusal has not used it up.
      assertEquals(await finish(mallory, stolen), 200);
      assertEquals(await finish(mallory, stolen), 401);

      const replaced = async (name: string, value: string | undefined) => {
        const browser = new Browser(url);
        const fields = new URLSearchParams(await query(browser));
        if (value === undefined) fields.delete(name);
        else fields.set(name, value);
        return await finish(browser, fields.toString());
      };
      assertEquals(await replaced("state", crypto.randomUUID()), 401);
      assertEquals(await replaced("state", undefined), 401);
      assertEquals(await replaced("iss", "https://other.example"), 401);
      assertEquals(await replaced("iss", undefined), 401);
      assertEquals(await replaced("code", "another"), 401);
      assertEquals(await replaced("code", undefined), 401);
      assertEquals(await replaced("error", "access_denied"), 401);
      await clock.advance(60_000);

      // The code of one visit in another of the same browser: the verifier is not its own.
      const former = new URLSearchParams(await query(victim));
      const later = new URLSearchParams(await query(victim));
      later.set("code", former.get("code")!);
      assertEquals(await finish(victim, later.toString()), 401);

      const late = await query(victim);
      await clock.advance(10 * 60_000);
      assertEquals(await finish(victim, late), 401);

      // A session that somebody has planted ends, and the new one has another id.
      victim.cookies.set("svc-session", planted!);
      assertEquals(await finish(victim, await query(victim)), 200);
      assertNotEquals(victim.cookies.get("svc-session"), planted);
      assertEquals((await ann.ask("token")).status, 401);

      // A link that was asked for in a session ends with it.
      const link = await query(victim, { purpose: "link" });
      await victim.ask("sign-out");
      assertEquals(await finish(victim, link), 401);

      for (
        const returnTo of [
          "https://evil.example",
          "//evil.example",
          "/machine",
          "#/\\evil",
          "#/a\nb",
          "javascript:1",
        ]
      ) {
        assertEquals((await victim.ask("provider-begin", { returnTo })).status, 400, returnTo);
      }
      const foreign: Record<string, string>[] = [
        { origin: "https://evil.example" },
        { "sec-fetch-site": "cross-site" },
      ];
      for (const headers of foreign) {
        assertEquals((await victim.ask("provider-begin", {}, headers)).status, 403);
        assertEquals((await victim.ask("provider-finish", { query: "" }, headers)).status, 403);
      }
      const returned = await fetch(
        `${url}${RETURN_PAGE}?code=1&state=//evil.example%0d%0aset-cookie:x=1&next=https://e`,
        {
          redirect: "manual",
        },
      );
      await returned.body?.cancel();
      assertEquals([returned.status, returned.headers.getSetCookie()], [303, []]);
      assertMatch(returned.headers.get("location")!, /^\/#\/provider\/[\w.*%+-]+$/);

      // The open visits of one address are limited, and forgotten with time.
      const count = async () =>
        Number((await store.query<{ n: number }>("SELECT COUNT(*) AS n FROM provider_visits"))[0].n);
      const visit = {
        issuer: "i",
        sessionId: null,
        invitationId: null,
        name: "",
        returnTo: "#/",
        stays: false,
      };
      await store.transaction(async (sql) => {
        const visits = new ProviderVisits(sql);
        for (let at = 0; at < 30; at++) {
          await visits.begin({ ...visit, address: "192.0.2.1" }, clock.nowMs() + at);
        }
      });
      assert(await count() <= 21, String(await count()));
      await clock.advance(11 * 60_000);
      await store.transaction((sql) => new ProviderVisits(sql).forgetOld(clock.nowMs()));
      assertEquals(await count(), 0);
    }, { clock, most: 40 });
  },
);

storeTest(
  "only verified addresses of the wanted domains sign in, and attempts of an address are limited",
  (database) =>
    withProvider(database, async ({ store, url, invite }) => {
      const link = await invite("ann@example.com");
      for (const login of ["ann@other.example", "ann@example.com.evil.example", "unverified@example.com"]) {
        const { status, value } = await new Browser(url).visit(login, { purpose: "invitation", link });
        assertEquals(status, 403, login);
        assertMatch(String(value.error), /no verified e-mail address of example\.com/);
      }
      const ann = await new Browser(url).visit("ann@example.com", { purpose: "invitation", link });
      assertEquals(ann.status, 200, JSON.stringify(ann.value));
      const statuses: number[] = [];
      for (let at = 0; at < 8; at++) {
        statuses.push((await new Browser(url).ask("provider-finish", { query: "" })).status);
      }
      assertEquals([statuses.at(0), statuses.at(-1)], [401, 429]);
      const audit = await new Audit(store, new SystemClock()).newest(20, { action: "SignInByProvider" });
      assert(audit.some(({ who, outcome }) => who.startsWith("address") && outcome === "refused"));
    }, { clock: new FakeClock(), domains: ["example.com"], most: 8 }),
);

Deno.test("an address is verified also if the provider writes so as a text, in the token or beside it", async () => {
  const hostile = await serveHostileProvider();
  const { issuer, answers, key } = hostile;
  const proof = { state: "s", nonce: "n", verifier: "v".repeat(43) };
  const query = new URLSearchParams({ code: "c", state: proof.state, iss: issuer });
  const nowS = Math.floor(new SystemClock().nowMs() / 1000);
  const good = { iss: issuer, sub: "ann", aud: CLIENT_ID, nonce: "n", iat: nowS, exp: nowS + 60 };
  const claims = { email: "Ann@Example.com", email_verified: "true" };
  const email = async (token: object) => {
    const id_token = idToken(token, key);
    answers.set("/token", asJson({ access_token: "a", token_type: "bearer", id_token }));
    const provider = new IdentityProvider(providerOptions(issuer), new SystemClock());
    return (await provider.fetchPerson(query, proof)).email;
  };
  try {
    assertEquals(await email({ ...good, ...claims }), "ann@example.com");
    answers.set(
      "/.well-known/openid-configuration",
      asJson({ ...description(issuer), userinfo_endpoint: `${issuer}/userinfo` }),
    );
    answers.set("/userinfo", asJson({ sub: "ann", ...claims }));
    assertEquals(await email(good), "ann@example.com");
    answers.set("/userinfo", asJson({ sub: "ann", ...claims, email_verified: "false" }));
    assertEquals(await email(good), undefined);
  } finally {
    await hostile.close();
  }
});

Deno.test("an issuer with a slash at its end is the same as one without, and any other is refused by its name", async () => {
  const hostile = await serveHostileProvider();
  const { answers, key } = hostile;
  const base = `${hostile.issuer}/application/o/fleet`;
  const proof = { state: "s", nonce: "n", verifier: "v".repeat(43) };
  const nowS = Math.floor(new SystemClock().nowMs() / 1000);
  const signIn = async (given: string, named: string, signed = named) => {
    const query = new URLSearchParams({ code: "c", state: proof.state, iss: signed });
    const claims = { iss: signed, sub: "ann", aud: CLIENT_ID, nonce: "n", iat: nowS, exp: nowS + 60 };
    answers.set(
      "/application/o/fleet/.well-known/openid-configuration",
      asJson({ ...description(hostile.issuer), issuer: named }),
    );
    answers.set(
      "/token",
      asJson({ access_token: "a", token_type: "bearer", id_token: idToken(claims, key) }),
    );
    const provider = new IdentityProvider(providerOptions(given), new SystemClock());
    return await provider.fetchPerson(query, proof).then(({ issuer }) => issuer, (error) => error.message);
  };
  try {
    for (const given of [base, `${base}/`]) {
      for (const named of [base, `${base}/`]) assertEquals(await signIn(given, named), base);
    }
    assertMatch(await signIn(base, `${base}/`, base), /does not prove who you are/);
    assertMatch(
      await signIn(base, `${hostile.issuer}/application/o/other/`),
      /the issuer is ".*\/o\/other\/" by its own description, wanted .*\/o\/fleet$/,
    );
  } finally {
    await hostile.close();
  }
});

Deno.test("a provider that lies, is slow or sends too much signs nobody in", async () => {
  const hostile = await serveHostileProvider();
  const proof = { state: crypto.randomUUID(), nonce: "n", verifier: "v".repeat(43) };
  const { issuer, answers, key } = hostile;
  const query = new URLSearchParams({ code: "c", state: proof.state, iss: issuer });
  const nowS = Math.floor(new SystemClock().nowMs() / 1000);
  const good = { iss: issuer, sub: "ann", aud: CLIENT_ID, nonce: "n", iat: nowS, exp: nowS + 60 };
  const tokens = (claims: object, by: typeof key | undefined = key, alg?: string) =>
    asJson({ access_token: "a", token_type: "bearer", id_token: idToken(claims, by, alg) });
  const person = async () => {
    const provider = new IdentityProvider(
      { ...providerOptions(issuer), timeoutMs: 1_000 },
      new SystemClock(),
    );
    return await provider.fetchPerson(query, proof);
  };
  const refusal = async () => {
    const error = SvcError.from(
      await person().then((found) => new Error(`found ${found.subject}`), (one) => one),
    );
    return `${error.code}: ${error.message}`;
  };
  try {
    answers.set("/token", tokens(good));
    assertEquals(await person(), { issuer, subject: "ann", email: undefined });
    answers.set("/token", tokens({ ...good, email: "Ann@Example.com", email_verified: true }));
    assertEquals((await person()).email, "ann@example.com");
    for (const email_verified of ["false", "TRUE", "", 1, null]) {
      answers.set("/token", tokens({ ...good, email: "ann@example.com", email_verified }));
      assertEquals((await person()).email, undefined, JSON.stringify(email_verified));
    }

    const { privateKey: other } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const lies = {
      "no signature": idToken(good, undefined),
      "another key": idToken(good, other),
      "a symmetric key": idToken(good, other, "HS256"),
      "another nonce": idToken({ ...good, nonce: "m" }, key),
      "no nonce": idToken({ ...good, nonce: undefined }, key),
      "another issuer": idToken({ ...good, iss: "https://other.example" }, key),
      "another client": idToken({ ...good, aud: "other" }, key),
      "several clients": idToken({ ...good, aud: [CLIENT_ID, "other"], azp: "other" }, key),
      "expired": idToken({ ...good, exp: nowS - 600 }, key),
      "no subject": idToken({ ...good, sub: undefined }, key),
      "a long subject": idToken({ ...good, sub: "x".repeat(5_000) }, key),
      "no token": "a.b.c",
    };
    for (const [name, id_token] of Object.entries(lies)) {
      answers.set("/token", asJson({ access_token: "a", token_type: "bearer", id_token }));
      assertMatch(await refusal(), /^unauthenticated: Example does not prove who you are/, name);
    }
    const malformed = {
      "no id token": asJson({ access_token: "a", token_type: "bearer" }),
      "not JSON": (response: Parameters<ReturnType<typeof asJson>>[0]) => void response.end("<html>"),
      "a list": asJson([]),
      "huge": asJson({ access_token: "x".repeat(2_000_000) }),
      "elsewhere": (response: Parameters<ReturnType<typeof asJson>>[0]) =>
        void response.writeHead(302, { location: "https://evil.example" }).end(),
    };
    for (const [name, answer] of Object.entries(malformed)) {
      answers.set("/token", answer);
      assertMatch(await refusal(), /^unauthenticated: Example does not prove who you are/, name);
    }
    // Slow to answer, and slow within its answer.
    answers.set("/token", () => {});
    assertMatch(await refusal(), /^unavailable: Example does not answer: no answer in 1 s.*with a password$/);
    answers.set("/token", (response) => void response.writeHead(200).write("{"));
    assertMatch(await refusal(), /^unavailable/);

    answers.set("/token", tokens(good));
    const described = "/.well-known/openid-configuration";
    for (
      const wrong of [
        { issuer: "https://other.example" },
        { token_endpoint: "http://192.0.2.1/token" },
        { jwks_uri: "file:///etc/passwd" },
        { token_endpoint: undefined },
      ]
    ) {
      answers.set(described, asJson({ ...description(issuer), ...wrong }));
      assertMatch(await refusal(), /^unauthenticated/, JSON.stringify(wrong));
    }
    const provider = new IdentityProvider(providerOptions(issuer), new SystemClock());
    answers.set(described, asJson({ ...description(issuer), authorization_endpoint: "javascript:alert(1)" }));
    const { message } = SvcError.from(
      await provider.addressFor(proof).then(() => new Error("none"), (one) => one),
    );
    assertMatch(message, /authorization_endpoint is "javascript:alert\(1\)"/);
  } finally {
    await hostile.close();
  }
  assertMatch(await refusal(), /^unavailable: Example does not answer/);
  for (
    const wrong of [
      "http://accounts.example.com",
      "ftp://x",
      "",
      "https://u:p@x",
      "http://localhost.evil.example",
    ]
  ) {
    assertThrows(
      () => new IdentityProvider(providerOptions(wrong), new SystemClock()),
      SvcError,
      "the issuer",
    );
  }
});
