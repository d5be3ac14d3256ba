/**
 * Tags of machines, by which people and commands choose them.
 *
 * Owns the table `machine_tags`.
 */

import { SvcError } from "../../base/error.ts";
import { placeholders, queryByIds, type Sql } from "../store/store.ts";
import { Machines } from "./machines.ts";

const TAG = /^[\p{L}\p{N}][\p{L}\p{N}._:/-]{0,63}$/u;
const TAGS_MAX = 50;

export class MachineTags {
  constructor(private readonly sql: Sql) {}

  /** The tags of machines, by machine. */
  async ofMachines(machineIds: readonly string[]): Promise<ReadonlyMap<string, readonly string[]>> {
    const rows = await queryByIds<{ id: string; tag: string }>(
      this.sql,
      machineIds,
      (places) =>
        `SELECT machine_id AS id, tag FROM machine_tags WHERE machine_id IN (${places}) ORDER BY tag`,
    );
    const tags = new Map<string, string[]>();
    for (const { id, tag } of rows) tags.getOrInsertComputed(id, () => []).push(tag);
    return tags;
  }

  async read(machineId: string): Promise<string[]> {
    const text = "SELECT tag FROM machine_tags WHERE machine_id = ? ORDER BY tag";
    return (await this.sql.query<{ tag: string }>(text, machineId)).map(({ tag }) => tag);
  }

  /** Adds tags to a machine. Throws `invalid_argument` for an unusable tag, and `resource_exhausted` for too many tags. */
  async add(machineId: string, tags: readonly string[]): Promise<void> {
    await new Machines(this.sql).get(machineId);
    for (const tag of tags) {
      if (!TAG.test(tag)) {
        const wanted = "wanted letters, digits and . _ : / -, at most 64, with a letter or digit first";
        throw new SvcError("invalid_argument", `found the tag ${JSON.stringify(tag)}, ${wanted}`);
      }
      const text = "INSERT INTO machine_tags (machine_id, tag) VALUES (?, ?) ON CONFLICT DO NOTHING";
      await this.sql.query(text, machineId, tag);
    }
    const all = await this.read(machineId);
    if (all.length <= TAGS_MAX) return;
    throw new SvcError("resource_exhausted", `a machine has at most ${TAGS_MAX} tags, found ${all.length}`);
  }

  async remove(machineId: string, tags: readonly string[]): Promise<void> {
    const text = `DELETE FROM machine_tags WHERE machine_id = ? AND tag IN (${
      placeholders(tags)
    }) RETURNING tag`;
    const gone = await this.sql.query<{ tag: string }>(text, machineId, ...tags);
    const missing = tags.find((tag) => !gone.some((one) => one.tag === tag));
    if (missing !== undefined) throw new SvcError("not_found", `the machine has no tag "${missing}"`);
  }

  async removeAll(machineId: string): Promise<void> {
    await this.sql.query("DELETE FROM machine_tags WHERE machine_id = ?", machineId);
  }
}
