/**
 * Quotas on the number of an organization's resources, because an answer contains a whole list, which must be
 * bounded.
 *
 * The transaction that adds a resource also counts, so the count is exact with any number of control planes. The
 * operator's command line is not limited.
 */

import { type LimitName, type Limits, requireWithin } from "./limits.ts";
import { queryOne, type Sql } from "../store/store.ts";

const MACHINES = "machines m JOIN locations l ON l.id = m.location_id WHERE l.organization_id = ?";

/** Each query counts by the id of an organization, or of the resource in its name. */
const COUNTS = {
  locationsPerOrganization: "SELECT COUNT(*) AS amount FROM locations WHERE organization_id = ?",
  machinesPerOrganization: `SELECT COUNT(*) AS amount FROM ${MACHINES}`,
  partsPerMachine: "SELECT COUNT(*) AS amount FROM parts WHERE machine_id = ?",
  guestsPerLocation: "SELECT COUNT(*) AS amount FROM location_shares WHERE location_id = ?",
  secretsPerLocation: "SELECT COUNT(*) AS amount FROM shared_secrets WHERE location_id = ?",
  secretsPerPart: "SELECT COUNT(*) AS amount FROM shared_secrets WHERE part_id = ?",
  membersPerOrganization: `SELECT COUNT(*) AS amount FROM (
      SELECT email FROM invitations WHERE organization_id = ?
      UNION SELECT a.email FROM accounts a JOIN grants g ON g.key_id = a.id WHERE g.resource_id = ?
        OR g.resource_id IN (SELECT id FROM locations WHERE organization_id = ?)
        OR g.resource_id IN (SELECT m.id FROM ${MACHINES})) AS people`,
  keysPerOrganization: "SELECT COUNT(*) AS amount FROM api_keys WHERE organization_id = ?",
  rolesPerKey: "SELECT COUNT(*) AS amount FROM grants WHERE key_id = ?",
  rolesPerOrganization: `SELECT COUNT(*) AS amount FROM grants WHERE resource_id = ?
    OR resource_id IN (SELECT id FROM locations WHERE organization_id = ?)
    OR resource_id IN (SELECT m.id FROM ${MACHINES})`,
  fragmentsPerOrganization: "SELECT COUNT(*) AS amount FROM fragments WHERE organization_id = ?",
  tagsPerFragment: "SELECT COUNT(*) AS amount FROM fragment_tags WHERE fragment_id = ?",
  fragmentLettersPerOrganization:
    "SELECT CAST(COALESCE(SUM(LENGTH(config)), 0) AS BIGINT) AS amount FROM fragments WHERE organization_id = ?",
  registryItemsPerOrganization: "SELECT COUNT(*) AS amount FROM registry_items WHERE organization_id = ?",
  registryLettersPerOrganization: `SELECT CAST(COALESCE(SUM(letters), 0) AS BIGINT) AS amount FROM (
      SELECT LENGTH(description) + LENGTH(url) + LENGTH(markdown) + LENGTH(details) AS letters
        FROM registry_items WHERE organization_id = ?
      UNION ALL
      SELECT LENGTH(p.metadata) FROM packages p JOIN registry_items i ON i.id = p.item_id
        WHERE i.organization_id = ?) AS texts`,
  datasetsPerOrganization: "SELECT COUNT(*) AS amount FROM datasets WHERE organization_id = ?",
  sequenceExportsPerOrganization: "SELECT COUNT(*) AS amount FROM sequence_exports WHERE organization_id = ?",
  pipelinesPerOrganization: "SELECT COUNT(*) AS amount FROM data_pipelines WHERE organization_id = ?",
  savedQueriesPerOrganization: "SELECT COUNT(*) AS amount FROM saved_queries WHERE organization_id = ?",
  rolloutsAtOnce: "SELECT COUNT(*) AS amount FROM rollouts WHERE organization_id = ? AND ended_ms IS NULL",
  sequencesPerOrganization: "SELECT COUNT(*) AS amount FROM sequences WHERE organization_id = ?",
  trainingJobsPerOrganization: "SELECT COUNT(*) AS amount FROM training_jobs WHERE organization_id = ?",
  mappingSessionsPerOrganization: "SELECT COUNT(*) AS amount FROM mapping_sessions WHERE organization_id = ?",
  mappingSessionsAtOnce:
    "SELECT COUNT(*) AS amount FROM mapping_sessions WHERE organization_id = ? AND ended_ms IS NULL",
  containersPerOrganization: "SELECT COUNT(*) AS amount FROM training_containers WHERE organization_id = ?",
} satisfies { readonly [N in LimitName]?: string };

export type CountQuota = keyof typeof COUNTS;

/** Throws `resource_exhausted` if the transaction exceeds the limit, so that the transaction rolls back. */
export async function requireQuota(sql: Sql, limits: Limits, name: CountQuota, id: string): Promise<void> {
  const text = COUNTS[name];
  const { amount } = await queryOne<{ amount: number }>(
    sql,
    text,
    ...Array(text.split("?").length - 1).fill(id),
  );
  requireWithin(limits, name, amount);
}
