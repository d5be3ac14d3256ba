/**
 * Challenges: a browser is asked to prove that it has a passkey, or to make one, within five minutes.
 *
 * The browser keeps a secret in a cookie; the challenge derives from it, so the database, which has only a hash, proves
 * nothing, and no other browser can answer. A challenge ends with its first answer, good or bad.
 */

import { createHash } from "node:crypto";
import { isSameText } from "../../../base/same_text.ts";
import type { Sql } from "../../store/store.ts";
import { makeSpace } from "../open_shares.ts";
import { newOpener, openerHash, openerParts } from "../sessions.ts";

export interface PasskeyChallenge {
  /** The public address for which it was made. */
  readonly origin: string;
  /** The session that adds a passkey; without one, somebody signs in. */
  readonly sessionId: string | null;
  /** The name of the new passkey. */
  readonly name: string;
  /** The address that the person has given, if any. */
  readonly email: string | null;
  readonly stays: boolean;
}

export type NewChallenge = PasskeyChallenge & { readonly address: string };

export const CHALLENGE_MS = 5 * 60_000;

export class PasskeyChallenges {
  constructor(private readonly sql: Sql) {}

  /** Begins a challenge; returns the text that the browser keeps. */
  async begin(challenge: NewChallenge, nowMs: number): Promise<string> {
    const opener = newOpener();
    const { id, secret } = openerParts(opener)!;
    await this.forgetOld(nowMs);
    await makeSpace(this.sql, "passkey_challenges", challenge.address);
    await this.sql.query(
      `INSERT INTO passkey_challenges
         (id, hash, origin, session_id, name, email, stays, address, created_ms, until_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      openerHash(secret),
      challenge.origin,
      challenge.sessionId,
      challenge.name,
      challenge.email,
      challenge.stays ? 1 : 0,
      challenge.address,
      nowMs,
      nowMs + CHALLENGE_MS,
    );
    return opener;
  }

  /** Ends the challenge that a text opens; `undefined` if it has ended or expired, or is another browser's. */
  async end(opener: string, nowMs: number): Promise<PasskeyChallenge | undefined> {
    const parts = openerParts(opener);
    if (!parts) return undefined;
    const [row] = await this.sql.query<
      Omit<PasskeyChallenge, "stays"> & { readonly hash: string; readonly stays: number }
    >(
      `SELECT hash, origin, session_id AS "sessionId", name, email, stays FROM passkey_challenges
       WHERE id = ? AND until_ms > ?`,
      parts.id,
      nowMs,
    );
    if (!row || !isSameText(row.hash, openerHash(parts.secret))) return undefined;
    const text = "DELETE FROM passkey_challenges WHERE id = ? RETURNING id";
    // Of two answers that come at once, one gets it.
    if ((await this.sql.query(text, parts.id)).length === 0) return undefined;
    const { hash: _, ...challenge } = row;
    return { ...challenge, stays: Number(row.stays) === 1 };
  }

  async forgetOld(nowMs: number): Promise<void> {
    await this.sql.query("DELETE FROM passkey_challenges WHERE until_ms <= ?", nowMs);
  }
}

/** The challenge of a browser that keeps this text, in base64url; `undefined` for a text that keeps none. */
export function challengeOf(opener: string): string | undefined {
  const parts = openerParts(opener);
  return parts && createHash("sha256").update(`passkey ${parts.secret}`).digest("base64url");
}
