/**
 * Visits: a person goes to the identity provider and comes back, within ten minutes, in the same browser.
 *
 * The id of a visit is the `state` of OAuth. The browser keeps a secret in a cookie; the PKCE verifier and the nonce
 * derive from it, so the database, which has only a hash, opens nothing. A visit ends once, at whichever control plane
 * on the database the person comes back to.
 */

import { createHash } from "node:crypto";
import type { Sql } from "../store/store.ts";
import { openerParts } from "./sessions.ts";
import { SingleUse } from "./single_use.ts";

/** The purpose of a visit: a link for the session's account, an invitation to accept, or, with neither, sign-in. */
export type ProviderVisit = {
  readonly issuer: string;
  readonly sessionId: string | null;
  readonly invitationId: string | null;
  /** The name of a new account. */
  readonly name: string;
  /** The view of the page to which the person returns, which begins with `#/`. */
  readonly returnTo: string;
  readonly stays: boolean;
};

/** What the provider gets to see of a visit, and what proves it. */
export interface VisitProof {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

export const VISIT_MS = 10 * 60_000;

export class ProviderVisits extends SingleUse<ProviderVisit> {
  constructor(sql: Sql) {
    const columns = {
      issuer: "issuer",
      sessionId: "session_id",
      invitationId: "invitation_id",
      name: "name",
      returnTo: "return_to",
    };
    super(sql, { table: "provider_visits", columns, keptMs: VISIT_MS });
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
