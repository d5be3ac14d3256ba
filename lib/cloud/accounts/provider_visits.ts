/**
 * Visits: a person goes to the identity provider and comes back, within ten minutes, in the same browser.
 *
 * The id of a visit is the `state` of OAuth. The browser keeps a secret in a cookie; the PKCE verifier and the nonce
 * derive from it, so the database, which has only a hash, opens nothing. A visit ends once, at whichever control plane
 * on the database the person comes back to.
 */

import { createHash } from "node:crypto";
import { isSameText } from "../../base/same_text.ts";
import type { Sql } from "../store/store.ts";
import { makeSpace } from "./open_shares.ts";
import { newOpener, openerHash, openerParts } from "./sessions.ts";

/** The purpose of a visit: a link for the session's account, an invitation to accept, or, with neither, sign-in. */
export interface ProviderVisit {
  readonly id: string;
  readonly issuer: string;
  readonly sessionId: string | null;
  readonly invitationId: string | null;
  /** The name of a new account. */
  readonly name: string;
  /** The view of the page to which the person returns, which begins with `#/`. */
  readonly returnTo: string;
  readonly stays: boolean;
}

export type NewVisit = Omit<ProviderVisit, "id"> & { readonly address: string };

/** What the provider gets to see of a visit, and what proves it. */
export interface VisitProof {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

export const VISIT_MS = 10 * 60_000;

export class ProviderVisits {
  constructor(private readonly sql: Sql) {}

  /** Begins a visit; returns the text that the browser keeps. */
  async begin(visit: NewVisit, nowMs: number): Promise<string> {
    const opener = newOpener();
    const { id, secret } = openerParts(opener)!;
    await this.forgetOld(nowMs);
    await makeSpace(this.sql, "provider_visits", visit.address);
    await this.sql.query(
      `INSERT INTO provider_visits
         (id, hash, issuer, session_id, invitation_id, name, return_to, stays, address, created_ms, until_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      openerHash(secret),
      visit.issuer,
      visit.sessionId,
      visit.invitationId,
      visit.name,
      visit.returnTo,
      visit.stays ? 1 : 0,
      visit.address,
      nowMs,
      nowMs + VISIT_MS,
    );
    return opener;
  }

  /** Ends the visit that a text opens; `undefined` if it has ended or expired, or is another browser's. */
  async end(opener: string, nowMs: number): Promise<ProviderVisit | undefined> {
    const parts = openerParts(opener);
    if (!parts) return undefined;
    const [row] = await this.sql.query<Omit<ProviderVisit, "stays"> & { hash: string; stays: number }>(
      `SELECT id, hash, issuer, session_id AS "sessionId", invitation_id AS "invitationId", name,
         return_to AS "returnTo", stays FROM provider_visits WHERE id = ? AND until_ms > ?`,
      parts.id,
      nowMs,
    );
    if (!row || !isSameText(row.hash, openerHash(parts.secret))) return undefined;
    const text = "DELETE FROM provider_visits WHERE id = ? RETURNING id";
    // Of two that come at once, one gets it.
    if ((await this.sql.query(text, parts.id)).length === 0) return undefined;
    const { hash: _, ...visit } = row;
    return { ...visit, stays: Number(row.stays) === 1 };
  }

  async forgetOld(nowMs: number): Promise<void> {
    await this.sql.query("DELETE FROM provider_visits WHERE until_ms <= ?", nowMs);
  }
}

/** The proof of the visit that a text opens. */
export function visitProof(opener: string): VisitProof | undefined {
  const parts = openerParts(opener);
  if (!parts) return undefined;
  const derived = (purpose: string) =>
    createHash("sha256").update(`${purpose} ${parts.secret}`).digest("base64url");
  return { state: parts.id, nonce: derived("nonce"), verifier: derived("verifier") };
}
