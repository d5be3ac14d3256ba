/**
 * Contents of readings from JSON, in the bytes that `payloadBytes` makes, many times faster: files have thousands of
 * them. Whoever stores JSON in place of the bytes checks that these are the same.
 */

import { Buffer } from "node:buffer";
import { isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";

/** Tags of fields of `SensorData` and `google.protobuf.Struct`: the number, and in the low three bits the form. */
const STRUCT_OF_READING = 0x12;
const ENTRY = 0x0a, KEY = 0x0a, VALUE_OF_ENTRY = 0x12, ITEM = 0x0a;
const VALUE = { nothing: 0x08, number: 0x11, text: 0x1a, truth: 0x20, struct: 0x2a, list: 0x32 };
const BYTES = 4 * 1024;

export class PayloadWriter {
  #bytes = Buffer.alloc(BYTES);
  /** Written from the end to the start, so that each length is known when its turn comes. */
  #at = BYTES;

  bytesOf(content: JsonObject): Uint8Array {
    this.#at = this.#bytes.length;
    const end = this.#left;
    this.#struct(content);
    this.#length(end, STRUCT_OF_READING);
    return new Uint8Array(this.#bytes.subarray(this.#at));
  }

  /** Bytes that have been written. */
  get #left(): number {
    return this.#bytes.length - this.#at;
  }

  #struct(content: JsonObject): void {
    for (const key of Object.keys(content).reverse()) {
      const end = this.#left;
      this.#value(content[key] ?? null);
      this.#length(end, VALUE_OF_ENTRY);
      this.#text(key, KEY);
      this.#length(end, ENTRY);
    }
  }

  #list(items: readonly Json[]): void {
    for (let index = items.length - 1; index >= 0; index--) {
      const end = this.#left;
      this.#value(items[index] ?? null);
      this.#length(end, ITEM);
    }
  }

  #value(value: Json): void {
    const end = this.#left;
    if (typeof value === "number") this.#number(value);
    else if (typeof value === "string") this.#text(value, VALUE.text);
    else if (typeof value === "boolean") this.#short(VALUE.truth, value ? 1 : 0);
    else if (Array.isArray(value)) {
      this.#list(value);
      this.#length(end, VALUE.list);
    } else if (isObject(value)) {
      this.#struct(value as JsonObject);
      this.#length(end, VALUE.struct);
    } else this.#short(VALUE.nothing, 0);
  }

  #number(value: number): void {
    this.#reserve(9);
    this.#at -= 9;
    this.#bytes[this.#at] = VALUE.number;
    this.#bytes.writeDoubleLE(value, this.#at + 1);
  }

  #text(text: string, tag: number): void {
    const end = this.#left;
    const bytes = Buffer.byteLength(text);
    this.#reserve(bytes);
    this.#at -= bytes;
    this.#bytes.write(text, this.#at);
    this.#length(end, tag);
  }

  #short(tag: number, value: number): void {
    this.#reserve(2);
    this.#bytes[--this.#at] = value;
    this.#bytes[--this.#at] = tag;
  }

  /** The tag and the length of what has been written since there were `end` bytes. */
  #length(end: number, tag: number): void {
    const digits: number[] = [];
    for (let left = this.#left - end;; left = Math.floor(left / 128)) {
      digits.push(left % 128);
      if (left < 128) break;
    }
    this.#reserve(digits.length + 1);
    for (let index = digits.length - 1; index >= 0; index--) {
      this.#bytes[--this.#at] = (digits[index] ?? 0) | (index < digits.length - 1 ? 0x80 : 0);
    }
    this.#bytes[--this.#at] = tag;
  }

  #reserve(bytes: number): void {
    if (this.#at >= bytes) return;
    const written = this.#left;
    const larger = Buffer.alloc(2 * this.#bytes.length + bytes);
    this.#bytes.copy(larger, larger.length - written, this.#at);
    this.#bytes = larger;
    this.#at = larger.length - written;
  }
}
