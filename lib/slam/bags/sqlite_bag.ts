/** Reads the SQLite files of rosbag2 (`.db3`). */

import { DatabaseSync } from "node:sqlite";
import { BAG_MESSAGE_BYTES_MAX, type BagMessage, encodingOf, wantedType } from "./messages.ts";

const TOPICS_MAX = 10_000;
const NS_PER_S = 1e9;

interface TopicRow {
  readonly id: number;
  readonly name: string;
  readonly type: string;
  readonly format: string;
}

interface MessageRow {
  readonly topic: number;
  readonly ns: bigint;
  readonly data: Uint8Array;
}

/** The wanted messages in the order of their times. Throws for a file that rosbag2 has not written. */
export function* readSqliteBag(path: string): Generator<BagMessage> {
  const database = new DatabaseSync(path, { readOnly: true, enableForeignKeyConstraints: false });
  try {
    database.exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0");
    requireTables(database);
    const topics = new Map<number, Omit<BagMessage, "loggedS" | "data">>();
    const listed = database.prepare(
      `SELECT id, name, type, serialization_format AS format FROM topics LIMIT ${TOPICS_MAX}`,
    );
    for (const { id, name, type, format } of listed.iterate() as Iterable<TopicRow>) {
      const wanted = wantedType(String(type)), encoding = encodingOf(String(format));
      if (wanted && encoding) topics.set(Number(id), { topic: String(name), type: wanted, encoding });
    }
    // Topics of other types are left out before their data are read.
    const ids = [...topics.keys()].filter(Number.isSafeInteger).join(", ");
    const statement = database.prepare(
      `SELECT topic_id AS topic, timestamp AS ns, data FROM messages
       WHERE topic_id IN (${ids}) AND typeof(data) = 'blob' AND length(data) <= ${BAG_MESSAGE_BYTES_MAX}
       ORDER BY timestamp, id`,
    );
    statement.setReadBigInts(true);
    for (const { topic, ns, data } of statement.iterate() as unknown as Iterable<MessageRow>) {
      yield { ...topics.get(Number(topic))!, loggedS: Number(ns) / NS_PER_S, data };
    }
  } finally {
    database.close();
  }
}

/** A view instead of a table could compute forever. */
function requireTables(database: DatabaseSync): void {
  const tables = database.prepare("SELECT name, type, sql FROM sqlite_master").all() as {
    readonly name: string;
    readonly type: string;
    readonly sql: string | null;
  }[];
  for (const wanted of ["topics", "messages"]) {
    const found = tables.find(({ name }) => name === wanted);
    if (found?.type === "table" && !/\bVIRTUAL\b|\bGENERATED\b/i.test(found.sql ?? "")) continue;
    throw new RangeError(`no table "${wanted}": rosbag2 has not written this file`);
  }
}
