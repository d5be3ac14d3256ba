/**
 * Readings as files for other programs: CSV, JSON lines and Parquet.
 *
 * The room owns exports of captured data.
 */

import { csvText } from "../../base/collections/csv.ts";
import { memberPath, NO_PATH, shownNames, type ValuePath } from "../../base/collections/value_paths.ts";
import { SvcError } from "../../base/error.ts";
import { isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";
import type { Conditions, MicrosRange } from "../capture/filter.ts";
import { payloadIn } from "../capture/payload.ts";
import { type ReadingBatch, TabularData } from "../data/tabular_data.ts";
import type { FileStore } from "../store/files.ts";
import type { Sql } from "../store/store.ts";
import { type ParquetColumn, parquetOf } from "../readings/parquet.ts";

export const EXPORT_FORMATS = ["csv", "jsonl", "parquet"] as const;
export type ExportFormat = typeof EXPORT_FORMATS[number];

export interface ReadingSelection {
  readonly files: FileStore;
  /** Of the sources `o`. */
  readonly sources: Conditions;
  readonly captured: MicrosRange;
}

/** The facts about a reading besides its values. */
const FACTS = [
  "time_requested",
  "time_received",
  "organization_id",
  "location_id",
  "robot_id",
  "robot_name",
  "part_id",
  "part_name",
  "component_type",
  "component_name",
  "method_name",
  "tags",
] as const;
/** Limit of columns: a wider table is useless for people. */
const COLUMNS_MAX = 1_000;

interface FlatReading {
  readonly facts: readonly string[];
  readonly tags: readonly string[];
  readonly requestedUs: number;
  readonly receivedUs: number;
  readonly payload: JsonObject;
}

/** The progress of an export. */
export interface ExportProgress {
  /** Readings in the file so far. */
  readonly written: number;
  readonly total: number;
  /** Readings scanned for columns so far, before the first one is written. */
  readonly lookedThrough?: number;
}

/** The bytes of a file. */
export async function* readingsAs(
  format: ExportFormat,
  sql: Sql,
  selection: ReadingSelection,
  reported: (progress: ExportProgress) => void,
): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  const { files, sources, captured } = selection;
  const total = await new TabularData(sql, files).countReadings(sources, { captured, received: {} });
  let written = 0;
  const batches = async function* () {
    for await (const batch of scan(sql, selection)) {
      yield batch;
      reported({ written: written += batch.length, total });
    }
  };
  if (format === "parquet") return yield* parquetOf(PARQUET_COLUMNS, parquetRows(batches()));
  if (format === "jsonl") {
    for await (const batch of batches()) {
      yield encoder.encode(batch.map((one) => `${JSON.stringify(jsonOf(one))}\n`).join(""));
    }
    return;
  }
  // The columns are known only after all readings, so the readings are read twice.
  const paths = new Map<string, ValuePath>();
  let lookedThrough = 0;
  for await (const batch of scan(sql, selection)) {
    reported({ written, total, lookedThrough: lookedThrough += batch.length });
    for (const { payload } of batch) for (const [path] of leavesOf(payload)) paths.set(path.exact, path);
    if (paths.size > COLUMNS_MAX) {
      const found = `the readings have more than ${COLUMNS_MAX} different values`;
      throw new SvcError("invalid_argument", `${found}: export fewer components, or use the format jsonl`);
    }
  }
  const columns = [...shownNames(paths.values())].sort(([, one], [, other]) => one < other ? -1 : 1);
  yield encoder.encode(csvLine([...FACTS, ...columns.map(([, shown]) => shown)]));
  for await (const batch of batches()) {
    yield encoder.encode(
      batch.map((one) => {
        const values = new Map(leavesOf(one.payload).map(([{ exact }, value]) => [exact, value]));
        if (values.keys().some((exact) => !paths.has(exact))) throw newColumn();
        return csvLine([...one.facts, ...columns.map(([exact]) => values.get(exact) ?? null)]);
      }).join(""),
    );
  }
}

/** Without a column the value would be left out, and nobody would know. */
function newColumn(): SvcError {
  const hint = "export once more, readings until now (--until), or in the format jsonl";
  return new SvcError("aborted", `a reading with a new value arrived during the export: ${hint}`);
}

async function* scan(
  sql: Sql,
  { files, sources, captured }: ReadingSelection,
): AsyncGenerator<readonly FlatReading[]> {
  for await (const batch of new TabularData(sql, files).scan(sources, { captured, received: {} })) {
    yield flat(batch);
  }
}

function flat({ origin, rows }: ReadingBatch): FlatReading[] {
  return rows.map(({ capturedUs, receivedUs, tags: tagsJson, payload }) => {
    const tags = JSON.parse(tagsJson) as string[];
    return {
      facts: [
        timeOfUs(capturedUs),
        timeOfUs(receivedUs),
        origin.organizationId,
        origin.locationId,
        origin.machineId,
        origin.machineName,
        origin.partId,
        origin.partName,
        origin.componentType,
        origin.componentName,
        origin.methodName,
        tags.join(" "),
      ],
      tags,
      requestedUs: capturedUs,
      receivedUs,
      payload: payloadIn(payload),
    };
  });
}

function jsonOf({ facts, tags, payload }: FlatReading): JsonObject {
  return {
    ...Object.fromEntries(FACTS.map((name, at) => [name, facts[at]])),
    tags: [...tags],
    data: payload,
  };
}

const PARQUET_COLUMNS: readonly ParquetColumn[] = [
  { name: "time_requested", type: "time" },
  { name: "time_received", type: "time" },
  ...FACTS.slice(2, -1).map((name) => ({ name, type: "text" } as const)),
  { name: "tags", type: "texts" },
  { name: "data", type: "text" },
];

async function* parquetRows(batches: AsyncIterable<readonly FlatReading[]>) {
  for await (const batch of batches) {
    yield batch.map(({ facts, tags, requestedUs, receivedUs, payload }) => [
      BigInt(requestedUs),
      BigInt(receivedUs),
      ...facts.slice(2, -1),
      tags,
      JSON.stringify(payload),
    ]);
  }
}

/** Each value in a reading, by its path: `readings.celsius`, `detections.0.label`. */
function leavesOf(value: Json, path = NO_PATH): [ValuePath, Json][] {
  let members: (readonly [string | number, Json])[] = [];
  if (Array.isArray(value)) members = [...value.entries()];
  else if (isObject(value)) members = Object.entries(value);

  if (members.length === 0) {
    return path === NO_PATH ? [] : [[path, isObject(value) || Array.isArray(value) ? null : value]];
  }
  return members.flatMap(([name, inner]) => leavesOf(inner as Json, memberPath(path, String(name))));
}

function csvLine(cells: readonly Json[]): string {
  return `${cells.map(csvCell).join(",")}\r\n`;
}

function csvCell(value: Json): string {
  if (value === null) return "";
  if (typeof value !== "string") return String(value);
  return csvText(value);
}

function timeOfUs(us: number): string {
  const ms = new Date(Math.floor(us / 1000)).toISOString().slice(0, -1);
  return `${ms}${String(((us % 1000) + 1000) % 1000).padStart(3, "0")}Z`;
}
