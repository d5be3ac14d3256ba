/**
 * Native code of executables, unpacked once: a folder that all processes and all later starts of a user share.
 *
 * The system loads libraries by path, so whoever writes a file here decides what the programs run. Every folder above
 * belongs to this user or to root, and nobody else may write to it; the outermost folder of ours keeps everybody else
 * out. Inside, files are readable for all, because sandboxes show this folder to users of their own. A package's folder
 * appears whole, by a rename, and its name contains the sums of its files. `take` reads its files and compares them with
 * those sums; as long as the files do not change, it does so once for each process.
 */

import { createHash } from "node:crypto";
import { dirname, isAbsolute, join } from "node:path";
import { messageOf, SvcError } from "../error.ts";

/** A file that the program embeds. */
export interface EmbeddedFile {
  readonly name: string;
  readonly bytes: number;
  /** In hexadecimal digits. */
  readonly sha256: string;
  content(): Promise<ReadableStream<Uint8Array<ArrayBuffer>>>;
}

/** A package whose files are loaded together. */
export interface EmbeddedPackage {
  readonly name: string;
  readonly files: readonly EmbeddedFile[];
}

/** The shared folder inside the private one. */
const SHARED = "shared";
const PARTIAL = ".partial-";
/** A folder that is being unpacked, and that nobody has touched for so long, was left behind. */
const PARTIAL_MS = 3600_000;
/** Another version of a package, which nobody has used for so long, is removed. */
const UNUSED_MS = 7 * 24 * 3600_000;
const READ_BYTES = 1024 ** 2;
const OTHERS_WRITE = 0o022;
const STICKY = 0o1000;
/** Another process may unpack, or remove damaged files, at the same time. */
const ATTEMPTS = 3;

export class NativeFolder {
  /** The files' identities and times, by package folder, at the time of the comparison. */
  readonly #compared = new Map<string, string>();
  readonly #running = new Map<string, Promise<string>>();

  private constructor(
    /** The folder that sandboxes may show. */
    readonly path: string,
    private readonly nowMs: () => number,
  ) {}

  /** Opens the first usable one of `places`, and makes it if need be. Throws `unavailable` with all reasons. */
  static async open(places: readonly string[], nowMs: () => number): Promise<NativeFolder> {
    const reasons: string[] = [];
    for (const place of places) {
      try {
        await makePrivate(place);
        const path = join(place, SHARED);
        await makeOwn(path, 0o755);
        return new NativeFolder(path, nowMs);
      } catch (error) {
        reasons.push(`${place}: ${messageOf(error)}`);
      }
    }
    throw new SvcError("unavailable", reasons.join("; ") || "there is no folder for it");
  }

  /**
   * The folder with the package's files, unpacked and compared. Throws what the system answers, such as for a full disk,
   * and then leaves nothing behind.
   */
  take(wanted: EmbeddedPackage): Promise<string> {
    const path = packageFolder(this.path, wanted);
    const running = this.#running.get(path) ?? this.#take(wanted, path).finally(() => {
      this.#running.delete(path);
    });
    this.#running.set(path, running);
    return running;
  }

  async #take(wanted: EmbeddedPackage, path: string): Promise<string> {
    const compared = this.#compared.get(path);
    if (compared !== undefined && compared === await computeIdentity(path, wanted)) return path;
    for (let attempt = 1; !await holds(path, wanted); attempt++) {
      if (attempt > ATTEMPTS) throw new SvcError("unavailable", `the files in ${path} keep changing`);
      await this.#unpack(wanted, path);
    }
    const now = this.nowMs() / 1000;
    await Deno.utime(path, now, now).catch(() => {});
    this.#compared.set(path, await computeIdentity(path, wanted));
    return path;
  }

  async #unpack(wanted: EmbeddedPackage, path: string): Promise<void> {
    await this.#forgetOld(wanted.name, path);
    const partial = await Deno.makeTempDir({ dir: this.path, prefix: PARTIAL });
    try {
      for (const file of wanted.files) {
        await Deno.writeFile(join(partial, file.name), await file.content(), { mode: 0o444 });
        // Whatever the process's mask says.
        await changeMode(join(partial, file.name), 0o444);
      }
      await changeMode(partial, 0o755);
      await this.#putInPlace(partial, path, wanted);
    } finally {
      await remove(partial);
    }
  }

  async #putInPlace(partial: string, path: string, wanted: EmbeddedPackage): Promise<void> {
    const isFree = await Deno.rename(partial, path).then(() => true, (error) => {
      if (!isOccupied(error)) throw error;
      return false;
    });
    // Another process may have been faster, and loads them already.
    if (isFree || await holds(path, wanted)) return;
    const damaged = await Deno.makeTempDir({ dir: this.path, prefix: PARTIAL });
    try {
      await Deno.rename(path, join(damaged, "damaged"));
      await Deno.rename(partial, path).catch((error) => {
        if (!isOccupied(error)) throw error;
      });
    } finally {
      await remove(damaged);
    }
  }

  /** Removes what killed processes and earlier versions have left. */
  async #forgetOld(name: string, kept: string): Promise<void> {
    const prefix = folderPrefix(name);
    for await (const { name: entry } of Deno.readDir(this.path)) {
      const path = join(this.path, entry);
      const isPartial = entry.startsWith(PARTIAL);
      if (path === kept || !isPartial && !entry.startsWith(prefix)) continue;
      const changedMs = (await Deno.lstat(path).catch(() => undefined))?.mtime?.getTime();
      const oldMs = isPartial ? PARTIAL_MS : UNUSED_MS;
      if (changedMs !== undefined && this.nowMs() - changedMs > oldMs) await remove(path);
    }
  }
}

/** The package's folder in a shared folder that another process has prepared; `undefined` if it is not there. */
export async function preparedFolder(
  shared: string,
  { name, files }: EmbeddedPackage,
): Promise<string | undefined> {
  const path = packageFolder(shared, { name, files });
  for (const file of files) {
    const found = await Deno.lstat(join(path, file.name)).catch(() => undefined);
    if (!found?.isFile || found.size !== file.bytes) return undefined;
  }
  return path;
}

function packageFolder(shared: string, { name, files }: EmbeddedPackage): string {
  const sums = createHash("sha256");
  for (const file of files.toSorted((a, b) => a.name < b.name ? -1 : 1)) {
    sums.update(`${file.name} ${file.sha256}\n`);
  }
  return join(shared, folderPrefix(name) + sums.digest("hex").slice(0, 32));
}

function folderPrefix(name: string): string {
  return `${name.replaceAll(/[^\w.-]/g, "_")}@`;
}

/** Makes a folder that only this user reads. Throws if somebody else could change it, or the way to it. */
async function makePrivate(path: string): Promise<void> {
  if (!isAbsolute(path)) throw new SvcError("failed_precondition", "it is no absolute path");
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const above = await Deno.realPath(dirname(path));
  for (let one = above; one !== dirname(one); one = dirname(one)) requireTrusted(one, await Deno.lstat(one));
  await makeOwn(path, 0o700);
}

async function makeOwn(path: string, mode: number): Promise<void> {
  await Deno.mkdir(path, { mode }).catch((error) => {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  });
  const found = await Deno.lstat(path);
  requireOwn(path, found);
  if (found.mode !== null && (found.mode & 0o777) !== mode) await changeMode(path, mode);
}

function requireOwn(path: string, { isDirectory, uid }: Deno.FileInfo): void {
  if (!isDirectory) throw new SvcError("permission_denied", `${path} is no folder`);
  if (uid === null || uid === Deno.uid()) return;
  throw new SvcError("permission_denied", `${path} belongs to the user ${uid}, wanted ${Deno.uid()}`);
}

/** A folder above: only this user and root may rename what is in it. */
function requireTrusted(path: string, { uid, mode }: Deno.FileInfo): void {
  if (uid !== null && uid !== 0 && uid !== Deno.uid()) {
    throw new SvcError("permission_denied", `${path} belongs to the user ${uid}`);
  }
  if (mode !== null && (mode & OTHERS_WRITE) !== 0 && (mode & STICKY) === 0) {
    throw new SvcError("permission_denied", `others may write to ${path}`);
  }
}

/** Whether the folder has exactly the package's files. */
async function holds(path: string, { files }: EmbeddedPackage): Promise<boolean> {
  try {
    requireOwn(path, await Deno.lstat(path));
    const names = new Set<string>();
    for await (const { name } of Deno.readDir(path)) names.add(name);
    if (names.size !== files.length) return false;
    for (const { name, bytes, sha256 } of files) {
      const found = await Deno.lstat(join(path, name));
      if (!found.isFile || found.size !== bytes || await computeSum(join(path, name)) !== sha256) {
        return false;
      }
    }
    return true;
  } catch {
    return false;
  }
}

async function computeSum(path: string): Promise<string> {
  using file = await Deno.open(path);
  const sum = createHash("sha256"), buffer = new Uint8Array(READ_BYTES);
  for (;;) {
    const count = await file.read(buffer);
    if (count === null) return sum.digest("hex");
    sum.update(buffer.subarray(0, count));
  }
}

/** Changes with every write to a file, and if another file takes its place. */
async function computeIdentity(path: string, { files }: EmbeddedPackage): Promise<string> {
  const stats = await Promise.all(
    files.map(({ name }) => Deno.lstat(join(path, name)).catch(() => undefined)),
  );
  return JSON.stringify(
    stats.map((one) => one && [one.dev, one.ino, one.size, one.mtime?.getTime(), one.ctime?.getTime()]),
  );
}

/** Windows has no modes. */
async function changeMode(path: string, mode: number): Promise<void> {
  if (Deno.build.os !== "windows") await Deno.chmod(path, mode);
}

function isOccupied(error: unknown): boolean {
  return error instanceof Deno.errors.AlreadyExists || /os error (17|39|66|183|5)\b/.test(messageOf(error));
}

async function remove(path: string): Promise<void> {
  await Deno.remove(path, { recursive: true }).catch(() => {});
}
