/**
 * Chains against people who sign in: other sites that call in their name or frame the page, planted sessions, mixed-up
 * answers of an identity provider and of passkeys, and ways that lead to another site.
 *
 * They are played at a control plane of their own, which has a provider, and a person who has signed in.
 */

import { RETURN_PAGE } from "../../../lib/cloud/accounts/provider.ts";
import { serveCloud, svcCloud } from "../../cloud/program.ts";
import { withDatabase } from "../../cloud/stores.ts";
import { AccountBrowser } from "../../support/account_browser.ts";
import {
  asJson,
  type HostileProvider,
  idToken,
  serveHostileProvider,
} from "../../support/hostile_provider.ts";
import { type Asked, type Lie, PasskeyDevice } from "../../support/passkey_device.ts";
import type { Chain } from "./chains.ts";
import { allServices } from "./requests.ts";

interface People {
  /** `http://host:port` */
  readonly url: string;
  readonly provider: HostileProvider;
  /** The browser in which the person has signed in. */
  readonly person: AccountBrowser;
}

const EVIL = "https://evil.example";
const PUBLIC_URL = "http://localhost:8080";
const CLIENT = "svc-cloud";
const EMAIL = "ann@example.com";
const PASSWORD = "correct horse battery";
const SESSION = "svc-session";
/** For calls that never answer. */
const CALL_MS = 2_000;
/** Far more than the chains try. */
const LIMITS = { wrong_keys_per_address: 10_000 };

export const SIGN_IN_CHAINS: readonly Chain[] = [{
  name: "other sites and other browsers act as a person who has signed in",
  play: () => playAtPeople(),
}];

const PARTS: readonly ((people: People) => Promise<string[]>)[] = [
  callFromOtherSites,
  callWithCookie,
  frameThePage,
  leadElsewhere,
  plantSession,
  mixUpProvider,
  mixUpPasskeys,
];

async function playAtPeople(): Promise<string[]> {
  const found: string[] = [];
  const provider = await serveHostileProvider();
  try {
    await withDatabase("sqlite", async ({ folder, flags }) => {
      const limits = `${folder}/limits.json`;
      await Deno.writeTextFile(limits, JSON.stringify(LIMITS));
      const oidc = ["--oidc-issuer", provider.issuer, "--oidc-client", CLIENT];
      const server = await serveCloud([...flags, "--public-url", PUBLIC_URL, "--limits", limits, ...oidc]);
      try {
        const first = new AccountBrowser(server.url);
        await first.ask("accept", { link: await invitation(flags), password: PASSWORD });
        for (const part of PARTS) {
          // What a part has ended does not keep the next one from looking.
          const person = new AccountBrowser(server.url);
          await person.ask("sign-in", { email: EMAIL, password: PASSWORD });
          if (await person.email() !== EMAIL) throw new Error("the person has not signed in");
          const loot = await part({ url: server.url, provider, person });
          found.push(...loot.map((one) => `${part.name}: ${one}`));
        }
      } finally {
        await server.stop();
      }
    });
  } finally {
    await provider.close();
  }
  return found;
}

/** The secret of an invitation of an owner. */
async function invitation(flags: readonly string[]): Promise<string> {
  const { id } = JSON.parse(await svcCloud("org", "create", "people", "--json", ...flags));
  const on = ["--role", "owner", "--on", `organization:${id}`, "--address", PUBLIC_URL];
  const { link } = JSON.parse(await svcCloud("account", "invite", EMAIL, ...on, "--json", ...flags));
  return link.split("/").at(-1);
}

/** All pages below `/account/` that the fleet's page asks, by the type with which it asks them. */
async function accountPageNames(): Promise<string[]> {
  const path = new URL("../../../lib/web/fleet/account/account_pages.ts", import.meta.url);
  const [, answers] = /interface AccountAnswers \{\n(.*?)\n\}/s.exec(await Deno.readTextFile(path))!;
  return [...answers.matchAll(/^ {2}"?([\w-]+)"?: /gm)].map(([, name]) => name);
}

/** Forged requests: from other sites, from a frame without an origin, and as forms send them. */
const FORGERIES: readonly Record<string, string>[] = [
  { origin: EVIL, "sec-fetch-site": "cross-site" },
  { origin: "http://sub.localhost:8080", "sec-fetch-site": "same-site" },
  { origin: EVIL },
  { origin: "null" },
  { origin: EVIL, "content-type": "text/plain" },
  { "content-type": "text/plain;charset=UTF-8", "sec-fetch-site": "none" },
  { "content-type": "application/x-www-form-urlencoded" },
];

async function callFromOtherSites({ url, person }: People): Promise<string[]> {
  const found: string[] = [];
  const names = await accountPageNames();
  if (names.length < 15) found.push(`only ${names.length} pages are known`);
  const cookie = `${SESSION}=${person.cookies.get(SESSION)}`;
  const before = await sessionCount(person);
  const body = JSON.stringify({
    email: EMAIL,
    password: PASSWORD,
    current: PASSWORD,
    name: "x",
    purpose: "link",
  });
  for (const name of names) {
    for (const forged of FORGERIES) {
      const headers = { "content-type": "application/json", cookie, ...forged };
      const answer = await fetch(`${url}/account/${name}`, { method: "POST", headers, body });
      const text = await answer.text();
      const isRefused = [400, 403].includes(answer.status) && answer.headers.getSetCookie().length === 0;
      if (!isRefused) found.push(`${name} with ${JSON.stringify(forged)}: ${answer.status} ${text}`);
      if (answer.headers.has("access-control-allow-origin")) found.push(`${name} may be read by ${EVIL}`);
    }
    const got = await fetch(`${url}/account/${name}`, { headers: { cookie } });
    await got.body?.cancel();
    if (got.status !== 405) found.push(`GET ${name}: ${got.status}`);
  }
  if (await sessionCount(person) !== before) found.push("a session has ended or begun");
  return found;
}

async function sessionCount(person: AccountBrowser): Promise<number> {
  const { value } = await person.ask("sessions");
  return (value.sessions as unknown[] | undefined)?.length ?? 0;
}

/** The cookie opens no call of the control plane. */
async function callWithCookie({ url, person }: People): Promise<string[]> {
  const cookie = `${SESSION}=${person.cookies.get(SESSION)}`;
  const statusOf = async (path: string, more: Record<string, string>) => {
    const headers = { "content-type": "application/grpc-web+proto", origin: url, ...more };
    const signal = AbortSignal.timeout(CALL_MS);
    try {
      const answer = await fetch(`${url}/${path}`, {
        ...{ method: "POST", headers, signal },
        body: new Uint8Array(5),
      });
      const text = await answer.text();
      return answer.headers.get("grpc-status") ?? /grpc-status: ?(\d+)/.exec(text)?.[1];
    } catch {
      return "silent";
    }
  };
  const services = (await allServices()).filter(({ typeName }) => typeName.includes(".app."));
  const paths = services.flatMap(({ typeName, methods }) => methods.map(({ name }) => `${typeName}/${name}`));
  const found = paths.length < 150 ? [`only ${paths.length} calls are known`] : [];
  for (const path of paths) {
    const [bare, opened] = await Promise.all([statusOf(path, {}), statusOf(path, { cookie })]);
    if (opened !== bare) found.push(`${path} answers the cookie with ${opened}, without it ${bare}`);
  }
  return found;
}

async function frameThePage({ url, person }: People): Promise<string[]> {
  const found: string[] = [];
  const cookie = `${SESSION}=${person.cookies.get(SESSION)}`;
  for (const path of ["/", "/index.html", "/machine.html", "/#/account", `${RETURN_PAGE}?code=1&state=2`]) {
    const answer = await fetch(url + path, { headers: { cookie, "sec-fetch-dest": "iframe" } });
    await answer.body?.cancel();
    const isPage = (answer.headers.get("content-type") ?? "").startsWith("text/html");
    const policy = answer.headers.get("content-security-policy") ?? "";
    if (isPage && !/frame-ancestors 'none'(;|$)/.test(policy)) found.push(`${path} may be framed: ${policy}`);
  }
  return found;
}

async function leadElsewhere({ url, person }: People): Promise<string[]> {
  const found: string[] = [];
  const ways = [
    EVIL,
    "//evil.example",
    "/\\evil.example",
    "#/\\evil.example",
    "#/a\nb",
    "#//evil.example?x",
    "#/@evil.example",
    "javascript:alert(1)",
    "data:text/html,x",
    " #/x",
  ];
  for (const returnTo of ways) {
    const { status } = await person.ask("provider-begin", { returnTo });
    if (status !== 400) found.push(`returnTo ${JSON.stringify(returnTo)}: ${status}`);
  }
  const queries = ["next=https://evil.example", "code=1&state=%0d%0aset-cookie:x=1", "//evil.example", "#/x"];
  const paths = [
    ...queries.map((query) => `${RETURN_PAGE}?${query}`),
    "//evil.example/%2e%2e",
    "/%5cevil.example",
    "/account//evil.example",
    "/?returnTo=//evil.example",
  ];
  for (const path of paths) {
    const answer = await fetch(url + path, { redirect: "manual" });
    await answer.body?.cancel();
    const location = answer.headers.get("location");
    if (location !== null && !/^\/#\/provider\/[\w.*%+-]*$/.test(location)) {
      found.push(`${path}: ${location}`);
    }
    if (answer.headers.getSetCookie().length > 0) found.push(`${path} sets a cookie`);
  }
  return found;
}

async function plantSession({ url, person }: People): Promise<string[]> {
  const found: string[] = [];
  const signIn = { email: EMAIL, password: PASSWORD };
  // Texts that the attacker has chosen, and a session that the attacker has.
  const own = new AccountBrowser(url);
  await own.ask("sign-in", signIn);
  const chosen = `${crypto.randomUUID()}.${"A".repeat(43)}`;
  for (const planted of ["1", chosen, own.cookies.get(SESSION)!]) {
    const victim = new AccountBrowser(url);
    victim.cookies.set(SESSION, planted);
    const { status, cookies } = await victim.ask("sign-in", signIn);
    if (status !== 200 || victim.cookies.get(SESSION) === planted) found.push(`${planted} stays: ${status}`);
    if (!/; HttpOnly; SameSite=Strict/.test(cookies.join())) found.push(`the cookie is ${cookies.join()}`);
    const attacker = new AccountBrowser(url);
    attacker.cookies.set(SESSION, planted);
    if (await attacker.email() !== undefined) found.push(`${planted} opens the account`);
    await victim.ask("sign-out");
    if (await victim.email() !== undefined) found.push("a session outlives its end");
  }
  if (await person.email() !== EMAIL) found.push("another session of the person has ended");
  return found;
}

async function mixUpProvider({ url, provider }: People): Promise<string[]> {
  const found: string[] = [];
  const { issuer, answers, key } = provider;
  const begin = async (browser: AccountBrowser) => {
    const { value } = await browser.ask("provider-begin");
    const asked = new URL(String(value.url)).searchParams;
    const nowS = Math.floor(Date.now() / 1000);
    const claims = { iss: issuer, sub: "mallory", aud: CLIENT, iat: nowS, exp: nowS + 60 };
    const id_token = idToken({ ...claims, nonce: asked.get("nonce") }, key);
    answers.set("/token", asJson({ access_token: "a", token_type: "bearer", id_token }));
    return new URLSearchParams({ code: "c", state: asked.get("state")!, iss: issuer });
  };
  const finish = async (browser: AccountBrowser, query: URLSearchParams) =>
    (await browser.ask("provider-finish", { query: query.toString() })).status;
  const changed = (query: URLSearchParams, name: string, value?: string) => {
    const fields = new URLSearchParams(query);
    fields.delete(name);
    if (value !== undefined) fields.set(name, value);
    return fields;
  };
  const attempts: Readonly<Record<string, (query: URLSearchParams) => URLSearchParams>> = {
    "the answer of another issuer": (query) => changed(query, "iss", EVIL),
    "an answer without its issuer": (query) => changed(query, "iss"),
    "another state": (query) => changed(query, "state", crypto.randomUUID()),
    "an answer without a state": (query) => changed(query, "state"),
    "an answer without a code": (query) => changed(query, "code"),
  };
  for (const [name, change] of Object.entries(attempts)) {
    const browser = new AccountBrowser(url);
    const status = await finish(browser, change(await begin(browser)));
    if (status !== 401) found.push(`${name}: ${status}`);
  }

  // The attacker's answer in the victim's browser, which has begun a sign-in of its own.
  const [attacker, victim] = [new AccountBrowser(url), new AccountBrowser(url)];
  await begin(victim);
  const stolen = await begin(attacker);
  if (await finish(victim, stolen) !== 401) found.push("another browser's answer");
  // An honest answer proves who it is, and the person has no account here: the refusals above were for their lies.
  const honest = await finish(attacker, stolen);
  if (honest !== 403) found.push(`an honest answer: ${honest}`);
  if (await finish(attacker, stolen) !== 401) found.push("an answer works twice");

  // A token that was made for another visit, with another nonce.
  const former = await begin(attacker);
  const token = answers.get("/token")!;
  await begin(new AccountBrowser(url));
  if (answers.get("/token") === token) found.push("the provider answers the same twice");
  if (await finish(attacker, former) !== 401) found.push("the token of another visit");
  return found;
}

async function mixUpPasskeys({ url, person }: People): Promise<string[]> {
  const found: string[] = [];
  const device = new PasskeyDevice(PUBLIC_URL);
  const { value } = await person.ask("passkey-add", { name: "device", password: PASSWORD });
  const made = await person.ask("passkey-finish", { answer: device.create(value.options as Asked) });
  if (made.status !== 200) found.push(`an honest device: ${made.status}`);
  const begin = async (browser: AccountBrowser) =>
    (await browser.ask("passkey-sign-in")).value.options as Asked;
  const finish = async (browser: AccountBrowser, answer: object) =>
    (await browser.ask("passkey-finish", { answer })).status;
  const lies: readonly Lie[] = [
    { origin: EVIL },
    { rpId: "evil.example" },
    { challenge: "A".repeat(43) },
    { crossOrigin: true },
    { flags: 1 },
    { otherKey: true },
    { type: "webauthn.create" },
  ];
  for (const lie of lies) {
    const browser = new AccountBrowser(url);
    const status = await finish(browser, device.get(await begin(browser), lie));
    if (status !== 401) found.push(`${JSON.stringify(lie)}: ${status}`);
  }
  const [victim, attacker] = [new AccountBrowser(url), new AccountBrowser(url)];
  const answer = device.get(await begin(victim));
  await begin(attacker);
  if (await finish(attacker, answer) !== 401) found.push("another browser's answer");
  const honest = await finish(victim, answer);
  if (honest !== 200) found.push(`an honest answer: ${honest}`);
  if (await finish(victim, answer) !== 401) found.push("an answer works twice");
  return found;
}
