/** Facts about keys and machines for operators: creators, last uses, tags. */

export const OPERATOR_TABLES: readonly string[] = [
  `ALTER TABLE api_keys ADD COLUMN creator TEXT NOT NULL DEFAULT ''`,
  `ALTER TABLE api_keys ADD COLUMN used_ms BIGINT`,
  `CREATE TABLE machine_tags (
    machine_id TEXT NOT NULL REFERENCES machines (id) ON DELETE CASCADE,
    tag TEXT NOT NULL,
    PRIMARY KEY (machine_id, tag)
  )`,
  `CREATE INDEX machine_tags_by_tag ON machine_tags (tag)`,
];
