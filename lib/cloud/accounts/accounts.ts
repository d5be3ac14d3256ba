/**
 * Accounts of people.
 *
 * An account is an API key that nobody holds: it has roles like any key, and every rule about keys applies to it. A
 * person proves to be the owner by a password, a passkey, or at an identity provider, and then acts by a session (`sessions.ts`).
 *
 * The room owns people: accounts, sign-in, sessions, and invitations to organizations.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import type { StoredKey } from "../../wire/auth/rate_limit.ts";
import { type Grant, Keys, type KeySecret } from "../access/keys.ts";
import { checkedName } from "../tenants/names.ts";
import { AROUND_PART } from "../tenants/parts.ts";
import { placeholders, type Sql } from "../store/store.ts";
import { Passkeys } from "./passkeys/passkeys.ts";
import { ProviderLinks } from "./provider_links.ts";

export interface StoredAccount {
  readonly id: string;
  /** In lower case. */
  readonly email: string;
  readonly name: string;
  readonly createdMs: number;
}

/** An account in an organization. */
export interface Member extends StoredAccount {
  /** Its roles on the organization and everything in it. */
  readonly grants: readonly Grant[];
  /** When its last session started, and when it was last used. */
  readonly signedInMs: number | null;
  readonly seenMs: number | null;
}

export interface NewAccount {
  readonly email: string;
  readonly name: string;
  /** The hash; absent for a person who signs in elsewhere. */
  readonly password?: string;
  /** The secret of the key, which nobody gets to know. */
  readonly secret: KeySecret;
}

const EMAIL_CHARS_MAX = 254;
const EMAIL = /^[^\s@<>()[\],;:\\"\p{Cc}]+@[^\s@<>()[\],;:\\"\p{Cc}]+$/u;
const ACCOUNTS = `SELECT a.id, a.email, a.name, a.created_ms AS "createdMs" FROM accounts a`;

/** The accounts with the role of an owner on the machine of a part, on a location around it, or on its organization. */
const OWNERS = `${AROUND_PART}
  )
  SELECT DISTINCT a.email FROM opened CROSS JOIN grants g CROSS JOIN accounts a
  WHERE g.kind = opened.kind AND g.resource_id = opened.id AND g.role = 'owner' AND a.id = g.key_id
  ORDER BY a.email LIMIT ?`;

/** An address in the form in which it is stored. Throws `invalid_argument`. */
export function checkedEmail(text: string): string {
  const email = text.trim().toLowerCase();
  if (email.length <= EMAIL_CHARS_MAX && EMAIL.test(email)) return email;
  const shown = text.length > EMAIL_CHARS_MAX ? `${text.length} characters` : JSON.stringify(text);
  throw new SvcError("invalid_argument", `found ${shown}, wanted an e-mail address such as ann@example.com`);
}

export class Accounts {
  constructor(private readonly sql: Sql) {}

  /** Throws `already_exists` if the address has an account. */
  async create({ email, name, password, secret }: NewAccount, nowMs: number): Promise<string> {
    const id = randomUUID();
    if (await this.byEmail(email)) throw new SvcError("already_exists", `${email} has an account already`);
    await this.sql.query(
      "INSERT INTO api_keys (id, name, hash, created_ms, organization_id) VALUES (?, ?, ?, ?, NULL)",
      id,
      email,
      secret.hash,
      nowMs,
    );
    await this.sql.query(
      "INSERT INTO accounts (id, email, name, password, created_ms) VALUES (?, ?, ?, ?, ?)",
      id,
      email,
      checkedName(name.trim() || email),
      password ?? null,
      nowMs,
    );
    return id;
  }

  async get(id: string): Promise<StoredAccount> {
    const found = await this.find(id);
    if (found) return found;
    throw new SvcError("not_found", `there is no account "${id}"`);
  }

  async find(id: string): Promise<StoredAccount | undefined> {
    const [row] = await this.sql.query<StoredAccount>(`${ACCOUNTS} WHERE a.id = ?`, id);
    return row;
  }

  async byEmail(email: string): Promise<StoredAccount | undefined> {
    const [row] = await this.sql.query<StoredAccount>(`${ACCOUNTS} WHERE a.email = ?`, email);
    return row;
  }

  /** Whether the person of an account can sign in with a password. */
  async hasPassword(id: string): Promise<boolean> {
    const text = "SELECT id FROM accounts WHERE id = ? AND password IS NOT NULL";
    return (await this.sql.query(text, id)).length > 0;
  }

  all(): Promise<StoredAccount[]> {
    return this.sql.query(`${ACCOUNTS} ORDER BY a.email`);
  }

  /** Deletes an account with its roles and sessions, which end at once. */
  async delete(id: string): Promise<void> {
    await this.get(id);
    await new Keys(this.sql).delete(id);
  }

  /** Sets a password, and ends everything that was opened with the old one, including access to machines. */
  async setPassword(id: string, password: string, secret: KeySecret): Promise<void> {
    await this.sql.query("UPDATE accounts SET password = ? WHERE id = ?", password, id);
    await this.sql.query("DELETE FROM account_sessions WHERE account_id = ?", id);
    await new Keys(this.sql).rotate(id, secret);
  }

  /** Ends all ways in, and everything opened with them; a link sets a new password. */
  async endPassword(id: string, secret: KeySecret): Promise<void> {
    await this.sql.query("UPDATE accounts SET password = NULL WHERE id = ?", id);
    await this.endOtherWays(id);
    await this.sql.query("DELETE FROM account_sessions WHERE account_id = ?", id);
    await new Keys(this.sql).rotate(id, secret);
  }

  /** Ends the ways in other than the password: the passkeys, and the link with a provider. */
  async endOtherWays(id: string): Promise<void> {
    await new ProviderLinks(this.sql).endAll(id);
    await new Passkeys(this.sql).removeAll(id);
  }

  /** The stored password of an address. */
  async kept(email: string): Promise<StoredKey | undefined> {
    const [row] = await this.sql.query<StoredKey>(
      `SELECT password AS form, id AS owner FROM accounts WHERE email = ? AND password IS NOT NULL`,
      email,
    );
    return row;
  }

  /** The addresses of the owners of a part's machine, at most `limit`. */
  async readOwners(partId: string, limit: number): Promise<string[]> {
    const rows = await this.sql.query<{ readonly email: string }>(OWNERS, partId, limit);
    return rows.map(({ email }) => email);
  }

  /** The accounts with a role on an organization or on anything in it, by their addresses. */
  async members(organizationId: string): Promise<Member[]> {
    const grants = await this.sql.query<Grant & { readonly keyId: string }>(
      `SELECT g.key_id AS "keyId", g.role, g.kind, g.resource_id AS "resourceId"
       FROM grants g JOIN accounts a ON a.id = g.key_id
       WHERE g.resource_id = ? OR g.resource_id IN (SELECT id FROM locations WHERE organization_id = ?)
         OR g.resource_id IN (SELECT m.id FROM machines m JOIN locations l ON l.id = m.location_id
           WHERE l.organization_id = ?)
       ORDER BY g.kind, g.resource_id`,
      organizationId,
      organizationId,
      organizationId,
    );
    const ofAccount = Map.groupBy(grants, ({ keyId }) => keyId);
    const ids = [...ofAccount.keys()];
    if (ids.length === 0) return [];
    const rows = await this.sql.query<Omit<Member, "grants">>(
      `SELECT a.id, a.email, a.name, a.created_ms AS "createdMs",
         (SELECT MAX(created_ms) FROM account_sessions s WHERE s.account_id = a.id) AS "signedInMs",
         (SELECT MAX(seen_ms) FROM account_sessions s WHERE s.account_id = a.id) AS "seenMs"
       FROM accounts a WHERE a.id IN (${placeholders(ids)}) ORDER BY a.email`,
      ...ids,
    );
    return rows.map((row) => ({
      ...row,
      grants: (ofAccount.get(row.id) ?? []).map(({ keyId: _, ...grant }) => grant),
    }));
  }
}
