/**
 * Administrators: people and keys that may run commands of svc-cloud remotely (`cloud/commands/`).
 *
 * An administrator is a person's account, or a key that belongs to no organization, so that no owner of one can
 * replace it. Only a command on the host appoints one. A removed administrator is refused at once.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { checkedName } from "../tenants/names.ts";
import { type Lookup, lookup } from "../store/lookups.ts";
import type { Sql } from "../store/store.ts";
import type { KeySecret, NewKey } from "./keys.ts";

export interface Administrator {
  readonly id: string;
  /** The address of an account, or the name of a key. */
  readonly name: string;
  readonly kind: "account" | "key";
  readonly createdMs: number;
  /** Who appointed it, as the audit log names people. */
  readonly creator: string;
  readonly usedMs: number | null;
}

/** A key that an organization owns by now is no longer an administrator. */
export const IS_ADMINISTRATOR: Lookup = lookup(
  `SELECT a.id FROM administrators a JOIN api_keys k ON k.id = a.id
   WHERE a.id = ? AND k.organization_id IS NULL`,
);

/** Throws `permission_denied` for anybody else. */
export async function requireAdministrator(sql: Pick<Sql, "query">, id: string): Promise<void> {
  if ((await sql.query(IS_ADMINISTRATOR, id)).length > 0) return;
  throw new SvcError(
    "permission_denied",
    "this needs an administrator of the control plane; on its host, svc-cloud administrator add makes one",
  );
}

export class Administrators {
  constructor(private readonly sql: Sql) {}

  /** Appoints an account. Throws `already_exists` if it is an administrator. */
  async add(id: string, creator: string, nowMs: number): Promise<void> {
    if ((await this.all()).some((one) => one.id === id)) {
      throw new SvcError("already_exists", `"${id}" is an administrator already`);
    }
    const text = "INSERT INTO administrators (id, created_ms, creator) VALUES (?, ?, ?)";
    await this.sql.query(text, id, nowMs, creator);
  }

  /** Makes a key that is an administrator. */
  async newKey(name: string, secret: KeySecret, nowMs: number): Promise<NewKey> {
    const checked = checkedName(name);
    if ((await this.all()).some((one) => one.name === checked)) {
      throw new SvcError("already_exists", `there is an administrator "${checked}" already`);
    }
    const id = randomUUID();
    await this.sql.query(
      "INSERT INTO api_keys (id, name, hash, created_ms, organization_id, creator) VALUES (?, ?, ?, ?, NULL, ?)",
      id,
      checked,
      secret.hash,
      nowMs,
      secret.creator ?? "",
    );
    await this.add(id, secret.creator ?? "", nowMs);
    return { id, key: secret.key };
  }

  all(): Promise<Administrator[]> {
    return this.sql.query(
      `SELECT a.id, COALESCE(c.email, k.name) AS name, a.created_ms AS "createdMs", a.creator, k.used_ms AS "usedMs",
         CASE WHEN c.id IS NULL THEN 'key' ELSE 'account' END AS kind
       FROM administrators a JOIN api_keys k ON k.id = a.id LEFT JOIN accounts c ON c.id = a.id
       ORDER BY a.created_ms, a.id`,
    );
  }

  /** Removes an administrator. An account keeps its roles; a key is deleted. */
  async remove({ id, kind }: Pick<Administrator, "id" | "kind">): Promise<void> {
    await this.sql.query("DELETE FROM administrators WHERE id = ?", id);
    if (kind === "key") await this.sql.query("DELETE FROM api_keys WHERE id = ?", id);
  }
}
