/** The table of administrators, who may run commands of svc-cloud remotely. */

export const ADMINISTRATOR_TABLES: readonly string[] = [
  // A person's account, or a key of its own that belongs to no organization.
  `CREATE TABLE administrators (
    id TEXT PRIMARY KEY REFERENCES api_keys (id) ON DELETE CASCADE,
    created_ms BIGINT NOT NULL,
    creator TEXT NOT NULL
  )`,
];
