/** The tables of rollouts, and of the reports of machines. */

export const ROLLOUT_TABLES: readonly string[] = [
  `CREATE TABLE part_health (
    part_id TEXT PRIMARY KEY REFERENCES parts (id) ON DELETE CASCADE,
    revision TEXT NOT NULL,
    -- A JSON list of texts.
    unhealthy TEXT NOT NULL,
    -- 1 while a newer configuration waits for the machine's maintenance window.
    held_back BIGINT NOT NULL,
    at_ms BIGINT NOT NULL
  )`,
  `CREATE TABLE rollouts (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    -- Both as JSON.
    change TEXT NOT NULL,
    plan TEXT NOT NULL,
    state TEXT NOT NULL,
    step BIGINT NOT NULL,
    reason TEXT NOT NULL,
    who TEXT NOT NULL,
    -- Unhealthy machines that a person has accepted by resuming.
    accepted BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    step_ms BIGINT NOT NULL,
    ended_ms BIGINT,
    -- When a control plane looks at it next; none if nothing is left to do.
    next_ms BIGINT
  )`,
  `CREATE INDEX rollouts_by_organization ON rollouts (organization_id, created_ms)`,
  `CREATE INDEX rollouts_due ON rollouts (next_ms)`,
  `CREATE TABLE rollout_parts (
    rollout_id TEXT NOT NULL REFERENCES rollouts (id) ON DELETE CASCADE,
    part_id TEXT NOT NULL REFERENCES parts (id) ON DELETE CASCADE,
    place BIGINT NOT NULL,
    step BIGINT NOT NULL,
    state TEXT NOT NULL,
    -- 1 as long as no other rollout may have the part.
    is_open BIGINT NOT NULL,
    unhealthy BIGINT NOT NULL,
    reason TEXT NOT NULL,
    -- What stood in the configuration before, and how the machine was; as JSON.
    undo TEXT NOT NULL,
    baseline TEXT NOT NULL,
    revision BIGINT NOT NULL,
    applied_ms BIGINT,
    taken_ms BIGINT,
    PRIMARY KEY (rollout_id, part_id)
  )`,
  `CREATE UNIQUE INDEX rollout_parts_open ON rollout_parts (part_id) WHERE is_open = 1`,
  `CREATE INDEX rollout_parts_by_state ON rollout_parts (rollout_id, state, place)`,
  `CREATE INDEX rollout_parts_by_part ON rollout_parts (part_id)`,
];
