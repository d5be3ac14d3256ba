/**
 * Encodes messages. Copies each large byte field, such as a picture, only once.
 *
 * The protobuf runtime copies it about three times, into a buffer that it doubles until everything fits: an answer with a
 * picture of 150 kB left 256 kB of garbage.
 */

import { joinedBytes } from "../../base/files/byte_reader.ts";
import {
  BinaryWriter,
  type DescField,
  type DescMessage,
  isMessage,
  type Message,
  reflect,
  ScalarType,
  toBinary,
  WireType,
} from "./proto.ts";

/** Smaller fields are left to the protobuf runtime. */
const LARGE_BYTES = 16 * 1024;
/** How deep to look for large fields, in nested messages and lists. */
const DEPTH = 4;

/** The bytes of messages that no longer change. */
const fixed = new WeakMap<object, Uint8Array<ArrayBuffer>>();

/**
 * Keeps the bytes of a message as long as the message, which must not change any more. Those of a large one would take
 * more memory than they save time.
 */
export function keepBytes(desc: DescMessage, message: Message): void {
  const bytes = messageBytes(desc, message);
  if (bytes.length < LARGE_BYTES) fixed.set(message, bytes);
}

/** Encodes a message into new memory. */
export function messageBytes(desc: DescMessage, message: Message): Uint8Array<ArrayBuffer> {
  // Who sends bytes may give their memory back.
  const kept = fixed.get(message);
  if (kept) return kept.slice();
  if (bytesAtLeast(message) < LARGE_BYTES) return toBinary(desc, message);
  const parts: Uint8Array[] = [];
  addParts(desc, message, parts);
  return joinedBytes(parts);
}

/** The bytes of a message's texts and byte fields, nested messages included; all of them for one with kept bytes. */
export function bytesAtLeast(message: object): number {
  return fixed.get(message)?.length ?? bytesIn(message, DEPTH);
}

function bytesIn(value: unknown, depth: number): number {
  if (value instanceof Uint8Array || typeof value === "string") return value.length;
  if (depth === 0 || typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return 0;
  let bytes = 0;
  for (const part of Object.values(value)) bytes += bytesIn(part, depth - 1);
  return bytes;
}

/** Adds the parts of a message, with its large fields last and uncopied; returns their length in bytes. */
function addParts(desc: DescMessage, message: Message, parts: Uint8Array[], depth = DEPTH): number {
  const large = desc.fields.filter((field) => isLarge(field, message, depth));
  const add = (part: Uint8Array) => parts.push(part) && part.length;
  if (large.length === 0) return add(toBinary(desc, message));

  const rest = reflect(desc, Object.assign(Object.create(Object.getPrototypeOf(message)), message));
  for (const field of large) rest.clear(field);
  let bytes = add(toBinary(desc, rest.message));
  for (const field of large) {
    for (const value of valuesOf(field, message)) {
      const inner: Uint8Array[] = [];
      const length = value instanceof Uint8Array
        ? inner.push(value) && value.length
        : addParts(field.message!, value as Message, inner, depth - 1);
      bytes += add(new BinaryWriter().tag(field.number, WireType.LengthDelimited).uint32(length).finish());
      for (const part of inner) parts.push(part);
      bytes += length;
    }
  }

  return bytes;
}

/** Whether a field has a large value, and `addParts` can write the field. */
function isLarge(field: DescField, message: Message, depth: number): boolean {
  if (depth === 0) return false;
  const kind = field.fieldKind === "list" ? field.listKind : field.fieldKind;
  if (kind === "scalar") {
    return field.scalar === ScalarType.BYTES &&
      valuesOf(field, message).some((value) => (value as Uint8Array).length >= LARGE_BYTES);
  }
  if (kind !== "message" || (field as { delimitedEncoding?: boolean }).delimitedEncoding) return false;
  const { message: desc } = field;
  const values = valuesOf(field, message);
  return values.every((value) => isMessage(value, desc!)) &&
    values.some((value) => desc!.fields.some((inner) => isLarge(inner, value as Message, depth - 1)));
}

function valuesOf(field: DescField, message: Message): readonly unknown[] {
  const { oneof, localName } = field;
  const fields = message as unknown as Record<string, unknown>;
  const chosen = oneof && fields[oneof.localName] as { case?: string; value?: unknown };
  if (chosen && chosen.case !== localName) return [];
  const value = chosen ? chosen.value : fields[localName];
  if (field.fieldKind === "list") return value as readonly unknown[];
  return value === undefined ? [] : [value];
}
