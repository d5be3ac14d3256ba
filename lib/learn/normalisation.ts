/**
 * The normalisation of a layer and its rectifier, forward and backward.
 *
 * Owns the scale of each channel, and its statistics. During training, each channel is normalised over the batch; for
 * use, by running statistics.
 */

import type { Matrices } from "./matrix.ts";
import type { GradientTensor } from "./patch_products.ts";

/** Numbers that training changes. */
export interface Parameter {
  readonly value: Float32Array;
  readonly gradient: Float32Array;
  /** Whether weight decay draws the number towards zero. */
  readonly decays: boolean;
}

/** Makes a parameter of so many numbers, all of them 0. */
export function createParameter(matrices: Matrices, count: number, decays: boolean): Parameter {
  return { value: matrices.space(count), gradient: matrices.space(count), decays };
}

const EPSILON = 1e-5;
/** Weight of a batch in the running statistics. */
const STATISTICS_RATE = 0.1;

export class Normalisation {
  readonly scale: Parameter;
  /** Numbers to be normalised. */
  readonly raw: Float32Array;
  /** Running mean and variance of each channel. */
  readonly statistics: readonly [Float32Array, Float32Array];
  readonly #batchMean: Float64Array;
  readonly #batchDeviation: Float64Array;

  constructor(matrices: Matrices, private readonly output: GradientTensor, private readonly bias: Parameter) {
    const { channels, data } = output;
    this.scale = createParameter(matrices, channels, false);
    this.scale.value.fill(1);
    this.statistics = [matrices.space(channels), matrices.space(channels).fill(1)];
    this.raw = matrices.space(data.length);
    this.#batchMean = new Float64Array(channels);
    this.#batchDeviation = new Float64Array(channels);
  }

  /** The factor of a channel by the running statistics. */
  factor(channel: number): number {
    return this.scale.value[channel] / Math.sqrt(this.statistics[1][channel] + EPSILON);
  }

  /** Normalises and rectifies `raw` into the output. */
  forward(): void {
    const { data, channels } = this.output;
    const { raw, scale } = this;
    const pixels = raw.length / channels;
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
      mean[channel] /= pixels;
      const variance = Math.max(0, deviation[channel] / pixels - mean[channel] ** 2);
      const [runningMean, runningVariance] = this.statistics;
      runningMean[channel] += STATISTICS_RATE * (mean[channel] - runningMean[channel]);
      runningVariance[channel] += STATISTICS_RATE * (variance - runningVariance[channel]);
      deviation[channel] = Math.sqrt(variance + EPSILON);
      factor[channel] = scale.value[channel] / deviation[channel];
      shift[channel] = this.bias.value[channel] - mean[channel] * factor[channel];
    }

    for (let at = 0; at < raw.length; at += channels) {
      for (let channel = 0; channel < channels; channel++) {
        const value = raw[at + channel] * factor[channel] + shift[channel];
        data[at + channel] = value > 0 ? value : 0;
      }
    }
  }

  /** Converts the gradient of the output to the gradient of `raw`, in place. */
  backward(gradient: Float32Array): void {
    const { data, channels } = this.output;
    const { raw, scale } = this;
    const pixels = raw.length / channels;
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
      this.bias.gradient[channel] += sum[channel];
      scale.gradient[channel] += product[channel] / deviation[channel];
      factor[channel] = scale.value[channel] / deviation[channel];
      slope[channel] = factor[channel] * product[channel] / (pixels * deviation[channel] ** 2);
      level[channel] = factor[channel] * sum[channel] / pixels - slope[channel] * mean[channel];
    }

    for (let at = 0; at < raw.length; at += channels) {
      for (let channel = 0; channel < channels; channel++) {
        const here = at + channel;
        gradient[here] = gradient[here] * factor[channel] - raw[here] * slope[channel] - level[channel];
      }
    }
  }
}
