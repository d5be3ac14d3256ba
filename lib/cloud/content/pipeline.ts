/**
 * A query in MQL: a MongoDB aggregation pipeline over the readings of an organization.
 *
 * Each reading is one document, with the published names. A pipeline from a stranger cannot run code, read other
 * documents or write any.
 */

import { messageOf, SvcError } from "../../base/error.ts";
import { SOURCE_COLUMNS } from "../capture/origins.ts";
import { payloadIn } from "../capture/payload.ts";
import type { ReadingBatch } from "../data/tabular_data.ts";
import { withTypes } from "./extended_json.ts";
import { aggregate, type PipelineStage } from "./aggregation.ts";
import { AnswerWriter, BSONError, deserialize, type Document, isPlainObject, tooLarge } from "./answer.ts";
import {
  DOCUMENTS_MAX,
  type Narrowing,
  type RunStamp,
  type TimeRange,
} from "../data/queries/query_requests.ts";

/**
 * Stages that process each document by itself, so that a pipeline that starts with them need not keep all documents.
 */
const SINGLE = [
  "$addFields",
  "$match",
  "$project",
  "$redact",
  "$replaceRoot",
  "$replaceWith",
  "$set",
  "$unset",
  "$unwind",
];
/** The published stages that the library supports. */
const STAGES = [
  ...SINGLE,
  "$bucket",
  "$bucketAuto",
  "$count",
  "$densify",
  "$fill",
  "$group",
  "$limit",
  "$sample",
  "$setWindowFields",
  "$skip",
  "$sort",
  "$sortByCount",
];
/** Operators whose arguments are programs, refused by name. */
const PROGRAMS = ["$accumulator", "$function", "$where"];

const STAGES_MAX = 100;
/** A condition with more or longer texts does not narrow the readings, because the head of the answer is limited. */
const TEXTS_MAX = 1_000;
const TEXT_LENGTH_MAX = 100;
const DAY_MS = 24 * 3600 * 1000;
/** The published limit of the results of one run, and the field with the origin of a result. */
const RUN_DOCUMENTS_MAX = 10_000;
const RUN_FIELD = "_viam_pipeline_run";

export class Pipeline {
  readonly #each: readonly PipelineStage[];
  readonly #rest: readonly PipelineStage[];
  readonly #wanted: number;
  readonly #kept: Document[] = [];

  private constructor(private readonly stages: readonly PipelineStage[], private readonly stamp?: RunStamp) {
    const over = stages.findIndex((stage) => !SINGLE.includes(operatorOf(stage)));
    this.#each = over < 0 ? stages : stages.slice(0, over);
    this.#rest = over < 0 ? [] : stages.slice(over);
    const limit = this.#rest[0]?.$limit;
    this.#wanted = typeof limit === "number" ? limit : Infinity;
  }

  /** Reads stages in BSON. Throws `invalid_argument`. */
  static read(stages: readonly Uint8Array[], stamp?: RunStamp): Pipeline {
    if (stages.length > STAGES_MAX) {
      throw new SvcError(
        "invalid_argument",
        `the query has ${stages.length} stages, wanted at most ${STAGES_MAX}`,
      );
    }
    const read = stages.map((bytes, index) => {
      const stage = stageIn(bytes, index);
      checkStage(stage, index);
      return stage;
    });
    const pipeline = new Pipeline(read, stamp);
    // Runs it without data, so that its errors come before those about the amount of data.
    pipeline.#run(read, []);
    return pipeline;
  }

  /** The conditions of the first stage on the readings. */
  narrowing(): Narrowing {
    const match = this.stages[0]?.$match;
    const wanted: PipelineStage = isPlainObject(match) ? match : {};
    const sources: { [field: string]: readonly string[] } = {};
    for (const field of Object.keys(SOURCE_COLUMNS)) {
      const values = textsIn(wanted[field]);
      if (values) sources[field] = values;
    }
    const requested = within(rangeIn(wanted.time_requested), this.stamp);
    return { sources, requested, received: rangeIn(wanted.time_received) };
  }

  /** Adds readings; returns whether the answer can depend on further ones. */
  take({ origin, rows }: ReadingBatch): boolean {
    const { fromMs = -Infinity, untilMs = Infinity } = this.stamp ?? {};
    const isIn = ({ capturedUs }: { readonly capturedUs: number }) =>
      capturedUs >= fromMs * 1000 && capturedUs < untilMs * 1000;
    const documents = rows.filter(isIn).map((row) => {
      const requestedMs = Math.floor(row.capturedUs / 1000);
      return {
        organization_id: origin.organizationId,
        location_id: origin.locationId,
        robot_id: origin.machineId,
        part_id: origin.partId,
        component_type: origin.componentType,
        component_name: origin.componentName,
        method_name: origin.methodName,
        time_requested: new Date(requestedMs),
        time_received: new Date(Math.floor(row.receivedUs / 1000)),
        capture_day: new Date(Math.floor(requestedMs / DAY_MS) * DAY_MS),
        tags: JSON.parse(row.tags),
        additional_parameters: JSON.parse(origin.parameters),
        data: payloadIn(row.payload),
      };
    });
    return this.#keep(documents);
  }

  /** Adds documents of a data pipeline, in BSON. */
  takeDocuments(documents: readonly Uint8Array[]): boolean {
    return this.#keep(documents.map((one) => deserialize(one)));
  }

  #keep(documents: Document[]): boolean {
    for (const document of this.#run(this.#each, documents)) this.#kept.push(document);
    return this.#kept.length < this.#wanted;
  }

  /** The documents of the answer, each in BSON. Throws `resource_exhausted` if it is too large. */
  answer(): Uint8Array[] {
    const documents = this.#run(this.#rest, this.#kept);
    const most = this.stamp ? RUN_DOCUMENTS_MAX : DOCUMENTS_MAX;
    if (documents.length > most) throw tooLarge(`${documents.length} documents`, most);
    const run = this.stamp && runOf(this.stamp);
    const answer = new AnswerWriter(most);
    for (const document of documents) answer.add(run ? { ...document, [RUN_FIELD]: run } : document);
    return answer.documents;
  }

  #run(stages: readonly PipelineStage[], documents: Document[]): Document[] {
    if (stages.length === 0) return documents;
    try {
      return aggregate(stages, documents);
    } catch (error) {
      throw new SvcError("invalid_argument", `cannot run the query: ${messageOf(error)}`);
    }
  }
}

/** The part of a range within the window of a run. */
function within(range: TimeRange, window: RunStamp | undefined): TimeRange {
  if (!window) return range;
  return {
    fromMs: Math.max(range.fromMs ?? window.fromMs, window.fromMs),
    untilMs: Math.min(range.untilMs ?? window.untilMs, window.untilMs),
  };
}

function runOf({ id, organizationId, fromMs, untilMs }: RunStamp): Document {
  const interval = { start: new Date(fromMs), end: new Date(untilMs) };
  return { id, interval, organization_id: organizationId };
}

function stageIn(bytes: Uint8Array, index: number): PipelineStage {
  try {
    return withTypes(deserialize(bytes)) as PipelineStage;
  } catch (error) {
    if (error instanceof SvcError) {
      throw new SvcError(error.code, `mql_binary[${index}]: ${error.message}`, { cause: error });
    }
    const why = error instanceof BSONError || error instanceof RangeError
      ? messageOf(error)
      : "it is damaged";
    throw new SvcError("invalid_argument", `mql_binary[${index}] is no BSON document: ${why}`);
  }
}

function checkStage(stage: PipelineStage, index: number): void {
  const names = Object.keys(stage);
  const [operator, ...others] = names;
  if (operator === undefined || others.length > 0) {
    const found = names.length === 0 ? "no operator" : `the operators ${names.join(", ")}`;
    throw new SvcError("invalid_argument", `mql_binary[${index}]: found ${found}, wanted one`);
  }
  if (!STAGES.includes(operator)) {
    const wanted = `wanted one of ${STAGES.toSorted().join(", ")}`;
    throw new SvcError("invalid_argument", `mql_binary[${index}]: found the stage "${operator}", ${wanted}`);
  }
  checkOperators(stage, index);
}

/** The depth is limited by the decoder of BSON. */
function checkOperators(value: unknown, index: number): void {
  if (Array.isArray(value)) return value.forEach((one) => checkOperators(one, index));
  if (!isPlainObject(value)) return;
  for (const [name, inner] of Object.entries(value)) {
    if (PROGRAMS.includes(name)) {
      throw new SvcError(
        "invalid_argument",
        `mql_binary[${index}]: ${name} is not allowed: queries run no code`,
      );
    }
    checkOperators(inner, index);
  }
}

function operatorOf(stage: PipelineStage): string {
  return Object.keys(stage)[0] ?? "";
}

/** The only texts that a condition of `$match` lets pass; `undefined` if it is another condition. */
function textsIn(condition: unknown): readonly string[] | undefined {
  const [[operator, value] = []] = isPlainObject(condition)
    ? Object.entries(condition)
    : [["$eq", condition]];
  let texts: readonly unknown[] = [];
  if (operator === "$eq") texts = [value];
  else if (operator === "$in" && Array.isArray(value)) texts = value;

  const narrow = texts.length > 0 && texts.length <= TEXTS_MAX;
  const isShort = (one: unknown) => typeof one === "string" && one.length <= TEXT_LENGTH_MAX;
  return narrow && texts.every(isShort) ? texts as readonly string[] : undefined;
}

/** Bounds of the times that a condition of `$match` lets pass. */
function rangeIn(condition: unknown): TimeRange {
  if (!isPlainObject(condition)) return {};
  const msOf = (...operators: string[]) => {
    const [time] = operators.map((one) => condition[one]).filter((one) => one instanceof Date);
    return time && Number.isFinite(time.getTime()) ? time.getTime() : undefined;
  };
  return { fromMs: msOf("$gte", "$gt"), untilMs: msOf("$lte", "$lt") };
}
