/** Writes Parquet files piece by piece, with the published library. */

import type { ParquetWriter } from "hyparquet-writer";

type Schema = ConstructorParameters<typeof ParquetWriter>[0]["schema"];

/** A column: texts, times in microseconds as `bigint`, or lists of texts or of objects with these members. */
export interface ParquetColumn {
  readonly name: string;
  readonly type: "text" | "time" | "texts" | readonly (readonly [member: string, type: "text" | "double"])[];
}

export type ParquetRow = readonly unknown[];

const TEXT = { type: "BYTE_ARRAY", converted_type: "UTF8" } as const;

/** The bytes of a file with these rows, one batch a row group. */
export async function* parquetOf(
  columns: readonly ParquetColumn[],
  batches: AsyncIterable<readonly ParquetRow[]>,
): AsyncGenerator<Uint8Array> {
  const { ByteWriter, ParquetWriter } = await import("hyparquet-writer");
  const writer = new ByteWriter();
  const file = new ParquetWriter({ writer, schema: schemaOf(columns) });
  const take = () => {
    const bytes = writer.getBytes().slice();
    writer.index = 0;
    return bytes;
  };
  const add = (rows: readonly ParquetRow[]) =>
    file.write({
      columnData: columns.map(({ name }, index) => ({
        name,
        data: rows.map((row) => row[index]) as string[],
      })),
      rowGroupSize: Math.max(rows.length, 1),
    });
  for await (const rows of batches) {
    if (rows.length === 0) continue;
    await add(rows);
    yield take();
  }
  await file.finish();
  yield take();
}

function schemaOf(columns: readonly ParquetColumn[]): Schema {
  const elements = columns.flatMap(({ name, type }) => {
    if (type === "text") return [{ name, ...TEXT, repetition_type: "REQUIRED" }];
    if (type === "time") {
      return [{ name, type: "INT64", converted_type: "TIMESTAMP_MICROS", repetition_type: "REQUIRED" }];
    }
    const list = [
      { name, repetition_type: "REQUIRED", num_children: 1, converted_type: "LIST" },
      { name: "list", repetition_type: "REPEATED", num_children: 1 },
    ];
    if (type === "texts") return [...list, { name: "element", ...TEXT, repetition_type: "REQUIRED" }];
    return [
      ...list,
      { name: "element", repetition_type: "REQUIRED", num_children: type.length },
      ...type.map(([member, kind]) => {
        const own = kind === "text" ? TEXT : { type: "DOUBLE" };
        return { name: member, ...own, repetition_type: "OPTIONAL" };
      }),
    ];
  });
  return [{ name: "root", num_children: columns.length }, ...elements] as Schema;
}
