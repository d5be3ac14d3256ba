/**
 * Sign-in of people in a browser: the pages below `/account/`, which accept and return JSON.
 *
 * A session's secret is in a cookie that no script reads and no other site's request carries (`HttpOnly`,
 * `SameSite=Strict`). The cookie opens only these pages. Calls need a token, which `/account/token` issues for the
 * cookie, so a request from another site would have no effect even if a browser sent the cookie with it. Requests from
 * other sites are refused anyway.
 */

import { SvcError } from "../../../base/error.ts";
import type { Auth } from "../../../wire/auth/auth.ts";
import type { ServiceContext } from "../context.ts";
import { Keys, newKeySecret } from "../../access/keys.ts";
import { Organizations } from "../../tenants/organizations.ts";
import type { Identify } from "../../packages/downloads.ts";
import type { Sql } from "../../store/store.ts";
import {
  ACCOUNT_PAGES,
  accountAnswer,
  type AccountPage,
  bodyText,
  cookieOf,
  endFormer,
  isShownBy,
  openSession,
  requireSession,
  shownAccount,
  signedIn,
} from "./account_page.ts";
import { Accounts, checkedEmail } from "../../accounts/accounts.ts";
import { giveRoles, invitationPath, Invitations } from "../../accounts/invitations.ts";
import { newPasswordHash } from "../../accounts/passwords.ts";
import { type AccountSession, PersonSessions } from "../../accounts/sessions.ts";
import { passkeyPages } from "./passkey_pages.ts";
import { providerPages, providerReturn } from "./provider_pages.ts";
import { PasswordCheck } from "../../accounts/sign_in.ts";
import type { Route, RouteRequest } from "../../../wire/port/route.ts";

interface AccountPageParts {
  readonly guard: Pick<Auth, "issue">;
  readonly identify: Identify;
}

export function accountPages(
  cloud: ServiceContext,
  guard: AccountPageParts["guard"],
  identify: Identify,
): Map<string, Route> {
  const parts = { guard, identify };
  const check = new PasswordCheck(cloud);
  const pages: { readonly [name: string]: AccountPage } = {
    ...sessionPages(cloud, parts, check),
    ...invitationPages(cloud, parts, check),
    ...passkeyPages(cloud, check),
    ...providerPages(cloud, check),
  };
  const routes = Object.entries(pages).map(([name, page]) =>
    [`${ACCOUNT_PAGES}${name}`, (request: RouteRequest) => accountAnswer(request, page)] as const
  );
  return new Map([...routes, ...cloud.provider ? providerReturn : []]);
}

function sessionPages(
  cloud: ServiceContext,
  { guard }: AccountPageParts,
  check: PasswordCheck,
): { readonly [name: string]: AccountPage } {
  const { store, clock, audit } = cloud;
  return {
    "sign-in": async (asked) => {
      const account = await check.check(
        bodyText(asked, "email"),
        bodyText(asked, "password"),
        asked.request.peer,
      );
      return await signedIn(cloud, asked, account, await endFormer(cloud, asked));
    },
    token: async (asked) => {
      const session = await requireSession(cloud, asked);
      const account = await new Accounts(store).get(session.accountId);
      return {
        value: {
          token: guard.issue(account.id, session.generation),
          account: shownAccount(account),
          sessionId: session.id,
          untilMs: session.untilMs,
        },
      };
    },
    "sign-out": async (asked) => {
      const session = await openSession(cloud, asked);
      if (session && !isShownBy(asked, session)) return { value: {} };
      if (session) {
        const actor = { who: session.accountId, action: "SignOut" };
        const on = { kind: "account", id: session.accountId } as const;
        await audit.change(actor, on, (sql) => new PersonSessions(sql).end(session.accountId, session.id));
      }
      return { value: {}, cookie: cookieOf(asked.request, "", 0) };
    },
    sessions: async (asked) => {
      const { id, accountId } = await requireSession(cloud, asked);
      const all = await new PersonSessions(store).of(accountId, clock.nowMs());
      return { value: { sessions: all.map((one) => ({ ...shownSession(one), isThis: one.id === id })) } };
    },
    ...endingPages(cloud, check),
  };
}

/** The pages that end sessions of a person. */
function endingPages(cloud: ServiceContext, check: PasswordCheck): { readonly [name: string]: AccountPage } {
  const { store, audit } = cloud;
  return {
    /** Ends one of the person's sessions; without an id, all except this one. */
    "end-session": async (asked) => {
      const { id, accountId } = await requireSession(cloud, asked);
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
      const { accountId } = await requireSession(cloud, asked);
      const account = await new Accounts(store).get(accountId);
      await check.check(account.email, bodyText(asked, "current"), asked.request.peer);
      const hash = await newPasswordHash(bodyText(asked, "password"), account);
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
  cloud: ServiceContext,
  { identify }: AccountPageParts,
  check: PasswordCheck,
): { readonly [name: string]: AccountPage } {
  const { store, clock, audit, access, limits } = cloud;
  return {
    /** The purpose of a link. */
    invitation: async (asked) => {
      const { email, organizationId } = await new Invitations(store).opened(
        bodyText(asked, "link"),
        clock.nowMs(),
      );
      const organization = organizationId && (await new Organizations(store).get(organizationId)).name;
      const hasAccount = await new Accounts(store).byEmail(email) !== undefined;
      return { value: { email, organization, hasAccount } };
    },
    /** Uses a link: creates the account, signs in to the existing one, or replaces its password. */
    accept: async (asked) => {
      const opener = bodyText(asked, "link");
      const { email, organizationId } = await new Invitations(store).opened(opener, clock.nowMs());
      const present = await new Accounts(store).byEmail(email);
      const password = bodyText(asked, "password");
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
        // Whoever has had the account may have linked it with somebody else, or added a passkey.
        if (isReset) await accounts.endOtherWays(id);
        await giveRoles(sql, limits, id, invitation);
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
      const organizationId = bodyText(asked, "organizationId");
      if (!await access.may(entity, "owner", { kind: "organization", id: organizationId })) {
        throw new SvcError(
          "permission_denied",
          "only an owner of the organization gets links of invitations",
        );
      }
      const email = checkedEmail(bodyText(asked, "email"));
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

function shownSession({ id, createdMs, seenMs, untilMs, address, agent }: AccountSession) {
  return { id, createdMs, seenMs, untilMs, address, agent };
}
