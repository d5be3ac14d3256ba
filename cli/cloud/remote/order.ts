/** A command line as an order to a control plane elsewhere, with the files that it names. */

import { basename, dirname, join, resolve } from "node:path";
import type {
  CommandFileSchema,
  CommandOrderSchema,
  CommandValueSchema,
} from "../../../proto/gen/commands_pb.ts";
import { SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import { CARRIED, FILE_NAME } from "../../../lib/cloud/commands/command_files.ts";
import type { MessageInitShape } from "../../../lib/wire/rpc/proto.ts";
import type { Command, CommandContext } from "../../command.ts";
import { type Flag, UsageError, valueKeyOf } from "../../flags.ts";
import { UploadContent } from "../registry/content.ts";
import { HOST_FLAGS, type RemoteRow, wordNames } from "./rows.ts";

export type RemoteCommand = Pick<Command<CommandContext>, "words" | "takes" | "flags">;
export type AnyValues = { readonly [key: string]: unknown };

/** A file that goes with an order, or comes back. */
export interface OrderFile {
  /** As the caller has named it. */
  readonly given: string;
  /** As the control plane names it. */
  readonly path: string;
  readonly isResult: boolean;
  readonly bytes: number;
  readonly content: () => AsyncIterable<Uint8Array>;
}

export interface Order {
  readonly message: MessageInitShape<typeof CommandOrderSchema>;
  readonly files: readonly OrderFile[];
}

type Value = MessageInitShape<typeof CommandValueSchema>;

export async function buildOrder(
  { words: command, takes, flags }: RemoteCommand,
  row: RemoteRow,
  given: readonly string[],
  values: AnyValues,
  host: Host,
): Promise<Order> {
  const files = new OrderFiles(host, row);
  const places = wordNames(takes, given.length);
  const words: Value[] = [];
  for (const [at, text] of given.entries()) words.push(await files.valueIn("", places[at] ?? "", text));
  const set: Value[] = [];
  for (const flag of flags) {
    for (const text of textsOf(flag, values[valueKeyOf(flag)], host)) {
      set.push(await files.valueIn(flag.name, `--${flag.name}`, text));
    }
  }
  if (row.beside && values[valueKeyOf({ name: row.beside.flag, type: "bool" } as Flag)] === true) {
    await files.addBeside(row.beside.names);
  }
  const message = {
    command,
    words,
    flags: set,
    columns: host.columns() ?? 0,
    coloured: host.coloured(),
    files: files.messages,
  };
  return { message, files: files.all };
}

/** A flag's values as a command line has them; none if it has its default. */
function textsOf(flag: Flag, value: unknown, host: Host): string[] {
  const isDefault = value === undefined || JSON.stringify(value) === JSON.stringify(flag.default);
  if (isDefault) return [];
  if (HOST_FLAGS.has(flag.name)) {
    // A variable of this host is not about the control plane elsewhere.
    if (flag.env !== undefined && host.env(flag.env)?.trim() === value) return [];
    throw new UsageError(`--${flag.name}: a control plane elsewhere has its own; leave it out`);
  }
  if (Array.isArray(value)) return value.map(String);
  return [flag.type === "duration" ? `${value}ms` : String(value)];
}

class OrderFiles {
  readonly all: OrderFile[] = [];
  readonly messages: MessageInitShape<typeof CommandFileSchema>[] = [];

  constructor(private readonly host: Host, private readonly row: RemoteRow) {}

  async valueIn(name: string, place: string, text: string): Promise<Value> {
    const { reads = [], packs = [], writes = [] } = this.row;
    // An empty value of a flag names no file.
    if (text === "" || ![...reads, ...packs, ...writes].includes(place)) {
      return { name, value: { case: "text", value: text } };
    }
    const isResult = writes.includes(place);
    const content = isResult ? NO_CONTENT : await this.#openContent(text, packs.includes(place));
    return { name, value: { case: "file", value: this.#add(text, this.all.length, isResult, content) } };
  }

  /** Files in the folder of the first one; the command says which is missing. */
  async addBeside(names: readonly string[]): Promise<void> {
    const [first] = this.all;
    if (!first) return;
    for (const name of names) {
      const path = join(dirname(first.given), name);
      if (await this.host.fileSize(path) !== undefined) {
        this.#add(path, 0, false, await this.#openContent(path, false));
      }
    }
  }

  #add(given: string, folder: number, isResult: boolean, content: Content): number {
    const name = content.name ?? nameOf(given);
    this.messages.push({ name, folder, isResult });
    return this.all.push({ given, path: `${CARRIED}${folder}/${name}`, isResult, ...content }) - 1;
  }

  async #openContent(path: string, packs: boolean): Promise<Content> {
    const { host } = this;
    const facts = await host.stat(path);
    if (!facts) throw new SvcError("not_found", `there is no file ${path}`);
    if (packs && facts.kind === "folder") {
      const upload = await UploadContent.open(host, path);
      const name = `${nameOf(resolve(host.cwd(), path))}.tar.gz`;
      return { name, bytes: await upload.size(), content: () => upload.bytes(() => {}) };
    }
    const bytes = await host.fileSize(path);
    if (bytes !== undefined) return { bytes, content: () => host.readPieces(path) };
    // A pipe, such as /dev/stdin.
    const whole = await host.readFile(path);
    return { bytes: whole.length, content: () => piecesOf(whole) };
  }
}

interface Content {
  /** If it is not that of the given path. */
  readonly name?: string;
  readonly bytes: number;
  readonly content: () => AsyncIterable<Uint8Array>;
}

const NO_CONTENT: Content = { bytes: 0, content: () => piecesOf(new Uint8Array()) };
const PIECE_BYTES = 64 * 1024;

async function* piecesOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
}

/** The name of a file as every system takes it. */
function nameOf(path: string): string {
  const name = basename(path).replaceAll(/[^\p{L}\p{N}_ .+=@-]/gu, "_").slice(-100);
  return FILE_NAME.test(name) ? name : `_${name}`;
}
