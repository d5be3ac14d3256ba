/**
 * Images, point clouds and other files that machines have captured or people have uploaded.
 *
 * Owns the tables `binary_data`, `data_tags` and `annotations`; the file store has the contents. Uploads with the same
 * source, content, name and capture time are one item, however often they arrive; without a capture time each upload
 * is an item of its own.
 *
 * The room owns captured data: files and readings, and the datasets and sequences made of them.
 */

import { createHash, randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { escapedLine, hasHidden } from "../../base/escape.ts";
import { Conditions } from "../capture/filter.ts";
import { type DataOrigin, noteOrigin, ORIGIN_COLUMNS, plainText } from "../capture/origins.ts";
import { ANNOTATION_COLUMNS, type AnnotationRow, Datasets, sorted } from "./datasets.ts";
import type { Label, LabelBox } from "../../cloud_client/dataset.ts";
import type { StoredFile } from "../store/files.ts";
import { placeholders, queryOne, type Sql, type SqlValue } from "../store/store.ts";
import { noteEvent } from "../triggers/outbox.ts";

export interface BinaryUpload {
  readonly origin: DataOrigin;
  /** The capture time; `undefined` if it is unknown. */
  readonly capturedUs?: number;
  readonly receivedUs?: number;
  readonly fileName: string;
  /** With its dot. */
  readonly fileExt: string;
  readonly mimeType: string;
  readonly tags: readonly string[];
  readonly datasetIds: readonly string[];
  readonly boxes: readonly Omit<LabelBox, "id">[];
  readonly classifications: readonly Label[];
  /** The kind by which triggers select data; by default `unspecified`. */
  readonly dataKind?: "binary" | "file" | "unspecified";
}

export interface BinaryItem extends DataOrigin {
  readonly id: string;
  readonly capturedUs: number;
  readonly receivedUs: number;
  readonly fileName: string;
  readonly fileExt: string;
  readonly mimeType: string;
  readonly sha256: string;
  readonly bytes: number;
  readonly tags: readonly string[];
  readonly boxes: readonly LabelBox[];
  readonly classifications: readonly (Label & { readonly id: string })[];
  readonly datasetIds: readonly string[];
}

export interface BinaryPage {
  readonly limit: number;
  readonly order: "newest first" | "oldest first";
  /** The position of an item; the page starts after it. */
  readonly last: string;
}

const FROM = "binary_data d JOIN data_origins o ON o.id = d.origin_id";
const TAG_LENGTH_MAX = 200;
/** Limits of tags, annotations and datasets of one upload or call. */
const LABELS_MAX = 1_000;

export class BinaryData {
  constructor(private readonly sql: Sql) {}

  /** Adds an upload whose content is in the file store. Returns its id. */
  async add(upload: BinaryUpload, { sha256, bytes }: StoredFile, nowMs: number): Promise<string> {
    const { origin, capturedUs, fileName, fileExt, mimeType, datasetIds } = upload;
    const { partId, organizationId, componentType, componentName, methodName } = origin;
    // The organization is the key of data without a part, so that two organizations never share a key.
    const known = [
      partId || `organization ${organizationId}`,
      componentType,
      componentName,
      methodName,
      fileName,
      sha256,
      capturedUs,
    ];
    const key = capturedUs === undefined
      ? randomUUID()
      : createHash("sha256").update(JSON.stringify(known)).digest("base64url");
    const [added] = await this.sql.query<{ id: string }>(
      `INSERT INTO binary_data (id, origin_id, upload_key, captured_us, received_us, stored_ms, file_name, file_ext,
         mime_type, sha256, bytes)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (upload_key) DO NOTHING RETURNING id`,
      randomUUID(),
      await noteOrigin(this.sql, origin),
      key,
      capturedUs ?? nowMs * 1000,
      upload.receivedUs ?? capturedUs ?? nowMs * 1000,
      nowMs,
      fileName,
      fileExt,
      mimeType,
      sha256,
      bytes,
    );
    const id = added?.id ?? await this.#uploaded(key);
    if (added) await this.#annotate(id, upload);
    if (added && partId !== "") {
      const facts = { kind: "data", type: upload.dataKind ?? "unspecified", dataId: id } as const;
      await noteEvent(this.sql, { id: partId, organizationId }, facts, nowMs, true);
    }
    const one = new Conditions().is("d.id", id);
    if (upload.tags.length > 0) await this.addTags(one, upload.tags);
    for (const datasetId of datasetIds) await new Datasets(this.sql).add(datasetId, [id]);
    return id;
  }

  async page(found: Conditions, { limit, order, last }: BinaryPage): Promise<BinaryItem[]> {
    const newest = order === "newest first";
    if (last !== "") {
      found.only(`(d.captured_us, d.id) ${newest ? "<" : ">"} (?, ?)`, ...parseItemCursor(last));
    }
    const direction = newest ? "DESC" : "ASC";
    return await this.#items(found, `ORDER BY d.captured_us ${direction}, d.id ${direction} LIMIT ?`, limit);
  }

  /** In the order of the ids. Throws `not_found`. */
  async get(ids: readonly string[]): Promise<BinaryItem[]> {
    const items = new Map(
      (await this.#items(new Conditions().only(`d.id IN (${placeholders(ids)})`, ...ids))).map((
        one,
      ) => [one.id, one]),
    );
    return ids.map((id) => {
      const item = items.get(id);
      if (!item) throw new SvcError("not_found", `there is no data "${id}"`);
      return item;
    });
  }

  async count(found: Conditions): Promise<{ count: number; bytes: number }> {
    const row = await queryOne<{ count: number; bytes: number }>(
      this.sql,
      `SELECT COUNT(*) AS count, CAST(COALESCE(SUM(d.bytes), 0) AS BIGINT) AS bytes FROM ${FROM} WHERE ${found.text}`,
      ...found.values,
    );
    return row;
  }

  /** Removes up to `limit` items. Returns the hashes of their contents, for the caller to release. */
  async remove(found: Conditions, limit: number): Promise<string[]> {
    const rows = await this.sql.query<{ sha256: string }>(
      `DELETE FROM binary_data WHERE id IN (SELECT d.id FROM ${FROM} WHERE ${found.text} LIMIT ?) RETURNING sha256`,
      ...found.values,
      limit,
    );
    return rows.map(({ sha256 }) => sha256);
  }

  /** Ids in their order, those after `last`. */
  async ids(found: Conditions, limit: number, last = ""): Promise<string[]> {
    const rows = await this.sql.query<{ id: string }>(
      `SELECT d.id FROM ${FROM} WHERE ${found.text} AND d.id > ? ORDER BY d.id LIMIT ?`,
      ...found.values,
      last,
      limit,
    );
    return rows.map(({ id }) => id);
  }

  /** The largest number of tags that one of these items has. */
  async tagCount(ids: readonly string[]): Promise<number> {
    const row = await queryOne<{ count: number | null }>(
      this.sql,
      `SELECT MAX(n) AS count FROM (
         SELECT COUNT(*) AS n FROM data_tags WHERE data_id IN (${placeholders(ids)}) GROUP BY data_id
       ) AS counted`,
      ...ids,
    );
    return row.count ?? 0;
  }

  async addTags(found: Conditions, tags: readonly string[]): Promise<void> {
    for (const tag of checkedLabels("tag", tags)) {
      await this.sql.query(
        `INSERT INTO data_tags (data_id, tag) SELECT d.id, CAST(? AS TEXT) FROM ${FROM} WHERE ${found.text}
         ON CONFLICT DO NOTHING`,
        tag,
        ...found.values,
      );
    }
  }

  /** Returns how many existed. */
  async removeTags(found: Conditions, tags: readonly string[]): Promise<number> {
    checkedLabels("tag", tags);
    const rows = await this.sql.query(
      `DELETE FROM data_tags WHERE tag IN (${placeholders(tags)})
         AND data_id IN (SELECT d.id FROM ${FROM} WHERE ${found.text}) RETURNING tag`,
      ...tags,
      ...found.values,
    );
    return rows.length;
  }

  async tags(found: Conditions, limit: number): Promise<string[]> {
    const rows = await this.sql.query<{ tag: string }>(
      `SELECT DISTINCT tag FROM data_tags WHERE data_id IN (SELECT d.id FROM ${FROM} WHERE ${found.text}) ORDER BY tag LIMIT ?`,
      ...found.values,
      limit,
    );
    return rows.map(({ tag }) => tag);
  }

  /** Bounding boxes. */
  async labels(found: Conditions, limit: number): Promise<string[]> {
    const rows = await this.sql.query<{ label: string }>(
      `SELECT DISTINCT label FROM annotations WHERE x_min IS NOT NULL
         AND data_id IN (SELECT d.id FROM ${FROM} WHERE ${found.text}) ORDER BY label LIMIT ?`,
      ...found.values,
      limit,
    );
    return rows.map(({ label }) => label);
  }

  async addBox(dataId: string, box: Omit<LabelBox, "id">): Promise<string> {
    return await this.#addAnnotation(dataId, checkedBox(box));
  }

  /** Changes the given fields of a box. */
  async updateBox(dataId: string, id: string, change: Partial<LabelBox>): Promise<void> {
    const rows = await this.#annotations(new Conditions().is("a.data_id", dataId).only("a.id = ?", id));
    const [box] = sorted(rows).boxes;
    if (!box) throw noBox(dataId, id);
    const { label, confidence, xMin, yMin, xMax, yMax } = checkedBox({ ...box, ...change });
    await this.sql.query(
      "UPDATE annotations SET label = ?, confidence = ?, x_min = ?, y_min = ?, x_max = ?, y_max = ? WHERE id = ?",
      label,
      confidence ?? null,
      xMin,
      yMin,
      xMax,
      yMax,
      id,
    );
  }

  async removeBox(dataId: string, id: string): Promise<void> {
    const removed = await this.sql.query(
      "DELETE FROM annotations WHERE id = ? AND data_id = ? AND x_min IS NOT NULL RETURNING id",
      id,
      dataId,
    );
    if (removed.length === 0) throw noBox(dataId, id);
  }

  async #uploaded(key: string): Promise<string> {
    const { id } = await queryOne<{ id: string }>(
      this.sql,
      "SELECT id FROM binary_data WHERE upload_key = ?",
      key,
    );
    return id;
  }

  async #annotate(id: string, { boxes, classifications }: BinaryUpload): Promise<void> {
    checkedLabels("label", [...boxes, ...classifications].map(({ label }) => label), 0);
    for (const box of boxes) await this.addBox(id, box);
    for (const one of classifications) await this.#addAnnotation(id, one);
  }

  async #addAnnotation(dataId: string, one: Label & Partial<LabelBox>): Promise<string> {
    const id = randomUUID();
    await this.sql.query(
      `INSERT INTO annotations (id, data_id, label, confidence, x_min, y_min, x_max, y_max)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      dataId,
      one.label,
      one.confidence ?? null,
      ...[one.xMin, one.yMin, one.xMax, one.yMax].map((value) => value ?? null),
    );
    return id;
  }

  #annotations(found: Conditions): Promise<AnnotationRow[]> {
    return this.sql.query(
      `SELECT ${ANNOTATION_COLUMNS} FROM annotations a WHERE ${found.text} ORDER BY a.label, a.id`,
      ...found.values,
    );
  }

  async #items(found: Conditions, rest = "", ...values: SqlValue[]): Promise<BinaryItem[]> {
    const rows = await this.sql.query<
      DataOrigin & Omit<BinaryItem, "tags" | "boxes" | "classifications" | "datasetIds">
    >(
      `SELECT d.id, d.captured_us AS "capturedUs", d.received_us AS "receivedUs", d.file_name AS "fileName",
         d.file_ext AS "fileExt", d.mime_type AS "mimeType", d.sha256, d.bytes, ${ORIGIN_COLUMNS}
       FROM ${FROM} WHERE ${found.text} ${rest}`,
      ...found.values,
      ...values,
    );
    if (rows.length === 0) return [];
    const ids = rows.map(({ id }) => id);
    const named = async (table: string, column: string) =>
      Map.groupBy(
        await this.sql.query<{ dataId: string; name: string }>(
          `SELECT data_id AS "dataId", ${column} AS name FROM ${table} WHERE data_id IN (${
            placeholders(ids)
          }) ORDER BY 2`,
          ...ids,
        ),
        ({ dataId }) => dataId,
      );
    const tags = await named("data_tags", "tag");
    const datasets = await named("dataset_data", "dataset_id");
    const annotations = Map.groupBy(
      await this.#annotations(new Conditions().is("a.data_id", ids)),
      ({ dataId }) => dataId,
    );
    return rows.map((row) => ({
      ...row,
      tags: (tags.get(row.id) ?? []).map(({ name }) => name),
      datasetIds: (datasets.get(row.id) ?? []).map(({ name }) => name),
      ...sorted(annotations.get(row.id) ?? []),
    }));
  }
}

/** The start of the next page: after this item. */
export function itemCursor({ capturedUs, id }: { readonly capturedUs: number; readonly id: string }): string {
  return `${capturedUs}:${id}`;
}

/** The position in the field `what` of a request. Throws `invalid_argument`. */
export function parseItemCursor(last: string, what = "last"): [number, string] {
  const [capturedUs = "", id] = last.split(/:(.*)/s);
  if (/^-?\d{1,16}$/.test(capturedUs) && id) return [Number(capturedUs), id];
  throw new SvcError("invalid_argument", `found ${what} "${last}", wanted one from an earlier page`);
}

/** Throws `invalid_argument` for an impossible tag or label. */
export function checkedLabels(what: string, labels: readonly string[], countMin = 1): readonly string[] {
  if (labels.length < countMin || labels.length > LABELS_MAX) {
    throw new SvcError(
      "invalid_argument",
      `found ${labels.length} ${what}s, wanted ${countMin} to ${LABELS_MAX}`,
    );
  }
  for (const label of labels) {
    plainText(what, label, TAG_LENGTH_MAX);
    // A label with a line break would be two labels in a file with one label per line.
    if (hasHidden(label)) {
      throw new SvcError(
        "invalid_argument",
        `found the ${what} "${escapedLine(label)}", wanted one without control characters`,
      );
    }
    if (label.trim() === "") {
      throw new SvcError("invalid_argument", `found an empty ${what}, wanted at least one character`);
    }
  }
  return labels;
}

function checkedBox<B extends Omit<LabelBox, "id">>(box: B): B {
  checkedLabels("label", [box.label]);
  const { xMin, yMin, xMax, yMax, confidence = 0 } = box;
  const inOrder = 0 <= xMin && xMin < xMax && xMax <= 1 && 0 <= yMin && yMin < yMax && yMax <= 1;
  if (inOrder && 0 <= confidence && confidence <= 1) return box;
  throw new SvcError(
    "invalid_argument",
    `found a box "${box.label}" from (${xMin}, ${yMin}) to (${xMax}, ${yMax}) with confidence ${confidence}, ` +
      "wanted 0 <= min < max <= 1 and a confidence from 0 to 1",
  );
}

function noBox(dataId: string, id: string): SvcError {
  return new SvcError("not_found", `data "${dataId}" has no bounding box "${id}"`);
}
