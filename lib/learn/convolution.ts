/**
 * A convolution with its normalisation and rectifier, forward and backward.
 *
 * Owns its weights and their gradients. During training, each channel is normalised over the batch. For use,
 * the normalisation by running statistics is folded into the weights and a bias, so the export is one plain
 * convolution. A convolution is a matrix multiplication of patches by weights.
 */

import { BLOCK_COLUMNS, type Matrices } from "./matrix.ts";
import { createParameter, Normalisation, type Parameter } from "./normalisation.ts";
import { type ConvolutionKernel, type GradientTensor, PatchProducts } from "./patch_products.ts";

export interface ConvolutionShape extends ConvolutionKernel {
  readonly channels: number;
  /**
   * True for a normalised and rectified layer, as inside a network; false for a plain layer with a bias, as
   * at its end.
   */
  readonly rectified: boolean;
}

export class Convolution {
  readonly output: GradientTensor & { readonly gradient: Float32Array };
  readonly parameters: readonly Parameter[];
  /** Running mean and variance of each channel; empty without normalisation. */
  readonly statistics: readonly Float32Array[];
  /** The exported weights [size, size, in, out] and bias [out], made by `fold`. */
  readonly folded: { readonly weights: Float32Array; readonly bias: Float32Array };
  readonly #weights: Parameter;
  readonly #bias: Parameter;
  readonly #normalisation: Normalisation | undefined;
  readonly #products: PatchProducts;

  constructor(
    matrices: Matrices,
    batch: number,
    readonly input: GradientTensor,
    readonly shape: ConvolutionShape,
    random: () => number,
  ) {
    const { channels, size, stride, rectified } = shape;
    const [height, width] = [input.height / stride, input.width / stride];
    const padded = Math.ceil(channels / BLOCK_COLUMNS) * BLOCK_COLUMNS;
    const depth = size * size * input.channels;

    const numbers = batch * height * width * padded;
    this.output = {
      height,
      width,
      channels: padded,
      data: matrices.space(numbers),
      gradient: matrices.space(numbers),
    };

    // Variance 2 / fan-in keeps the size of the numbers from layer to layer; the last layer starts near zero.
    const spread = rectified ? Math.sqrt(2 / depth) : 0.01;
    this.#weights = createParameter(matrices, depth * padded, true);
    fillNormal(this.#weights.value, spread, random);

    this.#bias = createParameter(matrices, padded, false);
    this.#normalisation = rectified ? new Normalisation(matrices, this.output, this.#bias) : undefined;
    const scale = this.#normalisation ? [this.#normalisation.scale] : [];
    this.parameters = [this.#weights, this.#bias, ...scale];
    this.statistics = this.#normalisation?.statistics ?? [];

    this.folded = { weights: matrices.space(this.#weights.value.length), bias: matrices.space(padded) };
    this.#products = new PatchProducts(matrices, input, this.output, shape);
  }

  /** Sets the initial bias; only for a layer without normalisation. */
  startAt(bias: readonly number[]): void {
    this.#bias.value.set(bias);
  }

  /** Computes the plain weights and bias from the present state of training. */
  fold(): void {
    const { weights, bias } = this.folded;
    const count = this.output.channels;
    const [mean] = this.statistics;
    for (let channel = 0; channel < count; channel++) {
      const factor = this.#normalisation?.factor(channel) ?? 1;
      for (let at = channel; at < weights.length; at += count) {
        weights[at] = (this.#weights.value[at] ?? 0) * factor;
      }
      bias[channel] = (this.#bias.value[channel] ?? 0) - (mean?.[channel] ?? 0) * factor;
    }
  }

  /** Computes the output as the exported convolution does; requires a `fold` after the last change. */
  use(): void {
    const { data, channels } = this.output;
    const { weights, bias } = this.folded;
    for (let at = 0; at < data.length; at += channels) data.set(bias, at);
    this.#products.multiply(data, weights);
    if (!this.shape.rectified) return;
    for (let at = 0; at < data.length; at++) if ((data[at] ?? 0) < 0) data[at] = 0;
  }

  /** Computes the output during training. */
  forward(): void {
    if (this.#normalisation) {
      const { raw } = this.#normalisation;
      this.#products.multiply(raw.fill(0), this.#weights.value);
      return this.#normalisation.forward();
    }
    const { data, channels } = this.output;
    for (let at = 0; at < data.length; at += channels) data.set(this.#bias.value, at);
    this.#products.multiply(data, this.#weights.value);
  }

  /** Adds to the gradients of the parameters and of the input; overwrites the output's gradient. */
  backward(): void {
    const { channels, gradient } = this.output;
    if (this.#normalisation) this.#normalisation.backward(gradient);
    else {
      const ofBias = this.#bias.gradient;
      for (let at = 0; at < gradient.length; at++) {
        ofBias[at % channels] = (ofBias[at % channels] ?? 0) + (gradient[at] ?? 0);
      }
    }
    this.#products.multiplyBack(gradient, this.#weights.value, this.#weights.gradient);
  }
}

/** Fills with normally distributed numbers around zero, each the sum of twelve uniform numbers. */
function fillNormal(values: Float32Array, spread: number, random: () => number): void {
  for (let at = 0; at < values.length; at++) {
    let sum = -6;
    for (let term = 0; term < 12; term++) sum += random();
    values[at] = spread * sum;
  }
}
