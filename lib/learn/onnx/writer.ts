/**
 * Writes ONNX models: builds a graph node by node, then its bytes.
 *
 * Owns the few fields of the published format (onnx.proto, IR version 8, operators 13) that our models need.
 * Promises the same bytes for the same graph.
 */

/** Element types by their numbers in the format. */
const TYPES = { float32: 1, uint8: 2, int32: 6, int64: 7 } as const;

export type OnnxType = keyof typeof TYPES;
export type OnnxAttribute = number | string | readonly number[];

const IR_VERSION = 8;
const OPERATORS_VERSION = 13;

type Bytes = Uint8Array;

export class OnnxGraph {
  readonly #nodes: Bytes[] = [];
  readonly #constants: Bytes[] = [];
  readonly #inputs: Bytes[] = [];
  readonly #outputs: Bytes[] = [];
  #names = 0;

  /** Declares an input; returns its name, like the other methods. */
  input(name: string, type: OnnxType, shape: readonly number[]): string {
    this.#inputs.push(valueInfo(name, type, shape));
    return name;
  }

  /** Declares a named result of a node as an output. */
  output(name: string, type: OnnxType, shape: readonly number[]): void {
    this.#outputs.push(valueInfo(name, type, shape));
  }

  /** Adds a node with integer and text attributes; returns the name of its result. */
  node(
    operator: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, OnnxAttribute>> = {},
    name = this.#name(),
  ): string {
    return this.#node(operator, inputs, attributes, [name])[0];
  }

  /** Adds a node with two results. */
  pair(
    operator: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, OnnxAttribute>> = {},
  ) {
    return this.#node(operator, inputs, attributes, [this.#name(), this.#name()]);
  }

  floats(values: readonly number[] | Float32Array, shape: readonly number[]): string {
    const bytes = new DataView(new ArrayBuffer(4 * values.length));
    values.forEach((value, at) => bytes.setFloat32(4 * at, value, true));
    return this.#constant("float32", shape, bytes);
  }

  /** A list of 64-bit integers, or a single one without a shape. */
  integers(values: readonly number[], shape: readonly number[] = [values.length]): string {
    const bytes = new DataView(new ArrayBuffer(8 * values.length));
    values.forEach((value, at) => bytes.setBigInt64(8 * at, BigInt(value), true));
    return this.#constant("int64", shape, bytes);
  }

  /** The model's bytes. `notes` become its metadata. */
  model(name: string, producer: string, notes: Readonly<Record<string, string>>): Uint8Array<ArrayBuffer> {
    const graph = message([
      ...this.#nodes.map((node) => field(1, node)),
      field(2, name),
      ...this.#constants.map((constant) => field(5, constant)),
      ...this.#inputs.map((input) => field(11, input)),
      ...this.#outputs.map((output) => field(12, output)),
    ]);
    return message([
      field(1, IR_VERSION),
      field(2, producer),
      field(7, graph),
      field(8, message([field(1, ""), field(2, OPERATORS_VERSION)])),
      ...Object.entries(notes).map(([key, value]) => field(14, message([field(1, key), field(2, value)]))),
    ]);
  }

  #name(): string {
    return `t${this.#names++}`;
  }

  #constant(type: OnnxType, shape: readonly number[], bytes: DataView<ArrayBuffer>): string {
    const name = this.#name();
    const dimensions = shape.map((size) => field(1, size));
    const content = field(9, new Uint8Array(bytes.buffer));
    this.#constants.push(message([...dimensions, field(2, TYPES[type]), field(8, name), content]));
    return name;
  }

  #node(
    operator: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, OnnxAttribute>>,
    outputs: readonly string[],
  ): readonly string[] {
    this.#nodes.push(message([
      ...inputs.map((input) => field(1, input)),
      ...outputs.map((output) => field(2, output)),
      field(4, operator),
      ...Object.entries(attributes).map(([key, value]) => field(5, attribute(key, value))),
    ]));
    return outputs;
  }
}

function attribute(name: string, value: OnnxAttribute): Bytes {
  const [integer, string, integers] = [2, 3, 7];
  const kind = typeof value === "number" ? integer : typeof value === "string" ? string : integers;
  const content = typeof value === "number"
    ? [field(3, value)]
    : typeof value === "string"
    ? [field(4, value)]
    : value.map((one) => field(8, one));
  return message([field(1, name), ...content, field(20, kind)]);
}

function valueInfo(name: string, type: OnnxType, shape: readonly number[]): Bytes {
  const dimensions = shape.map((size) => field(1, message([field(1, size)])));
  const tensor = message([field(1, TYPES[type]), field(2, message(dimensions))]);
  return message([field(1, name), field(2, message([field(1, tensor)]))]);
}

/** A protobuf field: a number as a varint, a text or bytes after their length. */
export function field(number: number, value: number | string | Bytes): Bytes {
  if (typeof value === "number") return new Uint8Array([...varint(number << 3), ...varint(value)]);
  const bytes = typeof value === "string" ? new TextEncoder().encode(value) : value;
  return message([new Uint8Array([...varint(number << 3 | 2), ...varint(bytes.length)]), bytes]);
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return [...bytes, Number(rest)];
}

/** Joins fields into a message. */
export function message(fields: readonly Bytes[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(fields.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const one of fields) {
    bytes.set(one, at);
    at += one.length;
  }
  return bytes;
}
