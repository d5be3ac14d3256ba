/** The tables of accounts, their sessions, and the invitations to them. */

export const ACCOUNT_TABLES: readonly string[] = [
  // An account is a key that nobody holds: its roles, its limits and its access to machines are those of a key.
  `CREATE TABLE accounts (
    id TEXT PRIMARY KEY REFERENCES api_keys (id) ON DELETE CASCADE,
    email TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    -- The hash; none for a person who signs in elsewhere.
    password TEXT,
    created_ms BIGINT NOT NULL
  )`,
  `CREATE TABLE account_sessions (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    hash TEXT NOT NULL,
    generation TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL,
    until_ms BIGINT NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL
  )`,
  `CREATE INDEX account_sessions_by_account ON account_sessions (account_id, generation)`,
  `CREATE INDEX account_sessions_by_time ON account_sessions (until_ms)`,
  `CREATE TABLE invitations (
    id TEXT PRIMARY KEY,
    -- None for a link that sets a new password.
    organization_id TEXT REFERENCES organizations (id) ON DELETE CASCADE,
    email TEXT NOT NULL,
    hash TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    until_ms BIGINT NOT NULL,
    UNIQUE (organization_id, email)
  )`,
  `CREATE INDEX invitations_by_time ON invitations (until_ms)`,
  `CREATE TABLE invitation_grants (
    invitation_id TEXT NOT NULL REFERENCES invitations (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    kind TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    PRIMARY KEY (invitation_id, kind, resource_id)
  )`,
];
