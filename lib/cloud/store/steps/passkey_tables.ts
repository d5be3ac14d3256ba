/** The tables of people who sign in by passkey (WebAuthn). */

export const PASSKEY_TABLES: readonly string[] = [
  `CREATE TABLE passkeys (
    -- The credential's id, which the authenticator has chosen.
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    -- The host name for which the authenticator made it; it is of no use for another one.
    rp_id TEXT NOT NULL,
    -- In COSE form.
    public_key TEXT NOT NULL,
    counter BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    used_ms BIGINT
  )`,
  `CREATE INDEX passkeys_by_account ON passkeys (account_id, created_ms)`,
  // What a browser has been asked to prove, and has not proven yet.
  `CREATE TABLE passkey_challenges (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL,
    origin TEXT NOT NULL,
    -- The session that adds a passkey; without one, somebody signs in.
    session_id TEXT REFERENCES account_sessions (id) ON DELETE CASCADE,
    -- The name of the new passkey.
    name TEXT NOT NULL,
    -- The address that the person has given, if any.
    email TEXT,
    stays BIGINT NOT NULL,
    address TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    until_ms BIGINT NOT NULL
  )`,
  `CREATE INDEX passkey_challenges_by_address ON passkey_challenges (address, created_ms)`,
  `CREATE INDEX passkey_challenges_by_time ON passkey_challenges (until_ms)`,
];
