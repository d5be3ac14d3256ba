/**
 * Messages as JSON for people and logs.
 *
 * JSON has no form for NaN and the infinities in a `google.protobuf.Value`, where sensors without a measurement have
 * them; one of them would leave the whole message without JSON. They become texts, as in fields of the type `double`.
 */

import { type DescField, type DescMessage, type JsonObject, type Message, toJson } from "./proto.ts";

type Fields = Readonly<Record<string, unknown>>;
type Case = { readonly case?: string; readonly value?: unknown };

const STRUCT = "google.protobuf.Struct";
const VALUE = "google.protobuf.Value";

/** The message as proto3 JSON. */
export function shownJson(
  desc: DescMessage,
  message: Message,
  options: Parameters<typeof toJson>[2] = {},
): JsonObject {
  return toJson(desc, withTexts(desc, message) as Message, options) as JsonObject;
}

/** A message with texts in place of the numbers that have no form in JSON. */
function withTexts(desc: DescMessage, message: unknown): unknown {
  if (desc.typeName === STRUCT && !isMessage(message)) return jsonWithTexts(message);
  if (typeof message !== "object" || message === null) return message;
  const changed: Record<string, unknown> = { ...message };
  const kind = changed.kind as Case | undefined;
  if (desc.typeName === VALUE && kind?.case === "numberValue" && isUnshown(kind.value)) {
    return { ...changed, kind: { case: "stringValue", value: String(kind.value) } };
  }
  for (const field of desc.fields) {
    if (!field.message) continue;
    const { localName, oneof } = field;
    const chosen = oneof ? changed[oneof.localName] as Case | undefined : undefined;
    if (!oneof) changed[localName] = valueWithTexts(field, changed[localName]);
    else if (chosen?.case === localName) {
      changed[oneof.localName] = { case: localName, value: withTexts(field.message, chosen.value) };
    }
  }
  return changed;
}

function valueWithTexts({ fieldKind, message }: DescField, value: unknown): unknown {
  if (value === undefined || !message) return value;
  if (fieldKind === "list") return (value as readonly unknown[]).map((one) => withTexts(message, one));
  if (fieldKind !== "map") return withTexts(message, value);
  return Object.fromEntries(
    Object.entries(value as Fields).map(([key, one]) => [key, withTexts(message, one)]),
  );
}

/** The same for a structure, which is JSON already. */
function jsonWithTexts(json: unknown): unknown {
  if (isUnshown(json)) return String(json);
  if (Array.isArray(json)) return json.map(jsonWithTexts);
  if (typeof json !== "object" || json === null) return json;
  return Object.fromEntries(Object.entries(json).map(([key, one]) => [key, jsonWithTexts(one)]));
}

function isUnshown(value: unknown): value is number {
  return typeof value === "number" && !Number.isFinite(value);
}

function isMessage(value: unknown): boolean {
  return typeof value === "object" && value !== null && "$typeName" in value;
}
