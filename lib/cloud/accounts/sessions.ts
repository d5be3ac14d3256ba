/**
 * Sessions: a person who has signed in acts through a session, from one browser, until it ends.
 *
 * The browser keeps the session's secret where no script reads it, and exchanges it for tokens that name the session's
 * generation, and so end with it at once. The store has only a hash of the secret.
 */

import { createHash, randomBytes, randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { isSameText } from "../../base/same_text.ts";
import { correctEnds } from "../store/due.ts";
import { placeholders, type Sql } from "../store/store.ts";

export interface AccountSession {
  readonly id: string;
  readonly accountId: string;
  readonly generation: string;
  readonly createdMs: number;
  readonly seenMs: number;
  readonly untilMs: number;
  readonly address: string;
  /** The browser's own description of itself. */
  readonly agent: string;
}

/** Where a session starts. */
export interface SessionOrigin {
  readonly address: string;
  readonly agent: string;
}

const SECRET_BYTES = 32;
/** Limit of sessions per person; a further one ends the oldest. */
const SESSIONS_MAX = 50;
const AGENT_CHARS_MAX = 300;
/** Resolution of the time of the last use. */
export const SESSION_SEEN_MS = 60_000;
const COLUMNS =
  `s.id, s.account_id AS "accountId", s.generation, s.created_ms AS "createdMs", s.seen_ms AS "seenMs",
    s.until_ms AS "untilMs", s.address, s.agent`;

export class PersonSessions {
  constructor(private readonly sql: Sql) {}

  /** Begins a session; returns the text that opens it: id and secret. */
  async begin(
    accountId: string,
    { address, agent }: SessionOrigin,
    nowMs: number,
    untilMs: number,
  ): Promise<string> {
    const opener = newOpener();
    const { id, secret } = openerParts(opener)!;
    const generation = randomBytes(16).toString("base64url");
    await this.sql.query(
      `INSERT INTO account_sessions
         (id, account_id, hash, generation, created_ms, seen_ms, until_ms, address, agent)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      accountId,
      openerHash(secret),
      generation,
      nowMs,
      nowMs,
      untilMs,
      address,
      agent.replaceAll(/\p{Cc}/gu, " ").slice(0, AGENT_CHARS_MAX),
    );
    const all = await this.of(accountId, nowMs);
    const tooMany = all.slice(SESSIONS_MAX).map((one) => one.id);
    if (tooMany.length > 0) await this.#delete(tooMany);
    return opener;
  }

  /** The session that a text opens, if it has not ended. */
  async opened(opener: string, nowMs: number): Promise<AccountSession | undefined> {
    const parts = openerParts(opener);
    if (!parts) return undefined;
    const [row] = await this.sql.query<AccountSession & { readonly hash: string }>(
      `SELECT s.hash, ${COLUMNS} FROM account_sessions s WHERE s.id = ? AND s.until_ms > ?`,
      parts.id,
      nowMs,
    );
    if (!row || !isSameText(row.hash, openerHash(parts.secret))) return undefined;
    const { hash: _, ...session } = row;
    return session;
  }

  async saw(id: string, nowMs: number): Promise<void> {
    await this.sql.query("UPDATE account_sessions SET seen_ms = ? WHERE id = ?", nowMs, id);
  }

  /** The sessions of an account that have not ended, the newest first. */
  of(accountId: string, nowMs: number): Promise<AccountSession[]> {
    return this.sql.query(
      `SELECT ${COLUMNS} FROM account_sessions s WHERE s.account_id = ? AND s.until_ms > ?
       ORDER BY s.created_ms DESC, s.id`,
      accountId,
      nowMs,
    );
  }

  /** Whether a session of the account is of this generation (`KeySource`). */
  async isCurrent(accountId: string, generation: string, nowMs: number): Promise<boolean> {
    const rows = await this.sql.query(
      "SELECT id FROM account_sessions WHERE account_id = ? AND generation = ? AND until_ms > ?",
      accountId,
      generation,
      nowMs,
    );
    return rows.length > 0;
  }

  /** Ends a session. Throws `not_found` for a session of somebody else, too. */
  async end(accountId: string, id: string): Promise<void> {
    const text = "DELETE FROM account_sessions WHERE account_id = ? AND id = ? RETURNING id";
    if ((await this.sql.query(text, accountId, id)).length > 0) return;
    throw new SvcError("not_found", `there is no session "${id}" of this account`);
  }

  /** Ends all sessions of an account but one. */
  async endOthers(accountId: string, keptId: string): Promise<void> {
    await this.sql.query("DELETE FROM account_sessions WHERE account_id = ? AND id <> ?", accountId, keptId);
  }

  async endAll(accountId: string): Promise<void> {
    await this.sql.query("DELETE FROM account_sessions WHERE account_id = ?", accountId);
  }

  async forgetOld(nowMs: number): Promise<void> {
    await correctEnds(this.sql, "account_sessions", nowMs);
    await this.sql.query("DELETE FROM account_sessions WHERE until_ms <= ?", nowMs);
  }

  async #delete(ids: readonly string[]): Promise<void> {
    await this.sql.query(`DELETE FROM account_sessions WHERE id IN (${placeholders(ids)})`, ...ids);
  }
}

/** An id and a random secret. Nobody can guess the secret, so its hash need not be slow. */
export function newOpener(): string {
  return `${randomUUID()}.${randomBytes(SECRET_BYTES).toString("base64url")}`;
}

const OPENER = /^([0-9a-f-]{36})\.([\w-]{43})$/;

export function openerParts(opener: string): { readonly id: string; readonly secret: string } | undefined {
  const [, id, secret] = OPENER.exec(opener) ?? [];
  return id && secret ? { id, secret } : undefined;
}

export function openerHash(secret: string): string {
  return createHash("sha256").update(secret).digest("base64url");
}
