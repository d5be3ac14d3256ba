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

/** Moves a running number by the share of one batch. */
function moveTowards(running: Float32Array, channel: number, value: number): void {
  const before = running[channel] ?? 0;
  running[channel] = before + STATISTICS_RATE * (value - before);
}

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
    return (this.scale.value[channel] ?? 0) / Math.sqrt((this.statistics[1][channel] ?? 0) + EPSILON);
  }

  /** Normalises and rectifies `raw` into the output. */
  forward(): void {
    const { data, channels } = this.output;
    const { raw, scale } = this;
    const pixels = raw.length / channels;
    const [mean, deviation] = [this.#batchMean.fill(0), this.#batchDeviation.fill(0)];
    for (let at = 0; at < raw.length; at += channels) {
      for (let channel = 0; channel < channels; channel++) {
        const value = raw[at + channel] ?? 0;
        mean[channel] = (mean[channel] ?? 0) + value;
        deviation[channel] = (deviation[channel] ?? 0) + value * value;
      }
    }

    const factor = new Float64Array(channels);
    const shift = new Float64Array(channels);
    for (let channel = 0; channel < channels; channel++) {
      const average = (mean[channel] ?? 0) / pixels;
      const variance = Math.max(0, (deviation[channel] ?? 0) / pixels - average ** 2);
      const [runningMean, runningVariance] = this.statistics;
      moveTowards(runningMean, channel, average);
      moveTowards(runningVariance, channel, variance);
      const spread = Math.sqrt(variance + EPSILON), own = (scale.value[channel] ?? 0) / spread;
      mean[channel] = average;
      deviation[channel] = spread;
      factor[channel] = own;
      shift[channel] = (this.bias.value[channel] ?? 0) - average * own;
    }

    for (let at = 0; at < raw.length; at += channels) {
      for (let channel = 0; channel < channels; channel++) {
        const value = (raw[at + channel] ?? 0) * (factor[channel] ?? 0) + (shift[channel] ?? 0);
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
        const value = (data[at + channel] ?? 0) > 0 ? gradient[at + channel] ?? 0 : 0;
        gradient[at + channel] = value;
        sum[channel] = (sum[channel] ?? 0) + value;
        const off = (raw[at + channel] ?? 0) - (mean[channel] ?? 0);
        product[channel] = (product[channel] ?? 0) + value * off;
      }
    }

    const factor = new Float64Array(channels);
    const slope = new Float64Array(channels);
    const level = new Float64Array(channels);
    for (let channel = 0; channel < channels; channel++) {
      const spread = deviation[channel] ?? 1;
      const ownSum = sum[channel] ?? 0, ownProduct = product[channel] ?? 0;
      this.bias.gradient[channel] = (this.bias.gradient[channel] ?? 0) + ownSum;
      scale.gradient[channel] = (scale.gradient[channel] ?? 0) + ownProduct / spread;

      const own = (scale.value[channel] ?? 0) / spread;
      const ownSlope = own * ownProduct / (pixels * spread ** 2);
      factor[channel] = own;
      slope[channel] = ownSlope;
      level[channel] = own * ownSum / pixels - ownSlope * (mean[channel] ?? 0);
    }

    for (let at = 0; at < raw.length; at += channels) {
      for (let channel = 0; channel < channels; channel++) {
        const here = at + channel;
        const scaled = (gradient[here] ?? 0) * (factor[channel] ?? 0);
        gradient[here] = scaled - (raw[here] ?? 0) * (slope[channel] ?? 0) - (level[channel] ?? 0);
      }
    }
  }
}
