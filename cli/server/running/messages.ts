/**
 * Requests and answers as proto3 JSON, as people type and read them.
 */

import { messageOf, SvcError } from "../../../lib/base/error.ts";
import { parseJsonc } from "../../../lib/base/schema/jsonc.ts";
import type { Json, JsonObject } from "../../../lib/base/schema/schema.ts";
import { didYouMean } from "../../../lib/base/schema/suggest.ts";
import {
  type DescField,
  type DescMessage,
  type DescMethod,
  fromJson,
  type Message,
} from "../../../lib/wire/rpc/proto.ts";
import { shownJson } from "../../../lib/wire/rpc/shown_json.ts";
import { UsageError } from "../../flags.ts";

/** A longer text of an answer is cut for people: it is a picture or a cloud. */
const TEXT_CHARS_MAX = 200;

/** The requests of a call: one, or all of an array for a method that takes a stream. */
export function requestsOf(
  method: DescMethod,
  text: string,
  { name, namedBy }: { readonly name: string; readonly namedBy: readonly string[] },
): Message[] {
  const given = text.trim() === "" ? {} : parsed(text);
  const takesStream = method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming";
  const all = takesStream && Array.isArray(given) ? given : [given];
  return all.map((one) => {
    if (typeof one !== "object" || one === null || Array.isArray(one)) {
      const wanted = takesStream ? "an object, or an array of objects" : "an object";
      throw new UsageError(`the request: found ${JSON.stringify(one).slice(0, 40)}, wanted ${wanted}`);
    }
    return requestOf(method, one as JsonObject, name, namedBy);
  });
}

function parsed(text: string): Json {
  try {
    return parseJsonc(new TextEncoder().encode(text), { file: "the request" });
  } catch (error) {
    throw new UsageError(messageOf(error));
  }
}

function requestOf(
  { input }: DescMethod,
  json: JsonObject,
  name: string,
  namedBy: readonly string[],
): Message {
  requireFields(input, json, "");
  const naming = input.fields.find(({ localName }) => namedBy.includes(localName));
  const named = naming ? { [naming.jsonName]: name, ...json } : withOpening(input, json, name);
  try {
    return fromJson(input, named);
  } catch (error) {
    throw new UsageError(`the request: ${messageOf(error)}; wanted ${shapeText(input, namedBy)}`);
  }
}

/** The name within the member that opens a stream. */
function withOpening(input: DescMessage, json: JsonObject, name: string): JsonObject {
  for (const [key, value] of Object.entries(json)) {
    const field = fieldOf(input, key);
    const isNamed = field?.message?.fields.some((one) => one.jsonName === "name");
    if (isNamed && typeof value === "object" && value !== null) {
      return { ...json, [key]: { name, ...value as JsonObject } };
    }
  }
  return json;
}

function fieldOf(message: DescMessage, key: string): DescField | undefined {
  return message.fields.find(({ jsonName, name }) => jsonName === key || name === key);
}

/** Refuses unknown fields, with the nearest known one. */
function requireFields(message: DescMessage, json: JsonObject, path: string): void {
  if (message.typeName.startsWith("google.protobuf.")) return;
  for (const [key, value] of Object.entries(json)) {
    const field = fieldOf(message, key);
    if (!field) {
      const names = message.fields.map(({ jsonName }) => jsonName);
      const known = names.length === 0 ? "wanted none" : `wanted ${names.join(", ")}`;
      const hint = didYouMean(key, names) || `; ${known}`;
      throw new UsageError(`the request: unknown field "${path}${key}"${hint}`);
    }
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    if (field.fieldKind === "message" && isObject) {
      requireFields(field.message, value as JsonObject, `${path}${key}.`);
    }
  }
}

/** What a request may say: `rpm: double, revolutions: double`. */
export function shapeText(message: DescMessage, namedBy: readonly string[]): string {
  const fields = message.fields.filter(({ localName }) => !namedBy.includes(localName));
  if (fields.length === 0) return "{}";
  return `{ ${fields.map((field) => `${field.jsonName}: ${typeOf(field)}`).join(", ")} }`;
}

/** `proto/gen` numbers scalars as the descriptor does. */
const SCALARS: { readonly [type: number]: string } = {
  1: "double",
  2: "float",
  3: "int64",
  4: "uint64",
  5: "int32",
  6: "fixed64",
  7: "fixed32",
  8: "bool",
  9: "string",
  12: "bytes",
  13: "uint32",
  15: "sfixed32",
  16: "sfixed64",
  17: "sint32",
  18: "sint64",
};

function typeOf(field: DescField): string {
  const one = field.message?.name ?? field.enum?.name ?? SCALARS[Number(field.scalar)] ?? "value";
  if (field.fieldKind === "list") return `[${one}]`;
  if (field.fieldKind === "map") return `{ key: ${one} }`;
  return one;
}

/** An answer as JSON, with fields that have their default values. */
export function answerJson(message: DescMessage, answer: Message): Json {
  try {
    return shownJson(message, answer, { alwaysEmitImplicit: true }) as Json;
  } catch (cause) {
    throw new SvcError("internal", `the answer cannot be shown as JSON: ${messageOf(cause)}`, { cause });
  }
}

/** An answer for people: without the bytes of pictures. */
export function shortened(value: Json): Json {
  if (typeof value === "string" && value.length > TEXT_CHARS_MAX) {
    return `${value.slice(0, 24)}… (${value.length} characters; --json prints all)`;
  }
  if (Array.isArray(value)) return value.map(shortened);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, shortened(one as Json)]));
}
