/** The table of exports of datasets of sequences. */

export const EXPORT_TABLES: readonly string[] = [
  `CREATE TABLE sequence_exports (
    id TEXT PRIMARY KEY,
    dataset_id TEXT NOT NULL REFERENCES datasets (id) ON DELETE CASCADE,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    -- As published: 1 running, 2 completed, 3 failed.
    status BIGINT NOT NULL,
    sha256 TEXT,
    bytes BIGINT NOT NULL,
    error TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    completed_ms BIGINT,
    attempts BIGINT NOT NULL,
    lease_ms BIGINT NOT NULL
  )`,
  `CREATE INDEX sequence_exports_waiting ON sequence_exports (status, created_ms)`,
  `CREATE INDEX sequence_exports_by_organization ON sequence_exports (organization_id)`,
  `CREATE INDEX sequence_exports_by_content ON sequence_exports (sha256)`,
];
