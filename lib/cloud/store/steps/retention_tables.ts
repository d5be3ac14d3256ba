/** The tables of the retention of captured data. */

export const RETENTION_TABLES: readonly string[] = [
  `CREATE TABLE data_retention (
    organization_id TEXT PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    days BIGINT,
    binary_bytes BIGINT,
    tabular_bytes BIGINT,
    -- When somebody looks again at what is to be removed.
    next_ms BIGINT NOT NULL
  )`,
  `CREATE TABLE collector_retention (
    part_id TEXT NOT NULL REFERENCES parts (id) ON DELETE CASCADE,
    component_name TEXT NOT NULL,
    method_name TEXT NOT NULL,
    days BIGINT,
    binary_bytes BIGINT,
    tabular_bytes BIGINT,
    next_ms BIGINT NOT NULL,
    PRIMARY KEY (part_id, component_name, method_name)
  )`,
  `CREATE INDEX collector_retention_due ON collector_retention (next_ms)`,
];

/** The last time of capture of an organization's readings that retention has removed. */
export const REMOVED_READING_TABLES: readonly string[] = [
  `CREATE TABLE removed_readings (
    organization_id TEXT PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    until_us BIGINT NOT NULL
  )`,
];

/** The choice of an organization's owners, beside the operator's bound. */
export const OWN_RETENTION_COLUMNS: readonly string[] = [
  `ALTER TABLE data_retention ADD COLUMN own_days BIGINT`,
  `ALTER TABLE data_retention ADD COLUMN own_binary_bytes BIGINT`,
  `ALTER TABLE data_retention ADD COLUMN own_tabular_bytes BIGINT`,
  `ALTER TABLE data_retention ADD COLUMN own_log_days BIGINT`,
];
