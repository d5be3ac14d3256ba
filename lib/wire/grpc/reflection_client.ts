/**
 * The client of server reflection: fetches the descriptor of a service that this program was not built with.
 *
 * It tries the newer version of the service, then the older one. It guarantees only that the descriptor is consistent;
 * its content is the server's.
 */

import { ServerReflection, type ServerReflectionRequest } from "../../../proto/gen/reflection_pb.ts";
import { ServerReflection as ServerReflectionAlpha } from "../../../proto/gen/reflection_v1alpha_pb.ts";
import { SvcError } from "../../base/error.ts";
import { type CallOptions, type Channel, client } from "../rpc/channel.ts";
import { Decoder } from "../rpc/decoder.ts";
import {
  createFileRegistry,
  type DescService,
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
} from "../rpc/proto.ts";

/** Limit of files; a service with more is skipped. */
const FILES_MAX = 200;
/** Limit of their bytes; the description of everything that this program serves takes a tenth of it. */
const FILE_BYTES_MAX = 4 * 1024 * 1024;

type Question = ServerReflectionRequest["messageRequest"];

/**
 * The description of service `typeName` by the server behind `channel`.
 *
 * @throws not_found if it does not describe the service; invalid_argument if the files do not fit together; errors of calls
 */
export async function describeService(
  channel: Channel,
  typeName: string,
  limits: CallOptions,
): Promise<DescService> {
  const files = new Map<string, FileDescriptorProto>();
  const decoder = new Decoder();
  let count = 0, fileBytes = 0;
  const take = async (question: Question) => {
    const encoded = await ask(channel, question, limits);
    count += encoded.length;
    fileBytes += encoded.reduce((sum, { length }) => sum + length, 0);
    if (count > FILES_MAX || fileBytes > FILE_BYTES_MAX) {
      const found = `${typeName} is described by ${count} files of ${fileBytes} bytes`;
      const wanted = `wanted at most ${FILES_MAX} of ${FILE_BYTES_MAX} bytes`;
      throw new SvcError("resource_exhausted", `${found}, ${wanted}`);
    }
    for (const bytes of encoded) {
      const file = decoder.decode(FileDescriptorProtoSchema, bytes);
      files.set(file.name, file);
    }
  };
  await take({ case: "fileContainingSymbol", value: typeName });

  // Servers may leave it to the client to request dependencies. The loop extends the map.
  for (const { dependency } of files.values()) {
    for (const value of dependency) if (!files.has(value)) await take({ case: "fileByFilename", value });
  }
  const root = [...files.values()].find((file) => declares(file, typeName));
  if (!root) throw new SvcError("not_found", `the server sent no file that declares ${typeName}`);

  let found: DescService | undefined;
  try {
    found = createFileRegistry(root, (name) => files.get(name)).getService(typeName);
  } catch (cause) {
    throw new SvcError("invalid_argument", `the files that describe ${typeName} do not fit together`, {
      cause,
    });
  }

  if (!found) throw new SvcError("not_found", `${root.name} does not declare ${typeName}`);
  return found;
}

function declares({ package: folder, service }: FileDescriptorProto, typeName: string): boolean {
  return service.some(({ name }) => (folder === "" ? name : `${folder}.${name}`) === typeName);
}

async function ask(
  channel: Channel,
  question: Question,
  limits: CallOptions,
): Promise<Uint8Array[]> {
  const requests = () => one({ host: "", messageRequest: question });
  try {
    return await collectFiles(
      client(ServerReflection, channel).serverReflectionInfo(requests(), limits),
      question,
    );
  } catch (error) {
    if (SvcError.from(error).code !== "unimplemented") throw error;
    const older = client(ServerReflectionAlpha, channel);
    // The two versions differ only in their names.
    return await collectFiles(older.serverReflectionInfo(requests() as never, limits), question);
  }
}

async function* one<T>(request: T): AsyncGenerator<T> {
  yield await Promise.resolve(request);
}

interface Answer {
  readonly messageResponse: { readonly case?: string; readonly value?: unknown };
}

async function collectFiles(answers: AsyncIterable<Answer>, question: Question): Promise<Uint8Array[]> {
  for await (const { messageResponse: { case: kind, value } } of answers) {
    if (kind === "fileDescriptorResponse") {
      const { fileDescriptorProto } = value as { fileDescriptorProto: Uint8Array[] };
      return fileDescriptorProto;
    }
    const { errorMessage = "no files" } = (value ?? {}) as { errorMessage?: string };
    throw new SvcError("not_found", `the server answers a question for ${question.value}: ${errorMessage}`);
  }
  throw new SvcError("unavailable", `the server did not answer a question for ${question.value}`);
}
