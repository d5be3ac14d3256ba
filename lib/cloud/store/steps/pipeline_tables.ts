/** The tables of data pipelines and saved queries. */

export const PIPELINE_TABLES: readonly string[] = [
  `CREATE TABLE saved_queries (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    -- A JSON list of stages, each in BSON and base64.
    mql TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    UNIQUE (organization_id, name)
  )`,
  `CREATE TABLE data_pipelines (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    mql TEXT NOT NULL,
    schedule TEXT NOT NULL,
    enabled BIGINT NOT NULL,
    backfill BIGINT NOT NULL,
    source_type BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    cursor_ms BIGINT NOT NULL,
    next_ms BIGINT NOT NULL,
    backfill_ms BIGINT,
    UNIQUE (organization_id, name)
  )`,
  `CREATE INDEX data_pipelines_due ON data_pipelines (enabled, next_ms)`,
  `CREATE TABLE pipeline_runs (
    id TEXT PRIMARY KEY,
    pipeline_id TEXT NOT NULL REFERENCES data_pipelines (id) ON DELETE CASCADE,
    from_ms BIGINT NOT NULL,
    until_ms BIGINT NOT NULL,
    -- As published: 1 scheduled, 2 started, 3 completed, 4 failed.
    status BIGINT NOT NULL,
    due_ms BIGINT NOT NULL,
    started_ms BIGINT,
    ended_ms BIGINT,
    error TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    runner TEXT NOT NULL,
    lease_ms BIGINT NOT NULL
  )`,
  `CREATE UNIQUE INDEX pipeline_runs_scheduled ON pipeline_runs (pipeline_id, from_ms) WHERE status = 1`,
  `CREATE UNIQUE INDEX pipeline_runs_started ON pipeline_runs (pipeline_id, from_ms) WHERE status = 2`,
  `CREATE INDEX pipeline_runs_due ON pipeline_runs (status, due_ms)`,
  `CREATE INDEX pipeline_runs_by_window ON pipeline_runs (pipeline_id, from_ms)`,
  `CREATE TABLE pipeline_late (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    from_ms BIGINT NOT NULL,
    until_ms BIGINT NOT NULL
  )`,
  `CREATE INDEX pipeline_late_by_organization ON pipeline_late (organization_id)`,
  `CREATE TABLE pipeline_documents (
    pipeline_id TEXT NOT NULL REFERENCES data_pipelines (id) ON DELETE CASCADE,
    from_ms BIGINT NOT NULL,
    place BIGINT NOT NULL,
    document BYTEA NOT NULL,
    PRIMARY KEY (pipeline_id, from_ms, place)
  )`,
];
