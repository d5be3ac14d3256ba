/**
 * Archives: `.tar.gz` made from and turned into files, as streams.
 *
 * What is made depends on nothing but the files: no times, no owners. Safe on hostile bytes: names never lead out of
 * the archive, links and devices are refused, and what it unpacks to has a limit; whatever is wrong is an
 * `invalid_argument` and too much a `resource_exhausted`.
 */

import { mkdir, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { createGunzip, createGzip } from "node:zlib";
import { ByteReader } from "./byte_reader.ts";
import { messageOf, SvcError } from "./error.ts";

export interface ArchiveFile {
  /** With `/` between folders, as in `model/labels.txt`. */
  readonly path: string;
  readonly bytes: number;
  /** Somebody may run it. */
  readonly executable?: boolean;
  /** To be read once, and of an archive that is read before the next file is asked for. */
  readonly content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

export interface ArchiveLimits {
  readonly filesMax: number;
  /** Of all files together, unpacked. */
  readonly bytesMax: number;
}

const BLOCK = 512;
/** The time of every file, the year 2000: other archives do not know times before 1980. */
const TIME_SECONDS = 946_684_800;
const NAME_BYTES = 100;
/** Of a header that says more than fits into the plain one. */
const EXTRA_BYTES_MAX = 64 * 1024;

const ENCODER = new TextEncoder();
const DECODER = new TextDecoder();

export function packed(
  files: AsyncIterable<ArchiveFile> | Iterable<ArchiveFile>,
): AsyncIterable<Uint8Array> {
  return through(tar(files), createGzip());
}

/** The files of an archive; folders come with the files in them. */
export async function* unpacked(
  archive: AsyncIterable<Uint8Array>,
  { filesMax, bytesMax }: ArchiveLimits,
): AsyncGenerator<ArchiveFile> {
  const reader = new ByteReader(through(archive, createGunzip()), () => wrong("it ends too early"));
  let [files, bytes] = [0, 0];
  let extra: { path?: string; size?: number } = {};
  try {
    for (;;) {
      const header = parse(await reader.take(BLOCK));
      if (header === undefined) break;
      const size = extra.size ?? header.size;
      if (header.type === "x" || header.type === "g" || header.type === "L") {
        if (size > EXTRA_BYTES_MAX) {
          throw wrong(`a header of ${size} bytes, wanted at most ${EXTRA_BYTES_MAX}`);
        }
        const text = DECODER.decode(await reader.take(size));
        if (header.type === "L") extra = { ...extra, path: text.replace(/\0.*$/s, "") };
        if (header.type === "x") extra = { ...extra, ...records(text) };
        await reader.skip(padding(size));
        continue;
      }
      const path = safe(extra.path ?? header.path);
      extra = {};
      if (header.type === "5") {
        await reader.skip(size + padding(size));
        continue;
      }
      if (header.type !== "0") {
        throw wrong(`"${path}" of type "${header.type}", wanted files and folders only`);
      }
      if (++files > filesMax) throw tooMuch(`more than ${filesMax} files`);
      if ((bytes += size) > bytesMax) throw tooMuch(`files of more than ${bytesMax} bytes`);
      const endsAt = reader.at + size;
      yield { path, bytes: size, executable: header.executable, content: reader.part(size) };
      // It may not have been read, or not to its end.
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

/** Writes the files of an archive into a folder; gives their paths. What is there already is left alone: it throws. */
export async function unpackInto(
  folder: string,
  archive: AsyncIterable<Uint8Array>,
  limits: ArchiveLimits,
): Promise<string[]> {
  const paths: string[] = [];
  for await (const { path, executable, content } of unpacked(archive, limits)) {
    const target = join(folder, path);
    await mkdir(dirname(target), { recursive: true });
    const file = await open(target, "wx", executable ? 0o755 : 0o644);
    try {
      for await (const chunk of content) {
        for (let at = 0; at < chunk.length;) at += (await file.write(chunk, at)).bytesWritten;
      }
    } finally {
      await file.close();
    }
    paths.push(path);
  }
  return paths;
}

async function* tar(files: AsyncIterable<ArchiveFile> | Iterable<ArchiveFile>): AsyncGenerator<Uint8Array> {
  for await (const { path, bytes, executable, content } of files) {
    const name = ENCODER.encode(safe(path));
    if (name.length > NAME_BYTES) {
      yield header(ENCODER.encode("././@LongLink"), name.length + 1, "L");
      yield Uint8Array.from([...name, 0]);
      yield new Uint8Array(padding(name.length + 1));
    }
    yield header(name.subarray(0, NAME_BYTES), bytes, "0", executable);
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

function header(name: Uint8Array, size: number, type: string, executable = false): Uint8Array {
  const block = new Uint8Array(BLOCK);
  const put = (at: number, text: string) => block.set(ENCODER.encode(text), at);
  const octal = (number: number, digits: number) => number.toString(8).padStart(digits, "0");
  block.set(name);
  put(100, `${octal(executable ? 0o755 : 0o644, 7)}\0`);
  put(108, `${octal(0, 7)}\0${octal(0, 7)}\0${octal(size, 11)}\0${octal(TIME_SECONDS, 11)}\0`);
  put(148, " ".repeat(8));
  put(156, type);
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
    size: octal(124, 12),
    type: type === "7" ? "0" : type,
    executable: (octal(100, 8) & 0o111) !== 0,
  };
}

/** Of an extended header: `27 path=a/long/name\n`. */
function records(text: string): { path?: string; size?: number } {
  const found: { path?: string; size?: number } = {};
  for (const [, key, value] of text.matchAll(/^\d+ ([^=\n]+)=(.*)$/gm)) {
    if (key === "path") found.path = value;
    if (key === "size") found.size = Number(value);
  }
  if (found.size !== undefined && !(Number.isSafeInteger(found.size) && found.size >= 0)) {
    throw wrong(`a file of ${found.size} bytes`);
  }
  return found;
}

function safe(path: string): string {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  const odd = path.startsWith("/") || /[\\\0]|^[A-Za-z]:/.test(path) || parts.includes("..");
  if (odd) throw wrong(`the name ${JSON.stringify(path)}, wanted one inside of it`);
  return parts.join("/");
}

function padding(bytes: number): number {
  return (BLOCK - bytes % BLOCK) % BLOCK;
}

/** Bytes by way of a compressor; errors on either side end it. */
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

function wrong(found: string): SvcError {
  return new SvcError("invalid_argument", `the archive has ${found}`);
}

function tooMuch(found: string): SvcError {
  return new SvcError("resource_exhausted", `the archive has ${found}`);
}
