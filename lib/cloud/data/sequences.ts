/**
 * Sequences: time windows in one part's captured data, each with its resources and tags.
 *
 * Owns the tables `sequences` and `dataset_sequences`. A sequence is a saved filter: it holds no data, finds what
 * exists when it is read, and deleting it deletes nothing else. Datasets of sequences list them.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import type { Part } from "../tenants/parts.ts";
import { placeholders, queryOne, type Sql, type SqlValue } from "../store/store.ts";
import { checkedLabels, itemCursor, parseItemCursor } from "./binary_data.ts";
import type { Conditions } from "../capture/filter.ts";
import { plainText } from "../capture/origins.ts";
import { Datasets } from "./datasets.ts";

/** The data of one resource in a sequence. */
export interface SequenceResource {
  readonly resourceName: string;
  /** The captured method; empty means all methods. */
  readonly methodName: string;
}

/** The members of a sequence that can change; times in microseconds, both inclusive. */
export interface SequenceFields {
  readonly resources: readonly SequenceResource[];
  readonly tags: readonly string[];
  readonly startUs: number;
  readonly endUs: number;
}

export interface Sequence extends SequenceFields {
  readonly id: string;
  readonly organizationId: string;
  readonly partId: string;
  readonly createdMs: number;
  readonly updatedMs: number;
  readonly datasetIds: readonly string[];
}

export interface SequencePage {
  readonly sequences: readonly Sequence[];
  /** The start of the next page; empty if there is none. */
  readonly next: string;
}

/** Limits of the names and tags of one sequence: a page of sequences fits into one answer. */
const LETTERS_MAX = 16 * 1024;
const RESOURCES_MAX = 100;
/** Limit of datasets with one sequence, for the same reason. */
const DATASETS_MAX = 100;

type Row = Omit<Sequence, "resources" | "tags" | "datasetIds"> & {
  readonly resources: string;
  readonly tags: string;
};

const COLUMNS = `s.id, s.organization_id AS "organizationId", s.part_id AS "partId", s.resources, s.tags,
  s.start_us AS "startUs", s.end_us AS "endUs", s.created_ms AS "createdMs", s.updated_ms AS "updatedMs"`;

export class Sequences {
  constructor(private readonly sql: Sql) {}

  /** Returns its id. Throws `invalid_argument`. */
  async create(part: Part, fields: SequenceFields, nowMs: number): Promise<string> {
    const id = randomUUID();
    await this.sql.query(
      `INSERT INTO sequences (resources, tags, start_us, end_us, updated_ms, id, organization_id, location_id,
         machine_id, part_id, created_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...checked(fields),
      nowMs,
      id,
      part.organizationId,
      part.locationId,
      part.machineId,
      part.id,
      nowMs,
    );
    return id;
  }

  /** The id of the very same sequence of a part, if there is one. Throws `invalid_argument`. */
  async findSame(part: Part, fields: SequenceFields): Promise<string | undefined> {
    const [same] = await this.sql.query<{ id: string }>(
      `SELECT id FROM sequences WHERE part_id = ? AND organization_id = ? AND resources = ? AND tags = ?
         AND start_us = ? AND end_us = ?`,
      part.id,
      part.organizationId,
      ...checked(fields),
    );
    return same?.id;
  }

  /** Throws `not_found`. */
  async get(id: string): Promise<Sequence> {
    const [found] = await this.#found("WHERE s.id = ?", id);
    if (!found) throw new SvcError("not_found", `there is no sequence "${id}"`);
    return found;
  }

  /** Changes the given members. Throws `not_found` or `invalid_argument`. */
  async update(id: string, changes: Partial<SequenceFields>, nowMs: number): Promise<void> {
    const { resources, tags, startUs, endUs } = { ...await this.get(id), ...changes };
    await this.sql.query(
      "UPDATE sequences SET resources = ?, tags = ?, start_us = ?, end_us = ?, updated_ms = ? WHERE id = ?",
      ...checked({ resources, tags, startUs, endUs }),
      nowMs,
      id,
    );
  }

  async delete(id: string): Promise<void> {
    await this.get(id);
    await this.sql.query("DELETE FROM sequences WHERE id = ?", id);
  }

  /** The sequences of an organization, or of a dataset, in the order of their creation. */
  async page(
    of: { readonly organizationId: string } | { readonly datasetId: string },
    limit: number,
    token: string,
  ): Promise<SequencePage> {
    const [where, id] = "datasetId" in of
      ? [IN_DATASET, of.datasetId]
      : ["s.organization_id = ?", of.organizationId];
    const after = token === "" ? [] : parseItemCursor(token, "page_token");
    const found = await this.#found(
      `WHERE ${where} ${after.length > 0 ? "AND (s.created_ms, s.id) > (?, ?)" : ""}
       ORDER BY s.created_ms, s.id LIMIT ?`,
      id,
      ...after,
      limit + 1,
    );
    const sequences = found.slice(0, limit);
    const last = sequences.at(-1);
    const next = found.length > limit && last ? itemCursor({ capturedUs: last.createdMs, id: last.id }) : "";
    return { sequences, next };
  }

  async countIn(datasetId: string): Promise<number> {
    const { count } = await queryOne<{ count: number }>(
      this.sql,
      "SELECT COUNT(*) AS count FROM dataset_sequences WHERE dataset_id = ?",
      datasetId,
    );
    return count;
  }

  /** Adds sequences of the dataset's own organization to it; skips those that it has. */
  async addTo(datasetId: string, ids: readonly string[]): Promise<void> {
    const dataset = await this.#dataset(datasetId);
    for (const id of new Set(ids)) {
      const { organizationId, datasetIds } = await this.get(id);
      if (organizationId !== dataset.organizationId) {
        throw new SvcError(
          "not_found",
          `dataset "${dataset.name}": its organization has no sequence "${id}"`,
        );
      }
      if (datasetIds.includes(datasetId)) continue;
      if (datasetIds.length >= DATASETS_MAX) {
        const found = `sequence "${id}" is in ${datasetIds.length} datasets`;
        throw new SvcError("resource_exhausted", `${found}, wanted at most ${DATASETS_MAX}`);
      }
      await this.sql.query(
        "INSERT INTO dataset_sequences (dataset_id, sequence_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
        datasetId,
        id,
      );
    }
  }

  /** Removes sequences from a dataset; skips those that it does not have. */
  async removeFrom(datasetId: string, ids: readonly string[]): Promise<void> {
    await this.#dataset(datasetId);
    if (ids.length === 0) return;
    await this.sql.query(
      `DELETE FROM dataset_sequences WHERE dataset_id = ? AND sequence_id IN (${placeholders(ids)})`,
      datasetId,
      ...ids,
    );
  }

  async #dataset(id: string) {
    const dataset = await new Datasets(this.sql).get(id);
    if (dataset.type === "sequences") return dataset;
    throw new SvcError(
      "failed_precondition",
      `dataset "${dataset.name}" contains images, wanted a dataset of sequences`,
    );
  }

  async #found(where: string, ...values: SqlValue[]): Promise<Sequence[]> {
    const rows = await this.sql.query<Row>(`SELECT ${COLUMNS} FROM sequences s ${where}`, ...values);
    const memberships = rows.length === 0 ? [] : await this.sql.query<{ id: string; datasetId: string }>(
      `SELECT sequence_id AS id, dataset_id AS "datasetId" FROM dataset_sequences
       WHERE sequence_id IN (${placeholders(rows)}) ORDER BY dataset_id`,
      ...rows.map(({ id }) => id),
    );
    const datasets = Map.groupBy(memberships, ({ id }) => id);
    return rows.map((row) => ({
      ...row,
      resources: JSON.parse(row.resources),
      tags: JSON.parse(row.tags),
      datasetIds: (datasets.get(row.id) ?? []).map(({ datasetId }) => datasetId),
    }));
  }
}

const IN_DATASET = "s.id IN (SELECT sequence_id FROM dataset_sequences WHERE dataset_id = ?)";

/** The captured data `d` of sources `o` in a sequence. */
export function ofSequence(found: Conditions, sequence: Sequence): Conditions {
  const { organizationId, partId, resources, startUs, endUs } = sequence;
  const each = resources.map(({ methodName }) =>
    methodName === "" ? "o.component_name = ?" : "(o.component_name = ? AND o.method_name = ?)"
  );
  return found.only("o.part_id = ?", partId)
    .only("o.organization_id = ?", organizationId)
    .within("captured", { fromUs: startUs, untilUs: endUs })
    .only(
      `(${each.join(" OR ")})`,
      ...resources.flatMap(({ resourceName, methodName }) =>
        methodName === "" ? [resourceName] : [resourceName, methodName]
      ),
    );
}

/** The stored form of the fields, in the order of the columns. */
function checked({ resources, tags, startUs, endUs }: SequenceFields): SqlValue[] {
  if (resources.length < 1 || resources.length > RESOURCES_MAX) {
    throw invalid(`resources: found ${resources.length}, wanted 1 to ${RESOURCES_MAX}`);
  }
  const named = resources.map(({ resourceName, methodName }, index) => {
    if (resourceName === "") {
      throw invalid(`resources[${index}].resource_name is empty, wanted the name of a resource`);
    }
    return {
      resourceName: plainText(`resources[${index}].resource_name`, resourceName),
      methodName: plainText(`resources[${index}].method_name`, methodName),
    };
  });
  if (!(startUs < endUs)) throw invalid("end_time is not after start_time, wanted a window of time");
  const kept = [JSON.stringify(named), JSON.stringify(checkedLabels("sequence_tag", tags, 0))];
  const letters = kept.join("").length;
  if (letters > LETTERS_MAX) {
    throw invalid(`resources and sequence_tags: found ${letters} characters, wanted at most ${LETTERS_MAX}`);
  }
  return [...kept, startUs, endUs];
}

function invalid(message: string): SvcError {
  return new SvcError("invalid_argument", message);
}
