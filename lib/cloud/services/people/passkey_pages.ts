/**
 * Sign-in by passkey, and the passkeys of a person: the pages by which a browser gets a challenge and answers it.
 *
 * With an e-mail address, the browser gets the ids of the account's credentials. For an address without passkeys it gets
 * a made-up id, the same one each time, so that the answer does not show who has an account.
 */

import { createHmac, randomBytes } from "node:crypto";
import { messageOf, SvcError } from "../../../base/error.ts";
import { addressOf } from "../../../wire/auth/rate_limit.ts";
import { Keys, newKeySecret } from "../../access/keys.ts";
import type { CloudContext } from "../../access/context.ts";
import { checkedName } from "../../tenants/names.ts";
import { notedSetting, noteSetting } from "../../store/settings.ts";
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
import { Accounts, checkedEmail } from "../../accounts/accounts.ts";
import { AttemptLimit } from "../../accounts/attempt_limit.ts";
import {
  CHALLENGE_MS,
  challengeOf,
  type PasskeyChallenge,
  PasskeyChallenges,
} from "../../accounts/passkeys/challenges.ts";
import {
  checkedCreation,
  checkedUse,
  creationOptions,
  credentialIdOf,
  relyingPartyOf,
  requestOptions,
} from "../../accounts/passkeys/proof.ts";
import { type Passkey, Passkeys } from "../../accounts/passkeys/passkeys.ts";
import { PersonSessions } from "../../accounts/sessions.ts";
import type { PasswordCheck } from "../../accounts/sign_in.ts";

const COOKIE = "svc-passkey";
const ACTION = "SignInByPasskey";
/** The setting with which ids for addresses without passkeys are made up. */
const MADE_UP = "passkey_made_up";

export function passkeyPages(
  cloud: CloudContext,
  check: PasswordCheck,
): { readonly [name: string]: AccountPage } {
  const passkeys = new PasskeySignIn(cloud, check);
  return {
    passkeys: (asked) => passkeys.list(asked),
    "passkey-add": (asked) => passkeys.beginAdding(asked),
    "passkey-sign-in": (asked) => passkeys.beginSignIn(asked),
    "passkey-finish": (asked) => passkeys.finish(asked),
    "passkey-remove": (asked) => passkeys.remove(asked),
  };
}

class PasskeySignIn {
  readonly #attempts: AttemptLimit;

  constructor(private readonly cloud: CloudContext, private readonly check: PasswordCheck) {
    this.#attempts = new AttemptLimit(cloud, ACTION);
  }

  /** Where passkeys can be used, or why nowhere; and the passkeys of a person who has signed in. */
  async list(asked: Asked): Promise<Reply> {
    const { store, addresses } = this.cloud;
    let place: { origin: string | null; rpId?: string; reason?: string };
    try {
      const { id, origin } = relyingPartyOf(addresses, asked.request.peer);
      place = { origin, rpId: id };
    } catch (error) {
      place = { origin: null, reason: messageOf(error) };
    }
    const session = await requireSession(this.cloud, asked).catch(() => undefined);
    if (!session) return { value: place };
    const all = await new Passkeys(store).of(session.accountId);
    const hasPassword = await new Accounts(store).hasPassword(session.accountId);
    return { value: { ...place, hasPassword, passkeys: all.map(shownPasskey) } };
  }

  /** Begins to add a passkey to the account of the session. */
  async beginAdding(asked: Asked): Promise<Reply> {
    const { store, addresses } = this.cloud;
    const party = relyingPartyOf(addresses, asked.request.peer);
    const { id, accountId } = await requireSession(this.cloud, asked);
    const name = checkedName(bodyText(asked, "name").trim());
    const account = await new Accounts(store).get(accountId);
    // A session that somebody has left open does not become a lasting way in.
    if (await new Accounts(store).hasPassword(accountId)) {
      await this.check.check(account.email, bodyText(asked, "password"), asked.request.peer);
    }
    const present = await new Passkeys(store).of(accountId);
    return await this.#begin(
      asked,
      { origin: party.origin, sessionId: id, name, email: null, stays: false },
      (challenge) => creationOptions(party, challenge, account, present, CHALLENGE_MS),
    );
  }

  /** Begins to sign in: with any passkey of here, or with one of the account with an address. */
  async beginSignIn(asked: Asked): Promise<Reply> {
    const { addresses } = this.cloud;
    const { body, request } = asked;
    const party = relyingPartyOf(addresses, request.peer);
    await this.#attempts.requireLeft(addressOf(request.peer.remoteAddress));
    const email = body.email === undefined || body.email === ""
      ? null
      : checkedEmail(bodyText(asked, "email"));
    const ids = email === null ? [] : await this.#idsFor(email, party.id);
    return await this.#begin(
      asked,
      { origin: party.origin, sessionId: null, name: "", email, stays: body.stays === true },
      (challenge) => requestOptions(party, challenge, ids, CHALLENGE_MS),
    );
  }

  /** Ends a challenge with the browser's answer: signs in, or adds the passkey. */
  async finish(asked: Asked): Promise<Reply> {
    const { store, clock, addresses } = this.cloud;
    const { peer } = asked.request;
    const address = addressOf(peer.remoteAddress);
    await this.#attempts.requireLeft(address);
    const [opener = ""] = cookiesOf(asked.request, COOKIE);
    const proof = challengeOf(opener);
    const begun = proof === undefined
      ? undefined
      : await store.transaction((sql) => new PasskeyChallenges(sql).end(opener, clock.nowMs()));
    if (proof === undefined || begun?.origin !== relyingPartyOf(addresses, peer).origin) {
      throw new SvcError(
        "unauthenticated",
        "this browser has not begun to use a passkey, or more than five minutes ago, or has finished it: begin again",
      );
    }
    const reply = begun.sessionId === null
      ? await this.#signIn(asked, begun, proof)
      : await this.#add(asked, begun, begun.sessionId, proof);
    this.#attempts.giveBack(address, 2);
    return reply;
  }

  /** Removes a passkey, and ends all other sessions, because it may have opened them. */
  async remove(asked: Asked): Promise<Reply> {
    const { id, accountId } = await requireSession(this.cloud, asked);
    const wanted = bodyText(asked, "id", 2_000);
    const secret = await newKeySecret();
    const actor = { who: accountId, action: "RemovePasskey" };
    await this.cloud.audit.change(actor, { kind: "key", id: accountId }, async (sql) => {
      await new Passkeys(sql).remove(accountId, wanted);
      await new PersonSessions(sql).endOthers(accountId, id);
      await new Keys(sql).rotate(accountId, secret);
    });
    return { value: {} };
  }

  async #begin(
    { request }: Asked,
    challenge: PasskeyChallenge,
    options: (challenge: string) => object,
  ): Promise<Reply> {
    const { store, clock } = this.cloud;
    const address = addressOf(request.peer.remoteAddress);
    const opener = await store.transaction((sql) =>
      new PasskeyChallenges(sql).begin({ ...challenge, address }, clock.nowMs())
    );
    return {
      value: { options: options(challengeOf(opener)!) },
      cookie: cookieOf(request, opener, CHALLENGE_MS / 1000, COOKIE),
    };
  }

  async #add(
    asked: Asked,
    { origin, name }: PasskeyChallenge,
    sessionId: string,
    proof: string,
  ): Promise<Reply> {
    const { id, accountId } = await requireSession(this.cloud, asked);
    if (id !== sessionId) {
      throw new SvcError("unauthenticated", "another session than this one adds the passkey");
    }
    const party = { id: new URL(origin).hostname, origin };
    const made = await checkedCreation(asked.body.answer, proof, party);
    const actor = { who: accountId, action: "AddPasskey" };
    await this.cloud.audit.change(
      actor,
      { kind: "account", id: accountId },
      (sql, nowMs) => new Passkeys(sql).add({ ...made, accountId, name, rpId: party.id }, nowMs),
    );
    return { value: { account: shownAccount(await new Accounts(this.cloud.store).get(accountId)) } };
  }

  async #signIn(asked: Asked, { origin, email, stays }: PasskeyChallenge, proof: string): Promise<Reply> {
    const { store } = this.cloud;
    const passkey = await new Passkeys(store).find(credentialIdOf(asked.body.answer));
    const account = passkey && await new Accounts(store).find(passkey.accountId);
    if (!passkey || !account || (email !== null && account.email !== email)) {
      await this.#refused(asked, email ?? "");
      throw new SvcError(
        "unauthenticated",
        `${
          email === null ? "no account here" : `the account of ${email}`
        } has this passkey: it was removed, or is of ` +
          "another control plane",
      );
    }
    const party = { id: new URL(origin).hostname, origin };
    const counter = await checkedUse(asked.body.answer, proof, party, passkey, email !== null)
      .catch(async (error) => {
        await this.#refused(asked, account.id);
        throw error;
      });
    const endsFormer = await endFormer(this.cloud, asked);
    const before = async (sql: Sql) => {
      await new Passkeys(sql).use(passkey, counter, this.cloud.clock.nowMs());
      await endsFormer(sql);
    };
    return await signedIn(this.cloud, { ...asked, body: { stays } }, account, before, ACTION);
  }

  async #refused({ request }: Asked, id: string): Promise<void> {
    const who = `address ${addressOf(request.peer.remoteAddress)}`;
    await this.cloud.audit.refused({ who, action: ACTION }, id === "" ? [] : [{ kind: "key", id }]);
  }

  /** The ids of an address's passkeys for a relying party; one that is made up if there are none. */
  async #idsFor(email: string, rpId: string): Promise<string[]> {
    const { store } = this.cloud;
    const account = await new Accounts(store).byEmail(email);
    const all = await new Passkeys(store).of(account?.id ?? "");
    const ids = all.filter((one) => one.rpId === rpId).map(({ id }) => id);
    const key = await this.#madeUpKey();
    const madeUp = createHmac("sha256", key).update(`${rpId} ${email}`).digest("base64url");
    return ids.length > 0 ? ids : [madeUp];
  }

  async #madeUpKey(): Promise<string> {
    const { store } = this.cloud;
    const present = await notedSetting(store, MADE_UP);
    if (present !== undefined) return present;
    return await store.transaction(async (sql) => {
      const found = await notedSetting(sql, MADE_UP);
      if (found !== undefined) return found;
      const key = randomBytes(32).toString("base64url");
      await noteSetting(sql, MADE_UP, key);
      return key;
    });
  }
}

function shownPasskey({ id, name, rpId, createdMs, usedMs }: Passkey) {
  return { id, name, rpId, createdMs, usedMs };
}
