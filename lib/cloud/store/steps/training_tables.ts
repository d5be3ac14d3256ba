/** A migration step: how often a control plane has died that ran a job. */

export const INTERRUPTION_COLUMNS: readonly string[] = [
  `ALTER TABLE training_jobs ADD COLUMN interruptions BIGINT NOT NULL DEFAULT 0`,
];
