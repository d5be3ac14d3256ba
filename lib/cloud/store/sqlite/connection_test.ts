/** The write-ahead log of a file that somebody reads for long. */

import { assert, assertEquals } from "@std/assert";
import { SqliteConnection } from "./connection.ts";

const MEGABYTE = 1024 ** 2;

Deno.test("SqliteConnection: the log that grew during a long read is short again after it", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-store-" });
  const file = `${folder}/cloud.db`;
  const writer = new SqliteConnection(file, "writes");
  const reader = new SqliteConnection(file, "reads");
  const logBytes = async () => (await Deno.stat(`${file}-wal`)).size;
  const write = (bytes = 8 * MEGABYTE) => {
    writer.run("BEGIN IMMEDIATE");
    writer.run("UPDATE things SET content = randomblob(?) WHERE id = 1", [bytes]);
    writer.run("COMMIT");
  };
  try {
    writer.run("CREATE TABLE things (id BIGINT PRIMARY KEY, content BLOB NOT NULL)");
    writer.run("INSERT INTO things VALUES (1, x'')");
    // Without a reader the log begins again with each write, and stays as it is.
    for (let writes = 0; writes < 3; writes++) write();
    assert(await logBytes() < 20 * MEGABYTE, `${await logBytes()}`);

    reader.run("BEGIN");
    assertEquals(reader.run("SELECT id FROM things").length, 1);
    for (let writes = 0; writes < 12; writes++) write();
    assert(await logBytes() > 90 * MEGABYTE, `${await logBytes()}`);
    reader.run("COMMIT");
    // The first write moves the log's content into the file, the second one begins the log again.
    for (let writes = 0; writes < 2; writes++) write(100);
    assert(await logBytes() <= 32 * MEGABYTE, `${await logBytes()}`);
  } finally {
    reader.close();
    writer.close();
    await Deno.remove(folder, { recursive: true });
  }
});
