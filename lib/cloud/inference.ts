/**
 * MLInferenceService: what a model of the registry makes of an image that is stored here.
 *
 * Owns the models while they are used; few at once, for each takes memory and threads. A model is taken in the
 * published form: an image in, probabilities or boxes out, `labels.txt` beside it.
 */

import { MLInferenceService } from "../../proto/gen/ml_inference_pb.ts";
import type { AnnotationsSchema } from "../../proto/gen/data_pb.ts";
import { boxFields } from "../api/captured.ts";
import { type MlMetadata, type Tensors, toTensorsMessage } from "../api/ml_model.ts";
import {
  classesOf,
  detectorNames,
  foundIn,
  imageTensor,
  layoutOf,
  probabilityName,
} from "../api/vision_tensors.ts";
import { unpacked } from "../base/archive.ts";
import { race } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import { decodeImage } from "../geometry/image.ts";
import { MODEL_BYTES_MAX, type OnnxSession, openOnnx } from "../learn/onnx_session.ts";
import type { MessageInitShape } from "../wire/proto.ts";
import { type Service, service } from "../wire/service.ts";
import type { CloudContext } from "./context.ts";
import { BinaryData, type BinaryItem } from "./data_binary.ts";
import { type Package, Packages } from "./packages.ts";

/** Models in memory at once, and calls that wait for their turn. */
const MODELS_MAX = 2;
const WAITING_MAX = 32;
const IMAGE_BYTES_MAX = 64 * 1024 * 1024;
const MODEL_FILES = { filesMax: 1_000, bytesMax: MODEL_BYTES_MAX };
/** As published: y_min, x_min, y_max, x_max. */
const BOX_ORDER = [1, 0, 3, 2];
/** Less certain boxes are left out of the annotations; the tensors have them all. */
const CONFIDENCE_MIN = 0.3;

export function mlInferenceService(context: CloudContext): Service {
  const { store, files, access } = context;
  const turns = new Turns();
  return service(MLInferenceService, {
    async getInference(request, { entity, signal }) {
      const { registryItemId, registryItemVersion, organizationId } = request;
      if (registryItemId === "") {
        throw new SvcError("invalid_argument", "registry_item_id is empty, wanted a model");
      }
      const found = await new Packages(store).find(registryItemId, registryItemVersion || "latest");
      const mine = await access.organizationsOf(entity);
      if (found.item.visibility === "private" && !mine.includes(found.item.organizationId)) {
        throw new SvcError("not_found", `there is no package "${registryItemId}"`);
      }
      const image = await imageOf(
        context,
        organizationId,
        request.binaryDataId || request.binaryId?.fileId || "",
      );
      const leave = await turns.enter(signal);
      try {
        const { model, labels } = await modelOf(found, files.read(found.sha256));
        const picture = await contentOf(files.read(image.sha256), image.bytes);
        const session = await openOnnx(model, { signal });
        try {
          const outputs = await infer(session, picture, signal);
          return {
            outputTensors: toTensorsMessage(outputs),
            annotations: annotationsOf(session, outputs, labels),
          };
        } finally {
          await session.close();
        }
      } finally {
        leave();
      }
    },
  });
}

async function imageOf({ store }: CloudContext, organizationId: string, id: string): Promise<BinaryItem> {
  if (id === "") throw new SvcError("invalid_argument", "binary_data_id is empty, wanted an image");
  const [image] = await new BinaryData(store).get([id]);
  if (image.organizationId !== organizationId) throw new SvcError("not_found", `there is no data "${id}"`);
  if (image.bytes > IMAGE_BYTES_MAX) {
    throw new SvcError("failed_precondition", `data "${id}" has ${image.bytes} bytes, wanted an image`);
  }
  return image;
}

/** The model in a package, and the names of its classes if they are there. */
async function modelOf({ item, version }: Package, archive: AsyncIterable<Uint8Array>) {
  const shown = `version "${version}" of "${item.name}"`;
  if (item.kind !== "ml_model") {
    throw new SvcError("invalid_argument", `${shown} is a ${item.kind}, wanted an ml_model`);
  }
  const models = new Map<string, Uint8Array>();
  let labels: string[] | undefined;
  for await (const { path, bytes, content } of unpacked(archive, MODEL_FILES)) {
    const name = path.split("/").at(-1)!;
    if (name.endsWith(".onnx")) models.set(name, await contentOf(content, bytes));
    if (name === "labels.txt") {
      labels = new TextDecoder().decode(await contentOf(content, bytes)).split(/\r?\n/).filter((line) =>
        line !== ""
      );
    }
  }
  const model = models.get("model.onnx") ?? (models.size === 1 ? [...models.values()][0] : undefined);
  if (model) return { model, labels };
  const found = models.size > 0 ? [...models.keys()].join(", ") : "no .onnx file";
  throw new SvcError(
    "unimplemented",
    `${shown} has ${found}, wanted model.onnx: only ONNX models are run here`,
  );
}

async function contentOf(
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  bytes: number,
): Promise<Uint8Array> {
  const whole = new Uint8Array(bytes);
  let at = 0;
  for await (const chunk of content) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

async function infer(session: OnnxSession, picture: Uint8Array, signal: AbortSignal): Promise<Tensors> {
  const decoded = decodeImage(picture);
  if (decoded.kind !== "color") {
    throw new SvcError("invalid_argument", "the image holds distances, wanted colours");
  }
  const input = session.inputs.find(({ name }) => name === "image") ?? session.inputs[0];
  if (!input) throw new SvcError("failed_precondition", "the model takes nothing, wanted an image");
  const layout = layoutOf(infoOf(input));
  const form = { ...layout, bgr: false, mean: [127.5, 127.5, 127.5], deviation: [127.5, 127.5, 127.5] };
  const { shape, data } = imageTensor(decoded.image, form);
  const outputs = await session.run({ [input.name]: { type: layout.type, shape, data } }, signal);
  return Object.fromEntries(
    Object.entries(outputs).map(([name, { shape, data }]) => [name, { shape, data }]),
  );
}

function infoOf({ name, type, shape }: OnnxSession["inputs"][number]): MlMetadata["inputs"][number] {
  return { name, description: "", dataType: type, shape, associatedFiles: [] };
}

/** What the outputs say, where they are a classifier's or a detector's. */
function annotationsOf(
  session: OnnxSession,
  outputs: Tensors,
  labels: readonly string[] | undefined,
): MessageInitShape<typeof AnnotationsSchema> {
  const none = new Map<string, string>();
  const named = detectorNames(outputs, session.outputs.map(({ name }) => name), none);
  if (named) {
    const { shape } = session.inputs[0];
    const found = foundIn(outputs, named, { order: BOX_ORDER, width: shape[2], height: shape[1] });
    return {
      bboxes: found.filter(({ confidence }) => confidence >= CONFIDENCE_MIN).map((
        { category, confidence, box },
      ) => boxFields({ label: labels?.[category] ?? String(category), confidence, ...box })),
    };
  }
  const name = probabilityName(outputs, none);
  if (name === undefined) return {};
  const classes = classesOf(name, outputs[name], labels).sort((a, b) => b.confidence - a.confidence);
  return { classifications: classes.map(({ className, confidence }) => ({ label: className, confidence })) };
}

/** Lets in a few at a time, in the order in which they came. */
class Turns {
  #inside = 0;
  readonly #waiting: (() => void)[] = [];

  /** Gives what is to be called on leaving. */
  async enter(signal: AbortSignal): Promise<() => void> {
    if (this.#inside < MODELS_MAX) this.#inside++;
    else {
      if (this.#waiting.length >= WAITING_MAX) {
        throw new SvcError("resource_exhausted", `${WAITING_MAX} inferences wait already: try again later`);
      }
      const turn = Promise.withResolvers<void>();
      this.#waiting.push(turn.resolve);
      await race(turn.promise, signal, () => this.#leave()).catch((error) => {
        const at = this.#waiting.indexOf(turn.resolve);
        if (at >= 0) this.#waiting.splice(at, 1);
        throw error;
      });
    }
    return () => this.#leave();
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#inside--;
  }
}
