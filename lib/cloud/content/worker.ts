/**
 * The inside of a content process: opens people's uploads and reports their content, and answers their queries.
 *
 * `process.ts` starts it. It holds no secrets, needs no files, and ends with its starter. It answers a bad content
 * with an error. If the content ends the process instead (memory, a crash), the starter reports it.
 *
 * The room owns what runs inside a content process: models, pictures, maps, and queries.
 */

import { boxFields } from "../../api/shared/captured_file.ts";
import type { MlMetadata, Tensors } from "../../api/services/ml_model.ts";
import {
  classesOf,
  foundIn,
  imageTensor,
  layoutOf,
  probabilityName,
} from "../../api/tensors/vision_tensors.ts";
import { joinedForm, SEPARATED, separated, SEPARATED_ORDER } from "../../api/tensors/joined_outputs.ts";
import { classLabelsIn } from "../../api/tensors/labels.ts";
import { detectorNames } from "../../api/tensors/detector_outputs.ts";
import { unpacked } from "../../base/files/archive.ts";
import { collectBytes } from "../../base/files/byte_reader.ts";
import { SystemFiles } from "../../base/files/system_files.ts";
import { assert, SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { type ColorImage, decodeColor } from "../../geometry/image/image.ts";
import { type OnnxSession, openOnnx } from "../../learn/onnx/session.ts";
import { fitted } from "../../learn/picture.ts";
import type { PackedReading } from "../data/tabular_data.ts";
import type { FileReading, FileTimes, MadeFile } from "../readings/reading_file.ts";
import { ContentFrameReader, type Head, headBytes } from "../sandbox/content/frames.ts";
import type { MapMaker } from "./map_maker.ts";
import {
  type InferenceFacts,
  type InferenceRequest,
  type PictureRequest,
  TENSORS_BYTES_MAX,
} from "../sandbox/content/requests.ts";
import type { PlacedFile, PlacedFiles, QueryRequest, ReadingFacts } from "../data/queries/query_requests.ts";
import type { MapRequest } from "../mapping/map_requests.ts";
import type { PackFacts, ReadingFileRequest } from "../readings/file_requests.ts";
import type { Pipeline } from "./pipeline.ts";
import type { SqlQuery } from "./sql/query.ts";
import type { OnnxTensors } from "../../learn/onnx/tensors.ts";

/** Limits of a request's bytes, and of a model in its package. */
const REQUEST_BYTES_MAX = 2 ** 32;
const MODEL_FILES = { filesMax: 1_000, bytesMax: 512 * 1024 * 1024 };
/** Limit of boxes, or classes, in an answer, the most certain first. */
const FOUND_MAX = 1_000;
const LABELS_MAX = 100_000;
/** Limit of outputs that are interpreted: results for people have fewer numbers. */
const JUDGED_VALUES_MAX = 1_000_000;
/** As published: y_min, x_min, y_max, x_max. */
const BOX_ORDER = [1, 0, 3, 2];
/** Boxes below this score are missing in the annotations; the tensors have all. */
const CONFIDENCE_MIN = 0.3;

/** Every request that a content process answers. */
type Request = InferenceRequest | PictureRequest | MapRequest | QueryRequest | ReadingFileRequest;

/** Answers requests until their end, or until it has run a model. */
export async function serveContent(
  requests: AsyncIterable<Uint8Array>,
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  const reader = new ContentFrameReader(requests);
  const maps = new MapRequests(reader);
  const queries = new QueryRequests(reader);
  for (;;) {
    const request = await reader.next(REQUEST_BYTES_MAX) as (Request & Head) | undefined;
    if (!request) return;
    let [facts, parts]: [JsonObject, readonly Uint8Array[]] = [{}, []];
    try {
      if (request.ask === "inference") [facts, parts] = await inference(reader, request);
      else if (request.ask === "picture") [facts, parts] = await picture(reader, request);
      else if (isOfQuery(request)) [facts, parts] = await queries.answer(request);
      else if (isOfFiles(request)) [facts, parts] = await readingFile(reader, request);
      else [facts, parts] = await maps.answer(request);
    } catch (thrown) {
      const { code, message } = SvcError.from(thrown);
      const memory = /allocation failed|bad_alloc|failed to allocate|out of memory/i.test(message);
      facts = { error: { code: memory ? "resource_exhausted" : code, message } };
    }
    await write(headBytes({ ...facts, bytes: parts.reduce((sum, { length }) => sum + length, 0) }));
    for (const part of parts) await write(part);
    // A model may leave traces, so the process ends after the first one.
    if (request.ask === "inference") return;
  }
}

type Answer = [JsonObject, readonly Uint8Array[]];

async function picture({ body }: ContentFrameReader, { bytes }: Head): Promise<Answer> {
  const { width, height, rgb } = fitted(rgbOf(decodeColor(await body.take(bytes), "reading an image")));
  return [{ width, height }, [rgb]];
}

function isOfQuery(request: Request): request is QueryRequest {
  return ["query", "readings", "placed", "stored", "documents"].includes(request.ask);
}

function isOfFiles(request: Request): request is ReadingFileRequest {
  return request.ask === "pack" || request.ask === "without";
}

/** Makes a file of readings. */
async function readingFile({ body }: ContentFrameReader, request: ReadingFileRequest): Promise<Answer> {
  const { buildFile: fileOf, fileWithout } = await import("../readings/reading_file.ts");
  let made: MadeFile;
  if (request.ask === "without") {
    made = await fileWithout(await body.take(request.bytes), request.times, request.oldest);
  } else {
    const facts: PackFacts = JSON.parse(new TextDecoder().decode(await body.take(request.facts)));
    const readings: FileReading[] = [];
    for (const { bytes, ...one } of facts) readings.push({ ...one, payload: await body.take(bytes) });
    made = await fileOf(readings);
  }
  const { content, ...summary } = made;
  return [{ summary: { ...summary } }, [content]];
}

/** The requests of one query. */
class QueryRequests {
  #query?: Pipeline | SqlQuery;
  #folder = "";

  constructor(private readonly reader: ContentFrameReader) {}

  async answer(request: QueryRequest): Promise<Answer> {
    const { body } = this.reader;
    if (request.ask === "query") {
      const parts: Uint8Array[] = [];
      for (const size of request.sizes) parts.push(await body.take(size));
      // A process answers several queries, of the same caller.
      this.#close();
      this.#query = await openQuery(request, parts);
      this.#folder = request.folder;
      return [{ narrowing: this.#query.narrowing() as unknown as JsonObject }, []];
    }
    const query = this.#query;
    assert(query, "the query was asked for before it was begun");
    if (request.ask === "documents") {
      const documents = await query.answer();
      this.#close();
      return [{}, documents];
    }
    if (request.ask === "stored") {
      const documents: Uint8Array[] = [];
      for (const size of request.sizes) documents.push(await body.take(size));
      return [{ more: query.takeDocuments(documents) }, []];
    }
    if (request.ask === "placed") {
      const { times, files }: PlacedFiles = JSON.parse(
        new TextDecoder().decode(await body.take(request.bytes)),
      );
      for (const one of files) {
        if (!await takeFile(query, one, times, this.#folder)) return [{ more: false }, []];
      }
      return [{ more: true }, []];
    }
    const { origin, rows }: ReadingFacts = JSON.parse(
      new TextDecoder().decode(await body.take(request.facts)),
    );
    const packed: PackedReading[] = [];
    for (const { bytes, ...facts } of rows) packed.push({ ...facts, payload: await body.take(bytes) });
    return [{ more: await query.take({ origin, rows: packed }) }, []];
  }

  /** Forgets the query and its readings. */
  #close(): void {
    if (this.#query && "close" in this.#query) this.#query.close();
    this.#query = undefined;
  }
}

async function takeFile(
  query: Pipeline | SqlQuery,
  file: PlacedFile,
  times: FileTimes,
  folder: string,
): Promise<boolean> {
  if ("takeFile" in query && await query.takeFile(file, times)) return true;
  const { origin, tags, sha256, after } = file;
  const content = await new SystemFiles().readFile(`${folder}/${sha256}`);
  const { isAfter, readingsIn, sourceOf } = await import("../readings/reading_file.ts");
  for await (const group of readingsIn(sourceOf(content), times)) {
    const rows = group.filter((one) => isAfter(one, after));
    if (!await query.take({ origin, rows: rows.map((one) => ({ ...one, tags })) })) return false;
  }
  return true;
}

async function openQuery(
  { language, stamp, folder }: QueryRequest & { ask: "query" },
  parts: readonly Uint8Array[],
): Promise<Pipeline | SqlQuery> {
  if (language === "sql") {
    const { SqlQuery } = await import("./sql/query.ts");
    return await SqlQuery.read(new TextDecoder().decode(parts[0]), folder);
  }
  const { Pipeline } = await import("./pipeline.ts");
  return Pipeline.read(parts, stamp);
}

/** The requests of one map. */
class MapRequests {
  #maker?: MapMaker;

  constructor(private readonly reader: ContentFrameReader) {}

  async answer(request: MapRequest): Promise<Answer> {
    const { body } = this.reader;
    if (request.ask === "map") {
      const { MapMaker } = await import("./map_maker.ts");
      const archive = request.bytes > 0 ? body.part(request.bytes) : undefined;
      this.#maker = await MapMaker.begin(request.options, archive);
      return [{}, []];
    }
    const file = request.ask === "scan" ? await body.take(request.bytes) : undefined;
    const maker = this.#maker;
    assert(maker, "the map was asked for before it was begun");
    if (request.ask === "scan") {
      const pose = maker.scan(request.timeS, file!);
      return [pose ? { pose: { ...pose } } : {}, []];
    }
    if (request.ask === "movements") {
      maker.move(request.movements);
      return [{}, []];
    }
    return [{}, [request.ask === "map_cloud" ? maker.cloud() : await maker.file()]];
  }
}

type Size = Pick<ColorImage, "width" | "height">;

async function inference(
  { body }: ContentFrameReader,
  { image, bytes }: InferenceRequest,
): Promise<Answer> {
  const picture = decodeColor(await body.take(image), "asking a model");
  const { model, labels } = await modelIn(body.part(bytes - image));
  const session = await openOnnx(model);
  try {
    const outputs = await infer(session, picture);
    return [
      annotated(session, outputs, labels, picture) as unknown as JsonObject,
      Object.values(outputs).map(({ data }) =>
        new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength)
      ),
    ];
  } finally {
    await session.close();
  }
}

function rgbOf({ width, height, rgba }: ColorImage) {
  const rgb = new Uint8Array(3 * width * height);
  for (let from = 0, to = 0; from < rgba.length; from += 4, to += 3) {
    rgb[to] = rgba[from] ?? 0;
    rgb[to + 1] = rgba[from + 1] ?? 0;
    rgb[to + 2] = rgba[from + 2] ?? 0;
  }
  return { width, height, rgb };
}

/** The model in a package, and the names of its classes if the package has them. */
async function modelIn(archive: AsyncIterable<Uint8Array>) {
  let model: { name: string; bytes: Uint8Array } | undefined;
  const names: string[] = [];
  let labels: string[] | undefined;
  for await (const { path, bytes, content } of unpacked(archive, MODEL_FILES)) {
    const name = path.split("/").at(-1)!;
    if (name === "labels.txt") labels = labelsIn(await collectBytes(content, bytes));
    if (!name.endsWith(".onnx")) continue;
    names.push(name);
    // If there are several models, the one with the usual name.
    if (model === undefined || name === "model.onnx") {
      model = { name, bytes: await collectBytes(content, bytes) };
    }
  }
  const chosen = names.filter((name) => name === "model.onnx").length;
  if (model && (names.length === 1 || chosen === 1)) return { model: model.bytes, labels };
  const found = names.length > 0 ? names.slice(0, 10).join(", ") : "no .onnx file";
  throw new SvcError(
    "unimplemented",
    `the package has ${found}, wanted one model.onnx: this control plane runs only ONNX models`,
  );
}

function labelsIn(bytes: Uint8Array): string[] {
  const lines = classLabelsIn(bytes);
  if (lines.length <= LABELS_MAX) return lines;
  throw new SvcError(
    "invalid_argument",
    `labels.txt has ${lines.length} labels, wanted at most ${LABELS_MAX}`,
  );
}

async function infer(session: OnnxSession, image: ColorImage): Promise<OnnxTensors> {
  const input = imageInputOf(session);
  const layout = layoutOf(infoOf(input));
  const form = { ...layout, bgr: false, mean: [127.5, 127.5, 127.5], deviation: [127.5, 127.5, 127.5] };
  const { shape, data } = imageTensor(image, form);
  const outputs = await session.run({ [input.name]: { type: layout.type, shape, data } });
  const bytes = Object.values(outputs).reduce((sum, { data }) => sum + data.byteLength, 0);
  if (bytes <= TENSORS_BYTES_MAX) return outputs;
  const wanted = `wanted at most ${TENSORS_BYTES_MAX}`;
  throw new SvcError("resource_exhausted", `the model gives tensors of ${bytes} bytes, ${wanted}`);
}

function imageInputOf({ inputs }: OnnxSession): OnnxSession["inputs"][number] {
  const input = inputs.find(({ name }) => name === "image") ?? inputs[0];
  if (input) return input;
  throw new SvcError("failed_precondition", "the model takes nothing, wanted an image");
}

function infoOf({ name, type, shape }: OnnxSession["inputs"][number]): MlMetadata["inputs"][number] {
  return { name, description: "", dataType: type, shape, associatedFiles: [] };
}

function annotated(
  session: OnnxSession,
  outputs: OnnxTensors,
  labels: readonly string[] | undefined,
  picture: Size,
): InferenceFacts {
  const tensors = Object.entries(outputs).map(([name, { type, shape, data }]) => {
    return { name, type, shape, bytes: data.byteLength };
  });
  const values = Object.values(outputs).reduce((sum, { data }) => sum + data.length, 0);
  if (values > JUDGED_VALUES_MAX) return { tensors, boxes: [], classes: [] };
  return { tensors, ...foundBy(session, outputs, labels, picture) };
}

/** Interprets the outputs of a classifier or a detector. */
function foundBy(
  session: OnnxSession,
  outputs: Tensors,
  labels: readonly string[] | undefined,
  picture: Size,
): Pick<InferenceFacts, "boxes" | "classes"> {
  const none = new Map<string, string>();
  const named = clearDetectorNames(session, outputs, none);
  const name = probabilityName(outputs, none);
  const form = named || name !== undefined ? undefined : joinedForm(outputs);
  const names = form ? SEPARATED : named;
  if (names) {
    const { width = picture.width, height = picture.height } = layoutOf(infoOf(imageInputOf(session)));
    const order = form ? SEPARATED_ORDER : BOX_ORDER;
    const found = foundIn(form ? separated(outputs, form) : outputs, names, { order, width, height });
    const sure = found.filter(({ confidence }) => confidence >= CONFIDENCE_MIN).slice(0, FOUND_MAX);
    const boxes = sure.map(({ category, confidence, box }) => {
      const sides = {
        xMin: finite(box.xMin),
        yMin: finite(box.yMin),
        xMax: finite(box.xMax),
        yMax: finite(box.yMax),
      };
      const label = labels?.[category] || String(category);
      return boxFields({ label, confidence, ...sides });
    });
    return { boxes, classes: [] };
  }
  const tensor = name === undefined ? undefined : outputs[name];
  if (name === undefined || !tensor) return { boxes: [], classes: [] };
  const classes = classesOf(name, tensor, labels).sort((a, b) => b.confidence - a.confidence);
  return {
    boxes: [],
    classes: classes.slice(0, FOUND_MAX).map(({ className, confidence }) => ({
      label: className,
      confidence: finite(confidence),
    })),
  };
}

/** `undefined` also where the outputs could be read in several ways: the caller gets them as tensors. */
function clearDetectorNames(session: OnnxSession, outputs: Tensors, named: ReadonlyMap<string, string>) {
  try {
    return detectorNames(outputs, session.outputs.map(({ name }) => name), named);
  } catch {
    return undefined;
  }
}

/** JSON has no other numbers. */
function finite(value: number): number {
  return Number.isFinite(value) ? value : 0;
}
