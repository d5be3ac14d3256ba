/** Who a person is at the identity provider: at most one account each way. */

import { SvcError } from "../../base/error.ts";
import type { Sql } from "../store/store.ts";

/** A person at the provider: the subject is unique and lasting for the issuer, an e-mail address is neither. */
export interface ProviderSubject {
  readonly issuer: string;
  readonly subject: string;
}

export class ProviderLinks {
  constructor(private readonly sql: Sql) {}

  /** The id of the account of a person at the provider. */
  async findAccount({ issuer, subject }: ProviderSubject): Promise<string | undefined> {
    const [row] = await this.sql.query<{ readonly id: string }>(
      "SELECT account_id AS id FROM provider_links WHERE issuer = ? AND subject = ?",
      issuer,
      subject,
    );
    return row?.id;
  }

  /** Whether an account is linked with somebody at the provider. */
  async isLinked(accountId: string, issuer: string): Promise<boolean> {
    const text = "SELECT subject FROM provider_links WHERE account_id = ? AND issuer = ?";
    return (await this.sql.query(text, accountId, issuer)).length > 0;
  }

  /** Throws `already_exists` if the account, or the person at the provider, has another link. */
  async link(accountId: string, who: ProviderSubject, nowMs: number): Promise<void> {
    const present = await this.findAccount(who);
    if (present === accountId) return;
    if (present !== undefined) {
      throw new SvcError("already_exists", "this person of the provider is linked with another account here");
    }
    if (await this.isLinked(accountId, who.issuer)) {
      throw new SvcError(
        "already_exists",
        "the account is linked with another person of the provider: end that link first",
      );
    }
    await this.sql.query(
      "INSERT INTO provider_links (issuer, subject, account_id, created_ms) VALUES (?, ?, ?, ?)",
      who.issuer,
      who.subject,
      accountId,
      nowMs,
    );
  }

  /** Throws `not_found`. */
  async unlink(accountId: string, issuer: string): Promise<void> {
    const text = "DELETE FROM provider_links WHERE account_id = ? AND issuer = ? RETURNING subject";
    if ((await this.sql.query(text, accountId, issuer)).length > 0) return;
    throw new SvcError("not_found", "the account is not linked with the provider");
  }

  async endAll(accountId: string): Promise<void> {
    await this.sql.query("DELETE FROM provider_links WHERE account_id = ?", accountId);
  }
}
