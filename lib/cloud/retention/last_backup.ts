/** How the last runs of `svc-cloud backup` ended, noted in the database that they copied. */

import { notedSetting, noteSetting } from "../store/settings.ts";
import type { Sql, Store } from "../store/store.ts";

const [MADE, FAILED] = ["last backup", "failed backup"];
const REASON_LETTERS = 2_000;

export interface MadeBackup {
  readonly timeMs: number;
  readonly place: string;
  readonly contents: number;
  /** Contents to which the database refers and that the backup lacks. */
  readonly missing: number;
}

export interface FailedBackup {
  readonly timeMs: number;
  readonly place: string;
  readonly reason: string;
}

export async function noteBackup(store: Store, made: MadeBackup): Promise<void> {
  await store.transaction(async (sql) => {
    await noteSetting(sql, MADE, JSON.stringify(made));
    await noteSetting(sql, FAILED, "");
  });
}

export async function noteFailedBackup(store: Store, { reason, ...failed }: FailedBackup): Promise<void> {
  const value = JSON.stringify({ ...failed, reason: reason.slice(0, REASON_LETTERS) });
  await store.transaction((sql) => noteSetting(sql, FAILED, value));
}

/** The last backup, and the last failure since then. */
export async function lastBackup(
  sql: Sql,
): Promise<{ readonly made?: MadeBackup; readonly failed?: FailedBackup }> {
  const [made, failed] = [await notedSetting(sql, MADE), await notedSetting(sql, FAILED)];
  return { made: made ? JSON.parse(made) : undefined, failed: failed ? JSON.parse(failed) : undefined };
}
