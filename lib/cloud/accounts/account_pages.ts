/**
 * Sign-in of people in a browser: the pages below `/account/`, which accept and return JSON.
 *
 * A session's secret is in a cookie that no script reads and no other site's request carries (`HttpOnly`,
 * `SameSite=Strict`). The cookie opens only these pages. Calls need a token, which `/account/token` issues for the
 * cookie, so a request from another site would have no effect even if a browser sent the cookie with it. Requests from
 * other sites are refused anyway.
 */

import { type Code, messageOf, SvcError } from "../../base/error.ts";
import { bytesUpTo } from "../../base/files/byte_reader.ts";
import { fieldValue } from "../../wire/port/exchange.ts";
import { jsonAnswer, type Route, type RouteAnswer, type RouteRequest } from "../../wire/port/routes.ts";
import { isFromOwnPage } from "../../wire/port/sites.ts";
import type { Auth } from "../../wire/auth/auth.ts";
import { addressOf } from "../../wire/auth/rate_limit.ts";
import type { CloudContext } from "../context.ts";
import { Keys, newKeySecret, organizationOf } from "../access/keys.ts";
import { requireQuota } from "../access/quota.ts";
import { Fleet } from "../fleet/fleet.ts";
import type { Identify } from "../packages/downloads.ts";
import type { Sql } from "../store/store.ts";
import { Accounts, checkedEmail, type StoredAccount } from "./accounts.ts";
import { type Invitation, invitationPath, Invitations } from "./invitations.ts";
import { newPasswordHash } from "./passwords.ts";
import { type AccountSession, PersonSessions, SESSION_SEEN_MS } from "./sessions.ts";
import { PasswordCheck } from "./sign_in.ts";

export const ACCOUNT_PAGES = "/account/";
const COOKIE = "svc-session";
const DAY_S = 24 * 3600;
/** Longest duration of a session that ends with the browser. */
const SHORT_S = DAY_S / 2;
const BODY_MAX = 16 * 1024;
const STATUS: { readonly [C in Code]?: number } = {
  unauthenticated: 401,
  permission_denied: 403,
  not_found: 404,
  already_exists: 409,
  invalid_argument: 400,
  failed_precondition: 409,
  resource_exhausted: 429,
  unavailable: 503,
};

interface AccountPageParts {
  readonly guard: Pick<Auth, "issue">;
  readonly identify: Identify;
}

/** The fields of a request, and its origin. */
interface Asked {
  readonly request: RouteRequest;
  readonly body: Readonly<Record<string, unknown>>;
}

interface Reply {
  readonly value: unknown;
  readonly cookie?: string;
}

type Page = (asked: Asked) => Promise<Reply>;

export function accountPages(
  cloud: CloudContext,
  guard: AccountPageParts["guard"],
  identify: Identify,
): Map<string, Route> {
  const parts = { guard, identify };
  const check = new PasswordCheck(cloud);
  const pages: { readonly [name: string]: Page } = {
    ...sessionPages(cloud, parts, check),
    ...invitationPages(cloud, parts, check),
  };
  const routes = Object.entries(pages).map(([name, page]) =>
    [`${ACCOUNT_PAGES}${name}`, (request: RouteRequest) => answer(request, page)] as const
  );
  return new Map(routes);
}

function sessionPages(
  cloud: CloudContext,
  { guard }: AccountPageParts,
  check: PasswordCheck,
): { readonly [name: string]: Page } {
  const { store, clock, audit } = cloud;
  return {
    "sign-in": async (asked) => {
      const account = await check.check(text(asked, "email"), text(asked, "password"), asked.request.peer);
      // The browser's former session ends, because somebody else may have planted it.
      const former = await sessionOf(cloud, asked).catch(() => undefined);
      return await signedIn(cloud, asked, account, async (sql) => {
        if (former) await new PersonSessions(sql).end(former.accountId, former.id).catch(() => {});
      });
    },
    token: async (asked) => {
      const session = await sessionOf(cloud, asked);
      const account = await new Accounts(store).get(session.accountId);
      return {
        value: {
          token: guard.issue(account.id, session.generation),
          account: shown(account),
          sessionId: session.id,
          untilMs: session.untilMs,
        },
      };
    },
    "sign-out": async (asked) => {
      const session = await sessionOf(cloud, asked).catch(() => undefined);
      if (session) {
        const actor = { who: session.accountId, action: "SignOut" };
        const on = { kind: "account", id: session.accountId } as const;
        await audit.change(actor, on, (sql) => new PersonSessions(sql).end(session.accountId, session.id));
      }
      return { value: {}, cookie: cookieOf(asked.request, "", 0) };
    },
    sessions: async (asked) => {
      const { id, accountId } = await sessionOf(cloud, asked);
      const all = await new PersonSessions(store).of(accountId, clock.nowMs());
      return { value: { sessions: all.map((one) => ({ ...shownSession(one), isThis: one.id === id })) } };
    },
    ...endingPages(cloud, check),
  };
}

/** The pages that end sessions of a person. */
function endingPages(cloud: CloudContext, check: PasswordCheck): { readonly [name: string]: Page } {
  const { store, audit } = cloud;
  return {
    /** Ends one of the person's sessions; without an id, all except this one. */
    "end-session": async (asked) => {
      const { id, accountId } = await sessionOf(cloud, asked);
      const wanted = typeof asked.body.id === "string" ? asked.body.id : undefined;
      const secret = await newKeySecret();
      const actor = { who: accountId, action: "EndSession" };
      // The user of the session may hold tokens for machines, which end with the account's key.
      await audit.change(actor, { kind: "key", id: accountId }, async (sql, nowMs) => {
        const sessions = new PersonSessions(sql);
        const all = await sessions.of(accountId, nowMs);
        const ended = wanted === undefined
          ? all.filter((one) => one.id !== id).map((one) => one.id)
          : [wanted];
        for (const one of ended) await sessions.end(accountId, one);
        await new Keys(sql).rotate(accountId, secret);
      });
      const isThis = wanted === id;
      return { value: {}, ...isThis && { cookie: cookieOf(asked.request, "", 0) } };
    },
    /** Sets another password: all sessions end, and a new one starts here. */
    password: async (asked) => {
      const { accountId } = await sessionOf(cloud, asked);
      const account = await new Accounts(store).get(accountId);
      await check.check(account.email, text(asked, "current"), asked.request.peer);
      const hash = await newPasswordHash(text(asked, "password"), account);
      const secret = await newKeySecret();
      return await signedIn(
        cloud,
        asked,
        account,
        (sql) => new Accounts(sql).setPassword(accountId, hash, secret),
        "ChangePassword",
      );
    },
  };
}

function invitationPages(
  cloud: CloudContext,
  { identify }: AccountPageParts,
  check: PasswordCheck,
): { readonly [name: string]: Page } {
  const { store, clock, audit, access, limits } = cloud;
  return {
    /** The purpose of a link. */
    invitation: async (asked) => {
      const { email, organizationId } = await new Invitations(store).opened(
        text(asked, "link"),
        clock.nowMs(),
      );
      const organization = organizationId && (await new Fleet(store).organization(organizationId)).name;
      const hasAccount = await new Accounts(store).byEmail(email) !== undefined;
      return { value: { email, organization, hasAccount } };
    },
    /** Uses a link: creates the account, signs in to the existing one, or replaces its password. */
    accept: async (asked) => {
      const opener = text(asked, "link");
      const { email, organizationId } = await new Invitations(store).opened(opener, clock.nowMs());
      const present = await new Accounts(store).byEmail(email);
      const password = text(asked, "password");
      const isReset = organizationId === null;
      if (isReset && !present) throw new SvcError("not_found", `${email} has no account any more`);
      if (present && !isReset) await check.check(email, password, asked.request.peer);
      const hash = present && !isReset ? undefined : await newPasswordHash(password, { email });
      const secret = await newKeySecret();
      const name = typeof asked.body.name === "string" ? asked.body.name : "";
      const use = async (sql: Sql, nowMs: number) => {
        // A link can be used only once.
        const invitation = await new Invitations(sql).opened(opener, nowMs);
        await new Invitations(sql).delete(invitation.id);
        const accounts = new Accounts(sql);
        const id = present?.id ?? await accounts.create({ email, name, password: hash, secret }, nowMs);
        if (present && hash) await accounts.setPassword(id, hash, secret);
        await giveRoles(sql, id, invitation);
        await requireQuota(sql, limits, "rolesPerKey", id);
        if (organizationId) await requireQuota(sql, limits, "rolesPerOrganization", organizationId);
        return id;
      };
      const actor = { who: email, action: isReset ? "ResetPassword" : "AcceptInvitation" };
      const on = organizationId ? { kind: "organization", id: organizationId } as const : undefined;
      const id = await audit.change(actor, on ?? { kind: "key", id: present?.id ?? email }, use);
      return await signedIn(cloud, asked, await new Accounts(store).get(id));
    },
    /** A new link for an invitation, for an owner of the organization; a former link ends. */
    link: async (asked) => {
      const entity = await identify(asked.request.fields, asked.request.peer);
      const organizationId = text(asked, "organizationId");
      if (!await access.may(entity, "owner", { kind: "organization", id: organizationId })) {
        throw new SvcError(
          "permission_denied",
          "only an owner of the organization gets links of invitations",
        );
      }
      const email = checkedEmail(text(asked, "email"));
      const actor = { who: entity, action: "CreateInvitationLink" };
      const { opener, invitation } = await audit.change(
        actor,
        { kind: "organization", id: organizationId },
        (sql, nowMs) => new Invitations(sql).renew(organizationId, email, nowMs),
      );
      const link = `${await cloud.addresses.linkFor(asked.request.peer)}${invitationPath(opener)}`;
      return { value: { link, untilMs: invitation.untilMs } };
    },
  };
}

/** Grants the roles of an invitation, except those on resources that no longer belong to the organization. */
async function giveRoles(sql: Sql, accountId: string, { organizationId, grants }: Invitation): Promise<void> {
  for (const grant of grants) {
    const present = await organizationOf(sql, grant).catch(() => undefined);
    if (present === organizationId) await new Keys(sql).grant(accountId, grant);
  }
}

/** Starts a session here, after `before` in the same transaction. */
async function signedIn(
  cloud: CloudContext,
  { request, body }: Asked,
  account: StoredAccount,
  before?: (sql: Sql) => Promise<void>,
  action = "SignIn",
): Promise<Reply> {
  const stays = body.stays === true;
  const lifeS = stays ? cloud.limits.sessionDays * DAY_S : SHORT_S;
  const place = {
    address: addressOf(request.peer.remoteAddress),
    agent: fieldValue(request.fields, "user-agent") ?? "",
  };
  const actor = { who: account.id, action };
  const kind = action === "SignIn" ? "account" : "key";
  const opener = await cloud.audit.change(actor, { kind, id: account.id }, async (sql, nowMs) => {
    await before?.(sql);
    return await new PersonSessions(sql).begin(account.id, place, nowMs, nowMs + lifeS * 1000);
  });
  return { value: { account: shown(account) }, cookie: cookieOf(request, opener, stays ? lifeS : undefined) };
}

/** The session of the request's cookie. Throws `unauthenticated`. */
async function sessionOf({ store, clock }: CloudContext, { request }: Asked): Promise<AccountSession> {
  const nowMs = clock.nowMs();
  // A subdomain may have planted a cookie of the same name: the one that opens a session counts.
  for (const opener of cookiesOf(request)) {
    const session = await new PersonSessions(store).opened(opener, nowMs);
    if (!session) continue;

    if (nowMs - session.seenMs >= SESSION_SEEN_MS) {
      await store.transaction((sql) => new PersonSessions(sql).saw(session.id, nowMs));
    }
    return session;
  }
  throw new SvcError("unauthenticated", "you are not signed in, or the session has ended");
}

/** Limit of the cookies of one name that are tried. */
const COOKIES_MAX = 4;

function cookiesOf({ fields }: RouteRequest): string[] {
  const all = fields.filter(([name]) => name === "cookie").flatMap(([, value]) => value.split(";"));
  const own = all.map((one) => one.trim()).filter((one) => one.startsWith(`${COOKIE}=`));
  return own.slice(0, COOKIES_MAX).map((one) => one.slice(COOKIE.length + 1));
}

function cookieOf({ peer }: RouteRequest, opener: string, maxAgeS: number | undefined): string {
  const isSecure = (peer.addressed ?? peer.origin ?? "").startsWith("https:");
  return [
    `${COOKIE}=${opener}`,
    `Path=${ACCOUNT_PAGES.slice(0, -1)}`,
    "HttpOnly",
    "SameSite=Strict",
    ...isSecure ? ["Secure"] : [],
    ...maxAgeS === undefined ? [] : [`Max-Age=${maxAgeS}`],
  ].join("; ");
}

async function answer(request: RouteRequest, page: Page): Promise<RouteAnswer> {
  try {
    if (request.method !== "POST") {
      return answered(405, { error: `${request.path} answers POST, not ${request.method}` });
    }
    requireOwnPage(request);
    const { value, cookie } = await page({ request, body: await bodyOf(request) });
    return answered(200, value, cookie === undefined ? [] : [["set-cookie", cookie]]);
  } catch (thrown) {
    const { code } = SvcError.from(thrown);
    const status = STATUS[code] ?? 500;
    return answered(status, { error: messageOf(thrown), code });
  }
}

/** Throws `permission_denied` for requests from the pages of other sites. */
function requireOwnPage(request: RouteRequest): void {
  if (isFromOwnPage(request)) return;
  throw new SvcError("permission_denied", "people sign in on the page of this control plane alone");
}

/** JSON, which a form of another site cannot send. */
async function bodyOf({ fields, body }: RouteRequest): Promise<Asked["body"]> {
  const type = fieldValue(fields, "content-type") ?? "";
  if (!/^application\/json\b/i.test(type)) {
    throw new SvcError(
      "invalid_argument",
      `content type is "${type.slice(0, 100)}", wanted application/json`,
    );
  }
  const bytes = await bytesUpTo(body, BODY_MAX);
  if (!bytes) throw new SvcError("invalid_argument", `the request has more than ${BODY_MAX} bytes`);
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    if (typeof value === "object" && value !== null) return value as Asked["body"];
  } catch {
    // The same answer.
  }
  throw new SvcError("invalid_argument", "the request's body is no JSON object");
}

/** Limit of a field that people fill in. */
const FIELD_CHARS_MAX = 1000;

function text({ body }: Asked, field: string): string {
  const value = body[field];
  if (typeof value === "string" && value.length <= FIELD_CHARS_MAX) return value;
  throw new SvcError("invalid_argument", `${field}: wanted a text of at most ${FIELD_CHARS_MAX} characters`);
}

function answered(status: number, value: unknown, fields: [string, string][] = []): RouteAnswer {
  return jsonAnswer(status, value, [["cache-control", "no-store"], ...fields]);
}

function shown({ id, email, name }: StoredAccount) {
  return { id, email, name };
}

function shownSession({ id, createdMs, seenMs, untilMs, address, agent }: AccountSession) {
  return { id, createdMs, seenMs, untilMs, address, agent };
}
