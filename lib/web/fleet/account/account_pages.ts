/** The pages below `/account/` of the control plane: a person's session, whose secret no script reads. */

import type { CreationOptions, PasskeyOrigin, RequestOptions } from "./passkey_options.ts";

export interface PersonAccount {
  readonly id: string;
  readonly email: string;
  readonly name: string;
}

export interface PersonSession {
  readonly id: string;
  readonly createdMs: number;
  readonly seenMs: number;
  readonly address: string;
  readonly agent: string;
  readonly isThis: boolean;
}

/** The identity provider of the control plane; the rest is about the account of a person who has signed in. */
export interface ProviderState {
  /** `null` if there is none. */
  readonly name: string | null;
  readonly isLinked?: boolean;
  readonly hasPassword?: boolean;
}

export interface PersonPasskey {
  readonly id: string;
  readonly name: string;
  /** The host name for which it was made. */
  readonly rpId: string;
  readonly createdMs: number;
  readonly usedMs: number | null;
}

/** Where passkeys can be used; the rest is about the account of a person who has signed in. */
export interface PasskeysState extends PasskeyOrigin {
  readonly rpId?: string;
  readonly hasPassword?: boolean;
  readonly passkeys?: readonly PersonPasskey[];
}

/** Why a page has refused. */
export class AccountRefusal extends Error {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

export interface AccountAnswers {
  "sign-in": { readonly account: PersonAccount };
  accept: { readonly account: PersonAccount };
  password: { readonly account: PersonAccount };
  token: { readonly token: string; readonly account: PersonAccount; readonly sessionId: string };
  "sign-out": object;
  sessions: { readonly sessions: readonly PersonSession[] };
  "end-session": object;
  invitation: { readonly email: string; readonly organization: string | null; readonly hasAccount: boolean };
  link: { readonly link: string; readonly untilMs: number };
  provider: ProviderState;
  "provider-begin": { readonly url: string };
  "provider-finish": { readonly account: PersonAccount; readonly returnTo: string };
  "provider-unlink": object;
  passkeys: PasskeysState;
  "passkey-add": { readonly options: CreationOptions };
  "passkey-sign-in": { readonly options: RequestOptions };
  "passkey-finish": { readonly account: PersonAccount };
  "passkey-remove": object;
}

const ANSWER_MS = 30_000;

/** Throws `AccountRefusal`, or what the browser says of the network. */
export async function askAccount<P extends keyof AccountAnswers>(
  page: P,
  body: object = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<AccountAnswers[P]> {
  const answer = await fetch(`/account/${page}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
    credentials: "same-origin",
    redirect: "error",
    signal: AbortSignal.timeout(ANSWER_MS),
  });
  const value = await answer.json().catch(() => ({}));
  if (answer.ok) return value;
  throw new AccountRefusal(
    typeof value.error === "string" ? value.error : `status ${answer.status}`,
    answer.status,
  );
}

/** Goes to the identity provider, which sends the browser back to `#/provider/…`. Throws as `askAccount` does. */
export async function goToProvider(body: object): Promise<void> {
  const { url } = await askAccount("provider-begin", body);
  location.assign(url);
}
