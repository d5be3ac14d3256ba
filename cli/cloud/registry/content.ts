/**
 * The content of an upload: an archive, or a folder that is packed, looked into before it is sent.
 *
 * A module or a map is checked by the machine's own code, so that a package which no machine could use is refused with
 * the words that the machine would use.
 */

import { join, resolve } from "node:path";
import { messageOf, SvcError } from "../../../lib/base/error.ts";
import {
  type ArchiveFile,
  fileToPack,
  linkToPack,
  packed,
  unpacked,
  unpackWithLinks,
} from "../../../lib/base/files/archive.ts";
import { readHead } from "../../../lib/base/files/head.ts";
import type { ReadFiles } from "../../../lib/base/files/files.ts";
import type { Host } from "../../../lib/base/host.ts";
import { HEAD_BYTES, notAProgram } from "../../../lib/base/release/program_head.ts";
import { isObject, type JsonObject } from "../../../lib/base/schema/schema.ts";
import { openPbstream } from "../../../lib/slam/pbstream/pbstream.ts";
import { parseApi, parseModel } from "../../../lib/resource/name.ts";
import { packagedProgram } from "../../../lib/machine/modules/program.ts";
import { UsageError } from "../../flags.ts";
import { heardPieces, type ShareHeard } from "../../progress/items_progress.ts";
import { PACKAGE_KINDS, type PackageKind } from "../../../lib/cloud/packages/item.ts";

/** Unpacked. */
const LIMITS = { filesMax: 100_000, bytesMax: 32 * 1024 ** 3 };
const META_BYTES_MAX = 1_000_000;
/** Nothing of a package: repositories, and what Python writes beside its sources. */
const LEFT_OUT = /(?:^|\/)(?:\.git|\.hg|__pycache__|\.DS_Store)(?:\/|$)/;
const PROCESSORS: { readonly [machine: number]: string | undefined } = {
  0x3e: "amd64",
  0xb7: "arm64",
  0x28: "arm",
};

/** A file or folder that is to become a package. */
export class UploadContent {
  private constructor(
    private readonly host: Host,
    readonly path: string,
    private readonly isFolder: boolean,
    /** The package's `meta.json`, if it has one. */
    readonly meta: JsonObject | undefined,
  ) {}

  static async open(host: Host, path: string): Promise<UploadContent> {
    const whole = resolve(host.cwd(), path);
    const facts = await host.stat(whole);
    if (!facts) throw new SvcError("not_found", `there is no file or folder ${path}`);
    const isFolder = facts.kind === "folder";
    const text = isFolder ? await metaOfFolder(host, whole) : await metaOfArchive(host, whole, path);
    const meta = text === undefined ? undefined : parseMeta(text, `${path}: meta.json`);
    return new UploadContent(host, whole, isFolder, meta);
  }

  /** The bytes of the archive. `heard` gets the share that has been read. */
  async *bytes(heard: ShareHeard): AsyncGenerator<Uint8Array> {
    if (this.isFolder) return yield* packed(this.#filesOfFolder(heard));
    const bytes = await this.host.fileSize(this.path) ?? 0;
    yield* heardPieces(this.host.readPieces(this.path), bytes, heard);
  }

  /** The bytes of the file, or of the files in the folder. */
  async size(): Promise<number> {
    if (!this.isFolder) return await this.host.fileSize(this.path) ?? 0;
    return bytesOf(await filesIn(this.host, this.path));
  }

  /** Throws if no machine could run this module on `platform`; returns the platform of its program, if it has one. */
  async checkModule(name: string, platform: string): Promise<string> {
    if (this.isFolder) return await this.#checkFolder(this.path, name, platform);
    const folder = await this.host.temporaryFolder("svc-upload-");
    try {
      await unpackWithLinks(this.host, folder, this.host.readPieces(this.path), LIMITS);
      return await this.#checkFolder(folder, name, platform);
    } catch (error) {
      const { code, message } = SvcError.from(error);
      throw new SvcError(code, message.replaceAll(folder, this.path), { cause: error });
    } finally {
      await this.host.removeTree(folder);
    }
  }

  /** Throws if a map in it is damaged: every machine that gets it would stop finding its place. */
  async checkMaps(): Promise<void> {
    const files = this.isFolder
      ? this.#filesOfFolder(() => {})
      : unpacked(this.host.readPieces(this.path), LIMITS);
    for await (const { path, content } of files) {
      if (!path.endsWith(".pbstream")) continue;
      try {
        const { items } = await openPbstream(piecesOf(content));
        for await (const _ of items);
      } catch (cause) {
        const message = `no machine could use ${path} of ${this.path}: ${messageOf(cause)}`;
        throw new SvcError("failed_precondition", message, { cause });
      }
    }
  }

  async #checkFolder(folder: string, name: string, platform: string): Promise<string> {
    const { path } = await packagedProgram(folder, name, this.host);
    const own = platformOfProgram(await readHead(this.host, path, HEAD_BYTES));
    if (own !== "" && platform !== "" && own !== platform) {
      const message =
        `cannot run module "${name}": ${path} is a program for ${own}, wanted one for ${platform}`;
      throw new SvcError("failed_precondition", message);
    }
    return platform || own;
  }

  async *#filesOfFolder(heard: ShareHeard): AsyncIterable<ArchiveFile> {
    const files = await filesIn(this.host, this.path);
    const total = Math.max(bytesOf(files), 1);
    let before = 0;
    for (const file of files) {
      const { bytes } = file, start = before;
      const share: ShareHeard = (own) => heard((start + own * bytes) / total);
      yield { ...file, content: heardPieces(piecesOf(file.content), bytes, share) };
      before += bytes;
    }
  }
}

/** The files of a folder that belong into its package, sorted. */
async function filesIn(host: ReadFiles, root: string, prefix = ""): Promise<ArchiveFile[]> {
  const files: ArchiveFile[] = [];
  for (const { name, kind } of await host.entries(join(root, prefix))) {
    const path = `${prefix}${name}`;
    if (LEFT_OUT.test(path)) continue;
    if (kind === "folder") files.push(...await filesIn(host, root, `${path}/`));
    if (kind === "link") files.push(await linkToPack(host, root, path));
    const facts = kind === "file" ? await host.stat(join(root, path)) : undefined;
    if (facts) files.push(fileToPack(host, root, path, facts));
  }
  return files;
}

function bytesOf(files: readonly ArchiveFile[]): number {
  return files.reduce((sum, { bytes }) => sum + bytes, 0);
}

async function* piecesOf(content: ArchiveFile["content"]): AsyncGenerator<Uint8Array> {
  yield* content;
}

/** As `linux/arm64`; empty for what is no program for Linux or Windows, such as a script. */
function platformOfProgram(head: Uint8Array): string {
  for (const arch of ["amd64", "arm64"]) {
    if (notAProgram(head, { os: "windows", arch }) === undefined) return `windows/${arch}`;
  }
  const isElf = head[0] === 0x7f && head[1] === 0x45 && head[2] === 0x4c && head[3] === 0x46;
  const [low = 0, high = 0] = head.subarray(18, 20);
  const processor = isElf ? PROCESSORS[low | (high << 8)] : undefined;
  return processor === undefined ? "" : `linux/${processor}`;
}

async function metaOfFolder(host: Host, folder: string): Promise<string | undefined> {
  const path = join(folder, "meta.json");
  const size = await host.fileSize(path);
  if (size === undefined) return undefined;
  if (size > META_BYTES_MAX) {
    throw new SvcError("invalid_argument", `${path} has ${size} bytes, wanted at most ${META_BYTES_MAX}`);
  }
  return await host.readTextFile(path);
}

async function metaOfArchive(host: Host, archive: string, shown: string): Promise<string | undefined> {
  try {
    for await (const { path, bytes, content } of unpacked(host.readPieces(archive), LIMITS, [])) {
      if (path !== "meta.json" || bytes > META_BYTES_MAX) continue;
      return new TextDecoder().decode(
        await new Blob(await Array.fromAsync(content as AsyncIterable<Uint8Array<ArrayBuffer>>)).bytes(),
      );
    }
    return undefined;
  } catch (cause) {
    throw new SvcError("invalid_argument", `${shown}: wanted a .tar.gz or a folder: ${messageOf(cause)}`, {
      cause,
    });
  }
}

function parseMeta(text: string, shown: string): JsonObject {
  try {
    const meta: unknown = JSON.parse(text);
    if (isObject(meta)) return meta as JsonObject;
  } catch (cause) {
    throw new SvcError("invalid_argument", `${shown}: ${messageOf(cause)}`, { cause });
  }
  throw new SvcError("invalid_argument", `${shown}: wanted an object`);
}

/** The facts that `meta.json` has about a package. */
export interface MetaFacts {
  readonly kind?: PackageKind;
  readonly namespace?: string;
  readonly name?: string;
  readonly visibility?: string;
  readonly description?: string;
  readonly url?: string;
  /** The members that a module's item keeps. */
  readonly details: JsonObject;
}

/** Throws a wrong `meta.json`, with the key. */
export function factsOf(meta: JsonObject, shown: string): MetaFacts {
  const wrong = (key: string, wanted: string) =>
    new SvcError("invalid_argument", `${shown}: ${key}: wanted ${wanted}`);
  const text = (key: string) => {
    const value = meta[key];
    if (value === undefined || value === null || value === "") return undefined;
    if (typeof value !== "string") throw wrong(key, "text");
    return value;
  };
  const id = text("module_id") ?? text("name");
  const [, namespace, name] = /^(?:([^:/]*)[:/])?(.+)$/.exec(id ?? "") ?? [];
  const isModule = meta.module_id !== undefined || meta.entrypoint !== undefined;
  const type = text("type");
  const kind = PACKAGE_KINDS.find((one) => one === type);
  if (type !== undefined && kind === undefined) throw wrong("type", `one of ${PACKAGE_KINDS.join(", ")}`);
  const models = modelsOf(meta.models, wrong);
  return {
    kind: kind ?? (isModule ? "module" : undefined),
    namespace,
    name,
    visibility: text("visibility"),
    description: text("description"),
    url: text("url"),
    details: {
      ...(models.length > 0 ? { models } : {}),
      ...(isModule ? { entrypoint: text("entrypoint") ?? "" } : {}),
      ...(text("first_run") ? { firstRun: text("first_run")! } : {}),
    },
  };
}

function modelsOf(models: unknown, wrong: (key: string, wanted: string) => SvcError): JsonObject[] {
  if (models === undefined || models === null) return [];
  if (!Array.isArray(models)) throw wrong("models", 'a list such as [{"api": "…", "model": "…"}]');
  return models.map((one, index) => {
    const key = `models.${index}`;
    if (!isObject(one) || typeof one.api !== "string" || typeof one.model !== "string") {
      throw wrong(key, "an object with api and model");
    }
    try {
      parseApi(one.api);
      parseModel(one.model);
    } catch (error) {
      throw wrong(key, messageOf(error).replace(/^.*wanted /, ""));
    }
    return { api: one.api, model: one.model };
  });
}

/** The kind of an upload: as the flag says, or as its `meta.json` does. */
export function kindOfUpload(flag: string, facts: MetaFacts | undefined, shown: string): PackageKind {
  const choice = PACKAGE_KINDS.join(", ");
  const given = PACKAGE_KINDS.find((one) => one === flag);
  if (flag !== "" && !given) throw new UsageError(`--type: found "${flag}", wanted one of ${choice}`);
  if (given && facts?.kind && facts.kind !== given) {
    throw new UsageError(`--type: found ${given}, but the meta.json of ${shown} describes a ${facts.kind}`);
  }
  const kind = given ?? facts?.kind;
  if (kind) return kind;
  throw new UsageError(`--type: wanted one of ${choice}, because ${shown} has no meta.json that says it`);
}
