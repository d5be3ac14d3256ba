/**
 * What the pages below `/account/` share: their requests and answers, the session of a request, and its cookie.
 */

import { type Code, messageOf, SvcError } from "../../../base/error.ts";
import { bytesUpTo } from "../../../base/files/byte_reader.ts";
import { fieldValue } from "../../../wire/port/exchange.ts";
import { jsonAnswer } from "../../../wire/port/routes.ts";
import { isFromOwnPage } from "../../../wire/port/sites.ts";
import { addressOf } from "../../../wire/auth/rate_limit.ts";
import type { CloudContext } from "../../access/context.ts";
import type { Sql } from "../../store/store.ts";
import type { StoredAccount } from "../../accounts/accounts.ts";
import { type AccountSession, PersonSessions, SESSION_SEEN_MS } from "../../accounts/sessions.ts";
import type { RouteAnswer, RouteRequest } from "../../../wire/port/route.ts";

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

/** The fields of a request, and its origin. */
export interface Asked {
  readonly request: RouteRequest;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface Reply {
  readonly value: unknown;
  readonly cookie?: string;
}

export type AccountPage = (asked: Asked) => Promise<Reply>;

/** Starts a session here, after `before` in the same transaction. */
export async function signedIn(
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
  const kind = action === "ChangePassword" ? "key" : "account";
  const opener = await cloud.audit.change(actor, { kind, id: account.id }, async (sql, nowMs) => {
    await before?.(sql);
    return await new PersonSessions(sql).begin(account.id, place, nowMs, nowMs + lifeS * 1000);
  });
  return {
    value: { account: shownAccount(account) },
    cookie: cookieOf(request, opener, stays ? lifeS : undefined),
  };
}

/** Ends the browser's former session, because somebody else may have planted it. */
export async function endFormer(cloud: CloudContext, asked: Asked): Promise<(sql: Sql) => Promise<void>> {
  const former = await requireSession(cloud, asked).catch(() => undefined);
  return async (sql) => {
    if (former) await new PersonSessions(sql).end(former.accountId, former.id).catch(() => {});
  };
}

/**
 * The session of the request's cookie. Throws `unauthenticated`, also for a tab that shows another person (`accountId`)
 * than the one who has signed in in this browser since.
 */
export async function requireSession(cloud: CloudContext, asked: Asked): Promise<AccountSession> {
  const session = await openSession(cloud, asked);
  if (!session) throw new SvcError("unauthenticated", "you are not signed in, or the session has ended");
  if (isShownBy(asked, session)) return session;
  throw new SvcError("unauthenticated", "somebody else has signed in in this browser: load the page again");
}

/** Whether a session is of the person whom the asking tab shows. */
export function isShownBy({ body }: Asked, { accountId }: AccountSession): boolean {
  return typeof body.accountId !== "string" || body.accountId === accountId;
}

/** The session of the request's cookie, whoever it is of. */
export async function openSession(
  { store, clock }: CloudContext,
  { request }: Asked,
): Promise<AccountSession | undefined> {
  const nowMs = clock.nowMs();
  // Without TLS anybody may have planted a cookie of the same name: the one that opens a session counts.
  for (const opener of cookiesOf(request, COOKIE)) {
    const session = await new PersonSessions(store).opened(opener, nowMs);
    if (!session) continue;

    if (nowMs - session.seenMs >= SESSION_SEEN_MS) {
      await store.transaction((sql) => new PersonSessions(sql).saw(session.id, nowMs));
    }
    return session;
  }
  return undefined;
}

/** Limit of the cookies of one name that are tried. */
const COOKIES_MAX = 4;

/** A browser takes a cookie of such a name only from this very host, over TLS, and for all of its pages. */
export const OWN_HOST = "__Host-";

/** The values of the cookies of one name; over TLS of those alone that no subdomain and nobody on the way can plant. */
export function cookiesOf(request: RouteRequest, cookie: string): string[] {
  const names = isOverTls(request) ? [OWN_HOST + cookie] : [OWN_HOST + cookie, cookie];
  const all = request.fields.filter(([name]) => name === "cookie").flatMap(([, value]) => value.split(";"));
  const pairs = all.map((one) => one.trim());
  const own = names.flatMap((name) =>
    pairs.filter((one) => one.startsWith(`${name}=`)).map((one) => one.slice(name.length + 1))
  );
  return own.slice(0, COOKIES_MAX);
}

export function cookieOf(
  request: RouteRequest,
  opener: string,
  maxAgeS: number | undefined,
  cookie = COOKIE,
): string {
  const isSecure = isOverTls(request);
  return [
    `${isSecure ? OWN_HOST : ""}${cookie}=${opener}`,
    `Path=${isSecure ? "/" : ACCOUNT_PAGES.slice(0, -1)}`,
    "HttpOnly",
    "SameSite=Strict",
    ...isSecure ? ["Secure"] : [],
    ...maxAgeS === undefined ? [] : [`Max-Age=${maxAgeS}`],
  ].join("; ");
}

/**
 * Whether the caller itself uses TLS, perhaps up to a proxy. A browser names the page's own address in `origin`; a
 * program that claims something else changes only its own cookies.
 */
function isOverTls({ fields, peer }: RouteRequest): boolean {
  const origin = fieldValue(fields, "origin");
  if (origin !== undefined && URL.canParse(origin)) return origin.startsWith("https:");
  const scheme = fieldValue(fields, "x-forwarded-proto") ?? "";
  return scheme.trimStart().startsWith("https") || (peer.addressed ?? peer.origin ?? "").startsWith("https:");
}

export async function accountAnswer(request: RouteRequest, page: AccountPage): Promise<RouteAnswer> {
  try {
    if (request.method !== "POST") {
      return answered(405, { error: `${request.path} answers POST, not ${request.method}` });
    }
    requireOwnPage(request);
    const { value, cookie } = await page({ request, body: await readBody(request) });
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
async function readBody({ fields, body }: RouteRequest): Promise<Asked["body"]> {
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

export function bodyText({ body }: Asked, field: string, charsMax = FIELD_CHARS_MAX): string {
  const value = body[field];
  if (typeof value === "string" && value.length <= charsMax) return value;
  throw new SvcError("invalid_argument", `${field}: wanted a text of at most ${charsMax} characters`);
}

function answered(status: number, value: unknown, fields: [string, string][] = []): RouteAnswer {
  return jsonAnswer(status, value, [["cache-control", "no-store"], ...fields]);
}

export function shownAccount({ id, email, name }: StoredAccount) {
  return { id, email, name };
}
