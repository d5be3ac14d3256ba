/**
 * API keys and what they may do.
 *
 * A key is shown once, when it is made; kept is what tells that a key is the right one (scrypt, with a salt of its
 * own). A grant gives a key a role on an organization, a location or a machine, and with it on everything in there.
 */

import { Buffer } from "node:buffer";
import { randomBytes, randomUUID, scrypt, timingSafeEqual } from "node:crypto";
import { SvcError } from "../base/error.ts";
import { places, type Sql } from "./store.ts";

export const ROLES = ["operator", "owner"] as const;
/** An owner may do everything; an operator may look at everything, restart it, and be a machine. */
export type Role = typeof ROLES[number];

export const GRANT_KINDS = ["organization", "location", "machine"] as const;
export type GrantKind = typeof GRANT_KINDS[number];

export interface Grant {
  readonly role: Role;
  readonly kind: GrantKind;
  readonly resourceId: string;
}

export interface ApiKey {
  readonly id: string;
  readonly name: string;
  readonly createdMs: number;
  readonly grants: readonly Grant[];
}

/** A key as it is shown once. */
export interface NewKey {
  readonly id: string;
  readonly key: string;
}

/** A key that nobody has yet, and what is kept of it. */
export interface KeySecret {
  readonly key: string;
  readonly hash: string;
}

/** The key has so much chance in it that its hash need not be slow, only not fast. */
const SCRYPT = { N: 1024, r: 8, p: 1 };
const KEY_BYTES = 24;
const HASH_BYTES = 32;
/** What the hash of a key that there is not looks like: such a one takes as long to refuse. */
const NOBODY = `scrypt$1024$8$1$${"A".repeat(22)}$${"A".repeat(43)}`;

type KeyRow = Omit<ApiKey, "grants">;

export class Keys {
  constructor(private readonly sql: Sql) {}

  /** A key with at least one grant; whoever calls has checked that it may give them. */
  async create(secret: KeySecret, name: string, grants: readonly Grant[], nowMs: number): Promise<NewKey> {
    if (grants.length === 0) {
      throw new SvcError(
        "invalid_argument",
        "a key that may do nothing, wanted at least one role on something",
      );
    }
    const id = randomUUID();
    await this.sql.query(
      "INSERT INTO api_keys (id, name, hash, created_ms) VALUES (?, ?, ?, ?)",
      id,
      name === "" ? `key of ${new Date(nowMs).toISOString()}` : name,
      secret.hash,
      nowMs,
    );
    for (const grant of grants) await this.grant(id, grant);
    return { id, key: secret.key };
  }

  /** Replaces the key itself; the old one is no longer good. */
  async rotate(id: string, secret: KeySecret): Promise<NewKey> {
    await this.get(id);
    await this.sql.query("UPDATE api_keys SET hash = ? WHERE id = ?", secret.hash, id);
    return { id, key: secret.key };
  }

  async rename(id: string, name: string): Promise<void> {
    await this.get(id);
    await this.sql.query("UPDATE api_keys SET name = ? WHERE id = ?", name, id);
  }

  async delete(id: string): Promise<void> {
    await this.get(id);
    await this.sql.query("DELETE FROM api_keys WHERE id = ?", id);
  }

  async get(id: string): Promise<ApiKey> {
    const [key] = await this.#with(
      'SELECT id, name, created_ms AS "createdMs" FROM api_keys WHERE id = ?',
      id,
    );
    if (!key) throw new SvcError("not_found", `there is no API key "${id}"`);
    return key;
  }

  all(): Promise<ApiKey[]> {
    return this.#with('SELECT id, name, created_ms AS "createdMs" FROM api_keys ORDER BY created_ms, id');
  }

  /** The keys with a grant on one of these. */
  of(resourceIds: readonly string[]): Promise<ApiKey[]> {
    return this.#with(
      `SELECT DISTINCT k.id, k.name, k.created_ms AS "createdMs" FROM api_keys k
       JOIN grants g ON g.key_id = k.id WHERE g.resource_id IN (${places(resourceIds)})
       ORDER BY "createdMs", id`,
      ...resourceIds,
    );
  }

  async grant(id: string, { role, kind, resourceId }: Grant): Promise<void> {
    await this.get(id);
    await this.sql.query(
      `INSERT INTO grants (key_id, role, kind, resource_id) VALUES (?, ?, ?, ?)
       ON CONFLICT (key_id, kind, resource_id) DO UPDATE SET role = excluded.role`,
      id,
      role,
      kind,
      resourceId,
    );
  }

  async revoke(id: string, { role, kind, resourceId }: Grant): Promise<void> {
    const gone = await this.sql.query(
      "DELETE FROM grants WHERE key_id = ? AND role = ? AND kind = ? AND resource_id = ? RETURNING key_id",
      id,
      role,
      kind,
      resourceId,
    );
    if (gone.length === 0) {
      throw new SvcError("not_found", `key ${id} is not ${role} of ${kind} ${resourceId}`);
    }
  }

  /** Whether `key` is the one of this id. */
  async isKey(id: string, key: string): Promise<boolean> {
    const [row] = await this.sql.query<{ hash: string }>("SELECT hash FROM api_keys WHERE id = ?", id);
    const [, n, r, p, salt, hash] = (row?.hash ?? NOBODY).split("$");
    const found = await digest(key, Buffer.from(salt, "base64url"), {
      N: Number(n),
      r: Number(r),
      p: Number(p),
    });
    return timingSafeEqual(found, Buffer.from(hash, "base64url")) && row !== undefined;
  }

  async #with(text: string, ...values: string[]): Promise<ApiKey[]> {
    const keys = await this.sql.query<KeyRow>(text, ...values);
    if (keys.length === 0) return [];
    const grants = await this.sql.query<Grant & { keyId: string }>(
      `SELECT key_id AS "keyId", role, kind, resource_id AS "resourceId" FROM grants
       WHERE key_id IN (${places(keys)}) ORDER BY kind, resource_id`,
      ...keys.map(({ id }) => id),
    );
    return keys.map((key) => ({
      ...key,
      grants: grants.filter(({ keyId }) => keyId === key.id).map(({ keyId: _, ...grant }) => grant),
    }));
  }
}

/** Makes up a key. It takes a moment: not to be done in a transaction. */
export async function newKeySecret(): Promise<KeySecret> {
  const key = randomBytes(KEY_BYTES).toString("base64url");
  const salt = randomBytes(16);
  const hash = await digest(key, salt, SCRYPT);
  const { N, r, p } = SCRYPT;
  return { key, hash: `scrypt$${N}$${r}$${p}$${salt.toString("base64url")}$${hash.toString("base64url")}` };
}

function digest(key: string, salt: Uint8Array, cost: typeof SCRYPT): Promise<Buffer> {
  return new Promise((resolve, reject) =>
    scrypt(key, salt, HASH_BYTES, cost, (error, hash) => error ? reject(error) : resolve(hash))
  );
}
