/**
 * The decoded size of a message, computed from its bytes before anything is allocated.
 *
 * Two bytes may become an object of a hundred and a microsecond of work, so the size of a message says little about
 * the cost of decoding it. A walk along the descriptor adds up the allocations and stops at the limit. It refuses
 * bytes that no encoder writes (wrong types, lengths beyond their message), because the decoder's reading of them is
 * unpredictable.
 */

import { SvcError } from "../../base/error.ts";
import { VARINT_BYTES_MAX, WIRE_TYPE } from "../../base/protobuf/wire_type.ts";
import { type DescField, type DescMessage, ScalarType } from "./proto.ts";

/**
 * Limit of one message's decoded size beyond its own bytes: 130,000 values of a Struct, or two million packed numbers.
 */
export const DECODED_BYTES_MAX = 24 * 1024 * 1024;
/** Limit of nested messages, the same as the decoder's. */
export const NESTING_MAX = 100;
/** Shorter messages are not weighed: they cannot cost more than the call itself. */
const WEIGHED_FROM_BYTES = 128;

/** Allocations of the decoder, as measured on the heap; the work is proportional, some 100 bytes per microsecond. */
const RECORD = 16;
const UNKNOWN_RECORD = 160;
const MESSAGE = 96;
const MEMBER = 16;
const LIST_MEMBER = 24;
const ONEOF = 48;
const ENTRY = 96;
const STRING = 24;
const BYTES = 128;
/** An array element: an integer, a floating-point number that is boxed for a while, a bigint. */
const INTEGER = 8, FLOAT = 12, BIGINT = 32;

/** The wire types of protobuf. */
const { varint: VARINT, fixed64: FIXED64, bytes: DELIMITED, fixed32: FIXED32 } = WIRE_TYPE;
const GROUP = 3, GROUP_END = 4;
/** Longest tag or length. */
const SHORT_VARINT_BYTES = 5;
/** Reads like a byte of a number that continues, where there is none. */
const UNFINISHED = 0x80;

interface Field {
  readonly wireType: number;
  readonly cost: number;
  /** Cost per element of a list of numbers, packed or not. */
  readonly packedCost?: number;
  readonly isText?: boolean;
  readonly message?: DescMessage;
  /** Of `message`; set on first use. */
  plan?: Plan;
  /** A map entry: its key and its value. */
  readonly entry?: Plan;
  /** A singular message field: each occurrence decodes all earlier ones again. */
  readonly isStruct?: boolean;
}

interface Plan {
  readonly cost: number;
  readonly fields: ReadonlyMap<number, Field>;
}

export interface Weight {
  /** The decoded size beyond the message's own bytes. */
  readonly objectBytes: number;
  /** Text in it, which is converted byte by byte. */
  readonly textBytes: number;
}

const LIGHT: Weight = { objectBytes: 0, textBytes: 0 };

/** Weighs messages, with a cache of facts about their types. */
export class Scales {
  readonly #plans = new WeakMap<DescMessage, Plan>();

  /** Throws `resource_exhausted` if decoding costs too much, `internal` if the bytes are no such message. */
  weigh(desc: DescMessage, bytes: Uint8Array): Weight {
    if (bytes.length < WEIGHED_FROM_BYTES) return LIGHT;
    return new Walk(bytes, desc, (desc) => this.#plan(desc)).weight();
  }

  #plan(desc: DescMessage): Plan {
    let plan = this.#plans.get(desc);
    if (!plan) this.#plans.set(desc, plan = planOf(desc));
    return plan;
  }
}

function planOf(desc: DescMessage): Plan {
  const lists = desc.fields.filter(({ fieldKind }) => fieldKind === "list" || fieldKind === "map");
  return {
    cost: MESSAGE + MEMBER * desc.members.length + LIST_MEMBER * lists.length,
    fields: new Map(desc.fields.map((field) => [field.number, fieldOf(field)])),
  };
}

function fieldOf(field: DescField): Field {
  const inOneof = field.oneof ? ONEOF : 0;
  switch (field.fieldKind) {
    case "scalar":
      return scalar(field.scalar, RECORD + inOneof);
    case "enum":
      return { wireType: VARINT, cost: RECORD + inOneof };
    case "message": {
      const isStruct = isStructField(field);
      const wireType = field.delimitedEncoding ? GROUP : DELIMITED;
      return { wireType, cost: RECORD + inOneof, message: field.message, isStruct };
    }
    case "list": {
      if (field.listKind === "message") {
        const wireType = field.delimitedEncoding ? GROUP : DELIMITED;
        return { wireType, cost: RECORD + INTEGER, message: field.message };
      }
      const element = scalar(field.listKind === "enum" ? ScalarType.INT32 : field.scalar, 0);
      const cost = RECORD + INTEGER + element.cost;
      return element.wireType === DELIMITED
        ? { ...element, cost }
        : { ...element, cost, packedCost: elementCost(field) };
    }
    case "map":
      return { wireType: DELIMITED, cost: RECORD, entry: entryOf(field) };
  }
}

function scalar(type: ScalarType, cost: number): Field {
  switch (type) {
    case ScalarType.STRING:
      return { wireType: DELIMITED, cost: cost + STRING, isText: true };
    case ScalarType.BYTES:
      return { wireType: DELIMITED, cost: cost + BYTES };
    case ScalarType.DOUBLE:
      return { wireType: FIXED64, cost: cost + FLOAT };
    case ScalarType.FLOAT:
      return { wireType: FIXED32, cost: cost + FLOAT };
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return { wireType: FIXED64, cost: cost + BIGINT };
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
      return { wireType: FIXED32, cost: cost + INTEGER };
    case ScalarType.INT64:
    case ScalarType.UINT64:
    case ScalarType.SINT64:
      return { wireType: VARINT, cost: cost + BIGINT };
    default:
      return { wireType: VARINT, cost: cost + INTEGER };
  }
}

function elementCost(field: DescField & { fieldKind: "list" }): number {
  return field.listKind === "scalar" ? scalar(field.scalar, 0).cost : INTEGER;
}

function entryOf(field: DescField & { fieldKind: "map" }): Plan {
  const value: Field = field.mapKind === "message"
    ? { wireType: DELIMITED, cost: RECORD, message: field.message, isStruct: isStructField(field) }
    : scalar(field.mapKind === "enum" ? ScalarType.INT32 : field.scalar, RECORD);
  return { cost: ENTRY, fields: new Map([[1, scalar(field.mapKey, RECORD)], [2, value]]) };
}

/** A field that is decoded to JSON rather than to its message. */
function isStructField({ message, parent }: DescField): boolean {
  return message?.typeName === "google.protobuf.Struct" &&
    parent?.typeName !== "google.protobuf.Value";
}

/** One walk through one message. */
class Walk {
  #at = 0;
  #objectBytes = 0;
  #textBytes = 0;

  constructor(
    private readonly bytes: Uint8Array,
    private readonly desc: DescMessage,
    private readonly planOf: (desc: DescMessage) => Plan,
  ) {}

  weight(): Weight {
    this.#fields(this.planOf(this.desc), this.bytes.length, 1);
    return { objectBytes: this.#objectBytes, textBytes: this.#textBytes };
  }

  #add(cost: number): void {
    this.#objectBytes += cost;
    if (this.#objectBytes <= DECODED_BYTES_MAX) return;
    throw new SvcError(
      "resource_exhausted",
      `cannot decode a ${this.desc.typeName} of ${this.bytes.length} bytes: it has too many values, which would take ` +
        `more than ${DECODED_BYTES_MAX} bytes; send fewer at once`,
    );
  }

  #wrong(what: string): SvcError {
    return new SvcError("internal", `cannot decode a ${this.desc.typeName}: ${what} at byte ${this.#at}`);
  }

  /** The fields of a message up to `end`, or of a group up to its end (`group` is its number). */
  #fields(plan: Plan, end: number, depth: number, group?: number): void {
    if (depth > NESTING_MAX) throw this.#wrong(`more than ${NESTING_MAX} messages within each other`);
    this.#add(plan.cost);

    let structBytes = 0;
    while (this.#at < end) {
      const tag = this.#short(end);
      const number = tag >>> 3, wireType = tag & 7;
      if (number === 0) throw this.#wrong("a field without a number");
      if (wireType === GROUP_END) {
        if (number !== group) throw this.#wrong("the end of a group that has not begun");
        return;
      }

      const field = plan.fields.get(number);
      if (!field) this.#unknown(number, wireType, end, depth);
      else if (field.isStruct) {
        const before = this.#objectBytes;
        this.#add(structBytes);
        this.#known(field, number, wireType, end, depth);
        structBytes += this.#objectBytes - before;
      } else this.#known(field, number, wireType, end, depth);
    }

    if (group !== undefined) throw this.#wrong("a group without an end");
  }

  #known(field: Field, number: number, wireType: number, end: number, depth: number): void {
    if (wireType === DELIMITED && field.packedCost !== undefined) return this.#packed(field, end);
    if (wireType !== field.wireType) throw this.#wrong(`field ${number} with wire type ${wireType}`);
    this.#add(field.cost);
    if (field.message) {
      const plan = field.plan ??= this.planOf(field.message);
      if (wireType === GROUP) return this.#fields(plan, end, depth + 1, number);
      return this.#fields(plan, this.#end(end), depth + 1);
    }
    if (field.entry) return this.#fields(field.entry, this.#end(end), depth);
    const begin = this.#at;
    this.#skip(wireType, end);
    if (field.isText) this.#textBytes += this.#at - begin;
  }

  #packed(field: Field, end: number): void {
    const last = this.#end(end);
    if (field.wireType !== VARINT) {
      const size = field.wireType === FIXED64 ? 8 : 4;
      const length = last - this.#at;
      if (length % size !== 0) throw this.#wrong(`packed numbers of ${length} bytes`);
      this.#add(RECORD + length / size * field.packedCost!);
      this.#at = last;
      return;
    }

    this.#add(RECORD);
    let elements = 0;
    const most = (DECODED_BYTES_MAX - this.#objectBytes) / field.packedCost!;
    for (; this.#at < last && elements <= most; this.#at++) if (this.#byteAt(this.#at) < 0x80) elements++;
    this.#add(elements * field.packedCost!);
    if (this.#at > 0 && this.#byteAt(last - 1) >= 0x80) throw this.#wrong("a packed number without an end");
  }

  /** An unknown field: the decoder keeps its bytes. */
  #unknown(number: number, wireType: number, end: number, depth: number): void {
    this.#add(UNKNOWN_RECORD);
    if (wireType !== GROUP) return this.#skip(wireType, end);
    this.#fields({ cost: 0, fields: new Map() }, end, depth + 1, number);
  }

  #skip(wireType: number, end: number): void {
    switch (wireType) {
      case VARINT: {
        const last = this.#at + VARINT_BYTES_MAX;
        while (this.#at < end && this.#at < last) if (this.#byteAt(this.#at++) < 0x80) return;
        throw this.#wrong("a number without an end");
      }
      case FIXED64:
        return this.#advance(8, end);
      case FIXED32:
        return this.#advance(4, end);
      case DELIMITED:
        this.#at = this.#end(end);
        return;
      default:
        throw this.#wrong(`wire type ${wireType}`);
    }
  }

  #advance(length: number, end: number): void {
    if (length > end - this.#at) throw this.#wrong("a value that runs past the end of its message");
    this.#at += length;
  }

  #byteAt(at: number): number {
    return this.bytes[at] ?? UNFINISHED;
  }

  /** Reads a length and returns the end of its content. */
  #end(end: number): number {
    const length = this.#short(end);
    if (length > end - this.#at) throw this.#wrong(`${length} bytes that run past the end of their message`);
    return this.#at + length;
  }

  /** A tag or a length. */
  #short(end: number): number {
    let value = 0;
    for (let index = 0, factor = 1; index < SHORT_VARINT_BYTES && this.#at < end; index++, factor *= 128) {
      const byte = this.#byteAt(this.#at++);
      value += (byte & 0x7f) * factor;
      if (byte < 0x80 && value < 2 ** 32) return value;
    }
    throw this.#wrong("a tag or length without an end");
  }
}
