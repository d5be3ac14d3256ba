/**
 * A convolution with its normalisation and rectifier, forward and backward.
 *
 * Owns its weights and their gradients. During training, each channel is normalised over the batch. For use,
 * the normalisation by running statistics is folded into the weights and a bias, so the export is one plain
 * convolution. Pixels follow one another with their channels together, and the weights of a channel form a
 * column: a convolution is a matrix multiplication of patches by weights.
 */

import { BLOCK_COLUMNS, type Matrices } from "./matrix.ts";

/** Numbers [batch, height, width, channels] and, if needed, the gradient of the loss with respect to each. */
export interface GradientTensor {
  readonly height: number;
  readonly width: number;
  readonly channels: number;
  readonly data: Float32Array;
  readonly gradient?: Float32Array;
}

/** Numbers that training changes. */
export interface Parameter {
  readonly value: Float32Array;
  readonly gradient: Float32Array;
  /** Whether weight decay draws the number towards zero. */
  readonly decays: boolean;
}

export interface ConvolutionShape {
  readonly channels: number;
  /** Side of the kernel, 1 or 3; the picture is padded with zeros by half of it. */
  readonly size: 1 | 3;
  readonly stride: 1 | 2;
  /**
   * True for a normalised and rectified layer, as inside a network; false for a plain layer with a bias, as
   * at its end.
   */
  readonly rectified: boolean;
}

/** Number of pixels multiplied at a time, so that their patches stay in the processor's cache. */
const TILE_PIXELS = 64;
const EPSILON = 1e-5;
/** Weight of a batch in the running statistics. */
const STATISTICS_RATE = 0.1;

export class Convolution {
  readonly output: GradientTensor;
  readonly parameters: readonly Parameter[];
  /** Running mean and variance of each channel; empty without normalisation. */
  readonly statistics: readonly Float32Array[];
  /** The exported weights [size, size, in, out] and bias [out], made by `fold`. */
  readonly folded: { readonly weights: Float32Array; readonly bias: Float32Array };
  readonly #matrices: Matrices;
  readonly #pixels: number;
  readonly #depth: number;
  readonly #weights: Parameter;
  readonly #scale?: Parameter;
  readonly #bias: Parameter;
  readonly #raw: Float32Array;
  readonly #patches: Float32Array;
  readonly #turned: Float32Array;
  readonly #batchMean: Float64Array;
  readonly #batchDeviation: Float64Array;

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
    this.#matrices = matrices;
    this.#pixels = batch * height * width;
    this.#depth = size * size * input.channels;

    const numbers = this.#pixels * padded;
    this.output = {
      height,
      width,
      channels: padded,
      data: matrices.space(numbers),
      gradient: matrices.space(numbers),
    };

    const parameter = (count: number, decays: boolean): Parameter => ({
      value: matrices.space(count),
      gradient: matrices.space(count),
      decays,
    });
    this.#weights = parameter(this.#depth * padded, true);

    // Variance 2 / fan-in keeps the size of the numbers from layer to layer; the last layer starts near zero.
    const spread = rectified ? Math.sqrt(2 / this.#depth) : 0.01;
    fillNormal(this.#weights.value, spread, random);
    this.#bias = parameter(padded, false);
    this.#scale = rectified ? parameter(padded, false) : undefined;
    this.#scale?.value.fill(1);
    this.parameters = [this.#weights, this.#bias, ...(this.#scale ? [this.#scale] : [])];

    this.statistics = rectified ? [matrices.space(padded), matrices.space(padded).fill(1)] : [];
    this.folded = { weights: matrices.space(this.#weights.value.length), bias: matrices.space(padded) };
    this.#raw = rectified ? matrices.space(numbers) : this.output.data;
    this.#patches = matrices.space(TILE_PIXELS * this.#depth);
    this.#turned = matrices.space(this.#weights.value.length);
    this.#batchMean = new Float64Array(padded);

    this.#batchDeviation = new Float64Array(padded);
  }

  /** Sets the initial bias; only for a layer without normalisation. */
  startAt(bias: readonly number[]): void {
    this.#bias.value.set(bias);
  }

  /** Computes the plain weights and bias from the present state of training. */
  fold(): void {
    const { weights, bias } = this.folded;
    const count = this.output.channels;
    const [mean, variance] = this.statistics;
    for (let channel = 0; channel < count; channel++) {
      const factor = this.#scale ? this.#scale.value[channel] / Math.sqrt(variance[channel] + EPSILON) : 1;
      for (let at = channel; at < weights.length; at += count) weights[at] = this.#weights.value[at] * factor;
      bias[channel] = this.#bias.value[channel] - (mean?.[channel] ?? 0) * factor;
    }
  }

  /** Computes the output as the exported convolution does; requires a `fold` after the last change. */
  use(): void {
    const { data, channels } = this.output;
    const { weights, bias } = this.folded;
    for (let at = 0; at < data.length; at += channels) data.set(bias, at);
    this.#multiply(data, weights);
    if (!this.shape.rectified) return;
    for (let at = 0; at < data.length; at++) if (data[at] < 0) data[at] = 0;
  }

  /** Computes the output during training. */
  forward(): void {
    if (this.#scale) {
      this.#raw.fill(0);
      this.#multiply(this.#raw, this.#weights.value);
      return this.#normalise(this.#scale.value);
    }
    const { data, channels } = this.output;
    for (let at = 0; at < data.length; at += channels) data.set(this.#bias.value, at);
    this.#multiply(data, this.#weights.value);
  }

  /** Adds to the gradients of the parameters and of the input; overwrites the output's gradient. */
  backward(): void {
    const { channels } = this.output;
    const gradient = this.output.gradient!;
    if (this.#scale) this.#normaliseBack(this.#scale);
    else {
      for (let at = 0; at < gradient.length; at++) this.#bias.gradient[at % channels] += gradient[at];
    }

    transpose(this.#turned, this.#weights.value, this.#depth, channels);
    for (let start = 0; start < this.#pixels; start += TILE_PIXELS) {
      const rows = Math.min(TILE_PIXELS, this.#pixels - start);
      const part = gradient.subarray(start * channels, (start + rows) * channels);
      const weightGradient = this.#weights.gradient;
      const patches = this.#gather(start, rows);
      this.#matrices.multiplyTransposed(weightGradient, patches, part, this.#depth, channels, rows);
      if (this.input.gradient) this.#spread(this.input.gradient, part, start, rows);
    }
  }

  #multiply(result: Float32Array, weights: Float32Array): void {
    const { channels } = this.output;
    for (let start = 0; start < this.#pixels; start += TILE_PIXELS) {
      const rows = Math.min(TILE_PIXELS, this.#pixels - start);
      const part = result.subarray(start * channels, (start + rows) * channels);
      this.#matrices.multiply(part, this.#gather(start, rows), weights, rows, channels, this.#depth, true);
    }
  }

  /** The patches of the input for `rows` pixels of the output, one after the other. */
  #gather(start: number, rows: number): Float32Array {
    const { data, width, channels } = this.input;
    const { size } = this.shape;
    if (size === 1) return data.subarray(start * channels, (start + rows) * channels);

    const patches = this.#patches;
    const line = size * channels;
    this.#lines(start, rows, (at, first, row) => {
      const from = Math.max(0, -first) * channels;
      const to = Math.min(size, width - first) * channels;
      const shift = (row * width + first) * channels;
      if (row < 0) return void patches.fill(0, at, at + line);
      for (let index = 0; index < from; index++) patches[at + index] = 0;
      for (let index = from; index < to; index++) patches[at + index] = data[shift + index];
      for (let index = to; index < line; index++) patches[at + index] = 0;
    });

    return patches;
  }

  /** Adds the effect of the gradient of `rows` output pixels to the input's gradient. */
  #spread(into: Float32Array, gradient: Float32Array, start: number, rows: number): void {
    const { width, channels } = this.input;
    const { size } = this.shape;
    const depth = this.#depth;
    if (size === 1) {
      const part = into.subarray(start * channels, (start + rows) * channels);
      return this.#matrices.multiply(part, gradient, this.#turned, rows, depth, this.output.channels, true);
    }

    const patches = this.#patches;
    this.#matrices.multiply(patches, gradient, this.#turned, rows, depth, this.output.channels);
    this.#lines(start, rows, (at, first, row) => {
      if (row < 0) return;
      const to = Math.min(size, width - first) * channels;
      const shift = (row * width + first) * channels;
      for (let index = Math.max(0, -first) * channels; index < to; index++) {
        into[shift + index] += patches[at + index];
      }
    });
  }

  /**
   * Calls `each` for every line of every patch: the line's start among the patches, the column of its first
   * pixel, and its row counted through all pictures. The row is negative above and below the picture.
   */
  #lines(start: number, rows: number, each: (at: number, first: number, row: number) => void): void {
    const { height, width } = this.output;
    const { size, stride } = this.shape;
    const line = size * this.input.channels;
    for (let index = 0; index < rows; index++) {
      const pixel = start + index;
      const [x, above] = [pixel % width, Math.floor(pixel / width)];
      const [y, picture] = [above % height, Math.floor(above / height)];
      for (let step = 0; step < size; step++) {
        const inside = y * stride + step - 1;
        const row = inside >= 0 && inside < this.input.height ? picture * this.input.height + inside : -1;
        each((index * size + step) * line, x * stride - 1, row);
      }
    }
  }

  #normalise(scale: Float32Array): void {
    const { data, channels } = this.output;
    const raw = this.#raw;
    const [mean, deviation] = [this.#batchMean.fill(0), this.#batchDeviation.fill(0)];
    for (let at = 0; at < raw.length; at += channels) {
      for (let channel = 0; channel < channels; channel++) {
        const value = raw[at + channel];
        mean[channel] += value;
        deviation[channel] += value * value;
      }
    }

    const factor = new Float64Array(channels);
    const shift = new Float64Array(channels);
    for (let channel = 0; channel < channels; channel++) {
      mean[channel] /= this.#pixels;
      const variance = Math.max(0, deviation[channel] / this.#pixels - mean[channel] ** 2);
      const [runningMean, runningVariance] = this.statistics;
      runningMean[channel] += STATISTICS_RATE * (mean[channel] - runningMean[channel]);
      runningVariance[channel] += STATISTICS_RATE * (variance - runningVariance[channel]);
      deviation[channel] = Math.sqrt(variance + EPSILON);
      factor[channel] = scale[channel] / deviation[channel];
      shift[channel] = this.#bias.value[channel] - mean[channel] * factor[channel];
    }

    for (let at = 0; at < raw.length; at += channels) {
      for (let channel = 0; channel < channels; channel++) {
        const value = raw[at + channel] * factor[channel] + shift[channel];
        data[at + channel] = value > 0 ? value : 0;
      }
    }
  }

  /** Converts the gradient of the output to the gradient of the raw products, in place. */
  #normaliseBack(scale: Parameter): void {
    const { data, channels } = this.output;
    const gradient = this.output.gradient!;
    const raw = this.#raw;
    const [mean, deviation] = [this.#batchMean, this.#batchDeviation];
    const sum = new Float64Array(channels);
    const product = new Float64Array(channels);
    for (let at = 0; at < raw.length; at += channels) {
      for (let channel = 0; channel < channels; channel++) {
        const value = data[at + channel] > 0 ? gradient[at + channel] : 0;
        gradient[at + channel] = value;
        sum[channel] += value;
        product[channel] += value * (raw[at + channel] - mean[channel]);
      }
    }

    const factor = new Float64Array(channels);
    const slope = new Float64Array(channels);
    const level = new Float64Array(channels);
    for (let channel = 0; channel < channels; channel++) {
      this.#bias.gradient[channel] += sum[channel];
      scale.gradient[channel] += product[channel] / deviation[channel];
      factor[channel] = scale.value[channel] / deviation[channel];
      slope[channel] = factor[channel] * product[channel] / (this.#pixels * deviation[channel] ** 2);
      level[channel] = factor[channel] * sum[channel] / this.#pixels - slope[channel] * mean[channel];
    }

    for (let at = 0; at < raw.length; at += channels) {
      for (let channel = 0; channel < channels; channel++) {
        const here = at + channel;
        gradient[here] = gradient[here] * factor[channel] - raw[here] * slope[channel] - level[channel];
      }
    }
  }
}

function transpose(to: Float32Array, from: Float32Array, rows: number, columns: number): void {
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) to[column * rows + row] = from[row * columns + column];
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
