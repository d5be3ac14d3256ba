/**
 * Datasets: named sets of images of one organization.
 *
 * Owns the tables `datasets` and `dataset_data`. A dataset refers to images and never owns one: deleting it keeps
 * them, and a deleted image leaves every dataset. Names are unique in an organization.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { checkedName } from "../tenants/names.ts";
import { type DatasetImage, imageFileName, type Label, type LabelBox } from "../../cloud_client/dataset.ts";
import { placeholders, type Sql } from "../store/store.ts";

/** The members of a dataset; `sequences.ts` has datasets of sequences. */
export type DatasetType = "images" | "sequences";

export interface Dataset {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly type: DatasetType;
  readonly createdMs: number;
}

/** A stored annotation: a box if it has corners. */
export interface AnnotationRow {
  readonly id: string;
  readonly dataId: string;
  readonly label: string;
  readonly confidence: number | null;
  readonly xMin: number | null;
  readonly yMin: number | null;
  readonly xMax: number | null;
  readonly yMax: number | null;
}

const DATASET_COLUMNS =
  `SELECT id, organization_id AS "organizationId", name, type, created_ms AS "createdMs" FROM datasets`;
export const ANNOTATION_COLUMNS = `a.id, a.data_id AS "dataId", a.label, a.confidence,
  a.x_min AS "xMin", a.y_min AS "yMin", a.x_max AS "xMax", a.y_max AS "yMax"`;

export class Datasets {
  constructor(private readonly sql: Sql) {}

  list(organizationId: string, type?: DatasetType): Promise<Dataset[]> {
    const only = type ? [type] : ["images", "sequences"];
    const where = `organization_id = ? AND type IN (${placeholders(only)})`;
    return this.sql.query(`${DATASET_COLUMNS} WHERE ${where} ORDER BY name`, organizationId, ...only);
  }

  /** The datasets of several organizations, up to a limit. */
  listOf(organizationIds: readonly string[], limit: number): Promise<Dataset[]> {
    if (organizationIds.length === 0) return Promise.resolve([]);
    const where = `organization_id IN (${placeholders(organizationIds)})`;
    return this.sql.query(
      `${DATASET_COLUMNS} WHERE ${where} ORDER BY name, id LIMIT ?`,
      ...organizationIds,
      limit,
    );
  }

  async get(id: string): Promise<Dataset> {
    const [row] = await this.sql.query<Dataset>(`${DATASET_COLUMNS} WHERE id = ?`, id);
    if (!row) throw new SvcError("not_found", `there is no dataset "${id}"`);
    return row;
  }

  async create(organizationId: string, name: string, type: DatasetType, nowMs: number): Promise<string> {
    const id = randomUUID();
    await this.#named(
      name,
      "INSERT INTO datasets (name, id, organization_id, type, created_ms) VALUES (?, ?, ?, ?, ?)",
      id,
      organizationId,
      type,
      nowMs,
    );
    return id;
  }

  async rename(id: string, name: string): Promise<void> {
    await this.get(id);
    await this.#named(name, "UPDATE datasets SET name = ? WHERE id = ?", id);
  }

  /** Deletes a dataset and keeps its images. */
  async delete(id: string): Promise<void> {
    await this.get(id);
    await this.sql.query("DELETE FROM datasets WHERE id = ?", id);
  }

  /** Adds images of the dataset's own organization; skips those that it has. */
  async add(id: string, dataIds: readonly string[]): Promise<void> {
    const { organizationId, type, name } = await this.get(id);
    if (type !== "images") {
      throw new SvcError(
        "failed_precondition",
        `dataset "${name}" contains sequences, wanted a dataset of images`,
      );
    }
    for (const dataId of new Set(dataIds)) {
      const [found] = await this.sql.query<{ organizationId: string }>(
        `SELECT o.organization_id AS "organizationId" FROM binary_data d
         JOIN data_origins o ON o.id = d.origin_id WHERE d.id = ?`,
        dataId,
      );
      if (found?.organizationId !== organizationId) {
        throw new SvcError("not_found", `dataset "${name}": its organization has no data "${dataId}"`);
      }
      await this.sql.query(
        "INSERT INTO dataset_data (dataset_id, data_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
        id,
        dataId,
      );
    }
  }

  /** Removes images from it; skips those that it does not have. */
  async remove(id: string, dataIds: readonly string[]): Promise<void> {
    await this.get(id);
    for (const dataId of dataIds) {
      await this.sql.query("DELETE FROM dataset_data WHERE dataset_id = ? AND data_id = ?", id, dataId);
    }
  }

  /** Creates a dataset with all images of other datasets of the organization. */
  async merge(ids: readonly string[], organizationId: string, name: string, nowMs: number): Promise<string> {
    if (ids.length === 0) {
      throw new SvcError("invalid_argument", "dataset_ids is empty, wanted the datasets to merge");
    }
    for (const id of ids) {
      const found = await this.get(id);
      if (found.organizationId !== organizationId || found.type !== "images") {
        const wanted = `wanted one of images in organization "${organizationId}"`;
        throw new SvcError("failed_precondition", `dataset "${found.name}" cannot be merged, ${wanted}`);
      }
    }
    const merged = await this.create(organizationId, name, "images", nowMs);
    await this.sql.query(
      `INSERT INTO dataset_data (dataset_id, data_id)
       SELECT DISTINCT CAST(? AS TEXT), data_id FROM dataset_data WHERE dataset_id IN (${placeholders(ids)})`,
      merged,
      ...ids,
    );
    return merged;
  }

  /** Its present images with all their facts, oldest first. */
  async snapshot(id: string): Promise<readonly DatasetImage[]> {
    await this.get(id);
    type Row = Omit<DatasetImage, "tags" | "classifications" | "boxes"> & {
      fileExt: string;
      capturedUs: number;
    };
    const rows = await this.sql.query<Row>(
      `SELECT d.id, d.sha256, d.bytes, d.mime_type AS "mimeType", d.file_name AS "fileName",
         d.file_ext AS "fileExt", d.captured_us AS "capturedUs", o.part_id AS "partId",
         o.component_name AS "componentName", o.organization_id AS "organizationId",
         o.location_id AS "locationId", o.machine_id AS "machineId"
       FROM dataset_data s JOIN binary_data d ON d.id = s.data_id JOIN data_origins o ON o.id = d.origin_id
       WHERE s.dataset_id = ? ORDER BY d.captured_us, d.id`,
      id,
    );
    const tags = await this.sql.query<{ dataId: string; tag: string }>(
      `SELECT t.data_id AS "dataId", t.tag FROM dataset_data s JOIN data_tags t ON t.data_id = s.data_id
       WHERE s.dataset_id = ? ORDER BY t.tag`,
      id,
    );
    const annotations = await this.sql.query<AnnotationRow>(
      `SELECT ${ANNOTATION_COLUMNS} FROM dataset_data s JOIN annotations a ON a.data_id = s.data_id
       WHERE s.dataset_id = ? ORDER BY a.label, a.id`,
      id,
    );
    const tagsOf = Map.groupBy(tags, ({ dataId }) => dataId);
    const annotationsOf = Map.groupBy(annotations, ({ dataId }) => dataId);
    return rows.map(({ capturedUs, fileExt, ...row }) => ({
      ...row,
      fileName: imageFileName(row.id, row.fileName, fileExt, row.mimeType),
      tags: (tagsOf.get(row.id) ?? []).map(({ tag }) => tag),
      ...sorted(annotationsOf.get(row.id) ?? []),
      capturedMs: capturedUs / 1000,
    }));
  }

  async #named(name: string, text: string, ...values: (string | number)[]): Promise<void> {
    checkedName(name);
    try {
      await this.sql.query(text, name, ...values);
    } catch (error) {
      if (SvcError.from(error).code !== "already_exists") throw error;
      throw new SvcError("already_exists", `there is a dataset "${name}" in this organization already`);
    }
  }
}

/** Separates boxes and classifications. */
export function sorted(
  rows: readonly AnnotationRow[],
): { boxes: LabelBox[]; classifications: (Label & { id: string })[] } {
  const boxes: LabelBox[] = [];
  const classifications: (Label & { id: string })[] = [];
  for (const { dataId: _, confidence, xMin, yMin, xMax, yMax, ...row } of rows) {
    const known = confidence === null ? row : { ...row, confidence };
    if (xMin === null || yMin === null || xMax === null || yMax === null) classifications.push(known);
    else boxes.push({ ...known, xMin, yMin, xMax, yMax });
  }
  return { boxes, classifications };
}
