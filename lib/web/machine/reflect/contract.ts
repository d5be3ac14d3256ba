/**
 * The methods of any API, published or of a module, from the contract that the machine gives: what each takes, as
 * fields of a form, and how to call it.
 */

import {
  createRegistryFromDescriptors,
  type EnumType,
  type FieldInfo,
  FileDescriptorProto,
  FileDescriptorSet,
  type IMessageTypeRegistry,
  type JsonValue,
  type Message,
  type MessageType,
  type MethodInfo,
  MethodKind,
  type ServiceType,
} from "@bufbuild/protobuf";
import type { RobotClient } from "@viamrobotics/sdk";
import { pageServiceOf } from "../link/page_service.ts";

/** Bytes of an answer that are shown. */
const SHOWN_BYTES = 64;

export interface ContractMethod {
  readonly name: string;
  readonly info: MethodInfo;
  readonly streamsAnswer: boolean;
  /** Takes a stream of requests: only over WebRTC, and the form sends one. */
  readonly streamsRequest: boolean;
}

/** Kinds of inputs of a form. */
export type FormKind = "number" | "text" | "bool" | "bytes" | "enum" | "message" | "json";

export interface FormField {
  /** As in JSON: `positionRevolutions`. */
  readonly key: string;
  readonly label: string;
  readonly kind: FormKind;
  readonly repeated: boolean;
  readonly choices: readonly string[];
  readonly fields: () => readonly FormField[];
}

export class Contract {
  readonly methods: readonly ContractMethod[];

  constructor(readonly service: ServiceType, private readonly registry: IMessageTypeRegistry) {
    this.methods = Object.values(service.methods).map((info) => ({
      name: info.name,
      info,
      streamsAnswer: info.kind === MethodKind.ServerStreaming || info.kind === MethodKind.BiDiStreaming,
      streamsRequest: info.kind === MethodKind.ClientStreaming || info.kind === MethodKind.BiDiStreaming,
    }));
  }

  /** Calls a method with a request as JSON; yields its answers as JSON. */
  async *call(client: RobotClient, method: ContractMethod, request: JsonValue, signal: AbortSignal) {
    const typeRegistry = this.registry;
    const message = method.info.I.fromJson(request, { typeRegistry });
    const caller = client.createServiceClient(this.service) as unknown as Record<
      string,
      (request: unknown, options: { signal: AbortSignal }) => AsyncIterable<Message> | Promise<Message>
    >;
    const run = caller[localName(this.service, method.info)];
    if (!run) throw new Error(`the service has no method ${method.name}`);
    const argument = method.streamsRequest
      ? (async function* () {
        yield message;
      })()
      : message;
    const answer = run(argument, { signal });
    const json = (one: Message) => shortened(one.toJson({ typeRegistry, emitDefaultValues: true }));
    if (Symbol.asyncIterator in answer) {
      for await (const one of answer) yield json(one);
    } else {
      yield json(await answer);
    }
  }
}

/** Asks the machine for the contract of an API. */
export async function fetchContract(client: RobotClient, api: string): Promise<Contract> {
  const { service: name, files } = await pageServiceOf(client).describeApi({ api });
  const set = new FileDescriptorSet({ file: files.map((bytes) => FileDescriptorProto.fromBinary(bytes)) });
  const registry = createRegistryFromDescriptors(set);
  const service = registry.findService(name);
  if (!service) throw new Error(`the contract of ${api} has no ${name}`);
  return new Contract(service, registry);
}

/** The fields of a request that a person fills in: all but the name of the resource. */
export function formOf(type: MessageType, isRequest = false): readonly FormField[] {
  return type.fields.list().filter(({ name }) => !isRequest || name !== "name").map(fieldOf);
}

function fieldOf(field: FieldInfo): FormField {
  const label = field.name.replaceAll("_", " ");
  const common = { key: field.jsonName, label, repeated: field.repeated, choices: [], fields: () => [] };
  if (field.kind === "map") return { ...common, repeated: false, kind: "json" };
  if (field.kind === "enum") {
    return { ...common, kind: "enum", choices: (field.T as EnumType).values.map(({ name }) => name) };
  }
  if (field.kind === "message") {
    const type = field.T as MessageType;
    // Well-known types have a form of their own in JSON.
    if (type.typeName.startsWith("google.protobuf.")) return { ...common, repeated: false, kind: "json" };
    return { ...common, kind: "message", fields: () => formOf(type) };
  }
  const kinds: Readonly<Record<number, FormKind>> = { 8: "bool", 9: "text", 12: "bytes" };
  return { ...common, kind: kinds[field.T] ?? "number" };
}

function localName(service: ServiceType, info: MethodInfo): string {
  const found = Object.entries(service.methods).find(([, one]) => one.name === info.name);
  return found?.[0] ?? info.name;
}

/** Long texts, such as pictures as base64, by their beginning and length. */
function shortened(value: JsonValue): JsonValue {
  if (typeof value === "string" && value.length > SHOWN_BYTES * 40) {
    return `${value.slice(0, SHOWN_BYTES)}… (${value.length} characters)`;
  }
  if (Array.isArray(value)) return value.map(shortened);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, shortened(one)]));
  }
  return value;
}
