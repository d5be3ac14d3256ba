/** Reports what each organization stores: rows and bytes, by kind. */

import { queryOne, type Sql } from "../store/store.ts";

export const USAGE_KINDS = [
  "packages",
  "files",
  "readings",
  "logs",
  "configurations",
  "pipeline results",
] as const;
export type UsageKind = typeof USAGE_KINDS[number];

export interface StoredAmount {
  readonly organizationId: string;
  readonly kind: UsageKind;
  readonly rows: number;
  readonly bytes: number;
}

const sum = (what: string) => `CAST(COALESCE(SUM(${what}), 0) AS BIGINT) AS bytes`;
const stored = (kind: string) =>
  `(SELECT CAST(COALESCE(SUM(s.bytes), 0) AS BIGINT) FROM stored_bytes s WHERE s.kind = '${kind}' AND
      s.organization_id = ?) AS bytes`;

/** Each counts by the id of an organization. */
const COUNTS: { readonly [K in UsageKind]: string } = {
  packages: `SELECT COUNT(*) AS rows, ${
    sum("p.bytes")
  } FROM packages p JOIN registry_items i ON i.id = p.item_id
    WHERE i.organization_id = ?`,
  files: `SELECT COUNT(*) AS rows, ${
    sum("d.bytes")
  } FROM binary_data d JOIN data_origins o ON o.id = d.origin_id
    WHERE o.organization_id = ?`,
  readings: `SELECT (SELECT COUNT(*) FROM tabular_data d JOIN data_origins o ON o.id = d.origin_id
      WHERE o.organization_id = ?) +
    (SELECT CAST(COALESCE(SUM(d.readings), 0) AS BIGINT) FROM reading_files d
      JOIN data_origins o ON o.id = d.origin_id WHERE o.organization_id = ?) AS rows, ${stored("readings")}`,
  logs: `SELECT COUNT(*) AS rows, ${stored("logs")} FROM logs g JOIN parts p ON p.id = g.part_id
    JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id WHERE l.organization_id = ?`,
  configurations: `SELECT COUNT(*) AS rows, ${sum("bytes")} FROM (
      SELECT p.config_bytes AS bytes FROM parts p JOIN machines m ON m.id = p.machine_id
        JOIN locations l ON l.id = m.location_id WHERE l.organization_id = ?
      UNION ALL SELECT config_bytes FROM fragments WHERE organization_id = ?) AS texts`,
  "pipeline results": `SELECT COUNT(*) AS rows, ${stored("sinks")} FROM pipeline_documents d
    JOIN data_pipelines p ON p.id = d.pipeline_id WHERE p.organization_id = ?`,
};

/** What an organization stores. Takes long if that is much. */
export async function storedBy(sql: Sql, organizationId: string): Promise<StoredAmount[]> {
  const amounts: StoredAmount[] = [];
  for (const kind of USAGE_KINDS) {
    const text = COUNTS[kind].replace("AS rows", 'AS "rows"');
    const ids = Array(text.split("?").length - 1).fill(organizationId);
    const { rows, bytes } = await queryOne<{ rows: number; bytes: number }>(sql, text, ...ids);
    amounts.push({ organizationId, kind, rows, bytes });
  }
  return amounts;
}
