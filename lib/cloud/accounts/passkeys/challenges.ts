/**
 * Challenges: a browser is asked to prove that it has a passkey, or to make one, within five minutes.
 *
 * The browser keeps a secret in a cookie; the challenge derives from it, so the database, which has only a hash, proves
 * nothing, and no other browser can answer. A challenge ends with its first answer, good or bad.
 */

import { createHash } from "node:crypto";
import type { Sql } from "../../store/store.ts";
import { openerParts } from "../sessions.ts";
import { SingleUse } from "../single_use.ts";

export type PasskeyChallenge = {
  /** The public address for which it was made. */
  readonly origin: string;
  /** The session that adds a passkey; without one, somebody signs in. */
  readonly sessionId: string | null;
  /** The name of the new passkey. */
  readonly name: string;
  /** The address that the person has given, if any. */
  readonly email: string | null;
  readonly stays: boolean;
};

export const CHALLENGE_MS = 5 * 60_000;

export class PasskeyChallenges extends SingleUse<PasskeyChallenge> {
  constructor(sql: Sql) {
    const columns = { origin: "origin", sessionId: "session_id", name: "name", email: "email" };
    super(sql, { table: "passkey_challenges", columns, keptMs: CHALLENGE_MS });
  }
}

/** The challenge of a browser that keeps this text, in base64url; `undefined` for a text that keeps none. */
export function challengeOf(opener: string): string | undefined {
  const parts = openerParts(opener);
  return parts && createHash("sha256").update(`passkey ${parts.secret}`).digest("base64url");
}
