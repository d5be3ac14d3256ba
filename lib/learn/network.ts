/**
 * A convolutional network: layers in the order of computation, and the optimiser of their weights.
 *
 * Owns the weights. Promises that the same calls with the same numbers give the same bits, and that `use` (as
 * exported) and `forward` (as trained) are the same network.
 */

import { Convolution, type ConvolutionShape } from "./convolution.ts";
import type { Parameter } from "./normalisation.ts";
import type { GradientTensor } from "./patch_products.ts";
import { Matrices, ROWS } from "./matrix.ts";

/** Adds the coarser tensor, enlarged to twice its size, to the finer one. */
interface Merge {
  readonly kind: "merge";
  readonly fine: GradientTensor;
  readonly coarse: GradientTensor;
  readonly output: GradientTensor;
}

/** The largest number of each channel in the picture: detects a feature anywhere. */
interface Peak {
  readonly kind: "peak";
  readonly input: GradientTensor;
  readonly output: GradientTensor;
}

export type Layer = { readonly kind: "convolution"; readonly convolution: Convolution } | Merge | Peak;

/** Channels of a picture in memory: red, green, blue, and a zero channel that the multiplication needs. */
export const PICTURE_CHANNELS = 4;

export class Network {
  readonly picture: GradientTensor;
  readonly layers: Layer[] = [];
  readonly #matrices = new Matrices();
  readonly #random: () => number;

  /** For square pictures of `side` pixels, `batch` at a time (a multiple of 4). */
  constructor(readonly batch: number, side: number, random: () => number) {
    if (batch % ROWS !== 0) throw new Error(`Bug: a batch of ${batch}, wanted a multiple of ${ROWS}`);
    this.#random = random;
    const data = this.#matrices.space(batch * side * side * PICTURE_CHANNELS);
    this.picture = { height: side, width: side, channels: PICTURE_CHANNELS, data };
  }

  convolution(input: GradientTensor, shape: ConvolutionShape): Convolution {
    const convolution = new Convolution(this.#matrices, this.batch, input, shape, this.#random);
    this.layers.push({ kind: "convolution", convolution });
    return convolution;
  }

  merge(fine: GradientTensor, coarse: GradientTensor): GradientTensor {
    const output = this.#tensor(fine.height, fine.width, fine.channels);
    this.layers.push({ kind: "merge", fine, coarse, output });
    return output;
  }

  peak(input: GradientTensor): GradientTensor {
    const output = this.#tensor(1, 1, input.channels);
    this.layers.push({ kind: "peak", input, output });
    return output;
  }

  /** Computes the training output for the batch in `picture`, and sets all gradients to zero. */
  forward(): void {
    for (const { gradient } of this.parameters()) gradient.fill(0);
    for (const layer of this.layers) {
      outputOf(layer).gradient!.fill(0);
      compute(layer, this.batch, (convolution) => convolution.forward());
    }
  }

  /** Propagates the gradients of the last tensors back to all parameters. */
  backward(): void {
    for (const layer of this.layers.toReversed()) {
      if (layer.kind === "convolution") layer.convolution.backward();
      else if (layer.kind === "merge") mergeBack(layer, this.batch);
      else peakBack(layer, this.batch);
    }
  }

  /** Prepares `use` after a change of the weights. */
  fold(): void {
    for (const convolution of this.#convolutions()) convolution.fold();
  }

  /** Computes the output of the exported network. */
  use(): void {
    for (const layer of this.layers) compute(layer, this.batch, (convolution) => convolution.use());
  }

  parameters(): readonly Parameter[] {
    return this.#convolutions().flatMap(({ parameters }) => parameters);
  }

  /** All learned numbers, as arrays that the caller may read and overwrite. */
  state(): readonly Float32Array[] {
    const own = this.#convolutions();
    return own.flatMap((
      { parameters, statistics },
    ) => [...parameters.map(({ value }) => value), ...statistics]);
  }

  #convolutions(): Convolution[] {
    return this.layers.flatMap((layer) => layer.kind === "convolution" ? [layer.convolution] : []);
  }

  #tensor(height: number, width: number, channels: number): GradientTensor {
    const count = this.batch * height * width * channels;
    const [data, gradient] = [this.#matrices.space(count), this.#matrices.space(count)];
    return { height, width, channels, data, gradient };
  }
}

function outputOf(layer: Layer): GradientTensor {
  return layer.kind === "convolution" ? layer.convolution.output : layer.output;
}

function compute(layer: Layer, batch: number, convolve: (convolution: Convolution) => void): void {
  if (layer.kind === "convolution") return convolve(layer.convolution);
  const { data } = layer.output;
  if (layer.kind === "merge") {
    data.set(layer.fine.data);
    const { data: added } = layer.coarse;
    merged(layer, batch, (fine, coarse) => data[fine] = (data[fine] ?? 0) + (added[coarse] ?? 0));
    return;
  }
  data.fill(-Infinity);
  const { data: input } = layer.input;
  peaks(layer, batch, (from, to) => {
    const value = input[from] ?? 0;
    if (value > (data[to] ?? 0)) data[to] = value;
  });
}

function mergeBack(layer: Merge, batch: number): void {
  const gradient = layer.output.gradient!;
  const [fineGradient, coarseGradient] = [layer.fine.gradient!, layer.coarse.gradient!];
  merged(layer, batch, (fine, coarse) => {
    const slope = gradient[fine] ?? 0;
    fineGradient[fine] = (fineGradient[fine] ?? 0) + slope;
    coarseGradient[coarse] = (coarseGradient[coarse] ?? 0) + slope;
  });
}

/** Pairs each number of the finer tensor with its number of the coarser tensor. */
function merged({ fine, coarse }: Merge, batch: number, each: (fine: number, coarse: number) => void): void {
  const { width, channels } = fine;
  for (let row = 0; row < batch * fine.height; row++) {
    // Counts rows through all pictures; each picture has an even number of rows.
    for (let x = 0; x < width; x++) {
      const at = (row * width + x) * channels;
      const below = ((row >> 1) * coarse.width + (x >> 1)) * channels;
      for (let channel = 0; channel < channels; channel++) each(at + channel, below + channel);
    }
  }
}

function peakBack(layer: Peak, batch: number): void {
  const { input, output } = layer;
  const [into, gradient] = [input.gradient!, output.gradient!];
  const taken = new Uint8Array(output.data.length);
  peaks(layer, batch, (from, to) => {
    if (taken[to] === 1 || input.data[from] !== output.data[to]) return;
    // Among equal numbers, the first is the peak.
    taken[to] = 1;
    into[from] = (into[from] ?? 0) + (gradient[to] ?? 0);
  });
}

/** Pairs each number of the input with the peak to which it may contribute. */
function peaks({ input }: Peak, batch: number, each: (from: number, to: number) => void): void {
  const { channels } = input;
  const numbers = input.height * input.width * channels;
  for (let picture = 0, from = 0; picture < batch; picture++) {
    for (let index = 0; index < numbers; index++, from++) each(from, picture * channels + index % channels);
  }
}

/** Adam with decoupled weight decay. */
export class Adam {
  readonly #parameters: readonly (Parameter & Moments)[];
  #steps = 0;

  constructor(parameters: readonly Parameter[], readonly decay: number) {
    this.#parameters = parameters.map((parameter) => ({
      ...parameter,
      slopes: new Float32Array(parameter.value.length),
      squares: new Float32Array(parameter.value.length),
    }));
  }

  /** One step along the gradients, at the given learning rate. */
  step(rate: number): void {
    const [keepFirst, keepSecond] = [0.9, 0.99];
    this.#steps++;

    const first = rate / (1 - keepFirst ** this.#steps);
    const second = 1 / (1 - keepSecond ** this.#steps);
    for (const { value, gradient, decays, slopes, squares } of this.#parameters) {
      const shrink = decays ? 1 - rate * this.decay : 1;
      for (let at = 0; at < value.length; at++) {
        const slope = gradient[at] ?? 0;
        slopes[at] = keepFirst * (slopes[at] ?? 0) + (1 - keepFirst) * slope;
        squares[at] = keepSecond * (squares[at] ?? 0) + (1 - keepSecond) * slope * slope;
        const length = Math.sqrt((squares[at] ?? 0) * second) + 1e-8;
        value[at] = (value[at] ?? 0) * shrink - first * (slopes[at] ?? 0) / length;
      }
    }
  }
}

/** Running means of a parameter's gradient and of its square. */
interface Moments {
  readonly slopes: Float32Array;
  readonly squares: Float32Array;
}
