/**
 * Secrets of locations and parts, an older form of credentials than API keys.
 *
 * A part's secret identifies this part alone, to the control plane. A location's secret opens the machines in the
 * location, at the machines themselves. Each may have several, so that a new one is in use before the old one goes. A
 * secret is shown once, when it is created; the store has only its hash. Its text starts with its id, so that one hash
 * is compared.
 */

import { randomBytes, randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { fingerprintOf, hashOfKey } from "../../base/key_hash.ts";
import type { StoredKey } from "../../wire/auth/rate_limit.ts";
import { type Lookup, lookup } from "../store/lookups.ts";
import type { Sql } from "../store/store.ts";

export type SecretOwner = "location" | "part";

export interface SharedSecret {
  readonly id: string;
  readonly hash: string;
  readonly createdMs: number;
}

export interface NewSharedSecret {
  readonly id: string;
  readonly hash: string;
  readonly secret: string;
}

const SECRET_BYTES = 24;
const COLUMNS: { readonly [O in SecretOwner]: string } = { location: "location_id", part: "part_id" };

/** Secrets that a lookup reads; few locations and parts have more. */
const SECRETS_MAX = 8;
const secretsOf = (owner: SecretOwner) =>
  lookup(
    `SELECT id, hash, created_ms AS "createdMs" FROM shared_secrets WHERE ${COLUMNS[owner]} = ?`,
    SECRETS_MAX,
  );
const SECRETS_OF = { location: secretsOf("location"), part: secretsOf("part") };
const OF_LOCATION_WITH = lookup(
  `SELECT s.id, s.hash, s.created_ms AS "createdMs" FROM parts p JOIN machines m ON m.id = p.machine_id
     JOIN shared_secrets s ON s.location_id = m.location_id
   WHERE p.id = ?`,
  SECRETS_MAX,
);
const KEPT_SECRET = lookup(
  `SELECT s.hash AS form, l.organization_id AS owner FROM shared_secrets s JOIN parts p ON p.id = s.part_id
     JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id
   WHERE s.part_id = ? AND s.id = ?`,
);

export const SECRET_LOOKUPS = [...Object.values(SECRETS_OF), OF_LOCATION_WITH, KEPT_SECRET];

export class SharedSecrets {
  constructor(private readonly sql: Sql) {}

  async add(owner: SecretOwner, ownerId: string, made: NewSharedSecret, nowMs: number): Promise<void> {
    await this.sql.query(
      `INSERT INTO shared_secrets (id, ${COLUMNS[owner]}, hash, created_ms) VALUES (?, ?, ?, ?)`,
      made.id,
      ownerId,
      made.hash,
      nowMs,
    );
  }

  /** Oldest first. */
  of(owner: SecretOwner, ownerId: string): Promise<SharedSecret[]> {
    return this.#sorted(SECRETS_OF[owner], ownerId);
  }

  /** The secrets of the location of a part. */
  ofLocationWith(partId: string): Promise<SharedSecret[]> {
    return this.#sorted(OF_LOCATION_WITH, partId);
  }

  async delete(owner: SecretOwner, ownerId: string, id: string): Promise<void> {
    const text = `DELETE FROM shared_secrets WHERE ${COLUMNS[owner]} = ? AND id = ? RETURNING id`;
    if ((await this.sql.query(text, ownerId, id)).length > 0) return;
    throw new SvcError("not_found", `${owner} ${ownerId} has no secret "${id}"`);
  }

  /** A part's secret, and the organization of the part; `undefined` if the part has none with this id. */
  async kept(partId: string, id: string): Promise<StoredKey | undefined> {
    const [row] = await this.sql.query<{ form: string; owner: string }>(KEPT_SECRET, partId, id);
    return row;
  }

  /** Whether one of the part's secrets is of this generation (`KeySource`). */
  async isCurrent(partId: string, generation: string): Promise<boolean> {
    return (await this.of("part", partId)).some(({ hash }) => fingerprintOf(hash) === generation);
  }

  async #sorted(secrets: Lookup, id: string): Promise<SharedSecret[]> {
    const rows = await this.sql.query<SharedSecret>(secrets, id);
    return rows.toSorted((a, b) => a.createdMs - b.createdMs || (a.id < b.id ? -1 : 1));
  }
}

/** The id at the start of a secret's text. */
export function idIn(secret: string): string {
  const [id = ""] = secret.split(".", 1);
  return id;
}

/** Generates a secret. Takes a moment: do not call it in a transaction. */
export async function newSharedSecret(): Promise<NewSharedSecret> {
  const id = randomUUID();
  const secret = `${id}.${randomBytes(SECRET_BYTES).toString("base64url")}`;
  return { id, secret, hash: await hashOfKey(secret) };
}
