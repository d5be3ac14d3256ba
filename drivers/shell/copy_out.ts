/**
 * Copies from the machine. Links are followed, as scp does. What cannot be copied within a folder is left out: the rest
 * is copied, and then the copy fails and names it.
 */

import type { CopyFromMachine, CopySource, FilePart } from "../../lib/api/services/shell.ts";
import { messageOf, SvcError } from "../../lib/base/error.ts";
import type { FileFacts, ReadFiles } from "../../lib/base/files/files.ts";
import type { Environment } from "../../lib/base/host.ts";
import { checkDepth, FILES_MAX, pathHere, splitPath } from "./paths.ts";
import { withoutEnd } from "../../lib/base/escape.ts";

const NOTHING = new Uint8Array(0);
/** The error of a copy names this many of the files that were left out. */
const NAMED_MAX = 5;

interface Source {
  readonly path: string;
  readonly facts: FileFacts;
}

/** The copied files with their parts. Throws before the first part if a path cannot be copied. */
export async function copyOut(
  host: ReadFiles & Environment,
  { paths, recursive, preserve }: CopyFromMachine,
  taken: AsyncIterable<void>,
  signal: AbortSignal,
): Promise<{ readonly source: CopySource; readonly parts: AsyncIterable<FilePart> }> {
  if (paths.length === 0) throw new SvcError("invalid_argument", "no files provided to copy");
  if (paths.length > FILES_MAX) throw tooMany();

  const sources: Source[] = [];
  for (const path of paths) {
    if (path === "") throw new SvcError("invalid_argument", "unexpected empty path");
    const source = await sourceAt(host, pathHere(host, path));
    if (source.facts.kind === "folder" && !recursive) {
      // Published clients look for these words.
      const why = `file is a directory but copy recursion not used: "${source.path}"`;
      throw new SvcError("invalid_argument", why);
    }
    sources.push(source);
  }

  const [only, ...others] = sources;
  const kind = only?.facts.kind === "folder" ? "folder" : "file";
  const source = others.length > 0 ? "files" : kind;
  return { source, parts: new Outgoing(host, preserve, taken, signal).parts(sources) };
}

function tooMany(): SvcError {
  return new SvcError("resource_exhausted", `a copy has at most ${FILES_MAX} files`);
}

/** The name on the other side; `.` and `..` are not names. */
async function resolveName(host: ReadFiles, path: string): Promise<string> {
  const { name } = splitPath(path);
  const real = /^\.{0,2}$/.test(name) ? splitPath(await host.realPath(path)).name : name;
  if (real !== "") return real;
  throw new SvcError("invalid_argument", `cannot copy "${path}": it has no name to copy it to`);
}

async function sourceAt(host: ReadFiles, path: string): Promise<Source> {
  const facts = await host.stat(path);
  if (!facts) throw new SvcError("not_found", `cannot copy "${path}": it does not exist`);
  if (facts.kind === "file" || facts.kind === "folder") return { path, facts };
  throw new SvcError("failed_precondition", `cannot copy "${path}": it is neither a file nor a folder`);
}

class Outgoing {
  readonly #taken: AsyncIterator<void>;
  #files = 0;
  /** Why files within folders were left out. */
  readonly #leftOut: string[] = [];

  constructor(
    private readonly host: ReadFiles,
    private readonly preserve: boolean,
    taken: AsyncIterable<void>,
    private readonly signal: AbortSignal,
  ) {
    this.#taken = taken[Symbol.asyncIterator]();
  }

  async *parts(sources: readonly Source[]): AsyncGenerator<FilePart> {
    try {
      for (const source of sources) yield* this.#below("", source, []);
    } finally {
      await this.#taken.return?.();
    }

    if (this.#leftOut.length === 0) return;
    const more = this.#leftOut.length - NAMED_MAX;
    const reasons = [...this.#leftOut.slice(0, NAMED_MAX), ...more > 0 ? [`and ${more} more`] : []].join(
      "; ",
    );
    throw new SvcError("failed_precondition", `everything else is copied: ${reasons}`);
  }

  /** `above` are the real paths of the folders on the way, so that a link back to one of them is left out. */
  async *#below(relative: string, source: Source, above: readonly string[]): AsyncGenerator<FilePart> {
    const { path, facts } = source;
    const name = `${relative}${await resolveName(this.host, path)}`;
    if (++this.#files > FILES_MAX) throw tooMany();
    const isNamed = above.length === 0;
    if (facts.kind !== "folder") return yield* this.#one(name, source, isNamed);

    checkDepth(above.length + 1, path);
    const folder = await this.#try(isNamed, () => this.#look(path, above));
    if (!folder) return;
    for (const entry of folder.entries) {
      const inside = await this.#try(
        false,
        () => sourceAt(this.host, `${withoutEnd(path, "/")}/${entry}`),
      );
      if (inside) yield* this.#below(`${name}/`, inside, [...above, folder.real]);
    }
    yield* this.#one(name, source, isNamed);
  }

  async #look(path: string, above: readonly string[]): Promise<{ real: string; entries: string[] }> {
    const real = await this.host.realPath(path);
    if (above.includes(real)) {
      throw new SvcError("failed_precondition", `cannot copy "${path}": it leads back to "${real}"`);
    }
    return { real, entries: await this.host.readFolder(path) };
  }

  /** Notes a failure within a folder and goes on; what the caller has named itself must work. */
  async #try<T>(isNamed: boolean, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      this.signal.throwIfAborted();
      if (isNamed) throw error;
      this.#leftOut.push(messageOf(error));
    }
  }

  /** A file, or the end of a folder, and waits until the caller has it. */
  async *#one(name: string, { path, facts }: Source, isNamed: boolean): AsyncGenerator<FilePart> {
    const isFolder = facts.kind === "folder", { sizeBytes, mode } = facts;
    // The permissions always come along, as with scp: a program stays one. Its copy's umask may narrow them.
    const modifiedMs = this.preserve ? facts.modifiedMs : undefined;
    let file: FilePart["file"] = { name, sizeBytes, isFolder, mode, modifiedMs };
    if (!isFolder) {
      const pieces = this.host.readPieces(path)[Symbol.asyncIterator]();
      try {
        // Once a part is sent, a failure is one of the whole copy: the caller has a file without its end.
        for (let piece = await this.#try(isNamed, () => pieces.next());; piece = await pieces.next()) {
          if (!piece) return;
          if (piece.done) break;
          this.signal.throwIfAborted();
          yield { file, data: piece.value, isLast: false };
          file = undefined;
        }
      } finally {
        await pieces.return?.();
      }
    }
    yield { file, data: NOTHING, isLast: true };
    if ((await this.#taken.next()).done) {
      throw new SvcError("canceled", `the caller has not acknowledged "${name}"`);
    }
  }
}
