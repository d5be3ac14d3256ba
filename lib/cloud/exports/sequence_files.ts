/** The published files of a dataset of sequences: three Parquet files in a ZIP archive. */

import { BinaryData, itemCursor } from "../data/binary_data.ts";
import { Conditions } from "../capture/filter.ts";
import { ofSequence, type Sequence, Sequences } from "../data/sequences.ts";
import { TabularData } from "../data/tabular_data.ts";
import { extensionOf } from "../../cloud_client/mime_types.ts";
import type { FileStore } from "../store/files.ts";
import type { Sql } from "../store/store.ts";
import { type ParquetColumn, parquetOf, type ParquetRow } from "../readings/parquet.ts";
import { zipped } from "./zip.ts";

const PAGE = 200;

const SOURCE: readonly ParquetColumn[] = [
  { name: "sequence_id", type: "text" },
  { name: "timestamp", type: "time" },
  { name: "part_id", type: "text" },
  { name: "component_name", type: "text" },
  { name: "method_name", type: "text" },
];
const BINARY: readonly ParquetColumn[] = [
  ...SOURCE,
  { name: "path", type: "text" },
  { name: "classifications", type: [["label", "text"], ["confidence", "double"]] },
  {
    name: "bounding_boxes",
    type: [
      ["label", "text"],
      ["confidence", "double"],
      ["x_min", "double"],
      ["y_min", "double"],
      ["x_max", "double"],
      ["y_max", "double"],
    ],
  },
];
const TABULAR: readonly ParquetColumn[] = [...SOURCE, { name: "payload", type: "text" }];
const SEQUENCES: readonly ParquetColumn[] = [
  { name: "sequence_id", type: "text" },
  { name: "tags", type: "texts" },
  { name: "start_at", type: "time" },
  { name: "end_at", type: "time" },
];

/** The bytes of the archive. `moved` is called now and then, and may throw to give up. */
export function sequenceArchive(
  sql: Sql,
  files: FileStore,
  datasetId: string,
  moved: () => Promise<void>,
): AsyncGenerator<Uint8Array> {
  const rowsOf = async function* (of: (sequence: Sequence) => AsyncIterable<readonly ParquetRow[]>) {
    for await (const sequence of sequencesOf(sql, datasetId)) {
      for await (const rows of of(sequence)) {
        await moved();
        yield rows;
      }
    }
  };
  return zipped([
    { name: "binary_data.parquet", content: parquetOf(BINARY, rowsOf((one) => binaryRows(sql, one))) },
    {
      name: "tabular_data.parquet",
      content: parquetOf(TABULAR, rowsOf((one) => tabularRows(sql, files, one))),
    },
    { name: "sequences.parquet", content: parquetOf(SEQUENCES, rowsOf(sequenceRow)) },
  ]);
}

async function* sequencesOf(sql: Sql, datasetId: string): AsyncGenerator<Sequence> {
  for (let token = "";;) {
    const { sequences, next } = await new Sequences(sql).page({ datasetId }, PAGE, token);
    yield* sequences;
    if (next === "") return;
    token = next;
  }
}

async function* binaryRows(sql: Sql, sequence: Sequence): AsyncGenerator<readonly ParquetRow[]> {
  for (let last = "";;) {
    const found = ofSequence(new Conditions(), sequence);
    const items = await new BinaryData(sql).page(found, { limit: PAGE, order: "oldest first", last });
    yield items.map((item) => [
      sequence.id,
      BigInt(item.capturedUs),
      item.partId,
      item.componentName,
      item.methodName,
      `binary_data/${item.id}${item.fileExt || extensionOf(item.mimeType)}`,
      item.classifications.map(({ label, confidence }) => ({ label, confidence })),
      item.boxes.map(({ label, confidence, xMin, yMin, xMax, yMax }) => {
        return { label, confidence, x_min: xMin, y_min: yMin, x_max: xMax, y_max: yMax };
      }),
    ]);
    const end = items.at(-1);
    if (!end || items.length < PAGE) return;
    last = itemCursor(end);
  }
}

async function* tabularRows(
  sql: Sql,
  files: FileStore,
  sequence: Sequence,
): AsyncGenerator<readonly ParquetRow[]> {
  for (let last = "";;) {
    const found = ofSequence(new Conditions(), sequence);
    const page = await new TabularData(sql, files).page(found, { limit: PAGE, order: "oldest first", last });
    yield page.readings.map((one) => [
      sequence.id,
      BigInt(one.capturedUs),
      one.partId,
      one.componentName,
      one.methodName,
      JSON.stringify(one.payload),
    ]);
    if (page.last === "" || page.readings.length === 0) return;
    last = page.last;
  }
}

async function* sequenceRow({ id, tags, startUs, endUs }: Sequence): AsyncGenerator<readonly ParquetRow[]> {
  yield [[id, tags, BigInt(startUs), BigInt(endUs)]];
}
