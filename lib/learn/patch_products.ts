/**
 * The matrix products of a convolution: the patches of its input times its weights, forward and backward.
 *
 * Owns the patches of one tile, which stay in the processor's cache. Pixels follow one another with their channels
 * together, and the weights of a channel form a column.
 */

import type { Matrices } from "./matrix.ts";

/** Numbers [batch, height, width, channels] and, if needed, the gradient of the loss with respect to each. */
export interface GradientTensor {
  readonly height: number;
  readonly width: number;
  readonly channels: number;
  readonly data: Float32Array;
  readonly gradient?: Float32Array;
}

/** The kernel of a convolution. */
export interface ConvolutionKernel {
  /** Side of the kernel, 1 or 3; the picture is padded with zeros by half of it. */
  readonly size: 1 | 3;
  readonly stride: 1 | 2;
}

/** Number of pixels multiplied at a time, so that their patches stay in the processor's cache. */
const TILE_PIXELS = 64;

export class PatchProducts {
  /** Numbers of a patch. */
  readonly #depth: number;
  readonly #pixels: number;
  readonly #patches: Float32Array;
  readonly #turned: Float32Array;

  constructor(
    private readonly matrices: Matrices,
    private readonly input: GradientTensor,
    private readonly output: GradientTensor,
    private readonly kernel: ConvolutionKernel,
  ) {
    const { channels, data } = output;
    this.#depth = kernel.size ** 2 * input.channels;
    this.#pixels = data.length / channels;
    this.#patches = matrices.space(TILE_PIXELS * this.#depth);
    this.#turned = matrices.space(this.#depth * channels);
  }

  /** Adds the products of the input and `weights` to `result`. */
  multiply(result: Float32Array, weights: Float32Array): void {
    const { channels } = this.output;
    for (let start = 0; start < this.#pixels; start += TILE_PIXELS) {
      const rows = Math.min(TILE_PIXELS, this.#pixels - start);
      const part = result.subarray(start * channels, (start + rows) * channels);
      this.matrices.multiply(part, this.#gather(start, rows), weights, rows, channels, this.#depth, true);
    }
  }

  /** Adds the effect of the products' gradient to the gradients of the weights and of the input. */
  multiplyBack(gradient: Float32Array, weights: Float32Array, weightGradient: Float32Array): void {
    const { channels } = this.output;
    transpose(this.#turned, weights, this.#depth, channels);
    for (let start = 0; start < this.#pixels; start += TILE_PIXELS) {
      const rows = Math.min(TILE_PIXELS, this.#pixels - start);
      const part = gradient.subarray(start * channels, (start + rows) * channels);
      const patches = this.#gather(start, rows);
      this.matrices.multiplyTransposed(weightGradient, patches, part, this.#depth, channels, rows);
      if (this.input.gradient) this.#spread(this.input.gradient, part, start, rows);
    }
  }

  /** The patches of the input for `rows` pixels of the output, one after the other. */
  #gather(start: number, rows: number): Float32Array {
    const { data, width, channels } = this.input;
    const { size } = this.kernel;
    if (size === 1) return data.subarray(start * channels, (start + rows) * channels);

    const patches = this.#patches;
    const line = size * channels;
    this.#lines(start, rows, (at, first, row) => {
      const from = Math.max(0, -first) * channels;
      const to = Math.min(size, width - first) * channels;
      const shift = (row * width + first) * channels;
      if (row < 0) return void patches.fill(0, at, at + line);
      for (let index = 0; index < from; index++) patches[at + index] = 0;
      for (let index = from; index < to; index++) patches[at + index] = data[shift + index] ?? 0;
      for (let index = to; index < line; index++) patches[at + index] = 0;
    });

    return patches;
  }

  /** Adds the effect of the gradient of `rows` output pixels to the input's gradient. */
  #spread(into: Float32Array, gradient: Float32Array, start: number, rows: number): void {
    const { width, channels } = this.input;
    const { size } = this.kernel;
    const depth = this.#depth;
    if (size === 1) {
      const part = into.subarray(start * channels, (start + rows) * channels);
      return this.matrices.multiply(part, gradient, this.#turned, rows, depth, this.output.channels, true);
    }

    const patches = this.#patches;
    this.matrices.multiply(patches, gradient, this.#turned, rows, depth, this.output.channels);
    this.#lines(start, rows, (at, first, row) => {
      if (row < 0) return;
      const to = Math.min(size, width - first) * channels;
      const shift = (row * width + first) * channels;
      for (let index = Math.max(0, -first) * channels; index < to; index++) {
        into[shift + index] = (into[shift + index] ?? 0) + (patches[at + index] ?? 0);
      }
    });
  }

  /**
   * Calls `each` for every line of every patch: the line's start among the patches, the column of its first
   * pixel, and its row counted through all pictures. The row is negative above and below the picture.
   */
  #lines(start: number, rows: number, each: (at: number, first: number, row: number) => void): void {
    const { height, width } = this.output;
    const { size, stride } = this.kernel;
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
}

function transpose(to: Float32Array, from: Float32Array, rows: number, columns: number): void {
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      to[column * rows + row] = from[row * columns + column] ?? 0;
    }
  }
}
