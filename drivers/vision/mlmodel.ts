/**
 * `mlmodel`: classifies and detects with an ML model service.
 *
 * The driver tries the model once with a grey picture to learn its skills: a model that returns probabilities
 * classifies, a model that returns boxes and scores detects. The driver refuses a model that does neither, or
 * whose labels do not fit, and says what the model returned and what was wanted.
 */

import { type MlMetadata, type MlModel, MlModelApi, type Tensors } from "../../lib/api/services/ml_model.ts";
import {
  type Classification,
  type Detection,
  type EncodedImage,
  VisionApi,
} from "../../lib/api/services/vision.ts";
import type { ReadFiles } from "../../lib/base/files/files.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import {
  bool,
  type Infer,
  integer,
  list,
  mapOf,
  number,
  object,
  text,
} from "../../lib/base/schema/schema.ts";
import { type ColorImage, decodeColor } from "../../lib/geometry/image/image.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { model } from "../../lib/resource/registry.ts";
import type { Call } from "../../lib/resource/resource.ts";
import { type DetectorNames, detectorNames } from "../../lib/api/tensors/detector_outputs.ts";
import { joinedForm, SEPARATED, separated, SEPARATED_ORDER } from "../../lib/api/tensors/joined_outputs.ts";
import { classLabelsIn } from "../../lib/api/tensors/labels.ts";
import {
  classesOf,
  foundIn,
  imageTensor,
  type InputForm,
  layoutOf,
  probabilityName,
} from "../../lib/api/tensors/vision_tensors.ts";
import { type Skills, VisionModel } from "./vision_model.ts";

/** The published order: y_min, x_min, y_max, x_max. */
const BOX_ORDER = [1, 0, 3, 2];

/** The published default for colours from 0 to 1: the model receives -1 to 1. */
const HALF = [0.5, 0.5, 0.5];

/** Size of the trial picture for a model whose input has no fixed size. */
const TRIAL_PX = 64;

const perColor = (doc: string) =>
  list(number(), doc).with((values, at) =>
    values.length >= 3
      ? values.slice(0, 3)
      : at.error(`found ${values.length} numbers, wanted one for each of 3 colours`)
  );

const attributes = object({
  mlmodelName: text("the ML model service").required().names("mlmodel"),
  remapInputNames: mapOf(
    text(),
    "the model's input names, each with the published name that it stands for (image)",
  )
    .default({}),
  remapOutputNames: mapOf(
    text(),
    "the model's output names, each with the published name that it stands for: probability, location, category, score",
  ).default({}),
  xminYminXmaxYmaxOrder: list(
    integer("", { min: 0, max: 3 }),
    "which of x_min (0), y_min (1), x_max (2) and y_max (3) stands at each place of a box; absent means [1, 0, 3, 2]",
  ).with((order, at) =>
    order.length === 0 || order.length === 4 && new Set(order).size === 4
      ? order
      : at.error(`found [${order.join(", ")}], wanted each of 0, 1, 2 and 3 once`)
  ),
  inputImageMeanValue: perColor(
    "for float32 inputs, the value to subtract from each colour, on a scale of 0 to 1, or of 0 to 255 if a value is above 1",
  ),
  inputImageStdDev: perColor(
    "for float32 inputs, the value to divide each colour by afterwards, on the same scale",
  ).with((
    values,
    at,
  ) => values.every((value) => value !== 0) ? values : at.error("found 0, wanted numbers other than 0")),
  inputImageBgr: bool("the model takes blue, green, red").default(false),
  defaultMinimumConfidence: number("detections with less confidence are dropped", { min: 0, max: 1 }).default(
    0,
  ),
  labelConfidences: mapOf(
    number("", { min: 0, max: 1 }),
    "report only these labels, each with its lowest confidence; default_minimum_confidence is then ignored",
  ).default({}),
  labelPath: text("file with one label a line; absent means the file that the model's description names")
    .default(""),
  cameraName: text("camera for requests that name none").names("camera"),
}).required();

type Attributes = Infer<typeof attributes>;

export const MlModelVision = model({
  api: VisionApi,
  name: "rdk:builtin:mlmodel",
  doc: "Classifies and detects with an ML model service.",
  attributes,
  construct: async (from) => {
    const { attributes, dependencies, host, logger, signal } = from;
    const mlModel = dependencies.get(MlModelApi, attributes.mlmodelName);
    const metadata = await mlModel.getMetadata({ signal });
    const labels = await labelsFor(attributes.labelPath, metadata, host, logger);
    const runner = new Runner(mlModel, metadata, attributes, labels);
    return new VisionModel(from, await runner.skills({ signal }), attributes.cameraName);
  },
});

/** One model with its settings: turns pictures into classes and boxes. */
class Runner {
  readonly #form: InputForm;
  readonly #input: string;
  readonly #order: readonly number[];
  readonly #outputs: ReadonlyMap<string, string>;
  readonly #accepts: (label: string, confidence: number) => boolean;

  constructor(
    private readonly model: MlModel,
    private readonly metadata: MlMetadata,
    private readonly settings: Attributes,
    private readonly labels: Labels | undefined,
  ) {
    const inputs = publishedNames(settings.remapInputNames);
    const wanted = inputs.get("image") ?? "image";
    const info = metadata.inputs.find(({ name }) => name === wanted) ?? metadata.inputs[0];
    if (!info) {
      throw new SvcError(
        "failed_precondition",
        `${model.name} does not describe its input, wanted at least one`,
      );
    }

    this.#input = info.name;
    const { mean, deviation } = normalization(settings.inputImageMeanValue, settings.inputImageStdDev);
    this.#form = { ...layoutOf(info), bgr: settings.inputImageBgr, mean, deviation };
    this.#outputs = publishedNames(settings.remapOutputNames);
    this.#order = boxOrder(settings.xminYminXmaxYmaxOrder, metadata, this.#outputs);
    this.#accepts = filterOf(settings);
  }

  /** Tries the model and returns its skills. */
  async skills(call: Call): Promise<Skills> {
    const size = { width: this.#form.width ?? TRIAL_PX, height: this.#form.height ?? TRIAL_PX };
    const grey = { ...size, rgba: new Uint8Array(size.width * size.height * 4).fill(127) };
    const outputs = await this.#infer(grey, call);
    const skills: Skills = {};
    const probability = probabilityName(outputs, this.#outputs);
    if (probability !== undefined) {
      this.#classes(outputs, probability);
      skills.classify = async ({ image }: EncodedImage, call) =>
        this.#classes(await this.#infer(decodeColor(image, "asking a model"), call), probability);
    }

    const names = await this.#detectorNames(outputs, size, call);
    if (names) {
      this.#detections(outputs, names, grey);
      skills.detect = async ({ image }: EncodedImage, call) => {
        const picture = decodeColor(image, "asking a model");
        return this.#detections(await this.#infer(picture, call), names, picture);
      };
    }

    const form = skills.classify || skills.detect ? undefined : joinedForm(outputs);
    if (form) {
      const order = this.settings.xminYminXmaxYmaxOrder ?? SEPARATED_ORDER;
      const found = (outputs: Tensors, picture: ColorImage) =>
        this.#detections(separated(outputs, form), SEPARATED, picture, order);
      found(outputs, grey);
      skills.detect = async ({ image }: EncodedImage, call) => {
        const picture = decodeColor(image, "asking a model");
        return found(await this.#infer(picture, call), picture);
      };
    }

    if (skills.classify || skills.detect) return skills;
    const given = Object.entries(outputs).map(([name, { shape }]) => `${name} [${shape.join(", ")}]`).join(
      ", ",
    );
    const wanted = "probability, location [1, n, 4] with category and score, or rows [1, n, 6] of boxes";
    const problem = `${this.model.name} gives ${
      given || "nothing"
    }, wanted ${wanted}; remap_output_names can say so`;
    throw new SvcError("failed_precondition", problem);
  }

  /** Where a grey picture does not tell which output is which, such as where it holds nothing, a picture of noise may. */
  async #detectorNames(
    outputs: Tensors,
    size: { readonly width: number; readonly height: number },
    call: Call,
  ): Promise<DetectorNames | undefined> {
    const order = this.metadata.outputs.map(({ name }) => name);
    try {
      return detectorNames(outputs, order, this.#outputs);
    } catch (error) {
      if (SvcError.from(error).code !== "failed_precondition") throw error;
    }
    const random = randomFrom(1);
    const rgba = Uint8Array.from({ length: size.width * size.height * 4 }, () => 256 * random());
    return detectorNames(await this.#infer({ ...size, rgba }, call), order, this.#outputs);
  }

  #infer(picture: ColorImage, call?: Call): Promise<Tensors> {
    return this.model.infer({ [this.#input]: imageTensor(picture, this.#form) }, { signal: call?.signal });
  }

  #classes(outputs: Tensors, name: string): Classification[] {
    const tensor = outputOf(outputs, name);
    const found = classesOf(name, tensor, this.labels?.forCount(tensor.data.length));
    return found.filter(({ className, confidence }) => this.#accepts(className, confidence));
  }

  #detections(
    outputs: Tensors,
    names: DetectorNames,
    { width, height }: ColorImage,
    order = this.#order,
  ): Detection[] {
    const { location, score, category } = names;
    for (const name of [location, score, category]) if (name !== undefined) outputOf(outputs, name);
    const form = {
      order,
      width: this.#form.width ?? width,
      height: this.#form.height ?? height,
    };
    const found: Detection[] = [];
    for (const { category: number, confidence, box: normalized } of foundIn(outputs, names, form)) {
      if (confidence < this.#floor) continue;
      const className = this.labels?.at(number) ?? String(number);
      if (!this.#accepts(className, confidence)) continue;
      const box = {
        xMin: Math.round(normalized.xMin * width),
        yMin: Math.round(normalized.yMin * height),
        xMax: Math.round(normalized.xMax * width),
        yMax: Math.round(normalized.yMax * height),
      };
      found.push({ className, confidence, box, normalized });
    }

    return found.sort((a, b) => b.confidence - a.confidence);
  }

  /** The lowest confidence that any label accepts. */
  get #floor(): number {
    const { labelConfidences, defaultMinimumConfidence } = this.settings;
    const least = Object.values(labelConfidences);
    return least.length > 0 ? Math.min(...least) : defaultMinimumConfidence;
  }
}

/** The class names of a label file. */
class Labels {
  readonly #lines: readonly string[];

  constructor(bytes: Uint8Array, private readonly path: string) {
    // A single line with commas is a list; otherwise it may be one label of several words.
    const lines = classLabelsIn(bytes);
    const [only = "", ...more] = lines;
    this.#lines = more.length === 0 && only.includes(",")
      ? only.split(",").map((label) => label.trim())
      : lines;
  }

  /**
   * Labels for a model of `count` classes. The words of a single line count as labels if their number fits, and so do
   * the lines without the empty ones.
   */
  forCount(count: number): readonly string[] {
    const [only, ...more] = this.#lines;
    const words = more.length === 0 ? only?.split(/\s+/) ?? [] : [];
    const written = this.#lines.filter((line) => line !== "");
    return [this.#lines, words, written].find(({ length }) => length === count) ?? this.#lines;
  }

  /** A class whose line is empty is called by its number. */
  at(category: number): string {
    if (category < this.#lines.length) return this.#lines[category] || String(category);
    const found = `class ${category} of the model has no label in ${this.path}`;
    throw new SvcError(
      "failed_precondition",
      `${found}, which has ${this.#lines.length}; wanted a label a line`,
    );
  }
}

async function labelsFor(
  asked: string,
  { outputs }: MlMetadata,
  files: ReadFiles,
  logger: Logger,
): Promise<Labels | undefined> {
  const named = outputs.map(({ extra }) => extra?.labels).find((labels) => typeof labels === "string");
  const path = asked || named;
  if (!path) return undefined;

  try {
    return new Labels(await files.readFile(path as string), path as string);
  } catch (cause) {
    if (asked) throw new SvcError(SvcError.from(cause).code, `label_path: ${chainOf(cause)}`, { cause });
    logger.warn(`classes are told by their numbers: the model's labels cannot be read: ${chainOf(cause)}`);
    return undefined;
  }
}

/** The model's own names, by published name. */
function publishedNames(remapped: Attributes["remapInputNames"]): ReadonlyMap<string, string> {
  return new Map(Object.entries(remapped).map(([own, published]) => [published, own]));
}

/** The values to subtract and to divide by, both on the scale 0 to 255. */
function normalization(mean: readonly number[] = HALF, deviation: readonly number[] = HALF) {
  const scale = [...mean, ...deviation].some((value) => value > 1) ? 1 : 255;
  const scaled = (values: readonly number[], given: boolean) =>
    values.map((value) => value * (given ? scale : 255));
  return { mean: scaled(mean, mean !== HALF), deviation: scaled(deviation, deviation !== HALF) };
}

function boxOrder(
  asked: readonly number[] | undefined,
  { outputs }: MlMetadata,
  named: ReadonlyMap<string, string>,
): readonly number[] {
  if (asked?.length === 4) return asked;
  const location = named.get("location") ?? "location";
  const order = outputs.find(({ name }) => name === location)?.extra?.boxOrder;
  const valid = Array.isArray(order) && order.length === 4 &&
    [0, 1, 2, 3].every((edge) => order.includes(edge));
  return valid ? order as number[] : BOX_ORDER;
}

/** Which labels to report, and from which confidence on. Letter case does not matter. */
function filterOf({ labelConfidences, defaultMinimumConfidence }: Attributes) {
  const least = new Map(
    Object.entries(labelConfidences).map(([label, value]) => [label.toLowerCase(), value]),
  );
  return (label: string, confidence: number) => {
    const floor = least.size > 0 ? least.get(label.toLowerCase()) : defaultMinimumConfidence;
    return floor !== undefined && confidence >= floor;
  };
}

function outputOf(outputs: Tensors, name: string) {
  const found = outputs[name];
  if (found) return found;
  const there = Object.keys(outputs).join(", ") || "none";
  throw new SvcError(
    "failed_precondition",
    `the model gave no output "${name}" this time; its outputs: ${there}`,
  );
}
