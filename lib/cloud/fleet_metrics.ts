/**
 * Figures of the fleet and of organizations for the metrics page: presence of parts, running versions, storage of
 * organizations, and queues.
 *
 * The sums read whole tables, so they are made at most once a minute, however often they are requested.
 */

import type { Clock } from "../base/clock.ts";
import type { Store } from "./store/store.ts";
import { EXPORT_STATUS } from "./exports/sequence_exports.ts";
import type { Presence } from "./tenants/presence.ts";

/** The labels between the braces, and a value. */
export interface FleetSample {
  readonly labels: string;
  readonly value: number;
}

export interface FleetFigures {
  readonly seen: readonly FleetSample[];
  readonly states: readonly FleetSample[];
  readonly versions: readonly FleetSample[];
  readonly bytes: readonly FleetSample[];
  readonly rows: readonly FleetSample[];
  readonly jobs: readonly FleetSample[];
  /** Lengths of the queues in the database. */
  readonly queues: readonly FleetSample[];
}

const SUMS_EVERY_MS = 60_000;
/** Limit of parts with a time of their own; all parts are in the counts. */
const PARTS_MAX = 5_000;
/** Different versions; a machine may report any text. */
const VERSIONS_MAX = 100;
const LABEL_CHARS_MAX = 100;

const PARTS =
  `SELECT p.id, p.name, p.seen_ms AS "seenMs", p.info, m.name AS machine, l.organization_id AS organization
  FROM parts p JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id
  ORDER BY p.seen_ms DESC`;
const BYTES =
  `SELECT 'packages' AS kind, i.organization_id AS organization, SUM(p.bytes) AS bytes, COUNT(*) AS count
    FROM packages p JOIN registry_items i ON i.id = p.item_id GROUP BY i.organization_id
  UNION ALL SELECT 'data', o.organization_id, SUM(d.bytes), COUNT(*)
    FROM binary_data d JOIN data_origins o ON o.id = d.origin_id GROUP BY o.organization_id
  UNION ALL SELECT 'readings', organization, NULL, CAST(SUM(count) AS BIGINT) FROM (
    SELECT o.organization_id AS organization, COUNT(*) AS count
      FROM tabular_data d JOIN data_origins o ON o.id = d.origin_id GROUP BY o.organization_id
    UNION ALL SELECT o.organization_id, SUM(d.readings)
      FROM reading_files d JOIN data_origins o ON o.id = d.origin_id GROUP BY o.organization_id
    ) AS places GROUP BY organization
  UNION ALL SELECT kind, organization_id, SUM(bytes), NULL FROM stored_bytes GROUP BY kind, organization_id`;
const JOBS = "SELECT state, COUNT(*) AS count FROM training_jobs GROUP BY state";

const QUEUES = `SELECT 'trigger_notifications' AS queue, COUNT(*) AS count FROM trigger_deliveries
    WHERE state = 'pending'
  UNION ALL SELECT 'trigger_events', COUNT(*) FROM trigger_events
  UNION ALL SELECT 'sequence_exports', COUNT(*) FROM sequence_exports WHERE status = ${EXPORT_STATUS.running}
  UNION ALL SELECT 'training_jobs', COUNT(*) FROM training_jobs WHERE state = 'pending'`;

export class FleetMetrics {
  #sums:
    | { readonly untilMs: number; readonly found: Promise<FleetSums> }
    | undefined;

  constructor(
    private readonly store: Store,
    private readonly presence: Presence,
    private readonly clock: Clock,
  ) {}

  async figures(): Promise<FleetFigures> {
    const nowMs = this.clock.monotonicMs();
    if (!this.#sums || nowMs >= this.#sums.untilMs) {
      const found = this.#sum();
      this.#sums = { untilMs: nowMs + SUMS_EVERY_MS, found };
      // A failed sum is not kept.
      void found.catch(() => this.#sums = undefined);
    }
    const { found } = this.#sums;
    return { ...await this.#fleet(), ...await found };
  }

  async #fleet(): Promise<Pick<FleetFigures, "seen" | "states" | "versions">> {
    const parts = await this.store.query<PartRow>(PARTS);
    const seen: FleetSample[] = [];
    const states = new Map([["online", 0], ["offline", 0], ["never", 0]]);
    const versions = new Map<string, number>();
    for (const { id, name, machine, organization, seenMs, info } of parts) {
      const atMs = this.presence.seenMs(id, seenMs);
      const state = this.presence.state(atMs);
      states.set(state, states.get(state)! + 1);
      if (atMs !== undefined && seen.length < PARTS_MAX) {
        seen.push({
          labels: labelsOf({ part_id: id, part: name, machine, organization }),
          value: atMs / 1000,
        });
      }
      const labels = labelsOf({ version: versionIn(info), state });
      if (versions.has(labels) || versions.size < VERSIONS_MAX) {
        versions.set(labels, (versions.get(labels) ?? 0) + 1);
      }
    }
    return {
      seen,
      states: [...states].map(([state, value]) => ({ labels: labelsOf({ state }), value })),
      versions: [...versions].map(([labels, value]) => ({ labels, value })),
    };
  }

  async #sum(): Promise<FleetSums> {
    const sums = await this.store.query<
      { kind: string; organization: string; bytes: unknown; count: unknown }
    >(BYTES);
    const jobs = await this.store.query<{ state: string; count: unknown }>(JOBS);
    const queues = await this.store.query<{ queue: string; count: unknown }>(QUEUES);
    const samplesOf = (key: "bytes" | "count") =>
      sums.filter((row) => row[key] !== null).map((row) => ({
        labels: labelsOf({ kind: row.kind, organization: row.organization }),
        value: Number(row[key]),
      }));
    return {
      bytes: samplesOf("bytes"),
      rows: samplesOf("count"),
      jobs: jobs.map(({ state, count }) => ({ labels: labelsOf({ state }), value: Number(count) })),
      queues: queues.map(({ queue, count }) => ({ labels: labelsOf({ queue }), value: Number(count) })),
    };
  }
}

type FleetSums = Pick<FleetFigures, "bytes" | "rows" | "jobs" | "queues">;

interface PartRow {
  readonly id: string;
  readonly name: string;
  readonly machine: string;
  readonly organization: string;
  readonly seenMs: number | null;
  readonly info: string;
}

function versionIn(info: string): string {
  try {
    const { version } = JSON.parse(info);
    return typeof version === "string" ? version : "";
  } catch {
    return "";
  }
}

/** Values of labels come from outside, so they are shortened, and cannot end the label. */
function labelsOf(labels: { readonly [name: string]: string }): string {
  return Object.entries(labels).map(([name, value]) => {
    const text = value.slice(0, LABEL_CHARS_MAX).replaceAll(/[\\"]/g, "\\$&").replaceAll("\n", "\\n");
    return `${name}="${text}"`;
  }).join(",");
}
