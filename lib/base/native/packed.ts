/**
 * Large files that executables embed compressed, because every start copies embedded files into memory.
 *
 * Loading native code from them needs a folder for temporary files that may hold programs.
 */

import { tmpdir } from "node:os";
import { dirname, join, parse } from "node:path";
import { fileURLToPath } from "node:url";
import { SystemClock } from "../clock.ts";
import { messageOf, SvcError } from "../error.ts";
import { homeFolder } from "../files/home.ts";
import { type EmbeddedFile, type EmbeddedPackage, NativeFolder, preparedFolder } from "./native_folder.ts";

/** The folder of packed files, with a folder for each package; from the root of the tree. */
export const PACKED_FOLDER = "dist/packed";
/** The ending of a packed file's name, after that of the file. */
export const PACKED_SUFFIX = ".br";
/** The ending in its stead of a file with the `Extent` of the packed one. */
export const EXTENT_SUFFIX = ".extent";
/** The ending in its stead of a file with the `PlainFacts` of the packed one. */
export const FACTS_SUFFIX = ".facts";
/** Names the shared folder of native code that the starter of this process has prepared. */
export const NATIVE_VARIABLE = "SVC_NATIVE_FOLDER";

/** The place of a packed file in the executable, in a part that a start does not copy. */
export interface Extent {
  readonly offset: number;
  readonly bytes: number;
}

/** A file before it was packed. */
export interface PlainFacts {
  readonly bytes: number;
  /** In hexadecimal digits. */
  readonly sha256: string;
}

const PREFIX = "svc-packed-";
/** An unpacked folder of this age is loaded, or was left behind. */
const OLD_MS = 3600_000;

/**
 * Runs `load` with a folder that has the embedded files of a package, unpacked. Does nothing in a program that runs from
 * source.
 *
 * The files stay there for other processes and later starts (`native_folder.ts`). If this is impossible, or if programs
 * may not run from there, they are unpacked into a private folder, which is removed afterwards; on Windows, which keeps
 * the files of loaded libraries, a later program removes it.
 */
export async function withPacked<T>(
  name: string,
  load: (folder: string) => T | Promise<T>,
): Promise<T | undefined> {
  if (!Deno.build.standalone) return undefined;
  const shared = await sharedFolder(name).catch(() => undefined);
  if (shared === undefined) return await withPrivate(name, load);
  try {
    return await load(shared);
  } catch {
    return await withPrivate(name, load);
  }
}

/**
 * The folder of native code that the processes of this program share; `undefined` in a program that runs from source.
 * Throws `unavailable` if no folder is usable.
 */
export async function openNativeFolder(): Promise<NativeFolder | undefined> {
  if (!Deno.build.standalone) return undefined;
  const clock = new SystemClock();
  return await NativeFolder.open(nativeFolders(), () => clock.nowMs());
}

/** A package of native code that this executable embeds. */
export async function embeddedPackage(name: string): Promise<EmbeddedPackage> {
  const files: EmbeddedFile[] = [];
  const packed = packedFolder(name);
  for await (const { name: entry } of Deno.readDir(packed)) {
    const { name: file, ext } = parse(entry);
    if (ext === FACTS_SUFFIX) continue;
    const facts: PlainFacts = JSON.parse(await Deno.readTextFile(join(packed, file + FACTS_SUFFIX)));
    files.push({ name: file, ...facts, content: () => plainContent(join(packed, entry)) });
  }
  return { name, files };
}

/** Throws if there is none; a thread without the right to read the environment has none. */
async function sharedFolder(name: string): Promise<string | undefined> {
  const prepared = Deno.env.get(NATIVE_VARIABLE);
  const wanted = await embeddedPackage(name);
  if (prepared) return await preparedFolder(prepared, wanted);
  return await (await openNativeFolder())?.take(wanted);
}

/** Where the shared folder may be, in order of preference. */
function nativeFolders(): string[] {
  const env = (name: string) => Deno.env.get(name);
  // A service's own folder, from systemd.
  const [cache] = env("CACHE_DIRECTORY")?.split(":") ?? [];
  return [
    ...cache ? [join(cache, "native")] : [],
    join(homeFolder(env), "native"),
    join(tmpdir(), `svc-native-${Deno.uid() ?? "user"}`),
  ];
}

/**
 * Unpacks a package into a private folder for the time of `load`. Only the folder's owner can read or write it: nobody
 * can put a library beside those that are loaded.
 */
async function withPrivate<T>(name: string, load: (folder: string) => T | Promise<T>): Promise<T> {
  let folder: string | undefined;
  try {
    folder = await Deno.makeTempDir({ prefix: PREFIX });
    if (Deno.build.os === "windows") await forgetOlder(folder);
    await unpack(name, folder);
  } catch (cause) {
    if (folder !== undefined) await forget(folder);
    const remedy = "it needs a folder for temporary files (TMPDIR) that has room";
    throw new SvcError("unavailable", `cannot unpack ${name}: ${messageOf(cause)}; ${remedy}`, { cause });
  }

  try {
    return await load(folder);
  } finally {
    await forget(folder);
  }
}

async function unpack(name: string, folder: string): Promise<void> {
  for (const { name: file, content } of (await embeddedPackage(name)).files) {
    await Deno.writeFile(join(folder, file), await content(), { mode: 0o600 });
  }
}

/** The only file that is embedded under `name`, unpacked; `undefined` in a program that runs from source. */
export async function embeddedFile(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  if (!Deno.build.standalone) return undefined;
  const { files: [file] } = await embeddedPackage(name);
  return file && new Uint8Array(await new Response(await file.content()).arrayBuffer());
}

function packedFolder(name: string): string {
  return fileURLToPath(new URL(`../../../${PACKED_FOLDER}/${name}`, import.meta.url));
}

async function plainContent(path: string): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
  const bytes = parse(path).ext === EXTENT_SUFFIX ? await carried(path) : await Deno.readFile(path);
  return new Blob([bytes]).stream().pipeThrough(new DecompressionStream("brotli"));
}

/** The packed file in the executable, at the extent that `file` names. */
async function carried(file: string): Promise<Uint8Array<ArrayBuffer>> {
  const extent: Extent = JSON.parse(await Deno.readTextFile(file));
  try {
    // The running program's own file, also after an update has taken its name.
    return await readExtent("/proc/self/exe", extent);
  } catch (error) {
    // A process that has given up rights may not read there; it was started a moment ago.
    if (error instanceof Deno.errors.NotCapable) return await readExtent(Deno.execPath(), extent);
    throw error;
  }
}

/** The bytes of an extent of a file. Throws `data_loss` if the file ends before. */
export async function readExtent(path: string, { offset, bytes }: Extent): Promise<Uint8Array<ArrayBuffer>> {
  using file = await Deno.open(path);
  await file.seek(offset, Deno.SeekMode.Start);
  const content = new Uint8Array(bytes);
  for (let at = 0; at < bytes;) {
    const count = await file.read(content.subarray(at));
    if (count === null) throw new SvcError("data_loss", `${path} has been cut off`);
    at += count;
  }
  return content;
}

/** Removes what earlier programs than that of `folder` have left. */
async function forgetOlder(folder: string): Promise<void> {
  const parent = dirname(folder);
  const changedMs = async (path: string) => (await Deno.stat(path).catch(() => undefined))?.mtime?.getTime();
  const nowMs = await changedMs(folder);
  for await (const { name } of Deno.readDir(parent)) {
    if (!name.startsWith(PREFIX)) continue;
    const thenMs = await changedMs(join(parent, name));
    if (nowMs !== undefined && thenMs !== undefined && nowMs - thenMs > OLD_MS) {
      await forget(join(parent, name));
    }
  }
}

/** Removes an unpacked folder, unless the system still holds its files. */
async function forget(folder: string): Promise<void> {
  await Deno.remove(folder, { recursive: true }).catch(() => {});
}
