/**
 * Archives: makes `.tar.gz` from files and files from `.tar.gz`, as streams.
 *
 * The bytes of an archive depend on its files alone: it holds no times and no owners. Reading is safe on hostile
 * bytes: a name never leads out of the archive, nor does a link, devices are refused, and the unpacked size has a limit.
 * Links are refused, too, unless the caller asks for them. A malformed archive is an `invalid_argument`, an oversized
 * one a `resource_exhausted`.
 */

import { dirname, join, posix, relative } from "node:path";
import { Readable } from "node:stream";
import { createGunzip, createGzip } from "node:zlib";
import type { FileFacts, LinkFiles, ReadFiles, WriteFiles } from "./files.ts";
import { ByteReader } from "./byte_reader.ts";
import { messageOf, SvcError } from "../error.ts";

export interface ArchiveFile {
  /** With `/` between folders, as in `model/labels.txt`. */
  readonly path: string;
  readonly bytes: number;
  /** Whether the file is executable. */
  readonly executable?: boolean;
  /** It is a link to this path, from its own folder, and has no content. Only for packing. */
  readonly link?: string;
  /** Can be read once; in an archive that is being read, before the next file is requested. */
  readonly content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** Another name of a file in the archive, or a path that leads to a file or folder in it. */
export interface ArchiveLink {
  readonly path: string;
  /** From the link's folder; of a second name from the archive's root. */
  readonly target: string;
  readonly isName: boolean;
}

export interface ArchiveLimits {
  readonly filesMax: number;
  /** Limit for the unpacked bytes of all files together. */
  readonly bytesMax: number;
}

const BLOCK = 512;
/** The time of every file, the year 2000: other archive formats have no times before 1980. */
const TIME_SECONDS = 946_684_800;
const NAME_BYTES = 100;
/** Limit for an extended header. */
const EXTRA_BYTES_MAX = 64 * 1024;
/** Bytes allowed for each file besides its content: its header and the headers of its folders. */
const HEADERS_MAX = 8;
const HEADERS_BYTES_MAX = 16 * 1024;
const PATH_CHARS_MAX = 1_000;
/** Headers that say more of the next file: of POSIX for one file and for all, and GNU's long names and links. */
const EXTRA_TYPES = ["x", "g", "L", "K"];
/** Second names of files, and links. */
const LINK_TYPES = ["1", "2"];
/** Limit for nested folders. */
const DEPTH_MAX = 64;
/** Limit for the links on the way to a link's end, as systems have it. */
const HOPS_MAX = 40;
// deno-lint-ignore no-control-regex
const ODD = /[\\\x00-\x1f\x7f]|^[A-Za-z]:/;

const ENCODER = new TextEncoder();
const DECODER = new TextDecoder();

export function packed(
  files: AsyncIterable<ArchiveFile> | Iterable<ArchiveFile>,
): AsyncIterable<Uint8Array> {
  return through(tar(files), createGzip());
}

/**
 * The files of an archive; a folder appears only through the files in it. Adds the archive's links to `links`, and
 * refuses an archive that has any if that is absent.
 */
export async function* unpacked(
  archive: AsyncIterable<Uint8Array>,
  { filesMax, bytesMax }: ArchiveLimits,
  links?: ArchiveLink[],
): AsyncGenerator<ArchiveFile> {
  const inflatedMax = bytesMax + filesMax * HEADERS_BYTES_MAX + EXTRA_BYTES_MAX;
  const reader = new ByteReader(
    bounded(through(archive, createGunzip()), inflatedMax),
    () => wrong("it ends too early"),
  );
  let [files, bytes, headers] = [0, 0, 0];
  let extra: Extra = {};
  const places = new Map<string, "file" | "folder">();
  try {
    for (;;) {
      const header = parse(await reader.take(BLOCK));
      if (header === undefined) break;
      if (++headers > filesMax * HEADERS_MAX) throw tooMuch(`more than ${filesMax * HEADERS_MAX} headers`);

      const size = extra.size ?? header.size;
      if (EXTRA_TYPES.includes(header.type)) {
        extra = { ...extra, ...await extraIn(reader, header.type, size) };
        continue;
      }

      const path = safe(extra.path ?? header.path);
      if (path === "" && header.type !== "5") throw wrong("a file without a name");

      const target = extra.link ?? header.link;
      extra = {};
      if (header.type === "5") {
        await reader.skip(size + padding(size));
        continue;
      }
      const isLink = links !== undefined && LINK_TYPES.includes(header.type);
      if (header.type !== "0" && !isLink) {
        throw wrong(`"${path}" of type "${header.type}", wanted files and folders only`);
      }

      occupy(places, path);
      if (places.size > filesMax * HEADERS_MAX) throw tooMuch(`more than ${filesMax * HEADERS_MAX} folders`);
      if (++files > filesMax) throw tooMuch(`more than ${filesMax} files`);
      if (isLink) {
        // Some tools write the size of the file that it leads to; no content follows.
        links.push({ path, target, isName: header.type === "1" });
        continue;
      }
      if ((bytes += size) > bytesMax) throw tooMuch(`files of more than ${bytesMax} bytes`);

      const endsAt = reader.at + size;
      yield { path, bytes: size, executable: header.executable, content: reader.part(size) };
      // The caller may have read none of it, or only a part.
      await reader.skip(endsAt - reader.at + padding(size));
    }
    await reader.rest();
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw new SvcError(
      "invalid_argument",
      `the archive cannot be read: ${messageOf(error)}, wanted a .tar.gz`,
      {
        cause: error,
      },
    );
  } finally {
    await reader.close();
  }
}

/**
 * Writes the files of an archive into a folder and returns their paths. Throws instead of replacing a file. The files
 * are not durable yet. `before` is called with the size of each piece before it is written, and may refuse it.
 */
export async function unpackInto(
  files: WriteFiles,
  folder: string,
  archive: AsyncIterable<Uint8Array>,
  limits: ArchiveLimits,
  before?: (bytes: number) => Promise<void> | undefined,
): Promise<string[]> {
  return await writeInto(files, folder, unpacked(archive, limits), before);
}

/**
 * Writes the files and links of an archive into a new folder, durably but for the folder's own name. A link that leads
 * out of the archive is an `invalid_argument`.
 */
export async function unpackWithLinks(
  files: WriteFiles & LinkFiles,
  folder: string,
  archive: AsyncIterable<Uint8Array>,
  limits: ArchiveLimits,
): Promise<void> {
  const links: ArchiveLink[] = [];
  const paths = await writeInto(files, folder, unpacked(archive, limits, links));
  const ends = endsOf(links, new Set(paths));
  for (const { path } of links) await files.makeFolder(join(folder, dirname(path)));
  // Nothing is written by way of a link, because all files and folders are there by now.
  for (const { path, isName } of links) {
    const [own, end] = [join(folder, path), ends.get(path)!];
    if (isName) await files.addName(join(folder, end), own);
    else await files.createLink(own, posix.relative(posix.dirname(path), end) || ".");
  }

  for (const path of paths) await files.syncFile(join(folder, path));
  for (const one of foldersOf([...paths, ...ends.keys()])) await files.syncFolder(join(folder, one));
}

/** The folders of an archive, with the archive's own. */
function foldersOf(paths: readonly string[]): Set<string> {
  const folders = new Set(["."]);
  for (const path of paths) {
    for (let one = posix.dirname(path); !folders.has(one); one = posix.dirname(one)) folders.add(one);
  }
  return folders;
}

/** The path of the end of each link. Throws for a link that leads out, and for a second name of no file. */
function endsOf(links: readonly ArchiveLink[], files: ReadonlySet<string>): Map<string, string> {
  const known = new Map(links.map((link) => [link.path, link]));
  return new Map(links.map((link) => {
    const end = endOf(link, known);
    if (!link.isName || files.has(end)) return [link.path, end];
    throw wrongLink(link, "which is no file in the archive");
  }));
}

/** Goes the way that a system goes, link by link: a `..` behind a link leads to the folder above the link's end. */
function endOf(link: ArchiveLink, links: ReadonlyMap<string, ArchiveLink>): string {
  const at: string[] = [];
  const ahead = [...link.isName ? [] : link.path.split("/").slice(0, -1), ...stepsOf(link)];
  let hops = 0;
  for (let step = ahead.shift(); step !== undefined; step = ahead.shift()) {
    if (step === "" || step === ".") continue;
    if (step === "..") {
      if (at.pop() === undefined) throw wrongLink(link, "which is not in the archive");
      continue;
    }
    at.push(step);
    const next = links.get(at.join("/"));
    if (next === undefined) continue;
    if (++hops > HOPS_MAX) throw wrongLink(link, "which leads in a circle");
    ahead.unshift(...stepsOf(next));
    if (next.isName) at.length = 0;
    else at.pop();
  }
  return at.join("/");
}

function stepsOf(link: ArchiveLink): string[] {
  const { target } = link;
  if (target === "" || target.startsWith("/") || ODD.test(target)) {
    throw wrongLink(link, "which is not in the archive");
  }
  if (target.length > PATH_CHARS_MAX) throw wrong(`a link to a name of ${target.length} characters`);
  return target.split("/");
}

async function writeInto(
  files: WriteFiles,
  folder: string,
  contents: AsyncIterable<ArchiveFile>,
  before?: (bytes: number) => Promise<void> | undefined,
): Promise<string[]> {
  const paths: string[] = [];
  for await (const { path, executable, content } of contents) {
    const target = join(folder, path);
    await files.makeFolder(dirname(target));
    const file = await files.open(target, "exclusive", executable ? 0o755 : 0o644).catch((cause) => {
      if (SvcError.from(cause).code !== "already_exists") throw cause;
      const found = `"${target}" is there already, under this name or one that is equal on this system`;
      throw new SvcError("already_exists", `the archive cannot be unpacked: ${found}`, { cause });
    });
    try {
      for await (const chunk of content) {
        await before?.(chunk.length);
        await file.write(chunk);
      }
    } finally {
      file.close();
    }
    paths.push(path);
  }
  return paths;
}

/** A file in a folder, or the one that a link there leads to, as a part of the folder's archive. */
export function fileToPack(
  disk: ReadFiles,
  folder: string,
  path: string,
  { mode, sizeBytes: bytes }: FileFacts,
): ArchiveFile {
  return { path, bytes, executable: (mode & 0o111) !== 0, content: disk.readPieces(join(folder, path)) };
}

/**
 * A link in a folder as a part of the folder's archive: the file that it leads to, or a link to a folder. Throws
 * `failed_precondition` if it leads to nothing in the folder: whoever unpacks the archive would miss it only later.
 */
export async function linkToPack(disk: ReadFiles, folder: string, path: string): Promise<ArchiveFile> {
  const own = join(folder, path);
  const root = await disk.realPath(folder);
  const end = await disk.realPath(own).catch(() => undefined);
  const facts = await disk.stat(own);
  if (end !== undefined && (end === root || end.startsWith(join(root, "/")))) {
    if (facts?.kind === "file") return fileToPack(disk, folder, path, facts);
    if (facts?.kind === "folder") {
      const link = relative(dirname(join(root, path)), end).replaceAll("\\", "/") || ".";
      return { path, bytes: 0, link, content: [] };
    }
  }
  throw new SvcError(
    "failed_precondition",
    `cannot pack ${folder}: the link ${path} leads to no file in it; remove the link, or pack a copy of the folder ` +
      "that has what its links lead to (cp -RL)",
  );
}

/** Ends an archive that unpacks to more than its files can need: compressed bytes may expand a thousand times. */
async function* bounded(chunks: AsyncIterable<Uint8Array>, bytesMax: number): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of chunks) {
    if ((bytes += chunk.length) > bytesMax) throw tooMuch(`more than ${bytesMax} bytes`);
    yield chunk;
  }
}

async function* tar(files: AsyncIterable<ArchiveFile> | Iterable<ArchiveFile>): AsyncGenerator<Uint8Array> {
  for await (const { path, bytes, executable, link, content } of files) {
    const name = ENCODER.encode(safe(path)), target = ENCODER.encode(link ?? "");
    if (name.length > NAME_BYTES) yield* longName("L", name);
    if (target.length > NAME_BYTES) yield* longName("K", target);

    const short = name.subarray(0, NAME_BYTES);
    if (link !== undefined) {
      yield header(short, 0, "2", true, target.subarray(0, NAME_BYTES));
      continue;
    }
    yield header(short, bytes, "0", executable);
    let written = 0;
    for await (const chunk of content) {
      written += chunk.length;
      yield chunk;
    }

    if (written !== bytes) {
      throw new SvcError(
        "aborted",
        `${path} has ${written} bytes, said to have ${bytes}: it has been changed`,
      );
    }

    yield new Uint8Array(padding(bytes));
  }
  yield new Uint8Array(2 * BLOCK);
}

/** GNU's header for a name that is too long for a header, or for a link to one. */
function* longName(type: "L" | "K", name: Uint8Array): Generator<Uint8Array> {
  yield header(ENCODER.encode("././@LongLink"), name.length + 1, type);
  yield Uint8Array.from([...name, 0]);
  yield new Uint8Array(padding(name.length + 1));
}

function header(
  name: Uint8Array,
  size: number,
  type: string,
  executable = false,
  target: Uint8Array = new Uint8Array(),
): Uint8Array {
  const block = new Uint8Array(BLOCK);
  const put = (at: number, text: string) => block.set(ENCODER.encode(text), at);
  const octal = (number: number, digits: number) => number.toString(8).padStart(digits, "0");
  block.set(name);
  put(100, `${octal(executable ? 0o755 : 0o644, 7)}\0`);
  put(108, `${octal(0, 7)}\0${octal(0, 7)}\0${octal(size, 11)}\0${octal(TIME_SECONDS, 11)}\0`);
  put(148, " ".repeat(8));
  put(156, type);
  block.set(target, 157);
  put(257, "ustar\x0000");
  put(148, `${octal(block.reduce((sum, byte) => sum + byte, 0), 6)}\0 `);
  return block;
}

function parse(block: Uint8Array) {
  if (block.every((byte) => byte === 0)) return undefined;
  const text = (at: number, length: number) => {
    return DECODER.decode(block.subarray(at, at + length)).replace(/\0.*$/s, "");
  };
  const octal = (at: number, length: number) => {
    const digits = text(at, length).trim();
    if (!/^[0-7]*$/.test(digits)) throw wrong(`the number "${digits}" in a header, wanted an octal one`);
    return parseInt(digits || "0", 8);
  };
  const sum = block.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 32 : byte), 0);
  if (sum !== octal(148, 8)) throw wrong("a header with a wrong checksum");

  const prefix = text(257, 6) === "ustar" ? text(345, 155) : "";
  const type = text(156, 1) || "0";
  return {
    path: prefix ? `${prefix}/${text(0, NAME_BYTES)}` : text(0, NAME_BYTES),
    link: text(157, NAME_BYTES),
    size: octal(124, 12),
    type: type === "7" ? "0" : type,
    executable: (octal(100, 8) & 0o111) !== 0,
  };
}

/** What the headers before a file's own one say of it. */
interface Extra {
  readonly path?: string;
  readonly size?: number;
  readonly link?: string;
}

async function extraIn(reader: ByteReader, type: string, size: number): Promise<Extra> {
  if (size > EXTRA_BYTES_MAX) throw wrong(`a header of ${size} bytes, wanted at most ${EXTRA_BYTES_MAX}`);
  const content = await reader.take(size);
  await reader.skip(padding(size));
  const text = () => DECODER.decode(content).replace(/\0.*$/s, "");
  if (type === "L") return { path: text() };
  if (type === "K") return { link: text() };
  return type === "x" ? records(content) : {};
}

/** One record of an extended header: `27 path=a/long/name\n`, where 27 is the length of the whole record in bytes. */
function records(content: Uint8Array): Extra {
  const found: { -readonly [K in keyof Extra]: Extra[K] } = {};
  for (let at = 0; at < content.length;) {
    const space = content.indexOf(0x20, at);
    const digits = DECODER.decode(content.subarray(at, Math.min(space, at + 8)));
    const end = at + Number(digits);
    if (space < 0 || !/^[1-9]\d*$/.test(digits) || end <= space || content[end - 1] !== 0x0a) {
      throw wrong("an extended header that cannot be read");
    }
    const [, key, value = ""] =
      /^([^=]+)=(.*)$/s.exec(DECODER.decode(content.subarray(space + 1, end - 1))) ?? [];
    at = end;
    if (key === undefined) throw wrong("an extended header that cannot be read");
    if (key.startsWith("GNU.sparse.")) throw wrong("a file with holes, wanted files as they are");
    if (key === "path") found.path = value;
    if (key === "linkpath") found.link = value;
    if (key === "size") found.size = /^\d+$/.test(value) ? Number(value) : NaN;
  }

  if (found.size !== undefined && !Number.isSafeInteger(found.size)) throw wrong("a file of an unknown size");
  return found;
}

/** Refuses a second file at the same path: some readers would take the first one, others the last one. */
function occupy(places: Map<string, "file" | "folder">, path: string): void {
  if (places.has(path)) throw wrong(`the name ${JSON.stringify(path)} twice`);
  places.set(path, "file");
  for (let slash = path.lastIndexOf("/"); slash > 0; slash = path.lastIndexOf("/", slash - 1)) {
    const above = path.slice(0, slash);
    const there = places.get(above);
    if (there === "file") throw wrong(`the name ${JSON.stringify(above)} both as a file and a folder`);
    if (there === "folder") break;
    places.set(above, "folder");
  }
}

function safe(path: string): string {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  const odd = path.startsWith("/") || ODD.test(path) || parts.includes("..");
  const long = path.length > PATH_CHARS_MAX || parts.length > DEPTH_MAX;
  if (long) throw wrong(`a name of ${path.length} characters and ${parts.length} parts`);
  if (odd) throw wrong(`the name ${JSON.stringify(path)}, wanted one inside of it`);
  return parts.join("/");
}

function padding(bytes: number): number {
  return (BLOCK - bytes % BLOCK) % BLOCK;
}

/** Pipes bytes through a compressor; an error on either side ends both. */
async function* through(
  bytes: AsyncIterable<Uint8Array>,
  transform: ReturnType<typeof createGzip> | ReturnType<typeof createGunzip>,
): AsyncGenerator<Uint8Array> {
  const source = Readable.from(bytes);
  source.on("error", (error) => transform.destroy(error));
  source.pipe(transform);
  try {
    for await (const chunk of transform) yield chunk;
  } finally {
    source.destroy();
    transform.destroy();
  }
}

function wrongLink({ path, target }: ArchiveLink, why: string): SvcError {
  return wrong(`the link ${JSON.stringify(path)} to ${JSON.stringify(target)}, ${why}`);
}

function wrong(found: string): SvcError {
  return new SvcError("invalid_argument", `the archive has ${found}`);
}

function tooMuch(found: string): SvcError {
  return new SvcError("resource_exhausted", `the archive has ${found}`);
}
