/**
 * Runs queries over the readings of an organization, each in a content process of its own.
 *
 * A query has a limited time, and few run at once, in turns that are fair among organizations.
 */

import { SvcError } from "../../base/error.ts";
import type { Narrowing, TimeRange } from "../sandbox/content/pipeline.ts";
import {
  type ContentAnswer,
  type ContentOptions,
  type ContentProcess,
  withContent,
} from "../sandbox/content/process.ts";
import { DOCUMENTS_BYTES_MAX, DOCUMENTS_MAX, type ReadingFacts } from "../sandbox/content/worker.ts";
import type { TurnCaller } from "../../base/async/fair_queue.ts";
import { CallerTurns } from "../../base/async/turns.ts";
import type { Sql } from "../store/store.ts";
import { Conditions, toMicros } from "./filter.ts";
import { SOURCE_COLUMNS } from "./origins.ts";
import { type MicrosRange, type ReadingBatch, TabularData } from "./tabular_data.ts";

/** In MQL a stage of the pipeline each, in BSON. */
export type Query = { readonly mql: readonly Uint8Array[] } | { readonly sql: string };

const TURNS = { turnsMax: 2, turnsOfGroupMax: 1, waiting: [64, 16, 8], what: "queries" } as const;
const TIME_MS = 60_000;

export class ReadingQueries {
  readonly #data: TabularData;
  readonly #turns: CallerTurns;

  constructor(sql: Sql, private readonly content: ContentOptions) {
    this.#data = new TabularData(sql);
    this.#turns = new CallerTurns(TURNS, content.clock);
  }

  /** Runs a query of an organization and its key; returns the documents of its answer, in BSON. */
  async run(caller: TurnCaller, query: Query, signal: AbortSignal): Promise<Uint8Array[]> {
    const [organizationId] = caller;
    const leave = await this.#turns.enter(caller, signal);
    try {
      return await withContent(
        this.content,
        TIME_MS,
        tooLong,
        signal,
        (process, signal) => this.#answer(organizationId, query, process, signal),
      );
    } finally {
      leave();
    }
  }

  async #answer(
    organizationId: string,
    query: Query,
    process: ContentProcess,
    signal: AbortSignal,
  ): Promise<Uint8Array[]> {
    const [language, parts] = "sql" in query
      ? ["sql" as const, [new TextEncoder().encode(query.sql)]]
      : ["mql" as const, query.mql];
    const sizes = parts.map(({ length }) => length);
    const begun = await process.ask({ ask: "query", language, sizes, bytes: sumOf(sizes) }, parts, signal);
    const { sources, requested, received } = begun.head.narrowing as unknown as Narrowing;
    const times = { captured: microsOf(requested), received: microsOf(received) };
    // The next readings are read while the process works on these.
    let taken: Promise<ContentAnswer> | undefined;
    for await (const batch of this.#data.scan(conditionsOf(organizationId, sources), times)) {
      if (taken && (await taken).head.more !== true) break;
      const { facts, contents } = packedBatch(batch);
      const bytes = facts.length + sumOf(contents.map(({ length }) => length));
      const request = { ask: "readings", facts: facts.length, bytes } as const;
      taken = process.ask(request, [facts, ...contents], signal);
      // It is awaited in the next round, which an error of the database may prevent.
      taken.catch(() => {});
    }
    await taken;
    const { bytes } = await process.ask({ ask: "documents", bytes: 0 }, [], signal, DOCUMENTS_BYTES_MAX);
    return documentsIn(bytes);
  }
}

function tooLong(): SvcError {
  const hint = "let its first stage be a $match by component_name or time_received";
  return new SvcError("deadline_exceeded", `the query took more than ${TIME_MS / 1000} s: ${hint}`);
}

function conditionsOf(organizationId: string, sources: Narrowing["sources"]): Conditions {
  const found = new Conditions().only("o.organization_id = ?", organizationId);
  for (const [field, column] of Object.entries(SOURCE_COLUMNS)) found.is(column, sources[field]);
  return found;
}

/** The times whose whole milliseconds are in the range. */
function microsOf({ fromMs, untilMs }: TimeRange): MicrosRange {
  return {
    fromUs: fromMs === undefined ? undefined : toMicros(fromMs),
    untilUs: untilMs === undefined ? undefined : toMicros(untilMs + 0.999),
  };
}

function packedBatch({ origin, rows }: ReadingBatch) {
  const facts: ReadingFacts = {
    origin,
    rows: rows.map(({ capturedUs, receivedUs, tags, payload }) => {
      return { capturedUs, receivedUs, tags, bytes: payload.length };
    }),
  };
  return {
    facts: new TextEncoder().encode(JSON.stringify(facts)),
    contents: rows.map(({ payload }) => payload),
  };
}

/** Splits an answer into its documents. A document in BSON begins with its length. */
function documentsIn(bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const documents: Uint8Array[] = [];
  for (let at = 0; at < bytes.length;) {
    const length = bytes.length - at < 4 ? 0 : view.getInt32(at, true);
    if (length < 5 || length > bytes.length - at || documents.length >= DOCUMENTS_MAX) {
      throw new SvcError("internal", "the process of the query answers with damaged documents");
    }
    documents.push(bytes.subarray(at, at += length));
  }
  return documents;
}

function sumOf(sizes: readonly number[]): number {
  return sizes.reduce((sum, one) => sum + one, 0);
}
