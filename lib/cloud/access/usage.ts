/**
 * How much of each limited quantity an organization uses.
 *
 * A sum over everything of an organization would cost too much for every upload. So each sum is kept for ten minutes,
 * and uploads here are added to it meanwhile; uploads to other control planes on the same database count from the next
 * sum on. Before a refusal the sum is at most some seconds old, because things may have been removed.
 */

import type { Clock } from "../../base/clock.ts";
import { type LimitName, type Limits, overLimit } from "./limits.ts";
import type { Sql } from "../store/store.ts";

const PACKAGES = "packages p JOIN registry_items i ON i.id = p.item_id WHERE i.organization_id = ?";
const DATA = "JOIN data_origins o ON o.id = d.origin_id WHERE o.organization_id = ?";
const SUMS = {
  packagesPerOrganization: `SELECT COUNT(*) AS amount FROM ${PACKAGES}`,
  packageBytesPerOrganization: `SELECT CAST(COALESCE(SUM(p.bytes), 0) AS BIGINT) AS amount FROM ${PACKAGES}`,
  dataBytesPerOrganization:
    `SELECT CAST(COALESCE(SUM(d.bytes), 0) AS BIGINT) AS amount FROM binary_data d ${DATA}`,
  readingsPerOrganization: `SELECT COUNT(*) AS amount FROM tabular_data d ${DATA}`,
} satisfies { readonly [N in LimitName]?: string };

const KEPT_MS = 10 * 60_000;
const FRESH_MS = 10_000;
const KEPT_MAX = 10_000;

interface Sum {
  amount: number;
  readonly atMs: number;
}

export class Usage {
  readonly #sums = new Map<string, Sum>();

  constructor(private readonly sql: Sql, private readonly limits: Limits, private readonly clock: Clock) {}

  /** Adds to the usage; 0 only checks. Throws `resource_exhausted` past the limit. */
  async take(organizationId: string, name: keyof typeof SUMS, more: number): Promise<void> {
    const isTooMuch = ({ amount }: Sum) => amount + more > this.limits[name] || amount >= this.limits[name];
    let sum = await this.#sum(organizationId, name, KEPT_MS);
    if (isTooMuch(sum)) sum = await this.#sum(organizationId, name, FRESH_MS);
    if (isTooMuch(sum)) throw overLimit(this.limits, name, `found ${sum.amount} and ${more} more`);
    sum.amount += more;
  }

  async #sum(organizationId: string, name: keyof typeof SUMS, oldMs: number): Promise<Sum> {
    const key = `${name} ${organizationId}`;
    const nowMs = this.clock.monotonicMs();
    const kept = this.#sums.get(key);
    if (kept && nowMs - kept.atMs < oldMs) return kept;
    const [{ amount }] = await this.sql.query<{ amount: number }>(SUMS[name], organizationId);
    const sum = { amount, atMs: nowMs };
    this.#sums.delete(key);
    if (this.#sums.size >= KEPT_MAX) this.#sums.delete(this.#sums.keys().next().value!);
    this.#sums.set(key, sum);
    return sum;
  }
}
