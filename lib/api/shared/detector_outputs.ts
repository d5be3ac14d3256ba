/**
 * Which output of a detector is which: the boxes, the classes and the confidences.
 *
 * Names count first: the published ones, those that the caller remaps, and the usual names of exports. The content decides
 * about the rest: whole numbers are classes (also if all are 0), numbers from 0 to 1 are confidences. Where several
 * outputs could be the same thing, nothing is guessed: the error asks for names.
 */

import type { Tensor, Tensors } from "../ml_model.ts";
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
  /** True if the content decided about one of them. */
  readonly isGuessed: boolean;
}

type Role = "location" | "category" | "score";

/** What exports call their outputs, without a prefix and without a number at the end. */
const USUAL: { readonly [R in Role]: RegExp } = {
  location: /^(detection_?)?(location|box|boxes|bbox|bboxes|bounding_?boxes)$/,
  category: /^(detection_?)?(category|categories|class|classes|class_?ids?|class_?idx|labels?|label_?ids?)$/,
  score: /^(detection_?)?(score|scores|confidences?|conf|probability|probabilities|probs?)$/,
};
/** Outputs that are none of the three. */
const OTHER = /(anchor|indices|indexes|raw_|multiclass|num_?detections|num_?dets|keypoint|mask|count)/;
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
  const location = search.named("location") ?? search.boxes();
  if (location === undefined) return undefined;

  const count = outputs[location].data.length / 4;
  const category = search.named("category", (tensor) => tensor.data.length === count);
  const score = search.named("score", (tensor) => tensor.data.length % Math.max(count, 1) === 0);
  return search.rest(location, { category, score });
}

class Search {
  readonly #left: Set<string>;
  /** Outputs with a published or remapped name, which never stand for another role. */
  readonly #own: ReadonlyMap<Role, string>;
  #isGuessed = false;

  constructor(
    private readonly outputs: Tensors,
    order: readonly string[],
    remapped: ReadonlyMap<string, string>,
  ) {
    this.#left = new Set([...order.filter((name) => name in outputs), ...Object.keys(outputs)]);
    this.#own = new Map(
      (["location", "category", "score"] as const).map((role) => [role, remapped.get(role) ?? role]),
    );
  }

  /** The output with a role's published, remapped or usual name. */
  named(role: Role, fits: (tensor: Tensor) => boolean = isBoxes): string | undefined {
    const own = this.#own.get(role)!;
    if (this.#left.has(own)) return this.#take(own);

    const usual = [...this.#free()].filter((name) =>
      USUAL[role].test(plain(name)) && fits(this.outputs[name])
    );
    return usual.length === 1 ? this.#take(usual[0]) : undefined;
  }

  /** The only output with the shape of boxes, or the first whose name does not speak against it. */
  boxes(): string | undefined {
    const [found] = this.#free().filter((name) => isBoxes(this.outputs[name]) && !OTHER.test(plain(name)));
    return found === undefined ? undefined : this.#take(found);
  }

  /** Completes what names did not tell by the content. */
  rest(location: string, { category, score }: Partial<DetectorNames>): DetectorNames | undefined {
    const count = this.outputs[location].data.length / 4;
    const single = this.#free().filter((name) => {
      const { data, shape } = this.outputs[name];
      return data.length === count && shape.length >= 2 && !OTHER.test(plain(name));
    });
    const found = score === undefined ? this.#guess(single, category) : { category, score };
    const classes = found.category ?? this.#onlyClasses(single, found.score);
    const scores = found.score ?? this.#perClass(count);
    if (scores === undefined) return undefined;
    return { location, score: scores, category: classes, isGuessed: this.#isGuessed };
  }

  /** The confidences among outputs of one number for each box, and with them the classes. */
  #guess(single: readonly string[], category: string | undefined): { category?: string; score?: string } {
    const open = single.filter((name) => name !== category);
    if (open.length === 0) return { category };

    this.#isGuessed = true;
    const whole = open.filter((name) => isWhole(this.outputs[name]));
    const shares = open.filter((name) => isShare(this.outputs[name]));
    const fractions = shares.filter((name) => !whole.includes(name));
    if (fractions.length > 1) throw this.#ambiguous("the confidences", fractions);
    if (fractions.length === 1) return { category, score: this.#take(fractions[0]) };

    if (category !== undefined) return { category, score: this.#one("the confidences", shares) };

    // Only whole numbers: those above 1 are classes, and the others confidences of exactly 0 or 1.
    if (shares.length > 1) throw this.#ambiguous("the classes or the confidences", shares);
    const isAlone = open.length === 1 && !this.#free().some((name) => this.#isPerClass(name, open[0]));
    return shares.length === 1 && (open.length > 1 || isAlone) ? { score: this.#take(shares[0]) } : {};
  }

  /** The classes beside known confidences. */
  #onlyClasses(single: readonly string[], score: string | undefined): string | undefined {
    const whole = single.filter((name) =>
      this.#left.has(name) && name !== score && isWhole(this.outputs[name])
    );
    if (whole.length === 0) return undefined;

    this.#isGuessed = true;
    const likely = whole.filter((name) => !isIndices(this.outputs[name]));
    return this.#one("the classes", likely.length > 0 ? likely : whole);
  }

  /** Confidences of each class for each box, which make an output with the classes needless. */
  #perClass(count: number): string | undefined {
    const several = this.#free().filter((name) => {
      const { data, shape } = this.outputs[name];
      return shape.length === 3 && data.length % Math.max(count, 1) === 0 && !OTHER.test(plain(name));
    });
    if (several.length === 0) return undefined;

    this.#isGuessed = true;
    return this.#one("the confidences", several);
  }

  /** Whether an output has several numbers for each number of another one. */
  #isPerClass(name: string, single: string): boolean {
    const { data, shape } = this.outputs[name];
    const count = this.outputs[single].data.length;
    return shape.length === 3 && data.length > count && data.length % Math.max(count, 1) === 0;
  }

  #one(what: string, names: readonly string[]): string | undefined {
    if (names.length > 1) throw this.#ambiguous(what, names);
    return names.length === 1 ? this.#take(names[0]) : undefined;
  }

  #free(): string[] {
    const own = new Set(this.#own.values());
    return [...this.#left].filter((name) => !own.has(name));
  }

  #take(name: string): string {
    this.#left.delete(name);
    return name;
  }

  #ambiguous(what: string, names: readonly string[]): SvcError {
    const found = names.map((name) => `"${name}" [${this.outputs[name].shape.join(", ")}]`).join(" and ");
    const wanted = "wanted remap_output_names to say which output is location, category and score";
    return new SvcError("failed_precondition", `the outputs ${found} could each be ${what}: ${wanted}`);
  }
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
