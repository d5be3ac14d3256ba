/** Queries that people save under a name. Owns the table `saved_queries`. */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import type { Sql } from "../store/store.ts";
import { checkedQueryName, mqlIn, mqlText, unique } from "./pipelines.ts";

export interface SavedQuery {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly mql: readonly Uint8Array[];
  readonly createdMs: number;
  readonly updatedMs: number;
}

const COLUMNS = `id, organization_id AS "organizationId", name, mql, created_ms AS "createdMs",
  updated_ms AS "updatedMs"`;

type Row = Omit<SavedQuery, "mql"> & { readonly mql: string };

export class SavedQueries {
  constructor(private readonly sql: Sql) {}

  /** Throws `already_exists`. */
  async create(
    organizationId: string,
    name: string,
    mql: readonly Uint8Array[],
    nowMs: number,
  ): Promise<string> {
    const id = randomUUID();
    await unique(name, () =>
      this.sql.query(
        `INSERT INTO saved_queries (id, organization_id, name, mql, created_ms, updated_ms) VALUES (?, ?, ?, ?, ?, ?)`,
        id,
        organizationId,
        checkedQueryName(name),
        mqlText(mql),
        nowMs,
        nowMs,
      ));
    return id;
  }

  /** Changes a query. An empty name or an empty query leaves the old one. */
  async update(id: string, name: string, mql: readonly Uint8Array[], nowMs: number): Promise<void> {
    const before = await this.get(id);
    await unique(name, () =>
      this.sql.query(
        "UPDATE saved_queries SET name = ?, mql = ?, updated_ms = ? WHERE id = ?",
        checkedQueryName(name || before.name),
        mqlText(mql.length > 0 ? mql : before.mql),
        nowMs,
        id,
      ));
  }

  async get(id: string): Promise<SavedQuery> {
    const [row] = await this.sql.query<Row>(`SELECT ${COLUMNS} FROM saved_queries WHERE id = ?`, id);
    if (!row) throw new SvcError("not_found", `there is no saved query "${id}"`);
    return queryOf(row);
  }

  async named(organizationId: string, name: string): Promise<SavedQuery> {
    const text = `SELECT ${COLUMNS} FROM saved_queries WHERE organization_id = ? AND name = ?`;
    const [row] = await this.sql.query<Row>(text, organizationId, name);
    if (!row) throw new SvcError("not_found", `there is no saved query "${name}"`);
    return queryOf(row);
  }

  async list(organizationId: string, limit: number): Promise<SavedQuery[]> {
    const text = `SELECT ${COLUMNS} FROM saved_queries WHERE organization_id = ? ORDER BY name, id LIMIT ?`;
    return (await this.sql.query<Row>(text, organizationId, limit)).map(queryOf);
  }

  async delete(id: string): Promise<void> {
    await this.sql.query("DELETE FROM saved_queries WHERE id = ?", id);
  }
}

function queryOf({ mql, ...row }: Row): SavedQuery {
  return { ...row, mql: mqlIn(mql) };
}
