/**
 * Which output of a detector is which: the boxes, the classes and the confidences.
 *
 * Names count first: the published ones, those that the caller remaps, and the usual names of exports. The content decides
 * about the rest: whole numbers are classes (also if all are 0), numbers from 0 to 1 are confidences. Where several
 * outputs could be the same thing, nothing is guessed: the error asks for names.
 */

import type { Tensor, Tensors } from "../services/ml_model.ts";
import { SvcError } from "../../base/error.ts";

/** Confidences are at most 1; models round. */
export const CONFIDENCE_MAX = 1.001;

/**
 * The outputs with a detector's boxes, classes and confidences. Without `category`, the scores give the
 * class.
 */
export interface DetectorNames {
  readonly location: string;
  readonly score: string;
  readonly category?: string;
  /** The output with the number of boxes that count, if there is one; the others only fill the tensor. */
  readonly count?: string;
  /** True if the content decided about one of them. */
  readonly isGuessed: boolean;
}

type Role = "location" | "category" | "score";
type Output = Tensor & { readonly name: string };

/** What exports call their outputs, without a prefix and without a number at the end. */
const USUAL: { readonly [R in Role]: RegExp } = {
  location: /^(detection_?)?(location|box|boxes|bbox|bboxes|bounding_?boxes)$/,
  category: /^(detection_?)?(category|categories|class|classes|class_?ids?|class_?idx|labels?|label_?ids?)$/,
  score: /^(detection_?)?(score|scores|confidences?|conf|probability|probabilities|probs?)$/,
};
/** Outputs that are none of the three. */
const OTHER = /(anchor|indices|indexes|raw_|multiclass|num_?detections|num_?dets|keypoint|mask|count)/;
/** An output with the number of boxes that count. */
const COUNT = /^(num_?(detections?|dets|boxes)|(detections?|valid)_?count|valid_?detections)$/;
/** Classes of a model: larger numbers are indices of something else. */
const CLASSES_MAX = 100_000;

/**
 * Finds the outputs; `order` is the order in which the model lists them. `undefined` if they are not a detector's. Throws
 * `failed_precondition` if it is one, and the outputs could be read in several ways.
 */
export function detectorNames(
  outputs: Tensors,
  order: readonly string[],
  remapped: ReadonlyMap<string, string>,
): DetectorNames | undefined {
  const search = new Search(outputs, order, remapped);
  const location = search.named("location") ?? search.boxes() ?? search.unbatched();
  if (location === undefined) return undefined;

  const count = location.data.length / 4;
  const category = search.named("category", (tensor) => tensor.data.length === count);
  const score = search.named("score", (tensor) => tensor.data.length % Math.max(count, 1) === 0);
  const names = search.rest(location, { category, score });
  return names && { ...names, count: search.count() };
}

class Search {
  readonly #left: Map<string, Output>;
  /** Outputs with a published or remapped name, which never stand for another role. */
  readonly #own: ReadonlyMap<Role, string>;
  #isGuessed = false;

  constructor(outputs: Tensors, order: readonly string[], remapped: ReadonlyMap<string, string>) {
    this.#left = new Map();
    for (const name of [...order, ...Object.keys(outputs)]) {
      const tensor = outputs[name];
      if (tensor) this.#left.set(name, { ...tensor, name });
    }
    this.#own = new Map(
      (["location", "category", "score"] as const).map((role) => [role, remapped.get(role) ?? role]),
    );
  }

  /** The output with a role's published, remapped or usual name. */
  named(role: Role, fits: (tensor: Tensor) => boolean = isBoxes): Output | undefined {
    const own = this.#left.get(this.#own.get(role)!);
    if (own) return this.#take(own);

    const [usual, ...more] = this.#free().filter((output) =>
      USUAL[role].test(plain(output.name)) && fits(output)
    );
    return usual && more.length === 0 ? this.#take(usual) : undefined;
  }

  /** The only output with the shape of boxes, or the first whose name does not speak against it. */
  boxes(): Output | undefined {
    const found = this.#free().find((output) => isBoxes(output) && !OTHER.test(plain(output.name)));
    return found && this.#take(found);
  }

  /** Boxes without a batch, [n, 4], beside classes and confidences that are lists of the same length, as torchvision exports them. */
  unbatched(): Output | undefined {
    const [found, ...more] = this.#free().filter(({ name, shape }) =>
      USUAL.location.test(plain(name)) && shape.length === 2 && shape[1] === 4
    );
    const isList = (role: Role) =>
      this.#free().some(({ name, shape }) =>
        USUAL[role].test(plain(name)) && shape.length === 1 && shape[0] === found?.shape[0]
      );
    return found && more.length === 0 && isList("category") && isList("score")
      ? this.#take(found)
      : undefined;
  }

  /** The output with the number of boxes that count. */
  count(): string | undefined {
    return this.#free().find(({ name, data }) => COUNT.test(plain(name)) && data.length === 1)?.name;
  }

  /** Completes what names did not tell by the content. */
  rest(location: Output, { category, score }: ClassesAndScores): DetectorNames | undefined {
    const count = location.data.length / 4;
    const single = this.#free().filter(({ name, data, shape }) =>
      data.length === count && shape.length >= 2 && !OTHER.test(plain(name))
    );
    const found = score ? { category, score } : this.#guess(single, category);
    const classes = found.category ?? this.#onlyClasses(single, found.score);
    const scores = found.score ?? this.#perClass(count);
    if (!scores) return undefined;
    return {
      location: location.name,
      score: scores.name,
      category: classes?.name,
      isGuessed: this.#isGuessed,
    };
  }

  /** The confidences among outputs of one number for each box, and with them the classes. */
  #guess(single: readonly Output[], category: Output | undefined): ClassesAndScores {
    const open = single.filter((output) => output !== category);
    const [first, ...others] = open;
    if (!first) return { category };

    this.#isGuessed = true;
    const shares = open.filter(isShare);
    const fraction = this.#one("the confidences", shares.filter((output) => !isWhole(output)));
    if (fraction) return { category, score: fraction };

    if (category) return { category, score: this.#one("the confidences", shares) };

    // Only whole numbers: those above 1 are classes, and the others confidences of exactly 0 or 1.
    const [share, ...more] = shares;
    if (more.length > 0) throw this.#ambiguous("the classes or the confidences", shares);
    const isAlone = others.length === 0 && !this.#free().some((output) => isPerClass(output, first));
    return share && (others.length > 0 || isAlone) ? { score: this.#take(share) } : {};
  }

  /** The classes beside known confidences. */
  #onlyClasses(single: readonly Output[], score: Output | undefined): Output | undefined {
    const whole = single.filter((output) =>
      this.#left.has(output.name) && output !== score && isWhole(output)
    );
    if (whole.length === 0) return undefined;

    this.#isGuessed = true;
    const likely = whole.filter((output) => !isIndices(output));
    return this.#one("the classes", likely.length > 0 ? likely : whole);
  }

  /** Confidences of each class for each box, which make an output with the classes needless. */
  #perClass(count: number): Output | undefined {
    const several = this.#free().filter(({ name, data, shape }) =>
      shape.length === 3 && data.length % Math.max(count, 1) === 0 && !OTHER.test(plain(name))
    );
    if (several.length === 0) return undefined;

    this.#isGuessed = true;
    return this.#one("the confidences", several);
  }

  #one(what: string, outputs: readonly Output[]): Output | undefined {
    const [only, ...more] = outputs;
    if (more.length > 0) throw this.#ambiguous(what, outputs);
    return only && this.#take(only);
  }

  #free(): Output[] {
    const own = new Set(this.#own.values());
    return [...this.#left.values()].filter(({ name }) => !own.has(name));
  }

  #take(output: Output): Output {
    this.#left.delete(output.name);
    return output;
  }

  #ambiguous(what: string, outputs: readonly Output[]): SvcError {
    const found = outputs.map(({ name, shape }) => `"${name}" [${shape.join(", ")}]`).join(" and ");
    const wanted = "wanted remap_output_names to say which output is location, category and score";
    return new SvcError("failed_precondition", `the outputs ${found} could each be ${what}: ${wanted}`);
  }
}

interface ClassesAndScores {
  readonly category?: Output;
  readonly score?: Output;
}

/** Whether an output has several numbers for each number of another one. */
function isPerClass({ data, shape }: Tensor, single: Tensor): boolean {
  const count = single.data.length;
  return shape.length === 3 && data.length > count && data.length % Math.max(count, 1) === 0;
}

/** The last part of a name, in small letters, without the number that frameworks append. */
function plain(name: string): string {
  return name.toLowerCase().replace(/[:.]\d+$/, "").split(/[/.]/).at(-1)!.replace(
    /^(output|pred|predicted)_/,
    "",
  );
}

function isBoxes({ shape }: Tensor): boolean {
  return shape.length === 3 && shape[2] === 4;
}

function isWhole(tensor: Tensor): boolean {
  const { data } = tensor;
  return !(data instanceof Float32Array || data instanceof Float64Array) || data.every(Number.isInteger);
}

function isShare(tensor: Tensor): boolean {
  return tensor.data instanceof Uint8Array ||
    numbersOf(tensor).every((value) => value >= 0 && value <= CONFIDENCE_MAX);
}

/** Indices are all different and reach beyond their own number; classes repeat. */
function isIndices(tensor: Tensor): boolean {
  const values = numbersOf(tensor);
  const most = values.reduce((largest, value) => Math.max(largest, value), 0);
  return most >= CLASSES_MAX ||
    values.length > 2 && most >= values.length && new Set(values).size === values.length;
}

/** The numbers of a tensor of any type. */
export function numbersOf({ data }: Tensor): number[] {
  return Array.from<number | bigint, number>(data as ArrayLike<number | bigint>, Number);
}
