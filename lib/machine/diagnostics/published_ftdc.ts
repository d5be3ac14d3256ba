/**
 * The published format of captures, which the published command line reads (`parse-ftdc`).
 *
 * A file is a series of documents. A schema is the byte 1, the names of the metrics as a JSON array, and a newline. A
 * reading is a bit for each metric, after a bit 0, lowest first: whether it differs from the reading before, or from 0
 * after a schema; the time in nanoseconds (64 bits); and the values that differ (32-bit floats, big-endian). Readers
 * stop at a time that goes back or jumps ahead by more than a day, and fail on a name without a dot.
 */

import type { MetricSample } from "./ftdc_format.ts";

const SCHEMA = 1;
const DAY_MS = 24 * 3_600_000;
const NS_PER_MS = 1_000_000n;
const [TIME_BYTES, VALUE_BYTES] = [8, 4];

/** Encodes readings of one file after the other. */
export class PublishedCapture {
  /** The names of the last schema, and their last values. */
  #names = "";
  #values: Float32Array = new Float32Array();
  #timeMs: number | undefined;

  /** The next document starts a file: nothing before it counts. */
  startFile(): void {
    this.#names = "";
    this.#timeMs = undefined;
  }

  /** Whether a reader would stop before this reading if it came in the same file. */
  needsFile({ timeMs }: MetricSample): boolean {
    return this.#timeMs !== undefined && (timeMs < this.#timeMs || timeMs > this.#timeMs + DAY_MS);
  }

  /** A reading, after a schema if the metrics are others than before. Unmeasured ones are left out. */
  encode({ timeMs, values }: MetricSample): Uint8Array {
    const measured = Object.entries(values).filter(([, value]) => Number.isFinite(value));
    // The reader puts metrics with the same first word together, which must stand beside each other.
    const sorted = measured.map(([name, value]) => [dotted(name), value] as const)
      .sort(([a], [b]) => a < b ? -1 : 1);
    const present = Float32Array.from(sorted, ([, value]) => value);
    const names = JSON.stringify(sorted.map(([name]) => name));
    const schema = names === this.#names ? new Uint8Array() : schemaOf(names);
    const before = schema.length > 0 ? new Float32Array(present.length) : this.#values;
    [this.#names, this.#values, this.#timeMs] = [names, present, timeMs];
    const reading = readingOf(timeMs, before, present);
    const both = new Uint8Array(schema.length + reading.length);
    both.set(schema);
    both.set(reading, schema.length);
    return both;
  }
}

function dotted(name: string): string {
  return name.includes(".") ? name : `machine.${name}`;
}

function schemaOf(names: string): Uint8Array {
  return Uint8Array.from([SCHEMA, ...new TextEncoder().encode(`${names}\n`)]);
}

function readingOf(timeMs: number, before: Float32Array, present: Float32Array): Uint8Array {
  const differing = [...present.entries()].filter(([at, value]) => value !== before[at]);
  const bitBytes = Math.floor(present.length / 8) + 1;
  const bytes = new Uint8Array(bitBytes + TIME_BYTES + differing.length * VALUE_BYTES);
  const view = new DataView(bytes.buffer);
  for (const [at] of differing) {
    const bit = at + 1;
    bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) | 1 << (bit & 7);
  }
  view.setBigInt64(bitBytes, BigInt(Math.round(timeMs)) * NS_PER_MS);
  for (const [index, [, value]] of differing.entries()) {
    view.setFloat32(bitBytes + TIME_BYTES + index * VALUE_BYTES, value);
  }
  return bytes;
}
