/**
 * The format of diagnostic captures: consecutive gzip members, each a block of samples as a line of JSON.
 *
 * Owns encoding and decoding; `docs/ftdc.md` describes the format. Every intact block is readable, whatever happened
 * to its neighbours.
 */

import { Buffer } from "node:buffer";
import { crc32, deflateRawSync, gunzipSync } from "node:zlib";

const FORMAT_VERSION = 1;

/** The metrics at one moment. Values are whole numbers; unmeasured ones are absent. */
export interface MetricSample {
  readonly timeMs: number;
  readonly values: { readonly [metric: string]: number };
}

/** Samples of any number of blocks, by metric. */
export interface MetricCapture {
  /** Milliseconds since the Unix epoch, in the order of the file. */
  readonly timesMs: readonly number[];
  /** A value for each time; `NaN` if there is none. */
  readonly metrics: ReadonlyMap<string, readonly number[]>;
  /** Parts of the file without an intact block: a torn end, or damage. */
  readonly damaged: number;
}

/** A column: the first value, then the difference of each to its predecessor; `null` for none. */
type Column = (number | null)[];

/** One block. Values are rounded to whole numbers, so that differences add up exactly. */
export function encodeBlock(samples: readonly MetricSample[]): Uint8Array {
  const names = new Set(samples.flatMap(({ values }) => Object.keys(values)));
  const metrics: { [name: string]: Column } = {};
  for (const name of names) metrics[name] = differences(samples.map(({ values }) => values[name]));
  const block = { v: FORMAT_VERSION, time_ms: differences(samples.map(({ timeMs }) => timeMs)), metrics };
  return member(new TextEncoder().encode(`${JSON.stringify(block)}\n`));
}

export function decodeCapture(bytes: Uint8Array): MetricCapture {
  const timesMs: number[] = [];
  const metrics = new Map<string, number[]>();
  let damaged = 0;
  for (const text of members(bytes)) {
    const block = text === undefined ? undefined : parsed(text);
    if (!block) {
      damaged++;
      continue;
    }
    const before = timesMs.length;
    timesMs.push(...sums(block.time_ms));
    for (const [name, column] of Object.entries(block.metrics)) {
      let values = metrics.get(name);
      if (!values) metrics.set(name, values = []);
      pad(values, before);
      values.push(...sums(column));
    }
  }

  for (const values of metrics.values()) pad(values, timesMs.length);
  return { timesMs, metrics, damaged };
}

function differences(values: readonly (number | undefined)[]): Column {
  let last = 0;
  return values.map((value) => {
    if (value === undefined || !Number.isFinite(value)) return null;
    const whole = Math.round(value);
    const difference = whole - last;
    last = whole;
    return difference;
  });
}

function sums(column: Column): number[] {
  let sum = 0;
  return column.map((difference) => difference === null ? NaN : sum += difference);
}

function pad(values: number[], length: number): void {
  while (values.length < length) values.push(NaN);
}

interface Block {
  readonly time_ms: Column;
  readonly metrics: { readonly [name: string]: Column };
}

/** A block of this version; its checksum was right, so its content is as written. */
function parsed(text: string): Block | undefined {
  const block = JSON.parse(text) as Block & { v: number };
  return block.v === FORMAT_VERSION ? block : undefined;
}

/**
 * The start of a member: a gzip header with an extra field (RFC 1952) of 8 bytes, with one subfield `SV` of 4 bytes,
 * the length of the member. So a reader finds the next member without reading this one.
 */
const START = Uint8Array.of(0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255, 8, 0, 0x53, 0x56, 4, 0);
const LENGTH_BYTES = 4;
const TRAILER_BYTES = 8;

function member(text: Uint8Array): Uint8Array {
  const compressed = deflateRawSync(text);
  const bytes = Buffer.alloc(START.length + LENGTH_BYTES + compressed.length + TRAILER_BYTES);
  bytes.set(START);
  bytes.writeUInt32LE(bytes.length, START.length);
  bytes.set(compressed, START.length + LENGTH_BYTES);
  bytes.writeUInt32LE(crc32(text), bytes.length - TRAILER_BYTES);
  bytes.writeUInt32LE(text.length, bytes.length - TRAILER_BYTES + 4);
  return bytes;
}

/** The texts of the members; `undefined` for each part that is something else. */
function* members(file: Uint8Array): Generator<string | undefined> {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  let readTo = 0;
  for (let at = bytes.indexOf(START); at >= 0; at = bytes.indexOf(START, at)) {
    const end = at + START.length + LENGTH_BYTES <= bytes.length
      ? at + bytes.readUInt32LE(at + START.length)
      : NaN;
    const text = end <= bytes.length ? unzipped(bytes.subarray(at, end)) : undefined;
    if (text === undefined) {
      at++;
      continue;
    }
    if (at > readTo) yield undefined;
    yield text;
    at = readTo = end;
  }

  if (readTo < bytes.length) yield undefined;
}

function unzipped(bytes: Uint8Array): string | undefined {
  try {
    return gunzipSync(bytes).toString();
  } catch {
    return undefined;
  }
}
