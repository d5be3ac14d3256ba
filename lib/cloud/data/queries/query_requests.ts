/** Requests to a content process that answer a query on readings, or on documents. */

import type { DataOrigin } from "../../capture/origins.ts";
import type { FileCursor, FileTimes } from "../../readings/reading_file.ts";
import type { PackedReading } from "../tabular_data.ts";

export type QueryRequest =
  /** Begins a query: its stages in BSON, or its SQL, of these sizes. The answer is the `Narrowing` of the readings. */
  | {
    readonly ask: "query";
    readonly language: "mql" | "sql";
    readonly sizes: readonly number[];
    readonly stamp?: RunStamp;
    /** Has the files of readings that the process is given. */
    readonly folder: string;
    readonly bytes: number;
  }
  /** Documents for the query, in BSON, of these sizes. The answer is `more`. */
  | { readonly ask: "stored"; readonly sizes: readonly number[]; readonly bytes: number }
  /** Readings for the query: as many bytes of JSON, `ReadingFacts`, then the contents. The answer is `more`. */
  | { readonly ask: "readings"; readonly facts: number; readonly bytes: number }
  /** Readings for the query in files of its folder: a JSON of `PlacedFiles`. The answer is `more`. */
  | { readonly ask: "placed"; readonly bytes: number }
  /** The documents of the query's answer, in BSON. */
  | { readonly ask: "documents"; readonly bytes: 0 };

/** Conditions that every matching reading fulfils. */
export interface Narrowing {
  /** The values of `location_id`, `component_name` and so on, by these names. */
  readonly sources: { readonly [field: string]: readonly string[] };
  readonly requested: TimeRange;
  readonly received: TimeRange;
}

/** Both bounds are included; milliseconds since 1970. */
export interface TimeRange {
  readonly fromMs?: number;
  readonly untilMs?: number;
}

/** Files of readings; only the readings of these times count. */
export interface PlacedFiles {
  readonly times: FileTimes;
  readonly files: readonly PlacedFile[];
}

/** A file of readings of one source. */
export interface PlacedFile {
  readonly origin: DataOrigin;
  /** A JSON list. */
  readonly tags: string;
  /** Its name. */
  readonly sha256: string;
  /** The types of its values; null if the file alone tells. */
  readonly pathTypes: string | null;
  /** Only readings after this place. */
  readonly after?: FileCursor;
}

/** The facts about readings besides their contents. */
export interface ReadingFacts {
  readonly origin: DataOrigin;
  readonly rows: readonly (Omit<PackedReading, "payload"> & { readonly bytes: number })[];
}

/** A run of a data pipeline: its window, which its results name. */
export interface RunStamp {
  readonly id: string;
  readonly organizationId: string;
  readonly fromMs: number;
  /** The end, which is excluded. */
  readonly untilMs: number;
}

/** Limits of the answer to a query: of its documents, and of their bytes in all. */
export const DOCUMENTS_MAX = 100_000;
export const DOCUMENTS_BYTES_MAX = 32 * 1024 * 1024;
