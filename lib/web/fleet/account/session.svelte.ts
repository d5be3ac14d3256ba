/**
 * The sign-in of a person with an API key, and the calls of the control plane in its name.
 *
 * The published browser library exchanges the key for a token and makes every call. A key that the control plane no
 * longer takes ends the session at once.
 */

import { Code, ConnectError } from "@connectrpc/connect";
import { createViamClient } from "@viamrobotics/sdk";
import { getContext, setContext } from "svelte";
import { forgetKey, type SignInKey, storedKey, storeKey } from "../../shared/credentials.ts";
import { problemText } from "../../shared/problem_text.ts";
import { type Poll, pollBy, type PollOptions } from "../../shared/poll.svelte.ts";
import type { FleetCalls } from "./fleet_calls.ts";

export type SessionState = "signing_in" | "signed_in" | "signed_out";

const SIGN_IN_MS = 15_000;

export class FleetSession {
  state = $state<SessionState>("signing_in");
  /** Why nobody is signed in. */
  problem = $state<string>();
  calls = $state.raw<FleetCalls>();
  key = $state.raw<SignInKey>();

  /** Signs in with the key that this browser keeps. */
  start(): void {
    const key = storedKey();
    if (key) void this.#enter(key);
    else this.state = "signed_out";
  }

  async signIn(key: SignInKey, stays: boolean): Promise<void> {
    if (await this.#enter(key)) storeKey(key, stays);
  }

  signOut(problem?: string): void {
    forgetKey();
    this.calls = this.key = undefined;
    this.problem = problem;
    this.state = "signed_out";
  }

  /** The reason in words; a refusal of the key itself ends the session. */
  problemOf(error: unknown): string {
    if (error instanceof ConnectError && error.code === Code.Unauthenticated && this.state === "signed_in") {
      this.signOut("The control plane no longer takes this key.");
    }
    return callProblem(error);
  }

  async #enter(key: SignInKey): Promise<boolean> {
    this.state = "signing_in";
    this.problem = undefined;
    try {
      const client = await within(
        SIGN_IN_MS,
        createViamClient({
          serviceHost: location.origin,
          credentials: { type: "api-key", authEntity: key.id, payload: key.key },
        }),
      );
      // The library wraps some of the calls; underneath are all of them, as the contract has them.
      this.calls = (client.appClient as unknown as { readonly client: FleetCalls }).client;
      this.key = key;
      this.state = "signed_in";
      return true;
    } catch (error) {
      this.problem = callProblem(error);
      this.state = "signed_out";
      return false;
    }
  }
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
  everyMs: number,
  options: PollOptions<T> = {},
): Poll<T> {
  const session = useSession();
  const source = {
    client: () => session.calls,
    problemOf: (error: unknown) => session.problemOf(error),
  };
  return pollBy(source, ask, everyMs, options);
}
