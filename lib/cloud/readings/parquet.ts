/** Writes and reads Parquet files piece by piece, with the published libraries. */

import type { FileMetaData } from "hyparquet";
import type { ParquetWriter } from "hyparquet-writer";
import { SvcError } from "../../base/error.ts";

type Schema = ConstructorParameters<typeof ParquetWriter>[0]["schema"];

/**
 * A column: texts, times in microseconds and whole numbers as `bigint`, bytes or nothing, or lists of texts or of
 * objects with these members.
 */
export interface ParquetColumn {
  readonly name: string;
  readonly type:
    | "text"
    | "time"
    | "whole"
    | "bytes"
    | "texts"
    | readonly (readonly [member: string, type: "text" | "double"])[];
}

export type ParquetRow = readonly unknown[];

/** A text beside the rows of a file. */
export interface ParquetText {
  readonly key: string;
  readonly value: string;
}

const TEXT = { type: "BYTE_ARRAY", converted_type: "UTF8" } as const;

/** The bytes of a file with these rows, one batch a row group, and with texts that are known once all rows are. */
export async function* parquetOf(
  columns: readonly ParquetColumn[],
  batches: AsyncIterable<readonly ParquetRow[]>,
  texts: () => readonly ParquetText[] = () => [],
): AsyncGenerator<Uint8Array> {
  const { ByteWriter, ParquetWriter } = await import("hyparquet-writer");
  const writer = new ByteWriter();
  const kvMetadata: ParquetText[] = [];
  const file = new ParquetWriter({ writer, schema: schemaOf(columns), kvMetadata });
  const take = () => {
    const bytes = writer.getBytes().slice();
    writer.index = 0;
    return bytes;
  };
  const add = (rows: readonly ParquetRow[]) =>
    file.write({
      columnData: columns.map(({ name, type }, index) => ({
        name,
        data: rows.map((row) => row[index]) as string[],
        ...type === "whole" ? { encoding: "DELTA_BINARY_PACKED" as const } : {},
      })),
      rowGroupSize: Math.max(rows.length, 1),
    });
  for await (const rows of batches) {
    if (rows.length === 0) continue;
    await add(rows);
    yield take();
  }
  kvMetadata.push(...texts());
  await file.finish();
  yield take();
}

function schemaOf(columns: readonly ParquetColumn[]): Schema {
  const elements = columns.flatMap(({ name, type }) => {
    if (type === "text") return [{ name, ...TEXT, repetition_type: "REQUIRED" }];
    if (type === "time") {
      return [{ name, type: "INT64", converted_type: "TIMESTAMP_MICROS", repetition_type: "REQUIRED" }];
    }
    if (type === "whole") return [{ name, type: "INT64", repetition_type: "REQUIRED" }];
    if (type === "bytes") return [{ name, type: "BYTE_ARRAY", repetition_type: "OPTIONAL" }];
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

/** A file that is read in pieces. */
export interface ParquetSource {
  readonly byteLength: number;
  slice(start: number, end?: number): Promise<ArrayBuffer>;
}

/** Rows that are read together. */
export interface RowGroup {
  readonly first: number;
  readonly rows: number;
  /** Bounds of the first column's whole numbers. */
  readonly from: number;
  readonly until: number;
}

/** Bytes that are read first, for the description of the columns at the end of a file. */
const END_BYTES = 16 * 1024;

/** A file whose first column has whole numbers in order. */
export class ParquetFile {
  private constructor(private readonly source: ParquetSource, private readonly metadata: FileMetaData) {}

  /** Throws `data_loss` for a damaged file. */
  static async open(source: ParquetSource): Promise<ParquetFile> {
    const { parquetMetadataAsync } = await import("hyparquet");
    const metadata = await sound(() => parquetMetadataAsync(source, { initialFetchSize: END_BYTES }));
    return new ParquetFile(source, metadata);
  }

  get groups(): RowGroup[] {
    let first = 0;
    return this.metadata.row_groups.map(({ num_rows, columns }) => {
      const { min_value: from, max_value: until } = columns[0]?.meta_data?.statistics ?? {};
      const group = {
        first,
        rows: Number(num_rows),
        from: Number(from ?? -Infinity),
        until: Number(until ?? Infinity),
      };
      first += group.rows;
      return group;
    });
  }

  /** The rows of a group. */
  async rows({ first, rows }: RowGroup): Promise<readonly ParquetRow[]> {
    const { parquetRead } = await import("hyparquet");
    let found: readonly ParquetRow[] = [];
    await sound(() =>
      parquetRead({
        file: this.source,
        metadata: this.metadata,
        rowStart: first,
        rowEnd: first + rows,
        utf8: false,
        onComplete: (all) => void (found = all),
      })
    );
    return found;
  }
}

/** What the library throws is that a file is not as it was written. */
async function sound<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw new SvcError("data_loss", "a file of readings is damaged", { cause });
  }
}
