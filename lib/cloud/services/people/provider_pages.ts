/**
 * Sign-in at an identity provider: the pages by which a person goes there and comes back.
 *
 * The provider sends the browser to `provider-return`, which changes nothing and only hands on what it was given to the
 * fleet's page. That page asks for `provider-finish`, as for every other page here: with the cookies that only its own
 * site's requests carry. So another site can begin or finish nothing.
 */

import { SvcError } from "../../../base/error.ts";
import { escapedLine } from "../../../base/escape.ts";
import { addressOf } from "../../../wire/auth/rate_limit.ts";
import { textAnswer } from "../../../wire/port/routes.ts";
import type { Actor } from "../../access/audit.ts";
import { Keys, newKeySecret } from "../../access/keys.ts";
import type { ServiceContext } from "../context.ts";
import type { Sql } from "../../store/store.ts";
import {
  type AccountPage,
  type Asked,
  bodyText,
  cookieOf,
  cookiesOf,
  endFormer,
  type Reply,
  requireSession,
  shownAccount,
  signedIn,
} from "./account_page.ts";
import { Accounts } from "../../accounts/accounts.ts";
import { AttemptLimit } from "../../accounts/attempt_limit.ts";
import { giveRoles, Invitations } from "../../accounts/invitations.ts";
import { IdentityProvider, type ProviderPerson, RETURN_PAGE } from "../../accounts/provider.ts";
import { ProviderLinks } from "../../accounts/provider_links.ts";
import { type ProviderVisit, ProviderVisits, VISIT_MS, visitProof } from "../../accounts/provider_visits.ts";
import { PersonSessions } from "../../accounts/sessions.ts";
import type { PasswordCheck } from "../../accounts/sign_in.ts";
import type { Route } from "../../../wire/port/route.ts";

const COOKIE = "svc-provider";
/** Limit of the answer that the provider sends by the browser. */
const QUERY_CHARS_MAX = 6_000;
const RETURN_TO_CHARS_MAX = 500;
/** A view of the fleet's page; nothing else can follow `#/`. */
const RETURN_TO = /^#\/[\w./%~-]*$/;

export function providerPages(
  cloud: ServiceContext,
  check: PasswordCheck,
): { readonly [name: string]: AccountPage } {
  const { store, provider } = cloud;
  return {
    /** Whether there is a provider, and for a person who has signed in, whether the account is linked with it. */
    provider: async (asked) => {
      if (!provider) return { value: { name: null } };
      const session = await requireSession(cloud, asked).catch(() => undefined);
      if (!session) return { value: { name: provider.name } };
      const isLinked = await new ProviderLinks(store).isLinked(session.accountId, provider.issuer);
      const hasPassword = await new Accounts(store).hasPassword(session.accountId);
      return { value: { name: provider.name, isLinked, hasPassword } };
    },
    ...provider ? visitPages(new ProviderSignIn(cloud, provider, check)) : {},
  };
}

function visitPages(visits: ProviderSignIn): { readonly [name: string]: AccountPage } {
  return {
    "provider-begin": (asked) => visits.begin(asked),
    "provider-finish": (asked) => visits.finish(asked),
    "provider-unlink": (asked) => visits.unlink(asked),
  };
}

/** The page to which the provider sends people: it leads to the fleet's page, and nowhere else. */
export const providerReturn: ReadonlyMap<string, Route> = new Map([[
  RETURN_PAGE,
  ({ method, path, query }) => {
    if (method !== "GET") return textAnswer(405, `${path} answers GET, not ${method}`);
    const given = query.toString();
    if (given.length > QUERY_CHARS_MAX) return textAnswer(414, "the provider's answer is too long");
    return {
      ...textAnswer(303, "on to the fleet's page"),
      fields: [
        ["location", `/#/provider/${encodeURIComponent(given)}`],
        ["cache-control", "no-store"],
        ["referrer-policy", "no-referrer"],
      ],
    };
  },
]]);

/** The visits of people at the provider. */
class ProviderSignIn {
  readonly #attempts: AttemptLimit;

  constructor(
    private readonly cloud: ServiceContext,
    private readonly provider: IdentityProvider,
    private readonly check: PasswordCheck,
  ) {
    this.#attempts = new AttemptLimit(cloud, "SignInByProvider");
  }

  /** Begins a visit; the answer has the address at the provider. */
  async begin(asked: Asked): Promise<Reply> {
    const { body, request } = asked;
    const { store, clock } = this.cloud;
    const address = addressOf(request.peer.remoteAddress);
    await this.#attempts.requireLeft(address);
    const returnTo = typeof body.returnTo === "string" ? body.returnTo : "#/";
    if (returnTo.length > RETURN_TO_CHARS_MAX || !RETURN_TO.test(returnTo)) {
      throw new SvcError("invalid_argument", "returnTo: wanted a view of this page, such as #/machine/ID");
    }
    const visit = {
      ...await this.#purpose(asked),
      issuer: this.provider.issuer,
      name: body.name === undefined ? "" : bodyText(asked, "name"),
      returnTo,
      stays: body.stays === true,
      address,
    };
    const opener = await store.transaction((sql) => new ProviderVisits(sql).begin(visit, clock.nowMs()));
    const url = await this.provider.addressFor(visitProof(opener)!);
    return { value: { url }, cookie: cookieOf(request, opener, VISIT_MS / 1000, COOKIE) };
  }

  /** Ends a visit with the provider's answer: signs in, accepts the invitation, or links the account. */
  async finish(asked: Asked): Promise<Reply> {
    const { store, clock } = this.cloud;
    const query = new URLSearchParams(bodyText(asked, "query", QUERY_CHARS_MAX));
    const address = addressOf(asked.request.peer.remoteAddress);
    await this.#attempts.requireLeft(address);
    const [opener = ""] = cookiesOf(asked.request, COOKIE);
    const proof = visitProof(opener);
    // What belongs to another visit neither ends this one nor reaches the provider.
    const isOwn = proof !== undefined && query.get("state") === proof.state;
    const visit = isOwn
      ? await store.transaction((sql) => new ProviderVisits(sql).end(opener, clock.nowMs()))
      : undefined;
    if (!proof || !visit || visit.issuer !== this.provider.issuer) {
      throw new SvcError(
        "unauthenticated",
        `this browser has not begun this sign-in at ${this.provider.name}, or more than ten minutes ago, or has ` +
          "finished it: begin again",
      );
    }
    const person = await this.provider.fetchPerson(query, proof);
    const { value, ...reply } = await this.#enter(asked, visit, person);
    this.#attempts.giveBack(address, 2);
    return { value: { ...value as object, returnTo: visit.returnTo }, ...reply };
  }

  /** Ends the link of the account, and all other sessions, because the link may have opened them. */
  async unlink(asked: Asked): Promise<Reply> {
    const { id, accountId } = await requireSession(this.cloud, asked);
    const account = await new Accounts(this.cloud.store).get(accountId);
    if (!await new Accounts(this.cloud.store).hasPassword(accountId)) {
      throw new SvcError(
        "failed_precondition",
        "the account has no password: without the link nobody could sign in. svc-cloud account reset makes a link " +
          "for a password",
      );
    }
    await this.check.check(account.email, bodyText(asked, "password"), asked.request.peer);
    const secret = await newKeySecret();
    const actor = { who: accountId, action: "UnlinkProvider" };
    await this.cloud.audit.change(actor, { kind: "key", id: accountId }, async (sql) => {
      await new ProviderLinks(sql).unlink(accountId, this.provider.issuer);
      await new PersonSessions(sql).endOthers(accountId, id);
      await new Keys(sql).rotate(accountId, secret);
    });
    return { value: {} };
  }

  async #purpose(asked: Asked): Promise<Pick<ProviderVisit, "sessionId" | "invitationId">> {
    const { store, clock } = this.cloud;
    const purpose = asked.body.purpose ?? "sign-in";
    if (purpose === "sign-in") return { sessionId: null, invitationId: null };
    if (purpose === "invitation") {
      const invitation = await new Invitations(store).opened(bodyText(asked, "link"), clock.nowMs());
      if (invitation.organizationId !== null) return { sessionId: null, invitationId: invitation.id };
      throw new SvcError("failed_precondition", "the link sets a new password, which the provider cannot");
    }
    if (purpose !== "link") {
      throw new SvcError("invalid_argument", "purpose: wanted sign-in, invitation or link");
    }
    const { id, accountId } = await requireSession(this.cloud, asked);
    const accounts = new Accounts(store);
    // A session that somebody has left open does not become a lasting way in.
    if (await accounts.hasPassword(accountId)) {
      const { email } = await accounts.get(accountId);
      await this.check.check(email, bodyText(asked, "password"), asked.request.peer);
    }
    return { sessionId: id, invitationId: null };
  }

  async #enter(asked: Asked, visit: ProviderVisit, person: ProviderPerson): Promise<Reply> {
    if (visit.sessionId !== null) return await this.#link(asked, visit.sessionId, person);
    if (visit.invitationId !== null) return await this.#accept(asked, visit, person);
    const accountId = await new ProviderLinks(this.cloud.store).findAccount(person);
    if (accountId === undefined) return await this.#refuse(asked, person);
    return await this.#signIn(asked, visit, accountId, person);
  }

  async #signIn(asked: Asked, visit: ProviderVisit, accountId: string, person: ProviderPerson) {
    const account = await new Accounts(this.cloud.store).get(accountId);
    const endsFormer = await endFormer(this.cloud, asked);
    const stayed = { ...asked, body: { ...asked.body, stays: visit.stays } };
    const before = async (sql: Sql) => {
      const present = await new ProviderLinks(sql).findAccount(person);
      if (present !== accountId) throw new SvcError("unauthenticated", "the link with the account has ended");
      await endsFormer(sql);
    };
    return await signedIn(this.cloud, stayed, account, before, "SignInByProvider");
  }

  async #link(asked: Asked, sessionId: string, person: ProviderPerson): Promise<Reply> {
    const { id, accountId } = await requireSession(this.cloud, asked);
    if (id !== sessionId) {
      throw new SvcError("unauthenticated", "another session than this one has asked for the link");
    }
    const actor = { who: accountId, action: "LinkProvider" };
    await this.cloud.audit.change(
      actor,
      { kind: "account", id: accountId },
      (sql, nowMs) => new ProviderLinks(sql).link(accountId, person, nowMs),
    );
    return { value: { account: shownAccount(await new Accounts(this.cloud.store).get(accountId)) } };
  }

  /** The link of the invitation decides which account it is for, as with a password. */
  async #accept(asked: Asked, visit: ProviderVisit, person: ProviderPerson): Promise<Reply> {
    const { store, clock, audit, limits } = this.cloud;
    const { organizationId, email } = await new Invitations(store).valid(visit.invitationId!, clock.nowMs());
    const secret = await newKeySecret();
    const actor: Actor = { who: email, action: "AcceptInvitationByProvider" };
    const accountId = await audit.change(
      actor,
      { kind: "organization", id: organizationId! },
      async (sql, nowMs) => {
        const invitation = await new Invitations(sql).valid(visit.invitationId!, nowMs);
        await new Invitations(sql).delete(invitation.id);
        const id = await this.#accountFor(sql, invitation.email, person) ??
          await new Accounts(sql).create({ email: invitation.email, name: visit.name, secret }, nowMs);
        await new ProviderLinks(sql).link(id, person, nowMs);
        await giveRoles(sql, limits, id, invitation);
        return id;
      },
    );
    return await this.#signIn(asked, visit, accountId, person);
  }

  /** The account of an address, which must be this person's already. */
  async #accountFor(sql: Sql, email: string, person: ProviderPerson): Promise<string | undefined> {
    const linked = await new ProviderLinks(sql).findAccount(person);
    const present = await new Accounts(sql).byEmail(email);
    if (linked !== present?.id) {
      const { name } = this.provider;
      throw new SvcError(
        "failed_precondition",
        present
          ? `${email} has an account that is not linked with this person of ${name}: accept with its password, and ` +
            "link it in the view of the account"
          : `this person of ${name} has an account with another address: ask for an invitation to that one`,
      );
    }
    return linked;
  }

  async #refuse({ request }: Asked, { email, subject }: ProviderPerson): Promise<never> {
    const { name } = this.provider;
    const who = `address ${addressOf(request.peer.remoteAddress)}`;
    const shownPerson = escapedLine(email ?? subject);
    await this.cloud.audit.refused({ who, action: "SignInByProvider" }, [{ kind: "key", id: shownPerson }]);
    throw new SvcError(
      "permission_denied",
      `${
        email === undefined ? `this person of ${name}` : `${shownPerson} of ${name}`
      } has no account here: accept ` +
        "an invitation, or sign in with your password and link the account with it",
    );
  }
}
