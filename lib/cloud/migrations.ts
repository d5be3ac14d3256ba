/**
 * The tables of the control plane, as the steps that made them.
 *
 * Step n leads from version n - 1 to n. Steps are only ever added: one that has been released is not changed.
 */

export const MIGRATIONS: readonly (readonly string[])[] = [
  [
    // What the control plane keeps to itself: signing keys and the like.
    `CREATE TABLE secrets (name TEXT PRIMARY KEY, value TEXT NOT NULL)`,
    `CREATE TABLE organizations (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, created_ms BIGINT NOT NULL)`,
    `CREATE TABLE locations (
      id TEXT PRIMARY KEY,
      organization_id TEXT NOT NULL REFERENCES organizations (id),
      parent_id TEXT REFERENCES locations (id),
      name TEXT NOT NULL,
      created_ms BIGINT NOT NULL,
      UNIQUE (organization_id, name)
    )`,
    `CREATE TABLE machines (
      id TEXT PRIMARY KEY,
      location_id TEXT NOT NULL REFERENCES locations (id),
      name TEXT NOT NULL,
      created_ms BIGINT NOT NULL,
      UNIQUE (location_id, name)
    )`,
    `CREATE TABLE parts (
      id TEXT PRIMARY KEY,
      machine_id TEXT NOT NULL REFERENCES machines (id),
      name TEXT NOT NULL,
      main BIGINT NOT NULL,
      created_ms BIGINT NOT NULL,
      seen_ms BIGINT,
      UNIQUE (machine_id, name)
    )`,
    `CREATE TABLE api_keys (
      id TEXT PRIMARY KEY,
      name TEXT NOT NULL,
      hash TEXT NOT NULL,
      created_ms BIGINT NOT NULL
    )`,
    `CREATE TABLE grants (
      key_id TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
      role TEXT NOT NULL,
      kind TEXT NOT NULL,
      resource_id TEXT NOT NULL,
      PRIMARY KEY (key_id, kind, resource_id)
    )`,
    `CREATE INDEX grants_by_resource ON grants (kind, resource_id)`,
    `CREATE TABLE audit (
      id TEXT PRIMARY KEY,
      at_ms BIGINT NOT NULL,
      who TEXT NOT NULL,
      action TEXT NOT NULL,
      resource TEXT NOT NULL,
      outcome TEXT NOT NULL
    )`,
    `CREATE INDEX audit_by_time ON audit (at_ms)`,
  ],
];
