/**
 * MLInferenceService: runs a model of the registry on a stored image.
 *
 * Each call runs in a content process of its own (`process.ts`), for a limited time; few run at once, in turns
 * that are fair among organizations. A model has the published form: an image in, probabilities or boxes out,
 * `labels.txt` beside it.
 */

import type { MLInferenceService } from "../../../../proto/gen/ml_inference_pb.ts";
import { PICTURE_BYTES_MAX } from "../../../learn/example.ts";
import { tensorData } from "../../../learn/onnx/session.ts";
import { type Tensors, toTensorsMessage } from "../../../api/services/ml_model.ts";
import { SvcError } from "../../../base/error.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import { type ContentAnswer, type ContentOptions, withContent } from "../../sandbox/content/process.ts";
import type { InferenceFacts } from "../../sandbox/content/requests.ts";
import type { CloudContext } from "../../access/context.ts";
import { BinaryData, type BinaryItem } from "../../data/binary_data.ts";
import { Packages } from "../../packages/packages.ts";
import { CallerTurns } from "../../../base/async/turns.ts";
import type { Package } from "../../packages/item.ts";
import type { OnnxType } from "../../../learn/onnx/tensors.ts";

export interface InferenceOptions {
  readonly content: ContentOptions;
  /** Time limit of one call, from the start of its turn. */
  readonly timeMs: number;
}

/** Calls running at once, and calls waiting: in all, and of one organization. */
const TURNS = { turnsMax: 2, turnsOfGroupMax: 1, waiting: [64, 16, 8], what: "inferences" } as const;
/** Limit of a package: a model of the largest unpacked size, and some files beside it. */
const ARCHIVE_BYTES_MAX = 600 * 1024 * 1024;

export function inferenceHandlers(context: CloudContext, options: InferenceOptions | undefined) {
  const { store, files, access } = context;
  const turns = new CallerTurns(TURNS, context.clock);
  return {
    async getInference(request, { entity, signal }) {
      if (!options) throw new SvcError("unimplemented", "this control plane runs no models");
      const { registryItemId, registryItemVersion, organizationId } = request;
      if (registryItemId === "") {
        throw new SvcError("invalid_argument", "registry_item_id is empty, wanted a model");
      }
      const found = await new Packages(store).find(registryItemId, registryItemVersion || "latest");
      const mine = await access.readOrganizations(entity);
      if (found.item.visibility === "private" && !mine.includes(found.item.organizationId)) {
        throw new SvcError("not_found", `there is no package "${registryItemId}"`);
      }
      checkPackage(found);
      const image = await findImage(
        context,
        organizationId,
        request.binaryDataId || request.binaryId?.fileId || "",
      );
      const leave = await turns.enter([organizationId, entity ?? ""], signal);
      try {
        return await infer(options, files, found, image, signal);
      } finally {
        leave();
      }
    },
  } satisfies ServiceImpl<typeof MLInferenceService>;
}

async function infer(
  { content, timeMs }: InferenceOptions,
  files: CloudContext["files"],
  found: Package,
  image: BinaryItem,
  signal: AbortSignal,
) {
  const late = () => {
    const shown = `version "${found.version}" of "${found.item.name}"`;
    return new SvcError("deadline_exceeded", `${shown} has not answered within ${timeMs / 1000} s`);
  };
  const answer = await withContent(content, timeMs, late, signal, (process, signal) => {
    const request = { ask: "inference", image: image.bytes, bytes: image.bytes + found.bytes } as const;
    const body = async function* () {
      yield* files.read(image.sha256);
      yield* files.read(found.sha256);
    };
    return process.ask(request, body(), signal);
  });
  const { boxes, classes } = answer.head as unknown as InferenceFacts;
  return {
    outputTensors: toTensorsMessage(tensorsOf(answer)),
    annotations: { bboxes: [...boxes], classifications: [...classes] },
  };
}

/** Throws if a package cannot be a model that runs here. */
function checkPackage({ item, version, bytes }: Package): void {
  const shown = `version "${version}" of "${item.name}"`;
  if (item.kind !== "ml_model") {
    throw new SvcError("invalid_argument", `${shown} is a ${item.kind}, wanted an ml_model`);
  }
  if (bytes > ARCHIVE_BYTES_MAX) {
    const wanted = `wanted at most ${ARCHIVE_BYTES_MAX}`;
    throw new SvcError(
      "resource_exhausted",
      `${shown} has ${bytes} bytes, ${wanted}: only smaller ones are run here`,
    );
  }
}

async function findImage({ store }: CloudContext, organizationId: string, id: string): Promise<BinaryItem> {
  if (id === "") throw new SvcError("invalid_argument", "binary_data_id is empty, wanted an image");
  const [image] = await new BinaryData(store).get([id]);
  if (image?.organizationId !== organizationId) throw new SvcError("not_found", `there is no data "${id}"`);
  if (image.bytes > PICTURE_BYTES_MAX) {
    throw new SvcError("failed_precondition", `data "${id}" has ${image.bytes} bytes, wanted an image`);
  }
  return image;
}

/** The tensors of an answer. The process is not trusted, so every number is checked. */
function tensorsOf({ head, bytes }: ContentAnswer): Tensors {
  const { tensors } = head as unknown as InferenceFacts;
  let at = 0;
  return Object.fromEntries(tensors.map(({ name, type, shape, bytes: size }) => {
    const content = bytes.slice(at, at += size);
    const data = tensorData(type as OnnxType, content, shape);
    return [String(name), { shape: [...shape], data }];
  }));
}
