/** The last readings before a time, of those in files. */

import { Conditions } from "../capture/filter.ts";
import type { FileStore } from "../store/files.ts";
import type { Sql } from "../store/store.ts";
import { type IndexedFile, ReadingFiles } from "./reading_files.ts";

/** The time of the last reading before another time, by file, of files with readings on both sides of it. */
export type LastsOfFiles = ReadonlyMap<string, number>;

/** Looks into the files, which nobody does in a transaction. */
export async function lastsOfFiles(
  sql: Sql,
  files: FileStore,
  organizationId: string,
  beforeUs: number,
): Promise<LastsOfFiles> {
  const index = new ReadingFiles(sql, files);
  const lasts = new Map<string, number>();
  const around = await index.list(before(organizationId, beforeUs));
  for (const file of around.filter(({ untilUs }) => untilUs >= beforeUs)) {
    const times = { captured: { untilUs: beforeUs - 1 }, received: {} };
    for await (const [last] of index.readings(file, times, true)) {
      if (last) lasts.set(keyOf(file), last.capturedUs);
      break;
    }
  }
  return lasts;
}

/** The time of the last reading in files before another one. A file that is not in `lasts` may have one just before. */
export async function lastInFiles(
  sql: Sql,
  organizationId: string,
  beforeUs: number,
  lasts: LastsOfFiles,
): Promise<number | undefined> {
  const files = await new ReadingFiles(sql, undefined).list(before(organizationId, beforeUs));
  const times = files.map((file) => {
    return file.untilUs < beforeUs ? file.untilUs : lasts.get(keyOf(file)) ?? beforeUs - 1;
  });
  return times.length === 0 ? undefined : times.reduce((one, other) => Math.max(one, other));
}

function before(organizationId: string, beforeUs: number): Conditions {
  return new Conditions().only("o.organization_id = ?", organizationId)
    .within("captured", { untilUs: beforeUs - 1 });
}

function keyOf({ originId, number, sha256 }: IndexedFile): string {
  return `${originId} ${number} ${sha256}`;
}
