/** The tables of people who sign in at an identity provider. */

export const PROVIDER_TABLES: readonly string[] = [
  // Who a person is at the provider; the address that the provider knows says nothing.
  `CREATE TABLE provider_links (
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (issuer, subject),
    UNIQUE (account_id, issuer)
  )`,
  // A way to the provider that somebody has begun and not ended yet.
  `CREATE TABLE provider_visits (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL,
    issuer TEXT NOT NULL,
    -- The session that asks for the link.
    session_id TEXT REFERENCES account_sessions (id) ON DELETE CASCADE,
    -- The invitation that is accepted.
    invitation_id TEXT REFERENCES invitations (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    return_to TEXT NOT NULL,
    stays BIGINT NOT NULL,
    address TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    until_ms BIGINT NOT NULL
  )`,
  `CREATE INDEX provider_visits_by_address ON provider_visits (address, created_ms)`,
  `CREATE INDEX provider_visits_by_time ON provider_visits (until_ms)`,
];
