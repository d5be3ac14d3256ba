/** What agents last reported about themselves. */

import { shownUrlsIn } from "../../base/log/shown_url.ts";
import { queryByIds, type Sql } from "../store/store.ts";

/** The last report of an agent. Unknown versions are empty, as are uptimes of programs that do not run. */
export interface AgentReport {
  readonly platform: string;
  readonly distro: string;
  readonly tags: readonly string[];
  readonly agentRunning: string;
  readonly agentInstalled: string;
  readonly serverRunning: string;
  readonly serverInstalled: string;
  readonly agentUptimeMs: number | null;
  readonly serverUptimeMs: number | null;
  /** Such as `svc-server 1.2.3`; unknown for other agents. */
  readonly refused: readonly string[];
}

/** The last reports of these parts' agents, and their times. */
export async function agentReports(
  sql: Sql,
  partIds: readonly string[],
): Promise<Map<string, AgentReport & { readonly atMs: number }>> {
  const rows = await queryByIds<{ id: string; report: string; atMs: number }>(
    sql,
    partIds,
    (places) => `SELECT part_id AS id, report, at_ms AS "atMs" FROM agents WHERE part_id IN (${places})`,
  );
  return new Map(
    rows.map(({ id, report, atMs }) => [id, { refused: [], ...JSON.parse(shownUrlsIn(report)), atMs }]),
  );
}
