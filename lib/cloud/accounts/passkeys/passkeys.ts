/**
 * The passkeys of people: which credential of WebAuthn opens which account.
 *
 * The room owns passkeys: the credentials, the challenges, the proofs, and the pages.
 */

import { SvcError } from "../../../base/error.ts";
import { checkedName } from "../../tenants/names.ts";
import type { Sql } from "../../store/store.ts";

export interface Passkey {
  /** The credential's id, in base64url. */
  readonly id: string;
  readonly accountId: string;
  readonly name: string;
  /** The host name for which the authenticator made it. */
  readonly rpId: string;
  /** In COSE form, base64url. */
  readonly publicKey: string;
  /** How often the authenticator has signed; 0 of those that do not count. */
  readonly counter: number;
  readonly createdMs: number;
  readonly usedMs: number | null;
}

export type NewPasskey = Omit<Passkey, "createdMs" | "usedMs">;

/** Limit of passkeys per person. */
export const PASSKEYS_MAX = 20;
const PASSKEYS =
  `SELECT id, account_id AS "accountId", name, rp_id AS "rpId", public_key AS "publicKey", counter,
    created_ms AS "createdMs", used_ms AS "usedMs" FROM passkeys`;

export class Passkeys {
  constructor(private readonly sql: Sql) {}

  /** The passkeys of an account, the oldest first. */
  of(accountId: string): Promise<Passkey[]> {
    return this.sql.query(`${PASSKEYS} WHERE account_id = ? ORDER BY created_ms, id`, accountId);
  }

  async find(id: string): Promise<Passkey | undefined> {
    const [row] = await this.sql.query<Passkey>(`${PASSKEYS} WHERE id = ?`, id);
    return row && { ...row, counter: Number(row.counter) };
  }

  /** Throws `already_exists` for a credential that is somebody's, and `resource_exhausted` for one too many. */
  async add({ id, accountId, name, rpId, publicKey, counter }: NewPasskey, nowMs: number): Promise<void> {
    if (await this.find(id)) throw new SvcError("already_exists", "this passkey is in use here already");
    if ((await this.of(accountId)).length >= PASSKEYS_MAX) {
      throw new SvcError(
        "resource_exhausted",
        `the account has ${PASSKEYS_MAX} passkeys, which is the most: remove one first`,
      );
    }
    await this.sql.query(
      `INSERT INTO passkeys (id, account_id, name, rp_id, public_key, counter, created_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      id,
      accountId,
      checkedName(name),
      rpId,
      publicKey,
      counter,
      nowMs,
    );
  }

  /**
   * Notes a use, with the authenticator's new counter. Throws `unauthenticated` if the passkey has been removed, or
   * used with the same or a later counter, in the meantime.
   */
  async use({ id, accountId }: Passkey, counter: number, nowMs: number): Promise<void> {
    const text = `UPDATE passkeys SET counter = ?, used_ms = ?
       WHERE id = ? AND account_id = ? AND (counter < ? OR (counter = 0 AND ? = 0)) RETURNING id`;
    const used = await this.sql.query(text, counter, nowMs, id, accountId, counter, counter);
    if (used.length === 0) {
      throw new SvcError("unauthenticated", "the passkey has been removed, or was copied");
    }
  }

  /** Throws `not_found` for a passkey of somebody else, too. */
  async remove(accountId: string, id: string): Promise<void> {
    const text = "DELETE FROM passkeys WHERE account_id = ? AND id = ? RETURNING id";
    if ((await this.sql.query(text, accountId, id)).length > 0) return;
    throw new SvcError("not_found", "the account has no such passkey");
  }

  async removeAll(accountId: string): Promise<void> {
    await this.sql.query("DELETE FROM passkeys WHERE account_id = ?", accountId);
  }
}
