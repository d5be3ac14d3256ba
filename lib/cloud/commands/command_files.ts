/**
 * The files of a remote command, in a private folder: those that the caller sends, and those that the command leaves
 * for the caller.
 */

import { join } from "node:path";
import type { CommandFile, RunResponseSchema } from "../../../proto/gen/commands_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { MessageInitShape } from "../../wire/rpc/proto.ts";
import type { RequestReader } from "./request_reader.ts";

/** The folders of files, as both sides name them. */
export const CARRIED = "carried-";
/** A file name without folders, of characters that no system interprets. */
export const FILE_NAME = /^[\p{L}\p{N}_][\p{L}\p{N}_ .+=@-]{0,150}$/u;

const FILES_MAX = 16;

export class CommandFiles {
  private constructor(
    private readonly host: ReadFiles & WriteFiles,
    readonly folder: string,
    readonly paths: readonly { readonly path: string; readonly isResult: boolean }[],
    private readonly bytesMax: number,
  ) {}

  static async open(
    host: ReadFiles & WriteFiles,
    files: readonly CommandFile[],
    bytesMax: number,
  ): Promise<CommandFiles> {
    if (files.length > FILES_MAX) {
      throw new SvcError("invalid_argument", `found ${files.length} files, wanted at most ${FILES_MAX}`);
    }
    const paths = files.map(({ name, folder, isResult }) => {
      if (!FILE_NAME.test(name) || folder >= FILES_MAX) {
        throw new SvcError("invalid_argument", `found ${JSON.stringify(name)}, wanted the name of a file`);
      }
      return { path: `${CARRIED}${folder}/${name}`, isResult };
    });
    if (new Set(paths.map(({ path }) => path.toLowerCase())).size < paths.length) {
      throw new SvcError("invalid_argument", "two files of the order have one name");
    }
    const folder = await host.temporaryFolder("svc-command-");
    const opened = new CommandFiles(host, folder, paths, bytesMax);
    try {
      for (const one of files) {
        await host.makeFolder(join(folder, `${CARRIED}${one.folder}`), { mode: 0o700 });
      }
    } catch (error) {
      await opened[Symbol.asyncDispose]();
      throw error;
    }
    return opened;
  }

  /** Stores what the caller sends, up to `begin`. */
  async receive(requests: RequestReader): Promise<void> {
    let bytes = 0;
    const contentOf = async function* (this: CommandFiles, file: number) {
      for (let next = await requests.peek(); next?.case === "content"; next = await requests.peek()) {
        if (next.value.file !== file) return;
        bytes += next.value.data.length;
        if (bytes > this.bytesMax) {
          throw new SvcError(
            "resource_exhausted",
            `limit file_bytes_per_command: the files have more than ${this.bytesMax} bytes; whoever runs this ` +
              "control plane sets it in the file of svc-cloud serve --limits",
          );
        }
        yield next.value.data;
        await requests.take();
      }
    };
    for (const [index, { path, isResult }] of this.paths.entries()) {
      if (isResult) continue;
      await this.host.writePieces(join(this.folder, path), contentOf.call(this, index), { mode: 0o600 });
    }
    if ((await requests.take())?.case === "begin") return;
    throw new SvcError("invalid_argument", "the contents of the files are incomplete or not in their order");
  }

  /** Sends the files that the command has left for the caller. */
  async *results(): AsyncGenerator<MessageInitShape<typeof RunResponseSchema>> {
    for (const [file, { path, isResult }] of this.paths.entries()) {
      const whole = join(this.folder, path);
      if (!isResult || await this.host.fileSize(whole) === undefined) continue;
      for await (const data of this.host.readPieces(whole)) {
        yield { part: { case: "result", value: { file, data } } };
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host.removeTree(this.folder);
  }
}
