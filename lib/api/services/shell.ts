/**
 * Shell: a terminal on the machine, and copies of files to and from it.
 *
 * A copy is a sequence of files, each in parts: the first part says which file, the last part ends it, and the
 * receiver acknowledges each whole file before the next one begins.
 */

import {
  CopyFilesSourceType,
  type CopyFilesToMachineRequest,
  type FileData,
  type FileDataSchema,
  ShellService,
} from "../../../proto/gen/shell_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import type { JsonObject as Struct, MessageInitShape } from "../../wire/rpc/proto.ts";
import { type CallContext, service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Resource } from "../../resource/resource.ts";
import { ResourceClient, resourceHandlers } from "../shared/resource.ts";
import { toMs, toTimestamp } from "../shared/time.ts";

export interface ShellInput {
  /** As typed. */
  readonly text?: string;
  /** Beside the text: `{"message": "window-change", "cols": 80, "rows": 24}`. */
  readonly message?: JsonObject;
}

export interface ShellOutput {
  readonly text: string;
  /** Of a shell that keeps its errors apart. */
  readonly error?: string;
}

/** What a copy begins from. The word decides what the name of the destination means. */
export type CopySource = "file" | "folder" | "files";

export interface CopyToMachine {
  readonly source: CopySource;
  /** Relative to the home folder of the machine's user. */
  readonly destination: string;
  /** Whether times and permissions are kept. */
  readonly preserve: boolean;
}

export interface CopyFromMachine {
  /** Relative to the home folder of the machine's user. */
  readonly paths: readonly string[];
  readonly recursive: boolean;
  readonly preserve: boolean;
}

export interface CopiedFile {
  /** Below the destination, with "/" between its parts. */
  readonly name: string;
  readonly sizeBytes: number;
  readonly isFolder: boolean;
  readonly modifiedMs?: number;
  readonly mode?: number;
}

export interface FilePart {
  /** Of the first part of a file only. */
  readonly file?: CopiedFile;
  readonly data: Uint8Array;
  readonly isLast: boolean;
}

export interface Shell extends Resource {
  /**
   * Runs a shell in a terminal until it ends; the end of `input` is typed as the end of input. `call.extra` may have
   * `messages`, which come before the input.
   */
  shell(input: AsyncIterable<ShellInput>, call?: Call): AsyncIterable<ShellOutput>;
  /** Yields once for each file that is whole on the machine. */
  copyToMachine(to: CopyToMachine, parts: AsyncIterable<FilePart>, call?: Call): AsyncIterable<void>;
  /** The next file follows when `taken` yields. The files of a folder come before the folder. */
  copyFromMachine(
    from: CopyFromMachine,
    taken: AsyncIterable<void>,
    call?: Call,
  ): Promise<{ readonly source: CopySource; readonly parts: AsyncIterable<FilePart> }>;
}

class ShellClient extends ResourceClient<typeof ShellService> implements Shell {
  async *shell(input: AsyncIterable<ShellInput>, call?: Call): AsyncGenerator<ShellOutput> {
    const opening = this.request(call);
    const requests = async function* () {
      yield opening;
      for await (const { text, message } of input) {
        yield { name: opening.name, dataIn: text, extra: message as Struct | undefined };
      }
    };
    for await (const { dataOut: text, dataErr, eof } of this.rpc.shell(requests(), call)) {
      if (text !== "" || dataErr !== "") yield { text, error: dataErr === "" ? undefined : dataErr };
      if (eof) return;
    }
  }

  async *copyToMachine(
    { source, destination, preserve }: CopyToMachine,
    parts: AsyncIterable<FilePart>,
    call?: Call,
  ): AsyncGenerator<void> {
    const metadata = { ...this.request(call), sourceType: SOURCES[source], destination, preserve };
    const requests = async function* () {
      yield { request: { case: "metadata" as const, value: metadata } };
      for await (const part of parts) {
        for (const value of toFileMessages(part)) yield { request: { case: "fileData" as const, value } };
      }
    };
    for await (const _ of this.rpc.copyFilesToMachine(requests(), call)) yield;
  }

  async copyFromMachine(from: CopyFromMachine, taken: AsyncIterable<void>, call?: Call) {
    const { paths, recursive: allowRecursion, preserve } = from;
    const metadata = { ...this.request(call), paths: [...paths], allowRecursion, preserve };
    const requests = async function* () {
      yield { request: { case: "metadata" as const, value: metadata } };
      for await (const _ of taken) yield { request: { case: "ackLastFile" as const, value: true } };
    };
    const answers = this.rpc.copyFilesFromMachine(requests(), call)[Symbol.asyncIterator]();
    const first = (await answers.next()).value?.response;
    if (first?.case !== "metadata") {
      throw new SvcError("internal", `${this.name} began a copy without saying what it copies`);
    }

    const parts = async function* () {
      for (let next = await answers.next(); !next.done; next = await answers.next()) {
        const { response } = next.value;
        if (response.case === "fileData") yield fromFileMessage(response.value);
      }
    };
    return { source: sourceOf(first.value.sourceType), parts: parts() };
  }
}

export const ShellApi: Api<Shell> = {
  name: "rdk:service:shell",
  desc: ShellService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) => new ShellClient(name, channel, ShellService),
  serve: (find) =>
    service(ShellService, {
      ...resourceHandlers(find),
      shell: async function* (requests, ctx) {
        const [{ name, dataIn: text, extra }, rest] = await opened(requests, ctx);
        const input = async function* () {
          if (text !== "") yield { text };
          for await (const { dataIn: text, extra } of rest) yield { text, message: extra as JsonObject };
        };
        const call = { extra: extra as JsonObject | undefined, signal: ctx.signal };
        for await (const { text: dataOut, error: dataErr } of find(name).shell(input(), call)) {
          yield { dataOut, dataErr };
        }
        yield { eof: true };
      },
      copyFilesToMachine: async function* (requests, ctx) {
        const [{ request }, rest] = await opened(requests, ctx);
        if (request.case !== "metadata") throw notNamed(ctx, request.case);
        const { name, sourceType, destination, preserve, extra } = request.value;
        const to = { source: sourceOf(sourceType), destination, preserve };
        const call = { extra: extra as JsonObject | undefined, signal: ctx.signal };
        const copied = find(name).copyToMachine(to, partsOf(rest, ctx), call);
        for await (const _ of copied) yield { ackLastFile: true };
      },
      copyFilesFromMachine: async function* (requests, ctx) {
        const [{ request }, rest] = await opened(requests, ctx);
        if (request.case !== "metadata") throw notNamed(ctx, request.case);

        const { name, paths, allowRecursion: recursive, preserve, extra } = request.value;
        const taken = async function* () {
          for await (const _ of rest) yield;
        };
        const call = { extra: extra as JsonObject | undefined, signal: ctx.signal };
        const { source, parts } = await find(name).copyFromMachine(
          { paths, recursive, preserve },
          taken(),
          call,
        );
        yield { response: { case: "metadata" as const, value: { sourceType: SOURCES[source] } } };
        for await (const part of parts) {
          for (const value of toFileMessages(part)) yield { response: { case: "fileData" as const, value } };
        }
      },
    }),
};

/** The first request, and the others. */
async function opened<T>(requests: AsyncIterable<T>, ctx: CallContext): Promise<[T, AsyncGenerator<T>]> {
  const iterator = requests[Symbol.asyncIterator]();
  const first = await iterator.next();
  if (first.done) throw new SvcError("invalid_argument", `${ctx.path} got no request`);
  const rest = async function* () {
    try {
      for (let next = await iterator.next(); !next.done; next = await iterator.next()) yield next.value;
    } finally {
      await iterator.return?.();
    }
  };
  return [first.value, rest()];
}

function notNamed(ctx: CallContext, found: string | undefined): SvcError {
  return new SvcError("invalid_argument", `${ctx.path} began with ${found ?? "nothing"}, wanted metadata`);
}

async function* partsOf(
  requests: AsyncIterable<CopyFilesToMachineRequest>,
  ctx: CallContext,
): AsyncGenerator<FilePart> {
  for await (const { request } of requests) {
    if (request.case !== "fileData") {
      const found = `found ${request.case ?? "nothing"}, wanted file data`;
      throw new SvcError("invalid_argument", `${ctx.path}: ${found}`);
    }
    yield fromFileMessage(request.value);
  }
}

/** Published receivers drop what comes with the mark of the end, so that comes alone. */
function toFileMessages({ file, data, isLast: eof }: FilePart): MessageInitShape<typeof FileDataSchema>[] {
  const header = file && {
    name: file.name,
    size: BigInt(file.sizeBytes),
    isDir: file.isFolder,
    modTime: file.modifiedMs === undefined ? undefined : toTimestamp(file.modifiedMs),
    mode: file.mode,
  };
  return eof && data.length > 0 ? [{ ...header, data }, { eof }] : [{ ...header, data, eof }];
}

function fromFileMessage({ name, size, isDir, data, eof, modTime, mode }: FileData): FilePart {
  const modifiedMs = modTime === undefined ? undefined : toMs(modTime);
  const file = name === "" ? undefined : { name, sizeBytes: Number(size), isFolder: isDir, modifiedMs, mode };
  return { file, data, isLast: eof };
}

const SOURCES = {
  file: CopyFilesSourceType.SINGLE_FILE,
  folder: CopyFilesSourceType.SINGLE_DIRECTORY,
  files: CopyFilesSourceType.MULTIPLE_FILES,
} as const;

function sourceOf(type: CopyFilesSourceType): CopySource {
  const found = (Object.keys(SOURCES) as CopySource[]).find((word) => SOURCES[word] === type);
  if (found) return found;
  throw new SvcError(
    "invalid_argument",
    `cannot copy from source type ${type}, wanted a file, folder or files`,
  );
}
