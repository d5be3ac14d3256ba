/**
 * Requests made from descriptors alone: for any method, every place of its request that holds a text, and messages
 * with chosen texts in those places. A method that is added tomorrow is covered without a word here.
 */

import {
  create,
  type DescMessage,
  type DescMethod,
  type DescService,
  type Message,
  toBinary,
} from "../../../lib/wire/rpc/proto.ts";

type Field = DescMessage["fields"][number];

/** A place in a request that holds a text or a list of texts: the fields that lead there. */
export interface Place {
  readonly path: readonly Field[];
  /** `metadata.part_id` */
  readonly name: string;
}

/** What else a request says beside its texts. */
export type Filling =
  /** Nothing: every other field has its default. */
  | "bare"
  /** Every switch is on, every choice is made, every message is there. */
  | "full";

/** How deep messages inside messages are followed. */
const DEPTH_MAX = 5;
const STRING = 9;
const BOOL = 8;

/** All services in `proto/gen`, including unserved ones. */
export async function allServices(): Promise<DescService[]> {
  const folder = new URL("../../../proto/gen/", import.meta.url);
  const names = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) =>
    name.endsWith("_pb.ts")
  );
  const services: DescService[] = [];
  for (const name of names.sort()) {
    const file: Record<string, unknown> = await import(new URL(name, folder).href);
    for (const value of Object.values(file)) if (isService(value)) services.push(value);
  }
  return services;
}

function isService(value: unknown): value is DescService {
  return (value as { kind?: unknown } | undefined)?.kind === "service";
}

export function placesOf(desc: DescMessage, path: readonly Field[] = []): Place[] {
  if (path.length >= DEPTH_MAX) return [];
  return desc.fields.flatMap((field) => {
    const here = [...path, field];
    if (holdsText(field)) return [{ path: here, name: here.map(({ name }) => name).join(".") }];
    const inside = messageOf(field);
    const known = inside === undefined || path.some((one) => messageOf(one) === inside);
    return known ? [] : placesOf(inside, here);
  });
}

function holdsText(field: Field): boolean {
  if (field.fieldKind === "scalar") return field.scalar === STRING;
  return field.fieldKind === "list" && field.listKind === "scalar" && field.scalar === STRING;
}

/** The message in a field, or in each entry of its list; protobuf's own messages refer to nobody. */
function messageOf(field: Field): DescMessage | undefined {
  const list = field.fieldKind === "list" && field.listKind === "message";
  if (field.fieldKind !== "message" && !list) return undefined;
  return field.message!.typeName.startsWith("google.protobuf.") ? undefined : field.message!;
}

/** An encoded request with these texts; of places that exclude each other the last one counts. */
export function requestWith(
  method: DescMethod,
  texts: readonly (readonly [Place, string])[],
  filling: Filling,
): Uint8Array {
  const message = create(method.input);
  if (filling === "full") fill(method.input, message, 0);
  for (const [{ path }, text] of texts) put(message, path, text);
  return toBinary(method.input, message);
}

type Fields = Record<string, unknown>;

function fill(desc: DescMessage, message: Message, depth: number): void {
  for (const field of desc.fields) {
    // A choice between fields is made by the texts.
    if (field.oneof) continue;
    const fields = message as unknown as Fields;
    if (field.fieldKind === "scalar" && field.scalar === BOOL) fields[field.localName] = true;
    if (field.fieldKind === "enum") {
      fields[field.localName] = (field.enum.values[1] ?? field.enum.values[0]).number;
    }
    if (field.fieldKind !== "message" || depth >= DEPTH_MAX) continue;
    // Structs are plain objects, other well-known types stay away.
    if (field.message.typeName === "google.protobuf.Struct") fields[field.localName] = {};
    if (field.message.typeName.startsWith("google.protobuf.")) continue;
    const inside = create(field.message);
    fill(field.message, inside, depth + 1);
    fields[field.localName] = inside;
  }
}

function put(message: Message, [field, ...rest]: readonly Field[], text: string): void {
  const there = valueIn(message, field);
  if (rest.length === 0) return set(message, field, field.fieldKind === "list" ? [text] : text);
  const list = field.fieldKind === "list";
  const inside = (list ? (there as Message[] | undefined)?.[0] : there as Message | undefined) ??
    create(messageOf(field)!);
  put(inside, rest, text);
  set(message, field, list ? [inside] : inside);
}

function valueIn(message: Message, field: Field): unknown {
  const fields = message as unknown as Fields;
  if (!field.oneof) return fields[field.localName];
  const chosen = fields[field.oneof.localName] as { case?: string; value?: unknown };
  return chosen.case === field.localName ? chosen.value : undefined;
}

function set(message: Message, field: Field, value: unknown): void {
  const fields = message as unknown as Fields;
  if (field.oneof) fields[field.oneof.localName] = { case: field.localName, value };
  else fields[field.localName] = value;
}
