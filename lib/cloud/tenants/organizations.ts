/**
 * Organizations, the roots of the tree to which everything else belongs.
 *
 * Owns the table `organizations`. Names are unique, and ids never change.
 *
 * The room owns the tree of organizations: its members, their names and host names, and their presence. A class owns
 * each table.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { noteSetting } from "../store/settings.ts";
import { placeholders, queryOne, type Sql } from "../store/store.ts";
import { checkedName } from "./names.ts";
import { type NamedRow, readById, removeGrantsOn, writeName } from "./rows.ts";

export interface Organization extends NamedRow {
  /** Its public name, under which others find its shared items. */
  readonly namespace: string | null;
}

/** Resources that prevent the deletion of an organization, and their tables. */
const KEEPS_ORGANIZATION = {
  locations: "locations",
  fragments: "fragments",
  "registry items": "registry_items",
  sequences: "sequences",
  datasets: "datasets",
  "training jobs": "training_jobs",
  "images and files": "binary_data d JOIN data_origins o ON o.id = d.origin_id",
  readings: "tabular_data d JOIN data_origins o ON o.id = d.origin_id",
  "files of readings": "reading_files d JOIN data_origins o ON o.id = d.origin_id",
};

/** The setting of a public name whose organization was deleted. */
export function retiredNamespace(namespace: string): string {
  return `retired namespace ${namespace}`;
}

const ORGANIZATIONS = `SELECT id, name, created_ms AS "createdMs", namespace FROM organizations`;

export class Organizations {
  constructor(private readonly sql: Sql) {}

  all(): Promise<Organization[]> {
    return this.sql.query(`${ORGANIZATIONS} ORDER BY name`);
  }

  /** The existing organizations among the ids, by name. The cost does not depend on other organizations. */
  async among(ids: readonly string[]): Promise<Organization[]> {
    if (ids.length === 0) return [];
    return await this.sql.query(`${ORGANIZATIONS} WHERE id IN (${placeholders(ids)}) ORDER BY name`, ...ids);
  }

  get(id: string): Promise<Organization> {
    return readById(this.sql, `${ORGANIZATIONS} WHERE id = ?`, "organization", id);
  }

  async create(name: string, nowMs: number): Promise<string> {
    const id = randomUUID();
    const text = "INSERT INTO organizations (id, name, created_ms) VALUES (?, ?, ?)";
    await writeName(this.sql, { kind: "organization", name }, text, id, checkedName(name), nowMs);
    return id;
  }

  async rename(id: string, name: string): Promise<void> {
    await writeName(
      this.sql,
      { kind: "organization", name },
      "UPDATE organizations SET name = ? WHERE id = ?",
      checkedName(name),
      id,
    );
  }

  /**
   * Deletes an organization that has nothing left but keys, and these keys. Nobody else gets its public name: machines of
   * others may still name its items, and would run what a new owner of the name publishes.
   */
  async delete(id: string): Promise<void> {
    const { name, namespace } = await this.get(id);
    for (const [what, table] of Object.entries(KEEPS_ORGANIZATION)) {
      const { amount } = await queryOne<{ amount: number }>(
        this.sql,
        `SELECT COUNT(*) AS amount FROM ${table} WHERE organization_id = ?`,
        id,
      );
      if (Number(amount) === 0) continue;
      throw new SvcError(
        "failed_precondition",
        `organization "${name}" has ${amount} ${what}, wanted an empty one`,
      );
    }
    await this.sql.query("DELETE FROM data_origins WHERE organization_id = ?", id);
    await this.sql.query("DELETE FROM api_keys WHERE organization_id = ?", id);
    await removeGrantsOn(this.sql, "organization", id);
    await this.sql.query("DELETE FROM organizations WHERE id = ?", id);
    if (namespace !== null) await noteSetting(this.sql, retiredNamespace(namespace), name);
  }
}
