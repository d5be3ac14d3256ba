/**
 * The tables of the control plane, as a list of migration steps.
 *
 * Step n leads from version n - 1 to n. Steps are only added; a released step never changes.
 */

import { ACCOUNT_TABLES } from "./steps/account_tables.ts";
import { ADMINISTRATOR_TABLES } from "./steps/administrator_tables.ts";
import { AUDIT_TABLES } from "./steps/audit_tables.ts";
import { recordFragmentUses } from "./steps/fragment_uses.ts";
import { chooseHostWords } from "./steps/host_words.ts";
import { EXPORT_TABLES } from "./steps/export_tables.ts";
import { OWN_RETENTION_COLUMNS, REMOVED_READING_TABLES, RETENTION_TABLES } from "./steps/retention_tables.ts";
import { OPERATOR_TABLES } from "./steps/operator_tables.ts";
import { PASSKEY_TABLES } from "./steps/passkey_tables.ts";
import { INTERRUPTION_COLUMNS } from "./steps/training_tables.ts";
import { PACKAGE_USE_TABLES } from "./steps/package_uses.ts";
import { PIPELINE_TABLES } from "./steps/pipeline_tables.ts";
import { PROVIDER_TABLES } from "./steps/provider_tables.ts";
import { PATH_TYPE_COLUMNS, READING_FILE_TABLES } from "./steps/reading_file_tables.ts";
import { ROLLOUT_TABLES } from "./steps/rollout_tables.ts";
import type { Sql } from "./store.ts";
import { moveReadingTags } from "./tag_lists.ts";

/** A statement, or work that SQL alone cannot do. */
export type MigrationStep = string | ((sql: Sql) => Promise<void>);

/** Before this step, the existing readings get their lists of tags. */
const READING_TAGS = [`DROP INDEX tabular_data_unlisted`];

export const MIGRATIONS: readonly (readonly MigrationStep[])[] = [
  [
    // The control plane's own secrets: signing keys and the like.
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
  [
    `ALTER TABLE parts ADD COLUMN config TEXT NOT NULL DEFAULT '{}'`,
    `ALTER TABLE parts ADD COLUMN config_ms BIGINT NOT NULL DEFAULT 0`,
    `ALTER TABLE parts ADD COLUMN revision BIGINT NOT NULL DEFAULT 0`,
    `ALTER TABLE parts ADD COLUMN restart BIGINT NOT NULL DEFAULT 0`,
    // The part's last report about itself, as JSON.
    `ALTER TABLE parts ADD COLUMN info TEXT NOT NULL DEFAULT '{}'`,
    // Entry n describes the change to revision n; it holds the text before it.
    `CREATE TABLE part_history (
      part_id TEXT NOT NULL REFERENCES parts (id) ON DELETE CASCADE,
      revision BIGINT NOT NULL,
      at_ms BIGINT NOT NULL,
      who TEXT NOT NULL,
      old_name TEXT NOT NULL,
      old_config TEXT NOT NULL,
      PRIMARY KEY (part_id, revision)
    )`,
    `CREATE TABLE fragments (
      id TEXT PRIMARY KEY,
      organization_id TEXT NOT NULL REFERENCES organizations (id),
      name TEXT NOT NULL,
      config TEXT NOT NULL,
      revision BIGINT NOT NULL,
      created_ms BIGINT NOT NULL,
      updated_ms BIGINT NOT NULL,
      UNIQUE (organization_id, name)
    )`,
    `CREATE TABLE certificates (
      part_id TEXT PRIMARY KEY REFERENCES parts (id) ON DELETE CASCADE,
      names TEXT NOT NULL,
      certificate TEXT NOT NULL,
      private_key TEXT NOT NULL,
      renew_ms BIGINT NOT NULL
    )`,
  ],
  [
    // Numbers of a part's log entries: given in the order of their arrival, some never used.
    `CREATE TABLE log_heads (part_id TEXT PRIMARY KEY, number BIGINT NOT NULL)`,
    // Entries outlive their part, until they expire.
    `CREATE TABLE logs (
      part_id TEXT NOT NULL,
      number BIGINT NOT NULL,
      entry_id TEXT NOT NULL,
      received_ms BIGINT NOT NULL,
      written_ms BIGINT NOT NULL,
      level TEXT NOT NULL,
      logger TEXT NOT NULL,
      words TEXT NOT NULL,
      entry BYTEA NOT NULL,
      PRIMARY KEY (part_id, number)
    )`,
    `CREATE UNIQUE INDEX logs_by_entry ON logs (part_id, entry_id)`,
    `CREATE INDEX logs_by_age ON logs (received_ms)`,
  ],
  // Packages and the registry.
  [
    `ALTER TABLE organizations ADD COLUMN namespace TEXT`,
    `CREATE UNIQUE INDEX organizations_by_namespace ON organizations (namespace)`,
    `CREATE TABLE registry_items (
      id TEXT PRIMARY KEY,
      organization_id TEXT NOT NULL REFERENCES organizations (id),
      name TEXT NOT NULL,
      kind TEXT NOT NULL,
      visibility TEXT NOT NULL,
      description TEXT NOT NULL,
      url TEXT NOT NULL,
      markdown TEXT NOT NULL,
      -- What only items of its kind have, as JSON.
      details TEXT NOT NULL,
      created_ms BIGINT NOT NULL,
      updated_ms BIGINT NOT NULL,
      UNIQUE (organization_id, name)
    )`,
    `CREATE TABLE packages (
      id TEXT PRIMARY KEY,
      item_id TEXT NOT NULL REFERENCES registry_items (id),
      version TEXT NOT NULL,
      -- Empty where it is for every platform.
      platform TEXT NOT NULL,
      sha256 TEXT NOT NULL,
      bytes BIGINT NOT NULL,
      metadata TEXT NOT NULL,
      created_ms BIGINT NOT NULL,
      UNIQUE (item_id, version, platform)
    )`,
    `CREATE INDEX packages_by_content ON packages (sha256)`,
  ],
  // Captured data and datasets.
  [
    // The source of data. The id is derived from all other columns; data stays when machines and parts are gone.
    `CREATE TABLE data_origins (
      id TEXT PRIMARY KEY,
      organization_id TEXT NOT NULL REFERENCES organizations (id),
      location_id TEXT NOT NULL,
      machine_id TEXT NOT NULL,
      machine_name TEXT NOT NULL,
      part_id TEXT NOT NULL,
      part_name TEXT NOT NULL,
      component_type TEXT NOT NULL,
      component_name TEXT NOT NULL,
      method_name TEXT NOT NULL,
      parameters TEXT NOT NULL
    )`,
    `CREATE INDEX data_origins_by_part ON data_origins (part_id)`,
    `CREATE INDEX data_origins_by_organization ON data_origins (organization_id)`,
    // Two uploads with one key are the same. Times of capture are in microseconds.
    `CREATE TABLE binary_data (
      id TEXT PRIMARY KEY,
      origin_id TEXT NOT NULL REFERENCES data_origins (id),
      upload_key TEXT NOT NULL UNIQUE,
      captured_us BIGINT NOT NULL,
      received_us BIGINT NOT NULL,
      stored_ms BIGINT NOT NULL,
      file_name TEXT NOT NULL,
      file_ext TEXT NOT NULL,
      mime_type TEXT NOT NULL,
      sha256 TEXT NOT NULL,
      bytes BIGINT NOT NULL
    )`,
    `CREATE INDEX binary_data_by_time ON binary_data (captured_us, id)`,
    `CREATE INDEX binary_data_by_origin ON binary_data (origin_id, captured_us, id)`,
    `CREATE INDEX binary_data_by_content ON binary_data (sha256)`,
    `CREATE TABLE data_tags (
      data_id TEXT NOT NULL REFERENCES binary_data (id) ON DELETE CASCADE,
      tag TEXT NOT NULL,
      PRIMARY KEY (data_id, tag)
    )`,
    // A box if it has coordinates, from 0 to 1; else a classification.
    `CREATE TABLE annotations (
      id TEXT PRIMARY KEY,
      data_id TEXT NOT NULL REFERENCES binary_data (id) ON DELETE CASCADE,
      label TEXT NOT NULL,
      confidence DOUBLE PRECISION,
      x_min DOUBLE PRECISION,
      y_min DOUBLE PRECISION,
      x_max DOUBLE PRECISION,
      y_max DOUBLE PRECISION
    )`,
    `CREATE INDEX annotations_by_data ON annotations (data_id)`,
    `CREATE TABLE datasets (
      id TEXT PRIMARY KEY,
      organization_id TEXT NOT NULL REFERENCES organizations (id),
      name TEXT NOT NULL,
      type TEXT NOT NULL,
      created_ms BIGINT NOT NULL,
      UNIQUE (organization_id, name)
    )`,
    `CREATE TABLE dataset_data (
      dataset_id TEXT NOT NULL REFERENCES datasets (id) ON DELETE CASCADE,
      data_id TEXT NOT NULL REFERENCES binary_data (id) ON DELETE CASCADE,
      PRIMARY KEY (dataset_id, data_id)
    )`,
    `CREATE INDEX dataset_data_by_data ON dataset_data (data_id)`,
    // The payload is an encoded SensorData with only its struct; the tags are JSON.
    `CREATE TABLE tabular_data (
      origin_id TEXT NOT NULL REFERENCES data_origins (id),
      captured_us BIGINT NOT NULL,
      entry_id TEXT NOT NULL,
      received_us BIGINT NOT NULL,
      stored_ms BIGINT NOT NULL,
      tags TEXT NOT NULL,
      payload BYTEA NOT NULL,
      PRIMARY KEY (origin_id, captured_us, entry_id)
    )`,
    `CREATE INDEX tabular_data_by_time ON tabular_data (captured_us, origin_id, entry_id)`,
  ],
  // Training jobs.
  [
    `CREATE TABLE training_jobs (
      id TEXT PRIMARY KEY,
      organization_id TEXT NOT NULL REFERENCES organizations (id),
      -- Jobs of an organization in a queue are worked on in the order of their numbers.
      queue TEXT NOT NULL,
      number BIGINT NOT NULL,
      state TEXT NOT NULL,
      dataset_id TEXT NOT NULL,
      model_name TEXT NOT NULL,
      model_version TEXT NOT NULL,
      model_type TEXT NOT NULL,
      model_framework TEXT NOT NULL,
      labels TEXT NOT NULL,
      -- Of a custom job, as JSON; its content for as long as it is needed, and the key that it is given.
      script TEXT,
      sha256 TEXT,
      key_id TEXT REFERENCES api_keys (id) ON DELETE SET NULL,
      created_ms BIGINT NOT NULL,
      modified_ms BIGINT NOT NULL,
      started_ms BIGINT,
      ended_ms BIGINT,
      error_code BIGINT,
      error_message TEXT,
      model_id TEXT,
      -- Who works on it, and until when it is believed to live.
      runner TEXT,
      lease_ms BIGINT
    )`,
    `CREATE UNIQUE INDEX training_jobs_by_model ON training_jobs (organization_id, model_name, model_version)
      WHERE state IN ('pending', 'in_progress', 'canceling')`,
    `CREATE INDEX training_jobs_by_organization ON training_jobs (organization_id, number)`,
    `CREATE INDEX training_jobs_by_state ON training_jobs (state, queue, number)`,
    `CREATE INDEX training_jobs_by_content ON training_jobs (sha256)`,
    // The training data of unfinished jobs, each image as JSON.
    `CREATE TABLE training_images (
      job_id TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
      position BIGINT NOT NULL,
      sha256 TEXT NOT NULL,
      image TEXT NOT NULL,
      PRIMARY KEY (job_id, position)
    )`,
    `CREATE INDEX training_images_by_content ON training_images (sha256)`,
    `CREATE TABLE training_logs (
      job_id TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
      number BIGINT NOT NULL,
      at_ms BIGINT NOT NULL,
      level TEXT NOT NULL,
      message TEXT NOT NULL,
      PRIMARY KEY (job_id, number)
    )`,
    `CREATE INDEX training_logs_by_age ON training_logs (at_ms)`,
  ],
  // Agents, and the telemetry of the fleet.
  [
    // Programs that agents install.
    `CREATE TABLE releases (
      id TEXT PRIMARY KEY,
      name TEXT NOT NULL,
      version TEXT NOT NULL,
      platform TEXT NOT NULL,
      -- Empty where only its version leads to it.
      channel TEXT NOT NULL,
      sha256 TEXT NOT NULL,
      bytes BIGINT NOT NULL,
      created_ms BIGINT NOT NULL,
      UNIQUE (name, version, platform)
    )`,
    `CREATE INDEX releases_by_content ON releases (sha256)`,
    // The last report of a part's agent, as JSON.
    `CREATE TABLE agents (
      part_id TEXT PRIMARY KEY REFERENCES parts (id) ON DELETE CASCADE,
      report TEXT NOT NULL,
      at_ms BIGINT NOT NULL
    )`,
  ],
  [
    `CREATE INDEX training_jobs_by_key ON training_jobs (key_id)`,
  ],
  // Facts for the control plane's commands.
  [
    `CREATE TABLE settings (
      name TEXT PRIMARY KEY,
      value TEXT NOT NULL
    )`,
  ],
  // The owner of a key: only the owner renames, replaces and deletes it.
  [
    `ALTER TABLE api_keys ADD COLUMN organization_id TEXT REFERENCES organizations (id)`,
    // An older key belongs to the only organization that can have created it. If several are possible, the creator is
    // unknown, and the operator of the control plane decides.
    `UPDATE api_keys SET organization_id = (
      SELECT CASE WHEN COUNT(DISTINCT o.id) = 1 THEN MIN(o.id) END
      FROM grants g
      LEFT JOIN machines m ON g.kind = 'machine' AND m.id = g.resource_id
      LEFT JOIN locations l
        ON l.id = CASE g.kind WHEN 'machine' THEN m.location_id WHEN 'location' THEN g.resource_id END
      JOIN organizations o
        ON o.id = CASE g.kind WHEN 'organization' THEN g.resource_id ELSE l.organization_id END
      WHERE g.key_id = api_keys.id AND o.created_ms <= api_keys.created_ms
    )`,
    `CREATE INDEX api_keys_by_organization ON api_keys (organization_id)`,
  ],
  // The amount that each part logged on the last day with logs.
  [
    `CREATE TABLE log_days (
      part_id TEXT PRIMARY KEY REFERENCES parts (id) ON DELETE CASCADE,
      day BIGINT NOT NULL,
      lines BIGINT NOT NULL,
      bytes BIGINT NOT NULL
    )`,
  ],
  // The turns of organizations in each queue, separate from jobs, which are deleted.
  [
    `CREATE TABLE training_turns (
      organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
      queue TEXT NOT NULL,
      -- Greater than that of all whose turn was before.
      turn BIGINT NOT NULL,
      PRIMARY KEY (organization_id, queue)
    )`,
  ],
  // Private keys of machines were stored in the clear. Machines request new certificates, whose keys are sealed.
  [
    `ALTER TABLE certificates RENAME COLUMN private_key TO sealed_key`,
    // The database's files still contain their bytes: the next start removes them.
    `INSERT INTO secrets (name, value) SELECT 'unscrubbed', 'yes' WHERE EXISTS (SELECT 1 FROM certificates)
      ON CONFLICT (name) DO NOTHING`,
    `DELETE FROM certificates`,
  ],
  // People's notes about things, as JSON.
  ["organizations", "locations", "machines", "parts"].map((table) =>
    `ALTER TABLE ${table} ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}'`
  ),
  // Learning settings of a job, as JSON, as its submitter gave them.
  [
    `ALTER TABLE training_jobs ADD COLUMN learning TEXT NOT NULL DEFAULT '{}'`,
  ],
  // Sequences: time windows in the captured data of a part. The source is stored as in data origins.
  [
    `CREATE TABLE sequences (
      id TEXT PRIMARY KEY,
      organization_id TEXT NOT NULL REFERENCES organizations (id),
      location_id TEXT NOT NULL,
      machine_id TEXT NOT NULL,
      part_id TEXT NOT NULL,
      -- Both as JSON.
      resources TEXT NOT NULL,
      tags TEXT NOT NULL,
      start_us BIGINT NOT NULL,
      end_us BIGINT NOT NULL,
      created_ms BIGINT NOT NULL,
      updated_ms BIGINT NOT NULL
    )`,
    `CREATE INDEX sequences_by_organization ON sequences (organization_id, created_ms, id)`,
    `CREATE TABLE dataset_sequences (
      dataset_id TEXT NOT NULL REFERENCES datasets (id) ON DELETE CASCADE,
      sequence_id TEXT NOT NULL REFERENCES sequences (id) ON DELETE CASCADE,
      PRIMARY KEY (dataset_id, sequence_id)
    )`,
    `CREATE INDEX dataset_sequences_by_sequence ON dataset_sequences (sequence_id)`,
  ],
  // The guest organizations of a location.
  [
    `CREATE TABLE location_shares (
      location_id TEXT NOT NULL REFERENCES locations (id) ON DELETE CASCADE,
      organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
      PRIMARY KEY (location_id, organization_id)
    )`,
    `CREATE INDEX location_shares_by_organization ON location_shares (organization_id)`,
  ],
  [
    // Each belongs either to a location or to a part.
    `CREATE TABLE shared_secrets (
      id TEXT PRIMARY KEY,
      location_id TEXT REFERENCES locations (id) ON DELETE CASCADE,
      part_id TEXT REFERENCES parts (id) ON DELETE CASCADE,
      hash TEXT NOT NULL,
      created_ms BIGINT NOT NULL
    )`,
    `CREATE INDEX shared_secrets_by_location ON shared_secrets (location_id)`,
    `CREATE INDEX shared_secrets_by_part ON shared_secrets (part_id)`,
  ],
  // Containers that organizations have registered for their training scripts.
  [
    `CREATE TABLE training_containers (
      id TEXT PRIMARY KEY,
      organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
      image_uri TEXT NOT NULL,
      description TEXT NOT NULL,
      created_ms BIGINT NOT NULL
    )`,
    `CREATE INDEX training_containers_by_organization ON training_containers (organization_id, created_ms, id)`,
  ],
  // Fragments at each of their revisions.
  [
    // Changes whenever the content that a configuration can get from a fragment changes.
    `ALTER TABLE fragments ADD COLUMN stamp BIGINT NOT NULL DEFAULT 0`,
    `CREATE TABLE fragment_revisions (
      fragment_id TEXT NOT NULL REFERENCES fragments (id) ON DELETE CASCADE,
      revision BIGINT NOT NULL,
      at_ms BIGINT NOT NULL,
      who TEXT NOT NULL,
      name TEXT NOT NULL,
      config TEXT NOT NULL,
      PRIMARY KEY (fragment_id, revision)
    )`,
    `INSERT INTO fragment_revisions (fragment_id, revision, at_ms, who, name, config)
      SELECT id, revision, updated_ms, '', name, config FROM fragments`,
    `CREATE TABLE fragment_tags (
      fragment_id TEXT NOT NULL REFERENCES fragments (id) ON DELETE CASCADE,
      tag TEXT NOT NULL,
      revision BIGINT NOT NULL,
      PRIMARY KEY (fragment_id, tag)
    )`,
  ],
  // Capture times that SQLite stores but cannot return (after the year 2255) hid all captured data behind them.
  [
    `UPDATE binary_data SET captured_us = 9007199254740991 WHERE captured_us > 9007199254740991`,
    `UPDATE binary_data SET received_us = 9007199254740991 WHERE received_us > 9007199254740991`,
    // Of equal readings at several such times one stays.
    `DELETE FROM tabular_data WHERE captured_us > 9007199254740991 AND EXISTS (
      SELECT 1 FROM tabular_data AS t WHERE t.origin_id = tabular_data.origin_id
        AND t.entry_id = tabular_data.entry_id AND t.captured_us >= 9007199254740991
        AND t.captured_us < tabular_data.captured_us)`,
    `UPDATE tabular_data SET captured_us = 9007199254740991 WHERE captured_us > 9007199254740991`,
  ],
  // Maps made from captured data.
  [
    `CREATE TABLE mapping_sessions (
      id TEXT PRIMARY KEY,
      organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
      location_id TEXT NOT NULL,
      machine_id TEXT NOT NULL,
      map_name TEXT NOT NULL,
      existing_version TEXT NOT NULL,
      version TEXT NOT NULL,
      camera TEXT NOT NULL,
      movement_sensor TEXT NOT NULL,
      from_us BIGINT NOT NULL,
      until_us BIGINT,
      config TEXT NOT NULL,
      slam_version TEXT NOT NULL,
      server_version TEXT NOT NULL,
      created_ms BIGINT NOT NULL,
      started_ms BIGINT,
      stopped_ms BIGINT,
      ended_ms BIGINT,
      outcome TEXT,
      error TEXT NOT NULL DEFAULT '',
      asked_ms BIGINT NOT NULL DEFAULT 0,
      sha256 TEXT,
      bytes BIGINT NOT NULL DEFAULT 0,
      picture_ms BIGINT NOT NULL DEFAULT 0,
      pose TEXT,
      runner TEXT,
      lease_ms BIGINT NOT NULL DEFAULT 0
    )`,
    `CREATE UNIQUE INDEX mapping_sessions_active ON mapping_sessions (machine_id) WHERE ended_ms IS NULL`,
    `CREATE INDEX mapping_sessions_by_organization ON mapping_sessions (organization_id, created_ms)`,
    `CREATE INDEX mapping_sessions_by_content ON mapping_sessions (sha256)`,
  ],
  // Logs are answered in the order of their times.
  [`CREATE INDEX logs_by_time ON logs (part_id, written_ms, number)`],
  // A filter by tags uses an index instead of reading the tags of each reading.
  [
    `CREATE TABLE reading_tags (tag TEXT NOT NULL, list TEXT NOT NULL, PRIMARY KEY (tag, list))`,
    `CREATE INDEX reading_tags_by_list ON reading_tags (list)`,
    `ALTER TABLE tabular_data ADD COLUMN tag_list TEXT`,
    `CREATE INDEX tabular_data_by_tags ON tabular_data (tag_list) WHERE tag_list IS NOT NULL`,
    `CREATE INDEX tabular_data_unlisted ON tabular_data (origin_id) WHERE tag_list IS NULL AND tags <> '[]'`,
  ],
  READING_TAGS,
  // Who uses which fragment, and who may use it.
  [
    `ALTER TABLE fragments ADD COLUMN visibility TEXT NOT NULL DEFAULT 'private'`,
    `CREATE INDEX fragments_by_visibility ON fragments (visibility)`,
    `CREATE TABLE part_fragments (
      part_id TEXT NOT NULL REFERENCES parts (id) ON DELETE CASCADE,
      fragment_id TEXT NOT NULL,
      version TEXT NOT NULL,
      PRIMARY KEY (part_id, fragment_id, version)
    )`,
    `CREATE INDEX part_fragments_by_fragment ON part_fragments (fragment_id)`,
    `CREATE TABLE fragment_fragments (
      fragment_id TEXT NOT NULL REFERENCES fragments (id) ON DELETE CASCADE,
      used_id TEXT NOT NULL,
      version TEXT NOT NULL,
      PRIMARY KEY (fragment_id, used_id, version)
    )`,
    `CREATE INDEX fragment_fragments_by_used ON fragment_fragments (used_id)`,
    recordFragmentUses,
  ],
  // The first label of each part's host names, unique in its location.
  [
    `CREATE TABLE part_hosts (
      location_id TEXT NOT NULL,
      word TEXT NOT NULL,
      -- A released word outlives its part as long as a certificate may name it.
      part_id TEXT NOT NULL,
      released_ms BIGINT,
      PRIMARY KEY (location_id, word)
    )`,
    `CREATE INDEX part_hosts_by_part ON part_hosts (part_id)`,
    chooseHostWords,
  ],
  // When the part came from another organization; older data stays there.
  [`ALTER TABLE parts ADD COLUMN moved_ms BIGINT NOT NULL DEFAULT 0`],
  // The size of logs, readings and all revisions of configurations, counted as they are added and removed. Older logs
  // and readings do not count; a configuration counts from its next change on.
  [
    `CREATE TABLE stored_bytes (
      -- 'logs' of a part, 'readings' of a source.
      kind TEXT NOT NULL,
      owner_id TEXT NOT NULL,
      organization_id TEXT NOT NULL,
      bytes BIGINT NOT NULL,
      PRIMARY KEY (kind, owner_id)
    )`,
    `CREATE INDEX stored_bytes_by_organization ON stored_bytes (kind, organization_id, bytes)`,
    `ALTER TABLE parts ADD COLUMN config_bytes BIGINT`,
    `ALTER TABLE fragments ADD COLUMN config_bytes BIGINT`,
  ],
  // A session of the former organization of a machine does not prevent the present one from mapping.
  [
    `DROP INDEX mapping_sessions_active`,
    `CREATE UNIQUE INDEX mapping_sessions_active ON mapping_sessions (machine_id, organization_id)
      WHERE ended_ms IS NULL`,
  ],
  // Triggers: the settings of parts, the events, and the notifications.
  [
    `CREATE TABLE part_triggers (
      part_id TEXT PRIMARY KEY REFERENCES parts (id) ON DELETE CASCADE,
      triggers TEXT NOT NULL,
      has_data BIGINT NOT NULL,
      is_online BIGINT NOT NULL
    )`,
    `CREATE TABLE trigger_log_marks (
      part_id TEXT NOT NULL REFERENCES part_triggers (part_id) ON DELETE CASCADE,
      trigger_name TEXT NOT NULL,
      -- The last entry that was looked at.
      number BIGINT NOT NULL,
      next_ms BIGINT NOT NULL,
      PRIMARY KEY (part_id, trigger_name)
    )`,
    `CREATE INDEX trigger_log_marks_by_time ON trigger_log_marks (next_ms)`,
    `CREATE TABLE trigger_events (
      id TEXT PRIMARY KEY,
      part_id TEXT NOT NULL,
      organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
      at_ms BIGINT NOT NULL,
      facts TEXT NOT NULL
    )`,
    `CREATE INDEX trigger_events_by_organization ON trigger_events (organization_id, at_ms, id)`,
    `CREATE TABLE trigger_times (
      part_id TEXT NOT NULL REFERENCES part_triggers (part_id) ON DELETE CASCADE,
      trigger_name TEXT NOT NULL,
      receiver TEXT NOT NULL,
      at_ms BIGINT NOT NULL,
      PRIMARY KEY (part_id, trigger_name, receiver)
    )`,
    `CREATE TABLE trigger_days (
      organization_id TEXT PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
      day BIGINT NOT NULL,
      calls BIGINT NOT NULL,
      mails BIGINT NOT NULL
    )`,
    `CREATE TABLE trigger_secrets (
      organization_id TEXT PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
      secret TEXT NOT NULL,
      previous TEXT,
      until_ms BIGINT NOT NULL
    )`,
    `CREATE TABLE trigger_deliveries (
      id TEXT PRIMARY KEY,
      organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
      part_id TEXT NOT NULL,
      trigger_name TEXT NOT NULL,
      kind TEXT NOT NULL,
      target TEXT NOT NULL,
      message TEXT NOT NULL,
      state TEXT NOT NULL,
      attempts BIGINT NOT NULL,
      created_ms BIGINT NOT NULL,
      next_ms BIGINT NOT NULL,
      ended_ms BIGINT,
      error TEXT NOT NULL,
      -- Whoever tries it just now has it until then.
      lease_ms BIGINT NOT NULL
    )`,
    `CREATE INDEX trigger_deliveries_due ON trigger_deliveries (state, next_ms)`,
    `CREATE INDEX trigger_deliveries_ended ON trigger_deliveries (state, ended_ms)`,
    `CREATE INDEX trigger_deliveries_by_organization ON trigger_deliveries (organization_id, created_ms)`,
  ],
  PIPELINE_TABLES,
  RETENTION_TABLES,
  EXPORT_TABLES,
  OPERATOR_TABLES,
  ACCOUNT_TABLES,
  ROLLOUT_TABLES,
  ADMINISTRATOR_TABLES,
  READING_FILE_TABLES,
  AUDIT_TABLES,
  PROVIDER_TABLES,
  [
    // The newest notification of a trigger, and the dead ones of an organization.
    `CREATE INDEX trigger_deliveries_by_trigger ON trigger_deliveries (part_id, trigger_name, created_ms)`,
    `CREATE INDEX trigger_deliveries_by_state ON trigger_deliveries (organization_id, state, created_ms)`,
  ],
  PASSKEY_TABLES,
  OWN_RETENTION_COLUMNS,
  PACKAGE_USE_TABLES,
  INTERRUPTION_COLUMNS,
  PATH_TYPE_COLUMNS,
  REMOVED_READING_TABLES,
];

/** Work before the statements of a step: runs piece by piece, each in a transaction, until it returns true. */
export const MOVES: ReadonlyMap<readonly MigrationStep[], (sql: Sql) => Promise<boolean>> = new Map([
  [READING_TAGS, moveReadingTags],
]);
