/** The tables of readings that have moved into files. */

export const READING_FILE_TABLES: readonly string[] = [
  `CREATE TABLE reading_moves (
    organization_id TEXT PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    -- When somebody looks again for readings that can move.
    next_ms BIGINT NOT NULL,
    -- The last number of a file.
    last_number BIGINT NOT NULL
  )`,
  `CREATE INDEX reading_moves_due ON reading_moves (next_ms)`,
  // Readings of one source and one list of tags; tags are JSON, bytes those of the contents.
  `CREATE TABLE reading_files (
    origin_id TEXT NOT NULL REFERENCES data_origins (id),
    number BIGINT NOT NULL,
    from_us BIGINT NOT NULL,
    until_us BIGINT NOT NULL,
    received_from_us BIGINT NOT NULL,
    received_until_us BIGINT NOT NULL,
    tags TEXT NOT NULL,
    tag_list TEXT,
    readings BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    file_bytes BIGINT NOT NULL,
    PRIMARY KEY (origin_id, number)
  )`,
  `CREATE INDEX reading_files_by_time ON reading_files (origin_id, until_us)`,
  `CREATE INDEX reading_files_by_tags ON reading_files (tag_list) WHERE tag_list IS NOT NULL`,
  `CREATE INDEX reading_files_by_content ON reading_files (sha256)`,
];

/** The types of the values in a file, in JSON; null where only the file tells (`readings/path_types.ts`). */
export const PATH_TYPE_COLUMNS: readonly string[] = [`ALTER TABLE reading_files ADD COLUMN path_types TEXT`];
