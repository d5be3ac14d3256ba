/**
 * Messages as tables: each field is a row that gives its type, its reading and its writing.
 *
 * The rules are those of proto3: an absent scalar is zero, zero is not written, and a nested message may be absent.
 * Each list of messages or numbers has a limit, so that a short file cannot ask for much memory.
 *
 * The generated messages (`proto/gen`) are no substitute: they have no limits, and hold a list of numbers as an
 * array of objects.
 */

import { IntList, type ProtoReader } from "../../base/protobuf/reader.ts";
import { WIRE_TYPE } from "../../base/protobuf/wire_type.ts";
import type { ProtoWriter } from "../../base/protobuf/writer.ts";

/** A field of type `T`. `S` is the type of its state during reading. */
// deno-lint-ignore no-explicit-any
export interface Field<T, S = any> {
  readonly number: number;
  start(): S;
  /** The state after one more occurrence of the field. */
  read(reader: ProtoReader, wire: number, state: S, name: string): S;
  finish(state: S): T;
  /** Writes the field with its tag, or nothing where it has its default. */
  write(writer: ProtoWriter, value: T): void;
}

// deno-lint-ignore no-explicit-any
type Shape = { readonly [name: string]: Field<any> };
type Content<S extends Shape> = { readonly [K in keyof S]: S[K] extends Field<infer T> ? T : never };

export interface MessageType<M> {
  read(reader: ProtoReader): M;
  write(writer: ProtoWriter, message: M): void;
  /** The message with no field set. */
  empty(): M;
}

/** The value type of a message table. */
export type ContentOf<T> = T extends MessageType<infer M> ? M : never;

export function message<S extends Shape>(shape: S): MessageType<Content<S>> {
  const rows = Object.entries(shape);
  const byNumber = new Map(rows.map(([name, field]) => [field.number, { name, field }]));
  const read = (reader: ProtoReader): Content<S> => {
    const states: Record<string, unknown> = {};
    for (const [name, field] of rows) states[name] = field.start();
    while (!reader.ended) {
      const { number, wire } = reader.tag();
      const row = byNumber.get(number);
      if (!row) reader.skip(wire);
      else states[row.name] = row.field.read(reader, wire, states[row.name], row.name);
    }
    for (const [name, field] of rows) states[name] = field.finish(states[name]);
    return states as Content<S>;
  };
  return {
    read,
    write: (writer, content) => {
      for (const [name, field] of rows) field.write(writer, content[name]);
    },
    empty: () =>
      Object.fromEntries(rows.map(([name, field]) => [name, field.finish(field.start())])) as Content<S>,
  };
}

export function int32(number: number): Field<number> {
  return scalar(
    number,
    WIRE_TYPE.varint,
    0,
    (reader) => reader.int32(),
    (writer, value) => writer.int32(value),
  );
}

export function int64(number: number): Field<bigint> {
  return scalar(
    number,
    WIRE_TYPE.varint,
    0n,
    (reader) => reader.int64(),
    (writer, value) => writer.int64(value),
  );
}

export function boolField(number: number): Field<boolean> {
  return scalar(
    number,
    WIRE_TYPE.varint,
    false,
    (reader) => reader.int64() !== 0n,
    (writer, value) => writer.int32(value ? 1 : 0),
  );
}

export function double(number: number): Field<number> {
  return scalar(number, WIRE_TYPE.fixed64, 0, (reader) => reader.double(), (writer, value) => {
    writer.double(value);
  });
}

export function float(number: number): Field<number> {
  return scalar(
    number,
    WIRE_TYPE.fixed32,
    0,
    (reader) => reader.float(),
    (writer, value) => writer.float(value),
  );
}

export function textField(number: number): Field<string> {
  return scalar(
    number,
    WIRE_TYPE.bytes,
    "",
    (reader) => reader.text(),
    (writer, value) => writer.text(value),
  );
}

/** A message kept as bytes. */
export function opaque(number: number): Field<Uint8Array | undefined> {
  return scalar(
    number,
    WIRE_TYPE.bytes,
    undefined,
    (reader) => new Uint8Array(reader.content()),
    (writer, value) => writer.content(value!),
  );
}

/** Bytes that identify something. */
export function bytes(number: number): Field<Uint8Array> {
  const { start: _, write, ...rest } = opaque(number);
  return {
    ...rest,
    start: () => new Uint8Array(),
    write: (writer, value) => value.length > 0 && write(writer, value),
  } as Field<Uint8Array>;
}

/** A nested message. The last occurrence counts. */
export function part<M>(number: number, type: MessageType<M>): Field<M | undefined> {
  return {
    number,
    start: () => undefined,
    read: (reader, wire, _, name) => {
      reader.expect(wire, WIRE_TYPE.bytes);
      return reader.within(name, () => type.read(reader));
    },
    finish: (state) => state,
    write: (writer, value) => {
      if (value === undefined) return;
      writer.tag(number, WIRE_TYPE.bytes);
      writer.within(() => type.write(writer, value));
    },
  };
}

/** Messages in a list of at most `max`. */
export function parts<M>(number: number, type: MessageType<M>, max: number): Field<readonly M[]> {
  return {
    number,
    start: () => [],
    read: (reader, wire, list: M[], name) => {
      reader.expect(wire, WIRE_TYPE.bytes);
      if (list.length === max) throw reader.wrong(`more than ${max} ${name}`);
      list.push(reader.within(`${name}[${list.length}]`, () => type.read(reader)));
      return list;
    },
    finish: (list) => list,
    write: (writer, list) => {
      for (const one of list) {
        writer.tag(number, WIRE_TYPE.bytes);
        writer.within(() => type.write(writer, one));
      }
    },
  };
}

/** Numbers in a list of at most `max`, packed or, from older writers, one by one. */
export function int32s(number: number, max: number): Field<Int32Array> {
  return {
    number,
    start: () => undefined,
    read: (reader, wire, state: IntList | undefined, name) => {
      const list = state ?? new IntList(max);
      reader.path.push(name);
      if (wire === WIRE_TYPE.bytes) reader.packedInt32(list);
      else {
        reader.expect(wire, WIRE_TYPE.varint);
        list.reserve(1, reader);
        list.add(reader.int32());
      }
      reader.path.pop();
      return list;
    },
    finish: (state?: IntList) => state?.finish() ?? new Int32Array(),
    write: (writer, values) => {
      if (values.length === 0) return;
      writer.tag(number, WIRE_TYPE.bytes);
      writer.packedInt32(values);
    },
  };
}

function scalar<T>(
  number: number,
  wire: number,
  zero: T,
  read: (reader: ProtoReader) => T,
  write: (writer: ProtoWriter, value: T) => void,
): Field<T> {
  return {
    number,
    start: () => zero,
    read: (reader, found) => {
      reader.expect(found, wire);
      return read(reader);
    },
    finish: (value) => value,
    write: (writer, value) => {
      // A negative zero is not the default: its sign bit is set.
      if (Object.is(value, zero)) return;
      writer.tag(number, wire);
      write(writer, value);
    },
  };
}
