/** The organization of each entry of the audit log; of old entries, those on what still exists. */

const INSIDE = {
  organization: "SELECT o.id FROM organizations o WHERE o.id",
  location: "SELECT l.organization_id FROM locations l WHERE l.id",
  machine: "SELECT l.organization_id FROM machines m JOIN locations l ON l.id = m.location_id WHERE m.id",
  part: `SELECT l.organization_id FROM parts p JOIN machines m ON m.id = p.machine_id
    JOIN locations l ON l.id = m.location_id WHERE p.id`,
  fragment: "SELECT f.organization_id FROM fragments f WHERE f.id",
  key: "SELECT k.organization_id FROM api_keys k WHERE k.id",
};

export const AUDIT_TABLES: readonly string[] = [
  // Empty for what belongs to the whole control plane, or to nobody any more.
  `ALTER TABLE audit ADD COLUMN organization_id TEXT NOT NULL DEFAULT ''`,
  ...Object.entries(INSIDE).map(([kind, organization]) =>
    `UPDATE audit SET organization_id =
       COALESCE((${organization} = SUBSTR(audit.resource, ${kind.length + 2})), '')
     WHERE resource LIKE '${kind} %'`
  ),
  `CREATE INDEX audit_by_organization ON audit (organization_id, at_ms, id)`,
];
