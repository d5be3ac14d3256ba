/**
 * Puts the modules that a program starts with into few files, which executables are then made of.
 *
 * Deno resolves, reads and links each module of an executable at its start, which takes longer than running them; the
 * packages in `INLINED` are read with it for the same reason. Promises: an address that a module works out from its
 * own, `new URL("./worker.ts", import.meta.url)`, leads where it leads in the source, for workers, modules that are
 * imported later and files alike. Names of functions and classes stay, so that a stack trace can be read.
 */

import { SvcError } from "../../lib/base/error.ts";
import type { Outcome } from "./compiler.ts";

/** Packages without native code or files of their own, which programs import at their start. */
const INLINED = /^(@bufbuild\/protobuf|@std|croner|jpeg-js)(\/|$)/;

/** Workers and modules that are imported later, by their address from the file that names them. */
const ADDRESSES = /new URL\("(\.{1,2}\/[^"]+\.ts)", import\.meta\.url\)/g;

/** The bundler writes the path of each module, from the root of the tree, above what it took from there. */
const ORIGIN = /^\/\/ (\S+\.(?:[cm]?[jt]s|json))$/;

/** Whether a package is part of the bundle; any other stays a package of the executable. */
export function isInlined(name: string): boolean {
  return INLINED.test(name);
}

export interface BundleOptions {
  /** Runs Deno in the root of the tree. */
  readonly run: (args: readonly string[]) => Promise<Outcome>;
  /** The root of the tree, with a slash at its end. */
  readonly root: string;
  /** The entry point and the modules that are imported later, from the root of the tree. */
  readonly entries: readonly string[];
  /** All modules of the program, from the root of the tree. */
  readonly modules: readonly string[];
  /** Names of packages, of which those that are not inlined stay outside. */
  readonly packages: readonly string[];
  /** The configuration with the import map. */
  readonly config: string;
  /** Files and folders that the program reads, from the root of the tree: they are copied. */
  readonly files: readonly string[];
  /** Where the bundle goes, from the root of the tree; what is there is removed. */
  readonly folder: string;
}

/** Makes the bundle; gives the paths in it of the entry points and workers. Throws `internal` with the bundler's words. */
export async function bundle(
  { run, root, entries, modules, packages, config, files, folder }: BundleOptions,
): Promise<string[]> {
  const all = [...new Set([...entries, ...await addressed(root, modules)])];
  await Deno.remove(`${root}${folder}`, { recursive: true }).catch(() => {});
  const args = ["bundle", "--platform", "deno", "--code-splitting", "--no-check", "--config", config];
  args.push("--outdir", `${root}${folder}/${commonFolder(all)}`);
  for (const name of packages) if (!isInlined(name)) args.push(`--external=${name}`);
  const { code, errors } = await run([...args, ...all]);
  if (code !== 0) throw new SvcError("internal", `Cannot bundle ${entries[0]}:\n${errors.trimEnd()}`);
  await settleFolder(`${root}${folder}`, "");
  const scriptOf = (path: string) => path.replace(/\.ts$/, ".js");
  const [start, ...others] = all;
  // The addresses end as in the source.
  for (const path of others) {
    const script = scriptOf(path.slice(path.lastIndexOf("/") + 1));
    await Deno.writeTextFile(`${root}${folder}/${path}`, `export * from "./${script}";\n`);
  }
  for (const file of files) await copy(`${root}${file}`, `${root}${folder}/${file}`);
  return [scriptOf(start), ...others].map((path) => `${folder}/${path}`);
}

/** The workers and later modules that `modules` name. */
async function addressed(root: string, modules: readonly string[]): Promise<string[]> {
  const found = await Promise.all(
    modules.filter((path) => path.endsWith(".ts")).map(async (path) => {
      const text = await Deno.readTextFile(`${root}${path}`);
      const base = new URL(path, "file:///");
      return [...text.matchAll(ADDRESSES)].map(([, target]) => new URL(target, base).pathname.slice(1));
    }),
  );
  return found.flat();
}

/** The folder that all `paths` are in, where the bundler begins to name its results. */
function commonFolder(paths: readonly string[]): string {
  const folders = paths.map((path) => path.split("/").slice(0, -1));
  const length = folders[0].findIndex((part, at) => folders.some((one) => one[at] !== part));
  return folders[0].slice(0, length < 0 ? undefined : length).join("/");
}

async function settleFolder(root: string, folder: string): Promise<void> {
  for await (const { name, isDirectory } of Deno.readDir(`${root}/${folder}`)) {
    const path = `${folder}${name}`;
    if (isDirectory) {
      await settleFolder(root, `${path}/`);
      continue;
    }
    const text = await Deno.readTextFile(`${root}/${path}`);
    await Deno.writeTextFile(`${root}/${path}`, settleAddresses(text, path));
  }
}

/** What modules say of their own address, in the file of the bundle at `path`, as if each were where it is in the source. */
export function settleAddresses(text: string, path: string): string {
  const up = "../".repeat(path.split("/").length - 1) || "./";
  let origin = path;
  return text.split("\n").map((line) => {
    const found = ORIGIN.exec(line)?.[1];
    if (found !== undefined) origin = found;
    if (!line.includes("import.meta.") || origin.startsWith("..")) return line;
    // Only a program's own entry is started; it keeps its name but for the ending.
    const main = origin.replace(/\.ts$/, ".js") === path ? "import.meta.main" : "false";
    return line
      .replaceAll("import.meta.url", `new URL("${up}${origin}", import.meta.url).href`)
      .replaceAll("import.meta.main", main);
  }).join("\n");
}

async function copy(from: string, to: string): Promise<void> {
  const { isDirectory } = await Deno.stat(from);
  await Deno.mkdir(isDirectory ? to : to.slice(0, to.lastIndexOf("/")), { recursive: true });
  if (!isDirectory) return await Deno.copyFile(from, to);
  for await (const { name } of Deno.readDir(from)) await copy(`${from}/${name}`, `${to}/${name}`);
}
