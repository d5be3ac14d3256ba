/**
 * API keys and their roles.
 *
 * A key is shown once, when it is created; the store has only its hash. A grant gives a key a role on an organization,
 * a location or a machine, and on everything inside. A key belongs to the organization in which it was created,
 * whatever roles other organizations give it: only its owner renames, replaces and deletes it.
 */

import { randomBytes, randomUUID } from "node:crypto";
import { SerialQueue } from "../../base/async/serial_queue.ts";
import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { fingerprintOf, hashOfKey, isHashOf } from "../../base/key_hash.ts";
import type { Logger } from "../../base/log/log.ts";
import type { StoredKey } from "../../wire/auth/rate_limit.ts";
import { checkedName } from "../tenants/names.ts";
import { AROUND_PART } from "../tenants/parts.ts";
import { lookup } from "../store/lookups.ts";
import { OWN_GROUP } from "../store/callers.ts";
import {
  type BatchStatement,
  placeholders,
  rowPieces,
  type Sql,
  type Store,
  typedRows,
} from "../store/store.ts";

export const ROLES = ["viewer", "operator", "owner"] as const;
/**
 * An owner may do everything; an operator may view everything except secrets, restart and drive machines; a viewer may
 * only view. A key that is operator or owner of a machine itself is that machine's own.
 */
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
  /** Absent for callers who may not see it. */
  readonly createdMs: number | undefined;
  /** Who created it, as the audit log names people and keys; empty for a key of an older version. */
  readonly creator: string;
  /** When a call last used it, to the minute. */
  readonly usedMs: number | null;
  /** The owning organization; null for a key of an older version with roles in several organizations. */
  readonly organizationId: string | null;
  readonly grants: readonly Grant[];
}

/** A key in the form in which it is shown once. */
export interface NewKey {
  readonly id: string;
  readonly key: string;
}

/** A new key, and the hash to store. */
export interface KeySecret {
  readonly key: string;
  readonly hash: string;
  /** Who creates it: another key's id, or a person at the command line. */
  readonly creator?: string;
}

const KEY_BYTES = 24;
const KEYS = `SELECT k.id, k.name, k.created_ms AS "createdMs", k.organization_id AS "organizationId",
    k.creator, k.used_ms AS "usedMs"
  FROM api_keys k`;

const KEPT_KEY = lookup(
  "SELECT hash AS form, COALESCE(organization_id, id) AS owner FROM api_keys WHERE id = ?",
);
const HASH = lookup("SELECT hash FROM api_keys WHERE id = ?");
/** Keys of a machine that a lookup reads; few machines have more. */
const HASHES_MAX = 64;
/** With CROSS JOIN SQLite joins in this order; otherwise it would scan the keys of all organizations. */
const HASHES_FOR = lookup(
  `${AROUND_PART}
     UNION ALL SELECT 'organization', s.organization_id FROM above CROSS JOIN location_shares s
       WHERE s.location_id = above.id
   )
   SELECT k.id, k.hash, CASE WHEN EXISTS (SELECT 1 FROM training_jobs j WHERE j.key_id = k.id) THEN 1 ELSE 0 END AS jobs
   FROM opened CROSS JOIN grants g CROSS JOIN api_keys k
   WHERE g.kind = opened.kind AND g.resource_id = opened.id AND g.role <> 'viewer' AND k.id = g.key_id`,
  HASHES_MAX,
);

export const KEY_LOOKUPS = [KEPT_KEY, HASH, HASHES_FOR];
const USES_EVERY_MS = 60_000;
const USES_AT_ONCE = 200;
/** Limit of keys whose last use waits to be written; the times of further keys are dropped. */
const USES_MAX = 100_000;
/**
 * Excludes the keys of accounts, which are listed as members, and of administrators, which have commands of their own.
 */
const PLAIN = `NOT EXISTS (SELECT 1 FROM accounts a WHERE a.id = k.id)
  AND NOT EXISTS (SELECT 1 FROM administrators a WHERE a.id = k.id)`;

export interface KeyHash {
  readonly id: string;
  readonly hash: string;
}

type KeyRow = Omit<ApiKey, "grants">;

export class Keys {
  constructor(private readonly sql: Sql) {}

  /**
   * Creates a key with at least one grant, owned by the organization of the first grant. The caller has checked the
   * right to give the grants.
   */
  async create(secret: KeySecret, name: string, grants: readonly Grant[], nowMs: number): Promise<NewKey> {
    const [first] = grants;
    if (!first) {
      throw new SvcError(
        "invalid_argument",
        "found a key without roles, wanted at least one role",
      );
    }
    const id = randomUUID();
    await this.sql.query(
      "INSERT INTO api_keys (id, name, hash, created_ms, organization_id, creator) VALUES (?, ?, ?, ?, ?, ?)",
      id,
      name === "" ? `key of ${new Date(nowMs).toISOString()}` : checkedName(name),
      secret.hash,
      nowMs,
      await findOrganization(this.sql, first),
      secret.creator ?? "",
    );
    for (const grant of grants) await this.grant(id, grant);
    return { id, key: secret.key };
  }

  /** Replaces the key itself; the old one stops working. */
  async rotate(id: string, secret: KeySecret): Promise<NewKey> {
    await this.get(id);
    await this.sql.query("UPDATE api_keys SET hash = ? WHERE id = ?", secret.hash, id);
    return { id, key: secret.key };
  }

  async rename(id: string, name: string): Promise<void> {
    await this.get(id);
    await this.sql.query("UPDATE api_keys SET name = ? WHERE id = ?", checkedName(name), id);
  }

  async delete(id: string): Promise<void> {
    await this.get(id);
    await this.sql.query("DELETE FROM api_keys WHERE id = ?", id);
  }

  async get(id: string): Promise<ApiKey> {
    const [key] = await this.#with(`${KEYS} WHERE k.id = ?`, id);
    if (!key) throw new SvcError("not_found", `there is no API key "${id}"`);
    return key;
  }

  all(): Promise<ApiKey[]> {
    return this.#with(`${KEYS} WHERE ${PLAIN} ORDER BY k.created_ms, k.id`);
  }

  /** The keys with a grant on one of these resources, and the keys of an organization. */
  of(resourceIds: readonly string[], organizationId = ""): Promise<ApiKey[]> {
    return this.#with(
      `${KEYS} WHERE ${PLAIN} AND (k.organization_id = ?
         OR k.id IN (SELECT key_id FROM grants WHERE resource_id IN (${placeholders(resourceIds)})))
       ORDER BY k.created_ms, k.id`,
      organizationId,
      ...resourceIds,
    );
  }

  /** Makes an organization the owner of a key. */
  async own(id: string, organizationId: string): Promise<void> {
    await this.get(id);
    await this.sql.query("UPDATE api_keys SET organization_id = ? WHERE id = ?", organizationId, id);
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

  /**
   * Ends all roles on a machine itself, and the keys that have no other role, such as the machine's own; a person keeps the
   * account.
   */
  async endOn(machineId: string): Promise<void> {
    const rows = await this.sql.query<{ id: string }>(
      "DELETE FROM grants WHERE kind = 'machine' AND resource_id = ? RETURNING key_id AS id",
      machineId,
    );
    for (const { id } of rows) {
      await this.sql.query(
        `DELETE FROM api_keys WHERE id = ? AND NOT EXISTS (SELECT 1 FROM grants WHERE key_id = ?)
         AND NOT EXISTS (SELECT 1 FROM administrators WHERE id = ?)
         AND NOT EXISTS (SELECT 1 FROM accounts WHERE id = ?)`,
        ...[id, id, id, id],
      );
    }
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

  /** The generation of `key` if it is the one of this id. */
  async check(id: string, key: string): Promise<string | undefined> {
    const hash = await this.hash(id);
    return await isHashOf(hash, key) ? fingerprintOf(hash!) : undefined;
  }

  /** The generation of the current key; each rotation starts a new one. */
  async generation(id: string): Promise<string | undefined> {
    const hash = await this.hash(id);
    return hash === undefined ? undefined : fingerprintOf(hash);
  }

  /** The hash of a key, and the organization that owns the key. */
  async kept(id: string): Promise<StoredKey | undefined> {
    const [row] = await this.sql.query<{ form: string; owner: string }>(KEPT_KEY, id);
    return row;
  }

  async hash(id: string): Promise<string | undefined> {
    const [row] = await this.sql.query<{ hash: string }>(HASH, id);
    return row?.hash;
  }

  /**
   * The hashes of every key that may use the machine of a part, guests of its location included, viewers and keys of
   * training scripts excluded.
   */
  async hashesFor(partId: string): Promise<KeyHash[]> {
    const rows = await this.sql.query<KeyHash & { jobs: number }>(HASHES_FOR, partId);
    const keys = new Map(
      rows.filter(({ jobs }) => Number(jobs) === 0).map(({ id, hash }) => [id, { id, hash }]),
    );
    return [...keys.values()].sort((a, b) => a.id < b.id ? -1 : 1);
  }

  async #with(text: string, ...values: string[]): Promise<ApiKey[]> {
    const keys = await this.sql.query<KeyRow>(text, ...values);
    if (keys.length === 0) return [];
    const grants = await this.sql.query<Grant & { keyId: string }>(
      `SELECT key_id AS "keyId", role, kind, resource_id AS "resourceId" FROM grants
       WHERE key_id IN (${placeholders(keys)}) ORDER BY kind, resource_id`,
      ...keys.map(({ id }) => id),
    );
    return keys.map((key) => ({
      ...key,
      grants: grants.filter(({ keyId }) => keyId === key.id).map(({ keyId: _, ...grant }) => grant),
    }));
  }
}

/** Stores when keys were used, unless a later time is stored. */
function usesStatements(uses: readonly (readonly [id: string, atMs: number])[]): BatchStatement[] {
  return rowPieces(uses).map((piece) => ({
    text: `UPDATE api_keys SET used_ms = v.column2 FROM (VALUES ${typedRows(piece, "TEXT", "BIGINT")}) AS v
      WHERE api_keys.id = v.column1 AND COALESCE(used_ms, 0) < v.column2`,
    values: piece.flat(),
  }));
}

/** The organization of a resource. Throws `not_found`. */
export async function findOrganization(
  sql: Sql,
  { kind, resourceId }: Pick<Grant, "kind" | "resourceId">,
): Promise<string> {
  const [row] = await sql.query<{ id: string }>(ORGANIZATION_OF[kind], resourceId);
  if (row) return row.id;
  throw new SvcError("not_found", `there is no ${kind} "${resourceId}"`);
}

const ORGANIZATION_OF: { readonly [K in GrantKind]: string } = {
  organization: "SELECT id FROM organizations WHERE id = ?",
  location: "SELECT organization_id AS id FROM locations WHERE id = ?",
  machine: `SELECT l.organization_id AS id FROM machines m JOIN locations l ON l.id = m.location_id
    WHERE m.id = ?`,
};

/** Generates a key. Takes a moment: do not call it in a transaction. */
export async function newKeySecret(creator = ""): Promise<KeySecret> {
  const key = randomBytes(KEY_BYTES).toString("base64url");
  return { key, hash: await hashOfKey(key), creator };
}

/** The times at which keys were last used: noted in memory, and written at most once a minute per key. */
export class KeyUses {
  readonly #unsaved = new Map<string, number>();
  readonly #saving = new SerialQueue();
  #callOff: (() => void) | undefined;
  #closed = false;

  constructor(
    private readonly store: Store,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {}

  saw(keyId: string): void {
    if (this.#unsaved.size >= USES_MAX && !this.#unsaved.has(keyId)) return;
    this.#unsaved.set(keyId, this.clock.nowMs());
    if (this.#closed || this.#callOff) return;
    this.#callOff = this.clock.after(USES_EVERY_MS, () => {
      this.#callOff = undefined;
      void this.#save();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#callOff?.();
    await this.#save();
  }

  /** A failure loses only times, which the next call renews. */
  #save(): Promise<void> {
    return this.#saving.run(async () => {
      const all = [...this.#unsaved];
      this.#unsaved.clear();
      try {
        for (let at = 0; at < all.length; at += USES_AT_ONCE) {
          const some = all.slice(at, at + USES_AT_ONCE);
          await this.store.forCaller({ group: OWN_GROUP }, () => this.store.batch(usesStatements(some)));
        }
      } catch (error) {
        this.logger.warn(`cannot save when keys were used: ${messageOf(error)}`);
      }
    });
  }
}
