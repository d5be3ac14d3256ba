/**
 * Server reflection (`grpc.reflection.v1` and `v1alpha`): the descriptors of everything a table serves.
 *
 * Clients use it to find the methods, their messages, and their options.
 */

import { ServerReflection } from "../../../proto/gen/reflection_pb.ts";
import type {
  ServerReflectionRequest,
  ServerReflectionResponseSchema,
} from "../../../proto/gen/reflection_pb.ts";
import { ServerReflection as ServerReflectionAlpha } from "../../../proto/gen/reflection_v1alpha_pb.ts";
import { CODES } from "../../base/error.ts";
import {
  type DescExtension,
  type DescFile,
  type DescMessage,
  FileDescriptorProtoSchema,
  type MessageInitShape,
  toBinary,
} from "../rpc/proto.ts";
import { type Service, service, type ServiceTable } from "../rpc/service.ts";

type Question = ServerReflectionRequest["messageRequest"];
type Answer = NonNullable<MessageInitShape<typeof ServerReflectionResponseSchema>["messageResponse"]>;

/** Both versions of the service. They describe what `table` serves when a client starts to ask. */
export function reflection(table: ServiceTable): Service[] {
  return [
    service(ServerReflection, {
      async *serverReflectionInfo(requests) {
        const files = new Files(table);
        for await (const request of requests) {
          const messageResponse = files.answer(request.messageRequest);
          yield { validHost: request.host, originalRequest: request, messageResponse };
        }
      },
    }),
    service(ServerReflectionAlpha, {
      async *serverReflectionInfo(requests) {
        const files = new Files(table);
        for await (const request of requests) {
          // The two versions differ only in their names.
          const messageResponse = files.answer(request.messageRequest as Question) as never;
          yield { validHost: request.host, originalRequest: request, messageResponse };
        }
      },
    }),
  ];
}

/** The files that one client may request, and those that it has received. */
class Files {
  readonly #services: string[] = [];
  readonly #byName = new Map<string, DescFile>();
  readonly #bySymbol = new Map<string, DescFile>();
  /** Files by extended type and extension number. */
  readonly #extensions = new Map<string, Map<number, DescFile>>();
  readonly #sent = new Set<DescFile>();

  constructor(table: ServiceTable) {
    for (const { desc } of table.services) {
      this.#services.push(desc.typeName);
      this.#addFile(desc.file);
    }
    this.#services.sort();
  }

  answer(question: Question): Answer {
    switch (question.case) {
      case "listServices": {
        const listed = this.#services.map((name) => ({ name }));
        return { case: "listServicesResponse", value: { service: listed } };
      }
      case "fileByFilename":
        return this.#file(this.#byName.get(question.value), `file "${question.value}"`);
      case "fileContainingSymbol":
        return this.#file(this.#bySymbol.get(question.value), `symbol "${question.value}"`);
      case "fileContainingExtension": {
        const { containingType, extensionNumber } = question.value;
        const file = this.#extensions.get(containingType)?.get(extensionNumber);
        return this.#file(file, `extension ${extensionNumber} of "${containingType}"`);
      }
      case "allExtensionNumbersOfType": {
        const numbers = this.#extensions.get(question.value);
        if (!numbers && !this.#bySymbol.has(question.value)) return notFound(`type "${question.value}"`);
        const value = { baseTypeName: question.value, extensionNumber: [...numbers?.keys() ?? []] };
        return { case: "allExtensionNumbersResponse", value };
      }
      default:
        return problem(CODES.invalid_argument, "the request asks for nothing");
    }
  }

  /** The file, and its dependencies that have not been sent yet. */
  #file(file: DescFile | undefined, wanted: string): Answer {
    if (!file) return notFound(wanted);
    const files = new Set([file]);
    for (const each of files) {
      this.#sent.add(each);
      for (const dependency of each.dependencies) if (!this.#sent.has(dependency)) files.add(dependency);
    }
    const fileDescriptorProto = [...files].map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
    return { case: "fileDescriptorResponse", value: { fileDescriptorProto } };
  }

  #addFile(file: DescFile): void {
    if (this.#byName.has(file.proto.name)) return;
    this.#byName.set(file.proto.name, file);
    for (const { typeName, methods } of file.services) {
      this.#bySymbol.set(typeName, file);
      for (const { name } of methods) this.#bySymbol.set(`${typeName}.${name}`, file);
    }
    for (const { typeName } of file.enums) this.#bySymbol.set(typeName, file);
    for (const message of file.messages) this.#addMessage(message, file);
    for (const extension of file.extensions) this.#addExtension(extension, file);
    for (const dependency of file.dependencies) this.#addFile(dependency);
  }

  #addMessage(message: DescMessage, file: DescFile): void {
    this.#bySymbol.set(message.typeName, file);
    for (const { typeName } of message.nestedEnums) this.#bySymbol.set(typeName, file);
    for (const nested of message.nestedMessages) this.#addMessage(nested, file);
    for (const extension of message.nestedExtensions) this.#addExtension(extension, file);
  }

  #addExtension(extension: DescExtension, file: DescFile): void {
    this.#bySymbol.set(extension.typeName, file);
    const { typeName } = extension.extendee;
    let numbers = this.#extensions.get(typeName);
    if (!numbers) this.#extensions.set(typeName, numbers = new Map());
    numbers.set(extension.number, file);
  }
}

function notFound(wanted: string): Answer {
  return problem(CODES.not_found, `there is no ${wanted} here`);
}

function problem(errorCode: number, errorMessage: string): Answer {
  return { case: "errorResponse", value: { errorCode, errorMessage } };
}
