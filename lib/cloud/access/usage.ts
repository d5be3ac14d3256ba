/**
 * Counts how much of each limited quantity an organization, or one of its machines, uses.
 *
 * To sum up everything for every upload would be too expensive. So each sum is kept for ten minutes, and uploads here,
 * including those under way, are added to it meanwhile; uploads to other control planes on the same database count from
 * the next sum on. Before a refusal the sum is at most a few seconds old, because something may have been removed.
 */

import { KeyCounts } from "../../base/async/key_counts.ts";
import { type PoolHolder, SharedPool } from "../../base/async/shared_pool.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log/log.ts";
import type { FileStore } from "../store/files.ts";
import { CALLER_LEVELS, type LimitName, type Limits, overLimit, published } from "./limits.ts";
import { queryOne, type Sql } from "../store/store.ts";
import { piecesUntil } from "../../base/files/byte_reader.ts";

const PACKAGES = "packages p JOIN registry_items i ON i.id = p.item_id WHERE i.organization_id = ?";
const DATA = "JOIN data_origins o ON o.id = d.origin_id WHERE o.organization_id = ?";
const STORED = "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) AS amount FROM stored_bytes WHERE kind =";
/** Each query sums up by the id of an organization, or of the resource in its name. */
const SUMS = {
  packagesPerOrganization: `SELECT COUNT(*) AS amount FROM ${PACKAGES}`,
  packageBytesPerOrganization: `SELECT CAST(COALESCE(SUM(p.bytes), 0) AS BIGINT) AS amount FROM ${PACKAGES}`,
  dataBytesPerOrganization:
    `SELECT CAST(COALESCE(SUM(d.bytes), 0) AS BIGINT) AS amount FROM binary_data d ${DATA}`,
  dataBytesPerMachine: `SELECT CAST(COALESCE(SUM(d.bytes), 0) AS BIGINT) AS amount FROM binary_data d
    JOIN data_origins o ON o.id = d.origin_id WHERE o.machine_id = ?`,
  readingsPerOrganization: `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) AS amount FROM (
      SELECT COUNT(*) AS amount FROM tabular_data d ${DATA}
      UNION ALL
      SELECT CAST(COALESCE(SUM(d.readings), 0) AS BIGINT) FROM reading_files d ${DATA}) AS places`,
  readingBytesPerOrganization: `${STORED} 'readings' AND organization_id = ?`,
  sinkBytesPerOrganization: `${STORED} 'sinks' AND organization_id = ?`,
  logBytesPerOrganization: `${STORED} 'logs' AND organization_id = ?`,
  logBytesPerPart: `${STORED} 'logs' AND owner_id = ?`,
  configBytesPerOrganization: `SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) AS amount FROM (
      SELECT p.config_bytes AS bytes FROM parts p JOIN machines m ON m.id = p.machine_id
        JOIN locations l ON l.id = m.location_id WHERE l.organization_id = ?
      UNION ALL
      SELECT config_bytes FROM fragments WHERE organization_id = ?) AS texts`,
} satisfies { readonly [N in LimitName]?: string };

export type QuotaName = keyof typeof SUMS;

/** A quantity of an organization or a machine, by its id. */
export type Quota = readonly [name: QuotaName, id: string];

/** How much of a limit is used; `name` as in the file of limits. */
export interface UsedLimit {
  readonly name: string;
  readonly used: number;
  readonly allowed: number;
}

/** An upload under way, whose bytes count from their arrival on. */
export interface OpenUpload {
  /**
   * Passes on the content, and counts each piece. Throws `resource_exhausted` past a limit, or when the upload gives
   * way to another one.
   */
  counted(content: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>;
  /** Ends the upload: its bytes count from then on if they are kept. */
  end(isKept: boolean): void;
}

export interface UsageParts {
  readonly sql: Sql;
  readonly limits: Limits;
  readonly clock: Clock;
  readonly logger: Logger;
}

const KEPT_MS = 10 * 60_000;
const FRESH_MS = 10_000;
/** Sums of one quantity that are kept. */
const KEPT_MAX = 20_000;
const NEARLY_FULL_MAX = 10_000;
/** Limits of concurrent uploads: of all, of one organization, and of one key. */
const UPLOAD_SHARES = [512, 128, 32];
/** An upload that has received nothing for this long gives way to others. */
const IDLE_MS = 60_000;
/** A usage above the first share of its limit causes a warning, and another one only after it was below the second. */
const WARN_SHARE = 0.8;
const CALM_SHARE = 0.75;

interface Sum {
  amount: number;
  readonly atMs: number;
}

/** The sums of one quantity, by the id of an organization or a resource. */
interface Sums {
  readonly kept: Map<string, Sum>;
  /** Those under way: callers in the same moment wait for one query. */
  readonly coming: Map<string, Promise<Sum>>;
}

export class Usage {
  /** Apart from each other, so that the sums of many machines leave those of organizations there. */
  readonly #sums = new Map<QuotaName, Sums>();
  /** Bytes of uploads under way. */
  readonly #open = new KeyCounts();
  /** The quotas of which more than 80 % are used, by name and id. */
  readonly #nearlyFull = new Set<string>();
  readonly #uploads: SharedPool;

  constructor(private readonly parts: UsageParts) {
    const limits = { shares: UPLOAD_SHARES, levels: CALLER_LEVELS, what: "uploads", idleMs: IDLE_MS };
    this.#uploads = new SharedPool(limits, parts.clock);
  }

  /** How many organizations and machines use more than 80 % of a limit, by the name of the limit. */
  get nearlyFull(): ReadonlyMap<string, number> {
    const found = new Map<string, number>();
    for (const key of this.#nearlyFull) {
      const name = published(key.split(" ", 1)[0] as QuotaName);
      found.set(name, (found.get(name) ?? 0) + 1);
    }
    return found;
  }

  /** What an organization uses of each limit, with uploads under way; the sums are at most ten minutes old. */
  async ofOrganization(id: string): Promise<UsedLimit[]> {
    const found: UsedLimit[] = [];
    for (const name of Object.keys(SUMS) as QuotaName[]) {
      if (!name.endsWith("PerOrganization")) continue;
      const { amount } = await this.#sum(id, name, KEPT_MS);
      const used = amount + this.#open.of(`${name} ${id}`);
      found.push({ name: published(name), used, allowed: this.parts.limits[name] });
    }
    return found;
  }

  /** Adds to the usage; 0 only checks. Throws `resource_exhausted` past the limit. */
  async take(id: string, name: QuotaName, more: number): Promise<void> {
    const sum = await this.#checked(id, name, more);
    sum.amount += more;
  }

  /**
   * Begins an upload of an organization's key, which counts against these quotas. Throws `resource_exhausted` if one of
   * them is used up, or too many uploads are under way.
   */
  async upload(organizationId: string, key: string, quotas: readonly Quota[]): Promise<OpenUpload> {
    for (const [name, id] of quotas) await this.#checked(id, name, 0);
    const over = new AbortController();
    const place = this.#uploads.take([organizationId, key], (reason) => over.abort(reason));
    let arrived = 0;
    let isOver = false;
    const add = (bytes: number) => {
      arrived += bytes;
      for (const [name, id] of quotas) this.#open.add(`${name} ${id}`, bytes);
    };
    return {
      counted: (content) =>
        this.#counted(content, place, over.signal, async (bytes) => {
          for (const [name, id] of quotas) await this.#checked(id, name, bytes);
          add(bytes);
        }),
      end: (isKept) => {
        if (isOver) return;
        isOver = true;
        place.release();
        for (const [name, id] of quotas) {
          const sum = this.#sums.get(name)?.kept.get(id);
          if (isKept && sum) sum.amount += arrived;
        }
        add(-arrived);
      },
    };
  }

  async *#counted(
    content: AsyncIterable<Uint8Array>,
    place: PoolHolder,
    signal: AbortSignal,
    add: (bytes: number) => Promise<void>,
  ): AsyncGenerator<Uint8Array> {
    for await (const piece of piecesUntil(signal, content)) {
      place.used();
      await add(piece.length);
      yield piece;
    }
  }

  /** The present sum, with room for `more` and all uploads under way. */
  async #checked(id: string, name: QuotaName, more: number): Promise<Sum> {
    const { limits } = this.parts;
    const used = ({ amount }: Sum) => amount + this.#open.of(`${name} ${id}`);
    const isTooMuch = (sum: Sum) => used(sum) + more > limits[name] || used(sum) >= limits[name];
    let sum = await this.#sum(id, name, KEPT_MS);
    if (isTooMuch(sum)) sum = await this.#sum(id, name, FRESH_MS);
    this.#warn(id, name, (used(sum) + more) / limits[name]);
    if (isTooMuch(sum)) throw overLimit(limits, name, `found ${used(sum)} and ${more} more`);
    return sum;
  }

  #warn(id: string, name: QuotaName, share: number): void {
    const key = `${name} ${id}`;
    if (share < CALM_SHARE) this.#nearlyFull.delete(key);
    if (share < WARN_SHARE || this.#nearlyFull.has(key) || this.#nearlyFull.size >= NEARLY_FULL_MAX) return;
    this.#nearlyFull.add(key);
    const limit = published(name);
    this.parts.logger.warn(`more than 80 % of a limit are used: further uploads will be refused`, {
      limit,
      id,
    });
  }

  /** A sum of the last `oldMs`. */
  async #sum(id: string, name: QuotaName, oldMs: number): Promise<Sum> {
    const sums = this.#sums.get(name) ?? { kept: new Map(), coming: new Map() };
    this.#sums.set(name, sums);
    for (;;) {
      const kept = sums.kept.get(id);
      if (kept && this.parts.clock.monotonicMs() - kept.atMs < oldMs) return kept;
      const coming = sums.coming.get(id);
      if (!coming) break;
      // It fails when its caller goes; then another one asks.
      await coming.catch(() => {});
    }
    const summing = this.#query(id, name, sums.kept).finally(() => sums.coming.delete(id));
    sums.coming.set(id, summing);
    return await summing;
  }

  async #query(id: string, name: QuotaName, kept: Map<string, Sum>): Promise<Sum> {
    const { sql, clock } = this.parts;
    const atMs = clock.monotonicMs();
    const text = SUMS[name];
    const ids = Array(text.split("?").length - 1).fill(id);
    const { amount } = await queryOne<{ amount: number }>(sql, text, ...ids);
    const sum = { amount, atMs };
    kept.delete(id);
    if (kept.size >= KEPT_MAX) kept.delete(kept.keys().next().value!);
    kept.set(id, sum);
    return sum;
  }
}

/**
 * Call it before a text of this length is stored. Throws `resource_exhausted` if the revisions of an organization's
 * configurations and fragments take too much space, or the disk is full.
 */
export async function requireConfigQuota(
  { usage, files }: { readonly usage: Usage; readonly files: FileStore },
  organizationId: string,
  letters: number,
): Promise<void> {
  await files.requireSpace("configuration", letters);
  await usage.take(organizationId, "configBytesPerOrganization", letters);
}
