/**
 * The content of a stored reading as JSON text, without building its values: queries in SQL read millions of them.
 *
 * It reads the messages as `payloadBytes` writes them: `google.protobuf.Struct`, whose fields have the numbers below.
 */

import { Buffer } from "node:buffer";
import { payloadIn } from "./payload.ts";

/** Tags of fields: the number, and the wire type in the low three bits. */
const STRUCT_OF_READING = 0x12;
const ENTRY = 0x0a, KEY = 0x0a, VALUE_OF_ENTRY = 0x12, ITEM = 0x0a;
const VALUE = { nothing: 0x08, number: 0x11, text: 0x1a, truth: 0x20, struct: 0x2a, list: 0x32 };

const DECODER = new TextDecoder();

/** The JSON text; numbers without a JSON form are null. */
export function payloadJson(bytes: Uint8Array): string {
  const reader = new PayloadReader(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  const text = reader.reading();
  // Another form of the same message.
  return text ?? JSON.stringify(payloadIn(bytes));
}

/** Reads one payload; `undefined` for any form but the usual one. */
class PayloadReader {
  #at = 0;
  #isUsual = true;

  constructor(private readonly bytes: Buffer) {}

  reading(): string | undefined {
    try {
      if (!this.#takes(STRUCT_OF_READING)) return undefined;
      const text = this.#struct(this.#end());
      return this.#isUsual && this.#at === this.bytes.length ? text : undefined;
    } catch (error) {
      if (error instanceof RangeError) return undefined;
      throw error;
    }
  }

  #struct(end: number): string {
    let text = "{";
    while (this.#isUsual && this.#at < end) {
      this.#expect(ENTRY);
      const entryEnd = this.#end();
      this.#expect(KEY);
      const key = this.#text(this.#end());
      this.#expect(VALUE_OF_ENTRY);
      text += `${text === "{" ? "" : ","}${key}:${this.#value(this.#end())}`;
      if (this.#at !== entryEnd) this.#isUsual = false;
    }
    return `${text}}`;
  }

  #list(end: number): string {
    let text = "[";
    while (this.#isUsual && this.#at < end) {
      this.#expect(ITEM);
      text += `${text === "[" ? "" : ","}${this.#value(this.#end())}`;
    }
    return `${text}]`;
  }

  #value(end: number): string {
    const text = this.#content(this.bytes[this.#at++]);
    if (this.#at !== end) this.#isUsual = false;
    return text;
  }

  #content(tag: number | undefined): string {
    if (tag === VALUE.number) return this.#number();
    if (tag === VALUE.text) return this.#text(this.#end());
    if (tag === VALUE.truth) return this.#varint() === 0 ? "false" : "true";
    if (tag === VALUE.struct) return this.#struct(this.#end());
    if (tag === VALUE.list) return this.#list(this.#end());
    if (tag !== VALUE.nothing || this.#varint() !== 0) this.#isUsual = false;
    return "null";
  }

  #number(): string {
    const number = this.bytes.readDoubleLE(this.#at);
    this.#at += 8;
    return Number.isFinite(number) ? String(number === 0 ? 0 : number) : "null";
  }

  #text(end: number): string {
    if (end > this.bytes.length) throw new RangeError("beyond the end");
    const start = this.#at;
    this.#at = end;
    for (let at = start; at < end; at++) {
      const code = this.bytes[at] ?? 0;
      const isPlain = code >= 0x20 && code < 0x7f && code !== 0x22 && code !== 0x5c;
      if (!isPlain) return JSON.stringify(DECODER.decode(this.bytes.subarray(start, end)));
    }
    return `"${this.bytes.toString("latin1", start, end)}"`;
  }

  #takes(tag: number): boolean {
    return this.bytes[this.#at] === tag && ++this.#at > 0;
  }

  #expect(tag: number): void {
    if (!this.#takes(tag)) throw new RangeError("another field");
  }

  /** Reads a length, and returns the end of its content. */
  #end(): number {
    const length = this.#varint();
    return this.#at + length;
  }

  #varint(): number {
    let [value, factor] = [0, 1];
    for (;;) {
      const byte = this.bytes[this.#at++];
      if (byte === undefined) throw new RangeError("beyond the end");
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 128;
    }
  }
}
