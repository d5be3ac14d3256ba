/** Requests to a content process that make files of readings. */

import type { FileReading, FileTimes } from "./reading_file.ts";

export type ReadingFileRequest =
  /** Readings: as many bytes of JSON, `PackFacts`, then the contents. The answer is a file of them, and its summary. */
  | { readonly ask: "pack"; readonly facts: number; readonly bytes: number }
  /** A file of readings. The answer is a file without those of these times, or without the oldest, and its summary. */
  | { readonly ask: "without"; readonly times: FileTimes; readonly oldest?: number; readonly bytes: number };

/** What is known of readings beside their contents. */
export type PackFacts = readonly (Omit<FileReading, "payload"> & { readonly bytes: number })[];
