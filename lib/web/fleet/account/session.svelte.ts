/**
 * Who has signed in, a person with an account or the holder of an API key, and the calls of the control plane in their
 * name.
 *
 * The published browser library makes every call. A session or a key that the control plane no longer takes ends here
 * with its next call.
 */

import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { createViamClient, type Credentials } from "@viamrobotics/sdk";
import { getContext, setContext } from "svelte";
import { forgetKey, keyCredentials, type SignInKey, storedKey, storeKey } from "../../shared/credentials.ts";
import { ownPath } from "../../shared/own_place.ts";
import { type Poll, pollBy, type PollOptions } from "../../shared/poll.svelte.ts";
import { problemText } from "../../shared/problem_text.ts";
import {
  type AccountAnswers,
  AccountRefusal,
  askAccount,
  goToProvider,
  type PersonAccount,
} from "./account_pages.ts";
import { signInByPasskey } from "./passkeys.ts";
import { reportCalls } from "../machines/report_calls.ts";
import { alertCalls } from "../alerts/alert_calls.ts";
import { recordCalls } from "../records/record_calls.ts";
import { rolloutCalls } from "../rollouts/rollout_calls.ts";
import { backupCalls } from "../backups/backup_calls.ts";
import { releaseCalls } from "../releases/release_calls.ts";
import { configurationCalls } from "../configurations/configuration_calls.ts";
import { usageCalls } from "../usage/usage_calls.ts";
import { inferenceCalls } from "../data/inference_calls.ts";
import { mappingCalls, packageCalls } from "../maps/map_calls.ts";
import type { FleetCalls, PublishedCalls, TrainingCalls } from "./fleet_calls.ts";

export type SessionState = "signing_in" | "signed_in" | "signed_out";

const SIGN_IN_MS = 15_000;
const UNAUTHENTICATED = 401;
/** Refusals so soon after a new token was asked for are answers to calls with the former one. */
const RENEWED_MS = 3000;
const AGAIN = "Sign in again to go on where you were.";

export class FleetSession {
  state = $state<SessionState>("signing_in");
  /**
   * Whose views there are. They outlive a session that ends by itself, unseen, so that the same person goes on with a
   * form as it was.
   */
  viewsOf = $state<string>();
  /** The control plane is asked to end the session. */
  isSigningOut = $state(false);
  /** Why nobody is signed in. */
  problem = $state<string>();
  calls = $state.raw<FleetCalls>();
  /** The person; `undefined` for the holder of a key. */
  account = $state.raw<PersonAccount>();
  key = $state.raw<SignInKey>();
  #credentials: Credentials | undefined;
  /** When a token was last asked for in place of a refused one, by the monotonic clock. */
  #renewedMs = -Infinity;

  /** Signs in with the key, or the session, that this browser keeps. */
  start(): void {
    if (ownPath() !== "/") {
      this.problem =
        `This page is below the path ${ownPath()}, where a control plane cannot work: devices and ` +
        "programs have no room for a path. A proxy has to forward a host or port of its own.";
      this.state = "signed_out";
      return;
    }
    const key = storedKey();
    if (key) void this.#enterByKey(key);
    else void this.#resume();
  }

  /** Goes to the identity provider; a refusal is the problem. */
  async goToProvider(body: object): Promise<void> {
    this.problem = undefined;
    try {
      await goToProvider(body);
    } catch (error) {
      this.problem = callProblem(error);
    }
  }

  /** `ann@example.com`, `key 1234` */
  get who(): string {
    return this.account?.email ?? `key ${this.key?.id}`;
  }

  /** The present ones, for calls to machines. */
  get credentials(): Credentials {
    if (!this.#credentials) throw new Error("nobody is signed in");
    return this.#credentials;
  }

  /** For pages of the control plane that ask who calls. */
  get headers(): Record<string, string> {
    const { credentials, key } = this;
    if (credentials.type === "access-token") return { authorization: `Bearer ${credentials.payload}` };
    return key ? { key_id: key.id, key: key.key } : {};
  }

  async signInByKey(key: SignInKey, stays: boolean): Promise<void> {
    if (await this.#enterByKey(key)) storeKey(key, stays);
  }

  async signIn(email: string, password: string, stays: boolean): Promise<void> {
    await this.#enter(async () => {
      await askAccount("sign-in", { email, password, stays });
      return await this.#asPerson();
    });
  }

  /** With an address, by a passkey of its account alone. */
  async signInByPasskey(email: string, stays: boolean): Promise<void> {
    await this.#enter(async () => {
      await signInByPasskey(email, stays);
      return await this.#asPerson();
    });
  }

  /** Uses the link of an invitation. */
  async accept(link: string, name: string, password: string): Promise<void> {
    forgetKey();
    await this.#enter(async () => {
      await askAccount("accept", { link, name, password });
      return await this.#asPerson();
    });
  }

  /** Ends a visit at the identity provider; resolves with the view to which the person returns. */
  async finishAtProvider(query: string): Promise<string> {
    forgetKey();
    let view = "#/";
    await this.#enter(async () => {
      ({ returnTo: view } = await askAccount("provider-finish", { query }));
      return await this.#asPerson();
    });
    return view;
  }

  /** Sets another password, which ends all sessions, and goes on with a new one. Throws. */
  async changePassword(current: string, password: string): Promise<void> {
    await this.ask("password", { current, password, stays: true });
    this.#credentials = await this.#asPerson();
    this.calls = await callsBy(this.#credentials);
  }

  /** Signs out. A page that is left before the answer would cancel the request, and the session would go on. */
  async signOut(): Promise<void> {
    this.isSigningOut = true;
    let problem: string | undefined;
    try {
      if (this.account) await this.ask("sign-out");
    } catch (error) {
      problem = `This page has signed out, but the session goes on at the control plane: ${
        callProblem(error)
      }`;
    }
    this.isSigningOut = false;
    this.viewsOf = undefined;
    forgetKey();
    this.#end(problem);
  }

  /** Asks a page of the account in the name of the person whom this tab shows: the browser's cookie may be of another. */
  ask<P extends keyof AccountAnswers>(page: P, body: object = {}): Promise<AccountAnswers[P]> {
    return askAccount(page, { ...body, accountId: this.account?.id });
  }

  #end(problem?: string): void {
    // Another tab may have kept another key since.
    if (this.key && storedKey()?.id === this.key.id) forgetKey();
    this.calls = this.key = this.account = undefined;
    this.#credentials = undefined;
    this.problem = problem;
    this.state = "signed_out";
  }

  /** The reason in words; a refusal of the caller itself ends the session, unless another tab has begun a new one. */
  problemOf(error: unknown): string {
    if (error instanceof ConnectError && error.code === Code.Unauthenticated && this.state === "signed_in") {
      if (this.account) void this.#goOnOrEnd(this.account);
      else this.#end(`The control plane no longer takes this key. ${AGAIN}`);
    }
    return callProblem(error);
  }

  /**
   * After the refusal of a token: the same person may have signed in again in another tab, whose session then serves
   * this one, too. The session of somebody else is left alone.
   */
  async #goOnOrEnd(account: PersonAccount): Promise<void> {
    const sinceMs = performance.now() - this.#renewedMs;
    if (sinceMs < RENEWED_MS) return;
    this.#renewedMs = performance.now();
    const { problem, token } = await askAccount("token").then(
      ({ token, account: { id, email } }) =>
        id === account.id
          ? { token, problem: undefined }
          : { token, problem: `${email} has signed in in another tab of this browser.` },
      (error) => ({ token: undefined, problem: isOver(error) ? "The session has ended." : "" }),
    );
    if (this.account?.id !== account.id || this.state !== "signed_in" || problem === "") return;
    if (problem !== undefined) return this.#end(`${problem} ${AGAIN}`);
    this.#credentials = tokenCredentials(token!);
    this.calls = await callsBy(this.#credentials);
  }

  async #resume(): Promise<void> {
    try {
      this.#credentials = await this.#asPerson();
      this.calls = await callsBy(this.#credentials);
      this.#shown();
    } catch (error) {
      this.problem = isOver(error) ? undefined : callProblem(error);
      this.state = "signed_out";
    }
  }

  #shown(): void {
    this.viewsOf = this.who;
    this.state = "signed_in";
  }

  /** The token of the present session. */
  async #asPerson(): Promise<Credentials> {
    const { token, account } = await askAccount("token");
    this.account = account;
    return tokenCredentials(token);
  }

  async #enterByKey(key: SignInKey): Promise<boolean> {
    return await this.#enter(() => {
      this.account = undefined;
      this.key = key;
      return Promise.resolve(keyCredentials(key));
    });
  }

  async #enter(credentialsOf: () => Promise<Credentials>): Promise<boolean> {
    this.state = "signing_in";
    this.problem = undefined;
    try {
      this.#credentials = await credentialsOf();
      this.calls = await callsBy(this.#credentials);
      this.#shown();
      return true;
    } catch (error) {
      this.problem = callProblem(error);
      this.key = undefined;
      this.state = "signed_out";
      return false;
    }
  }
}

function tokenCredentials(payload: string): Credentials {
  return { type: "access-token", payload };
}

/** Whether the browser's cookie opens no session. */
function isOver(error: unknown): boolean {
  return error instanceof AccountRefusal && error.status === UNAUTHENTICATED;
}

async function callsBy(credentials: Credentials): Promise<FleetCalls> {
  const client = await within(SIGN_IN_MS, createViamClient({ serviceHost: location.origin, credentials }));
  // The library wraps some of the calls; underneath are all of them, as the contract has them.
  const { client: published } = client.appClient as unknown as { readonly client: PublishedCalls };
  const { transport } = client as unknown as { readonly transport: Transport };
  const { dataClient: data, mlTrainingClient } = client;
  const { client: training } = mlTrainingClient as unknown as { readonly client: TrainingCalls };
  return {
    ...published,
    rollouts: rolloutCalls(transport),
    reports: reportCalls(transport),
    records: recordCalls(transport),
    alerts: alertCalls(transport),
    usage: usageCalls(transport),
    configurations: configurationCalls(transport),
    releases: releaseCalls(transport),
    backups: backupCalls(transport),
    data,
    training,
    inference: inferenceCalls(transport),
    packages: packageCalls(transport),
    mapping: mappingCalls(transport),
  };
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the control plane did not answer in ${ms / 1000} s`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The reason in words, for people. */
export function callProblem(error: unknown): string {
  if (error instanceof ConnectError) return error.rawMessage || "the control plane does not answer";
  return problemText(error);
}

const CONTEXT = Symbol("the session");

export function provideSession(session: FleetSession): FleetSession {
  return setContext(CONTEXT, session);
}

/** The session of the page; for the beginning of a component. */
export function useSession(): FleetSession {
  return getContext<FleetSession>(CONTEXT);
}

/** Asks the control plane again and again; for the beginning of a component. */
export function pollCloud<T>(
  ask: (calls: FleetCalls) => Promise<T>,
  everyMs: number | (() => number),
  options: PollOptions<T> = {},
): Poll<T> {
  const session = useSession();
  const source = {
    client: () => session.calls,
    problemOf: (error: unknown) => session.problemOf(error),
  };
  return pollBy(source, ask, everyMs, options);
}
