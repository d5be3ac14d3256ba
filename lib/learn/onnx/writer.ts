/**
 * Writes ONNX models: builds a graph node by node, then its bytes.
 *
 * Owns the few fields of the published format (onnx.proto, IR version 8, operators 13) that our models need.
 * Promises the same bytes for the same graph.
 */

import { joinedBytes } from "../../base/files/byte_reader.ts";
import { varint64Bytes, varintBytes, WIRE_TYPE } from "../../base/protobuf/wire_type.ts";
import { ProtoWriter } from "../../base/protobuf/writer.ts";

/** Element types by their numbers in the format. */
const TYPES = { float32: 1, uint8: 2, int32: 6, int64: 7, float16: 10 } as const;

export type WrittenType = keyof typeof TYPES;
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
  input(name: string, type: WrittenType, shape: readonly number[]): string {
    this.#inputs.push(valueInfo(name, type, shape));
    return name;
  }

  /** Declares a named result of a node as an output. */
  output(name: string, type: WrittenType, shape: readonly number[]): void {
    this.#outputs.push(valueInfo(name, type, shape));
  }

  /** Adds a node with integer and text attributes; returns the name of its result. */
  node(
    operator: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, OnnxAttribute>> = {},
    name = this.#name(),
  ): string {
    this.#node(operator, inputs, attributes, [name]);
    return name;
  }

  /** Adds a node with two results. */
  pair(
    operator: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, OnnxAttribute>> = {},
  ) {
    const names = [this.#name(), this.#name()] as const;
    this.#node(operator, inputs, attributes, names);
    return names;
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
    const graph = protoMessage([
      ...this.#nodes.map((node) => protoField(1, node)),
      protoField(2, name),
      ...this.#constants.map((constant) => protoField(5, constant)),
      ...this.#inputs.map((input) => protoField(11, input)),
      ...this.#outputs.map((output) => protoField(12, output)),
    ]);
    return protoMessage([
      protoField(1, IR_VERSION),
      protoField(2, producer),
      protoField(7, graph),
      protoField(8, protoMessage([protoField(1, ""), protoField(2, OPERATORS_VERSION)])),
      ...Object.entries(notes).map(([key, value]) =>
        protoField(14, protoMessage([protoField(1, key), protoField(2, value)]))
      ),
    ]);
  }

  #name(): string {
    return `t${this.#names++}`;
  }

  #constant(type: WrittenType, shape: readonly number[], bytes: DataView<ArrayBuffer>): string {
    const name = this.#name();
    const dimensions = shape.map((size) => protoField(1, size));
    const content = protoField(9, new Uint8Array(bytes.buffer));
    this.#constants.push(
      protoMessage([...dimensions, protoField(2, TYPES[type]), protoField(8, name), content]),
    );
    return name;
  }

  #node(
    operator: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, OnnxAttribute>>,
    outputs: readonly string[],
  ): void {
    this.#nodes.push(protoMessage([
      ...inputs.map((input) => protoField(1, input)),
      ...outputs.map((output) => protoField(2, output)),
      protoField(4, operator),
      ...Object.entries(attributes).map(([key, value]) => protoField(5, attribute(key, value))),
    ]));
  }
}

function attribute(name: string, value: OnnxAttribute): Bytes {
  const [integer, string, integers] = [2, 3, 7];
  let kind = integers;
  let content: Bytes[];
  if (typeof value === "number") {
    kind = integer;
    content = [protoField(3, value)];
  } else if (typeof value === "string") {
    kind = string;
    content = [protoField(4, value)];
  } else content = value.map((one) => protoField(8, one));

  return protoMessage([protoField(1, name), ...content, protoField(20, kind)]);
}

function valueInfo(name: string, type: WrittenType, shape: readonly number[]): Bytes {
  const dimensions = shape.map((size) => protoField(1, protoMessage([protoField(1, size)])));
  const tensor = protoMessage([protoField(1, TYPES[type]), protoField(2, protoMessage(dimensions))]);
  return protoMessage([protoField(1, name), protoField(2, protoMessage([protoField(1, tensor)]))]);
}

/** A protobuf field: a number as a varint, a text or bytes after their length. */
export function protoField(number: number, value: number | string | Bytes): Bytes {
  const tagBytes = varintBytes(number << 3);
  if (typeof value === "number") {
    const integer = BigInt(value);
    const writer = new ProtoWriter(tagBytes + varint64Bytes(integer));
    writer.tag(number, WIRE_TYPE.varint);
    writer.int64(integer);
    return writer.finish();
  }

  const bytes = typeof value === "string" ? new TextEncoder().encode(value) : value;
  const writer = new ProtoWriter(tagBytes + varintBytes(bytes.length) + bytes.length);
  writer.tag(number, WIRE_TYPE.bytes);
  writer.content(bytes);
  return writer.finish();
}

/** Joins fields into a message. */
export function protoMessage(fields: readonly Bytes[]): Uint8Array<ArrayBuffer> {
  return joinedBytes(fields);
}
