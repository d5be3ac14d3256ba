/**
 * The files of one program's updates: its record, its links, its counts of starts, its versions.
 *
 *     bin/<name>  bin/<name>.previous  bin/<name>.broken      links to files in cache
 *     bin/<name>.starts, <run>/<name>.starts                  links whose text is a count
 *     state/versions_<name>.json and .previous.json           the record and its previous copy
 *
 * Every method that writes has written durably when it returns. An unreadable record is reported and replaced by its
 * previous copy, and an unreadable copy by the links.
 */

import { basename, join } from "node:path";
import { type LinkFiles, type ReadFiles, TEMPORARY, type WriteFiles } from "../../base/files/files.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import {
  bool,
  choice,
  type ConfigField,
  DecodeContext,
  type Infer,
  integer,
  list,
  object,
  text,
} from "../../base/schema/schema.ts";
import { type BinaryName, keyOf, versionIn } from "./release.ts";
import type { Count, LinkName, PassingCount, VersionLinks } from "./boot.ts";
import type { Build, Op, Slot } from "./state.ts";

const targetShape = { key: text().required(), version: text().required() };

const buildField = object({
  ...targetShape,
  file: text("", { pattern: /^[^/\\]+$/, wanted: "the name of a file" }).required(),
  sha256: text("", { pattern: /^[0-9a-f]{64}$/, wanted: "64 hexadecimal digits" }).required(),
  sizeBytes: integer("", { min: 0 }).key("sizeBytes").required(),
});

/** Ignores unknown fields: a newer version of the agent may have written them. */
const slotField = object({
  good: buildField,
  previous: buildField,
  trial: object({
    build: buildField.required(),
    stage: choice("", ["downloaded", "verified", "prepared", "switched", "probation"]).required(),
    asked: bool(),
  }),
  unproven: buildField,
  refused: object({ ...targetShape, reason: text().default("") }),
  late: object({
    file: text().required(),
    ends: integer("", { min: 0 }).required(),
    left: list(text()).required(),
  }),
});

const LINKS: { readonly [L in LinkName]: string } = {
  current: "",
  previous: ".previous",
  broken: ".broken",
};

const STARTS = ".starts";

/** The files in `cache` that must not be removed. */
export function inUse(slot: Slot, links: VersionLinks, running?: string): Set<string> {
  const { good, previous, trial, unproven } = slot;
  const files = [
    good?.file,
    previous?.file,
    trial?.build.file,
    unproven?.file,
    running,
    ...Object.values(links),
  ];
  return new Set(files.filter((file) => file !== undefined));
}

/**
 * The record if every copy of it is lost. The version that starts may have been on trial, so it gets a new trial if
 * there is another version to return to. A version that was given up is all there is if nothing else has a link.
 */
export function rebuilt(
  { current, previous, broken }: VersionLinks,
  build: (file: string) => Build | undefined,
): Slot {
  const first = current === undefined ? undefined : build(current);
  const before = previous === undefined || previous === current ? undefined : build(previous);
  if (!first && !before) {
    const last = broken === undefined ? undefined : build(broken);
    return last ? { unproven: last } : {};
  }
  if (!first || !before) return { good: first ?? before };
  return { good: before, trial: { build: first, stage: "switched" } };
}

export interface UpdateRecordParts {
  readonly name: BinaryName;
  /** The agent's folder. */
  readonly base: string;
  /** A folder in memory: a full disk does not affect it, and a power loss empties it. */
  readonly run: string;
  readonly files: ReadFiles & WriteFiles & LinkFiles;
  /** The SHA-256 of a file, hexadecimal. */
  readonly sumOf: (path: string) => Promise<string>;
}

export class UpdateRecord {
  readonly #parts: UpdateRecordParts;
  /** The content of the record file. */
  #text?: string;

  constructor(parts: UpdateRecordParts) {
    this.#parts = parts;
  }

  /** The path of a file of `cache`. */
  pathOf(file: string): string {
    return join(this.#parts.base, "cache", file);
  }

  /** Creates the folders and reads the record. `problems` says what was unreadable. */
  async open(): Promise<{ slot: Slot; problems: string[] }> {
    const { base, run, files } = this.#parts;
    for (const folder of ["bin", "cache", "cache/part", "state"]) await files.makeFolder(join(base, folder));
    await files.makeFolder(run).catch(() => {});
    await this.#clear(join(base, "state"));
    const problems: string[] = [];
    for (const path of [this.#recordPath, this.#copyPath]) {
      try {
        const bytes = await files.readFile(path);
        const slot = parseSlot(new TextDecoder().decode(bytes), path);
        if (path === this.#recordPath) this.#text = new TextDecoder().decode(bytes);
        return { slot, problems };
      } catch (error) {
        // On the first start there is neither a record nor a copy.
        if (SvcError.from(error).code !== "not_found") problems.push(chainOf(error));
        else if (path === this.#copyPath && problems.length > 0) problems.push(chainOf(error));
      }
    }
    return { slot: await this.#rebuild(), problems };
  }

  async links(): Promise<VersionLinks> {
    const links: { -readonly [L in LinkName]?: string } = {};
    for (const link of Object.keys(LINKS) as LinkName[]) {
      // A file in place of a link, such as a program that somebody has put there, counts as absent and is replaced.
      const text = await this.#parts.files.readLink(this.#linkPath(link)).catch(() => undefined);
      if (text !== undefined && text.trim() !== "") links[link] = basename(text.trim());
    }
    return links;
  }

  async counts(): Promise<{ count?: Count; passing?: PassingCount }> {
    const { files } = this.#parts;
    const [count, passing] = await Promise.all(
      [this.#startsPath, this.#passingPath].map((path) => files.readLink(path).catch(() => undefined)),
    );
    return { count: parseCount(count), passing: parsePassing(passing) };
  }

  /** Counts a start in both places; one of them suffices. */
  async count({ file, starts, failures }: Count): Promise<void> {
    const { files } = this.#parts;
    const text = `${starts} ${failures} ${file}`;
    let failure: unknown;
    await files.turnLink(this.#startsPath, text).catch((error) => failure = error);
    try {
      const { current } = await this.links();
      await files.turnLink(this.#passingPath, `${text} ${current ?? ""}`);
    } catch (error) {
      if (failure) throw error;
    }
  }

  async apply(op: Op): Promise<void> {
    const { files } = this.#parts;
    switch (op.op) {
      case "save":
        return await this.#save(op.slot);
      case "link":
        return await files.turnLink(this.#linkPath(op.link), `../cache/${op.file}`);
      case "unlink":
        return await files.removeDurably(this.#linkPath(op.link));
      case "forget_count":
        await files.remove(this.#passingPath);
        return await files.removeDurably(this.#startsPath);
    }
  }

  /** A file of `cache` as a build; `undefined` if it is missing. */
  async readBuild(file: string): Promise<Build | undefined> {
    const { files, sumOf, name } = this.#parts;
    const found = await files.findFile(this.pathOf(file));
    if (!found) return undefined;
    const sha256 = await sumOf(this.pathOf(file));
    const version = versionIn(name, file);
    return { key: keyOf(version, sha256), version, file, sha256, sizeBytes: found.sizeBytes };
  }

  async #rebuild(): Promise<Slot> {
    const links = await this.links();
    const builds = new Map<string, Build | undefined>();
    for (const file of Object.values(links)) builds.set(file, await this.readBuild(file));
    return rebuilt(links, (file) => builds.get(file));
  }

  /** Removes the temporary files of interrupted writes. */
  async #clear(folder: string): Promise<void> {
    const { files, name } = this.#parts;
    for (const left of await files.readFolder(folder).catch(() => [])) {
      const ours = left.startsWith(`versions_${name}.`) && left.endsWith(TEMPORARY);
      if (ours) await files.remove(join(folder, left)).catch(() => {});
    }
  }

  async #save(slot: Slot): Promise<void> {
    const { files } = this.#parts;
    const text = JSON.stringify(slot, undefined, 1);
    if (this.#text !== undefined) await files.writeFile(this.#copyPath, this.#text);
    await files.writeFile(this.#recordPath, text);
    this.#text = text;
  }

  get #recordPath(): string {
    return join(this.#parts.base, "state", `versions_${this.#parts.name}.json`);
  }

  get #copyPath(): string {
    return join(this.#parts.base, "state", `versions_${this.#parts.name}.previous.json`);
  }

  get #startsPath(): string {
    return join(this.#parts.base, "bin", `${this.#parts.name}${STARTS}`);
  }

  get #passingPath(): string {
    return join(this.#parts.run, `${this.#parts.name}${STARTS}`);
  }

  #linkPath(link: LinkName): string {
    return join(this.#parts.base, "bin", `${this.#parts.name}${LINKS[link]}`);
  }
}

type ReadSlot = NonNullable<Infer<typeof slotField>>;

function parseSlot(text: string, path: string): Slot {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new SvcError("data_loss", `${path} is not JSON`, { cause });
  }
  const at = new DecodeContext();
  const slot: ReadSlot | undefined = (slotField as ConfigField<ReadSlot | undefined>).decode(json, at);
  if (slot && !at.failed) return prune(slot) as Slot;
  const wrong = at.problems.filter(({ severity }) => severity === "error");
  const reported = wrong.map(({ path, message }) => `${path}: ${message}`).join("; ");
  throw new SvcError("data_loss", `${path}: ${reported}`);
}

/** Without undefined properties. */
function prune(slot: object): object {
  return Object.fromEntries(Object.entries(slot).filter(([, value]) => value !== undefined));
}

function parseCount(text: string | undefined): Count | undefined {
  const [starts = "", failures = "", file] = text?.split(" ") ?? [];
  if (!file || !/^\d{1,9}$/.test(starts) || !/^\d{1,9}$/.test(failures)) return undefined;
  return { file, starts: Number(starts), failures: Number(failures) };
}

function parsePassing(text: string | undefined): PassingCount | undefined {
  const count = parseCount(text);
  return count && { ...count, over: text!.split(" ")[3] || undefined };
}
