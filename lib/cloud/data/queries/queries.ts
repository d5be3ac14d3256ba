/**
 * Runs queries on the readings of an organization in content processes.
 *
 * A query has a limited time, and few run at once, in turns that are fair among organizations.
 *
 * The room owns queries: their turns, their processes, the files that those see, and the runs of data pipelines.
 */

import { deadline } from "../../../base/clock.ts";
import { SvcError } from "../../../base/error.ts";
import type { ContentAnswer, ContentOptions, ContentProcess } from "../../sandbox/content/process.ts";
import {
  DOCUMENTS_BYTES_MAX,
  DOCUMENTS_MAX,
  type Narrowing,
  type PlacedFile,
  type PlacedFiles,
  type QueryRequest,
  type ReadingFacts,
  type RunStamp,
  type TimeRange,
} from "./query_requests.ts";
import type { TurnCaller } from "../../../base/async/fair_queue.ts";
import { CallerTurns } from "../../../base/async/turns.ts";
import type { Sql } from "../../store/store.ts";
import type { EffectiveGrant } from "../../access/access.ts";
import type { FileStore } from "../../store/files.ts";
import {
  Conditions,
  type MicrosRange,
  type ReadingTimes,
  tabularConditions,
  toMicros,
} from "../../capture/filter.ts";
import { SOURCE_COLUMNS } from "../../capture/origins.ts";
import { type QueryProcess, QueryProcesses } from "./query_processes.ts";
import type { StagedFiles } from "./staged_files.ts";
import { type ReadingBatch, type ReadingsOfFile, TabularData } from "../tabular_data.ts";

/** In MQL each entry is a stage of the pipeline, in BSON. */
export type Query = { readonly mql: readonly Uint8Array[] } | { readonly sql: string };

/** The source of a query's documents, if not all readings of its organization. */
export interface QuerySource {
  /** The run of a data pipeline, which reads the readings in its window. */
  readonly stamp?: RunStamp;
  /** Documents in BSON instead of readings. */
  readonly documents?: AsyncIterable<readonly Uint8Array[]>;
  /** Only readings within these roles. The process gets no others, whatever the query asks for. */
  readonly reach?: readonly EffectiveGrant[];
}

const TURNS = { turnsMax: 2, turnsOfGroupMax: 1, waiting: [64, 16, 8], what: "queries" } as const;
const TIME_MS = 60_000;
/** Requests that are read ahead; each may have some megabytes. */
const AHEAD_MAX = 2;
/** The most files in one request. The first request has one file, because a query may need only a few readings. */
const FILES_MAX = 256;
/** Files that are placed at once. */
const PLACED_AT_ONCE = 8;

type WithBody = [QueryRequest, readonly Uint8Array[]];

export class ReadingQueries {
  readonly #data: TabularData;
  readonly #turns: CallerTurns;
  readonly #processes: QueryProcesses;

  constructor(sql: Sql, files: FileStore, private readonly content: ContentOptions) {
    this.#data = new TabularData(sql, files);
    this.#processes = new QueryProcesses(content, files);
    this.#turns = new CallerTurns(TURNS, content.clock);
  }

  /** Runs a query of an organization and its key; returns the documents of its answer, in BSON. */
  async run(
    caller: TurnCaller,
    query: Query,
    signal: AbortSignal,
    source: QuerySource = {},
  ): Promise<Uint8Array[]> {
    const [organizationId] = caller;
    return await this.#inTurn(caller, query, signal, async (one, signal) => {
      const { process } = one;
      const narrowing = await begun(query, source, one, signal);
      if (source.documents) await giveDocuments(source.documents, process, signal);
      else await this.#giveReadings(visibleReadings(organizationId, source), narrowing, one, signal);
      const { bytes } = await process.ask({ ask: "documents", bytes: 0 }, [], signal, DOCUMENTS_BYTES_MAX);
      return documentsIn(bytes);
    });
  }

  /** Throws `invalid_argument` for stages that cannot run. */
  async check(caller: TurnCaller, mql: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
    const query = { mql };
    await this.#inTurn(caller, query, signal, (one, signal) => begun(query, {}, one, signal));
  }

  /** Ends the processes that wait for further queries. */
  async close(): Promise<void> {
    await this.#processes.close();
  }

  async #inTurn<T>(
    caller: TurnCaller,
    query: Query,
    signal: AbortSignal,
    work: (one: QueryProcess, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const leave = await this.#turns.enter(caller, signal);
    const late = deadline(this.content.clock, TIME_MS, tooLong, signal);
    try {
      return await this.#processes.run(caller, "sql" in query, (one) => work(one, late.signal));
    } finally {
      late.done();
      leave();
    }
  }

  async #giveReadings(
    visible: Conditions,
    { sources, requested, received }: Narrowing,
    { process, files }: QueryProcess,
    signal: AbortSignal,
  ): Promise<void> {
    const times = { captured: microsOf(requested), received: microsOf(received) };
    // The next readings are read while the process works on these.
    let taken: Promise<ContentAnswer> | undefined;
    for await (const [request, body] of this.#requests(narrowed(visible, sources), times, files)) {
      if (taken && (await taken).head.more !== true) break;
      taken = process.ask(request, body, signal);
      // The next round awaits it, but an error of the database may prevent that round.
      taken.catch(() => {});
    }
    await taken;
  }

  /** The readings for a query, read a few requests ahead. */
  async *#requests(
    found: Conditions,
    times: ReadingTimes,
    files: StagedFiles,
  ): AsyncGenerator<WithBody> {
    const ahead: Promise<WithBody>[] = [];
    const parts = this.#data.scanParts(found, times);
    for await (const some of filesTogether(parts)) {
      const next = "rows" in some
        ? Promise.resolve(packedBatch(some))
        : this.#filesRequest(some, times, files);
      // The round that yields it reports its error, if it comes.
      next.catch(() => {});
      ahead.push(next);
      if (ahead.length > AHEAD_MAX) yield await ahead.shift()!;
    }
    yield* ahead;
  }

  /** Places the files; those whose readings are gone are left out. */
  async #filesRequest(
    all: readonly ReadingsOfFile[],
    times: ReadingTimes,
    files: StagedFiles,
  ): Promise<WithBody> {
    const placed: PlacedFile[] = [];
    for (let at = 0; at < all.length; at += PLACED_AT_ONCE) {
      await Promise.all(
        all.slice(at, at + PLACED_AT_ONCE).map(async (some, index) => {
          const file = await this.#data.handFile(some, (now) => files.place(now));
          const { origin, after } = some;
          if (!file) return;
          const { tags, sha256, pathTypes } = file;
          placed[at + index] = { origin, tags, sha256, pathTypes, after };
        }),
      );
    }
    const named: PlacedFiles = { times, files: placed.filter((one) => one !== undefined) };
    const body = new TextEncoder().encode(JSON.stringify(named));
    return [{ ask: "placed", bytes: body.length }, [body]];
  }
}

/** The same parts, with files that follow each other together. */
async function* filesTogether(
  parts: AsyncIterable<ReadingBatch | ReadingsOfFile>,
): AsyncGenerator<ReadingBatch | readonly ReadingsOfFile[]> {
  let [files, most]: [ReadingsOfFile[], number] = [[], 1];
  for await (const some of parts) {
    if ("file" in some) files.push(some);
    if (files.length >= most || (files.length > 0 && "rows" in some)) {
      yield files;
      [files, most] = [[], Math.min(FILES_MAX, 2 * most)];
    }
    if ("rows" in some) yield some;
  }
  if (files.length > 0) yield files;
}

/** Starts a query in a process; returns which readings it needs. */
async function begun(
  query: Query,
  { stamp }: QuerySource,
  { process, files: { folder } }: QueryProcess,
  signal: AbortSignal,
): Promise<Narrowing> {
  const [language, parts] = "sql" in query
    ? ["sql" as const, [new TextEncoder().encode(query.sql)]]
    : ["mql" as const, query.mql];
  const sizes = parts.map(({ length }) => length);
  const request = { ask: "query", language, sizes, stamp, folder, bytes: sumOf(sizes) } as const;
  const { head } = await process.ask(request, parts, signal);
  return head.narrowing as unknown as Narrowing;
}

async function giveDocuments(
  documents: AsyncIterable<readonly Uint8Array[]>,
  process: ContentProcess,
  signal: AbortSignal,
): Promise<void> {
  for await (const some of documents) {
    const sizes = some.map(({ length }) => length);
    const { head } = await process.ask({ ask: "stored", sizes, bytes: sumOf(sizes) }, some, signal);
    if (head.more !== true) return;
  }
}

function tooLong(): SvcError {
  const hint = "let its first stage be a $match by component_name or time_received";
  return new SvcError("deadline_exceeded", `the query took more than ${TIME_MS / 1000} s: ${hint}`);
}

/** The readings that a query may see at all. */
function visibleReadings(organizationId: string, { reach }: QuerySource): Conditions {
  const found = reach ? tabularConditions({}, reach) : new Conditions();
  return found.only("o.organization_id = ?", organizationId);
}

function narrowed(found: Conditions, sources: Narrowing["sources"]): Conditions {
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

function packedBatch({ origin, rows }: ReadingBatch): WithBody {
  const facts: ReadingFacts = {
    origin,
    rows: rows.map(({ capturedUs, receivedUs, tags, payload }) => {
      return { capturedUs, receivedUs, tags, bytes: payload.length };
    }),
  };
  const head = new TextEncoder().encode(JSON.stringify(facts));
  const parts = [head, ...rows.map(({ payload }) => payload)];
  const bytes = sumOf(parts.map(({ length }) => length));
  return [{ ask: "readings", facts: head.length, bytes }, parts];
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
