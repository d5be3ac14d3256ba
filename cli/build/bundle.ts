/**
 * Bundles the start modules of a program into a few files, from which executables are compiled.
 *
 * Deno resolves, reads and links each module of an executable at its start, which takes longer than running them, and it
 * copies everything embedded into memory; the packages in `INLINED` are bundled too, for both reasons. An address that a
 * module computes from its own, `new URL("./worker.ts", import.meta.url)`, leads to the same target as in the source, for
 * workers, later modules and files alike. Functions and classes keep their names, so that stack traces are readable.
 */

import { SvcError } from "../../lib/base/error.ts";

export interface ToolOutcome {
  readonly code: number;
  readonly output: string;
  readonly errors: string;
}

/**
 * Packages without native code or files of their own. A package that a feature imports when it is first used becomes a
 * file of the bundle. Embedded as packages, they would bring their types, source maps and other builds as well.
 */
const INLINED = [
  "@bufbuild/protobuf",
  "@duckdb/node-api",
  "@foxglove",
  "@kubernetes/client-node",
  "@mcap/core",
  "@opentelemetry",
  "@peculiar/x509",
  "@simplewebauthn",
  "@std",
  "@xmldom/xmldom",
  "bson",
  "croner",
  "dbus-native",
  "dns-packet",
  "hyparquet",
  "hyparquet-writer",
  "jpeg-js",
  "mingo",
  "nodemailer",
  "oauth4webapi",
  "postgres",
];

/** Addons that an inlined package asks for, by system. The program gives it its own (`lightRequire`). */
const ADDON_PACKAGES = ["darwin-arm64", "darwin-x64", "linux-arm64", "linux-x64", "win32-arm64", "win32-x64"]
  .flatMap((system) => [`@duckdb/node-bindings-${system}`, `@duckdb/node-bindings-${system}-musl`]);

/** Workers and modules that are imported later, by their address relative to the file that names them. */
const ADDRESSES = /new URL\("(\.{1,2}\/[^"]+\.ts)", import\.meta\.url\)/g;

/** The bundler writes each module's path, from the root of the tree, above the module's code. */
const ORIGIN = /^\/\/ (\S+\.(?:[cm]?[jt]s|json))$/;

/** Whether the bundle includes a package; any other stays a package of the executable. */
export function isInlined(name: string): boolean {
  return INLINED.some((one) => name === one || name.startsWith(`${one}/`));
}

export interface BundleOptions {
  /** Runs Deno in the root of the tree. */
  readonly run: (args: readonly string[]) => Promise<ToolOutcome>;
  /** The root of the tree, with a slash at its end. */
  readonly root: string;
  /** The entry point and the modules that it imports later, from the root of the tree. */
  readonly entries: readonly string[];
  /** All modules of the program, from the root of the tree. */
  readonly modules: readonly string[];
  /** Names of packages; those that are not inlined stay outside. */
  readonly packages: readonly string[];
  /** Packages that stay outside in any case, because the program never runs them. */
  readonly without: readonly string[];
  /** The configuration with the import map. */
  readonly config: string;
  /** Files and folders that the program reads, from the root of the tree; they are copied. */
  readonly files: readonly string[];
  /** The folder of the bundle, from the root of the tree; its former content is removed. */
  readonly folder: string;
}

/**
 * Makes the bundle; returns the paths in it of the entry points and workers. Throws `internal` with the bundler's
 * output.
 */
export async function bundle(
  { run, root, entries, modules, packages, without, config, files, folder }: BundleOptions,
): Promise<[start: string, ...others: string[]]> {
  const all = [...new Set([...entries, ...await addressed(root, modules)])];
  await Deno.remove(`${root}${folder}`, { recursive: true }).catch(() => {});
  const args = ["bundle", "--platform", "deno", "--code-splitting", "--no-check", "--config", config];
  args.push("--outdir", `${root}${folder}/${commonFolder(all)}`);
  for (const name of packages) {
    if (!isInlined(name) || without.includes(name)) args.push(`--external=${name}`);
  }
  for (const name of ADDON_PACKAGES) args.push(`--external=${name}`);
  const { code, errors } = await run([...args, ...all]);
  if (code !== 0) throw new SvcError("internal", `Cannot bundle ${entries[0]}:\n${errors.trimEnd()}`);
  await settleFolder(`${root}${folder}`, "");
  const scriptOf = (path: string) => path.replace(/\.ts$/, ".js");
  const [start = "", ...others] = all;
  // Keeps the endings of the addresses as in the source.
  for (const path of others) {
    const script = scriptOf(path.slice(path.lastIndexOf("/") + 1));
    await Deno.writeTextFile(`${root}${folder}/${path}`, `export * from "./${script}";\n`);
  }
  for (const file of files) await copy(`${root}${file}`, `${root}${folder}/${file}`);
  const inFolder = (path: string) => `${folder}/${path}`;
  return [inFolder(scriptOf(start)), ...others.map(inFolder)];
}

/** The workers and later modules that `modules` name. */
async function addressed(root: string, modules: readonly string[]): Promise<string[]> {
  const found = await Promise.all(
    modules.filter((path) => path.endsWith(".ts")).map(async (path) => {
      const text = await Deno.readTextFile(`${root}${path}`);
      const base = new URL(path, "file:///");
      return [...text.matchAll(ADDRESSES)].map(([, target = ""]) => new URL(target, base).pathname.slice(1));
    }),
  );
  return found.flat();
}

/** The common folder of all `paths`, which is the bundler's root for naming its results. */
function commonFolder(paths: readonly string[]): string {
  const [first = [], ...others] = paths.map((path) => path.split("/").slice(0, -1));
  const length = first.findIndex((part, at) => others.some((one) => one[at] !== part));
  return first.slice(0, length < 0 ? undefined : length).join("/");
}

async function settleFolder(root: string, folder: string): Promise<void> {
  for await (const { name, isDirectory } of Deno.readDir(`${root}/${folder}`)) {
    const path = `${folder}${name}`;
    if (isDirectory) {
      await settleFolder(root, `${path}/`);
      continue;
    }
    const text = await Deno.readTextFile(`${root}/${path}`);
    await Deno.writeTextFile(`${root}/${path}`, asciiOnly(lightRequire(settleAddresses(text, path))));
  }
}

/**
 * Rewrites the modules' own addresses in the bundle's file at `path`, as if each module were at its place in the
 * source.
 */
export function settleAddresses(text: string, path: string): string {
  const up = "../".repeat(path.split("/").length - 1) || "./";
  let origin = path;
  return text.split("\n").map((line) => {
    const found = ORIGIN.exec(line)?.[1];
    if (found !== undefined) origin = found;
    if (!line.includes("import.meta.") || origin.startsWith("..")) return line;
    // Only a program's own entry is started; it keeps its name except for the extension.
    const main = origin.replace(/\.ts$/, ".js") === path ? "import.meta.main" : "false";
    return line
      .replaceAll("import.meta.url", `new URL("${up}${origin}", import.meta.url).href`)
      .replaceAll("import.meta.main", main);
  }).join("\n");
}

/**
 * Lets the bundler's `require` load Node's module system only for a module that is not Node's own: the start of the
 * program would pay for it (measured with Deno 2.9.6: `-version` in 30 ms instead of 40). An addon that the program has
 * loaded itself (`lib/cloud/content/sql/engine.ts`) is found by the name of its file.
 */
export function lightRequire(text: string): string {
  const made = /^import \{ createRequire as (\w+) \} from "node:module";\nvar __require = \1\((.*)\);$/m;
  return text.replace(
    made,
    (_, _name, address) =>
      "var __require = (name) => process.getBuiltinModule(name) ?? " +
      'globalThis[Symbol.for("svc.addons")]?.[name.slice(name.lastIndexOf("/") + 1)] ?? ' +
      `process.getBuiltinModule("node:module").createRequire(${address})(name);`,
  );
}

/**
 * Writes every character of a script beyond ASCII as an escape. A single one would make the engine keep the whole file
 * in memory at two bytes a character. The escape takes the place of a backslash before the character, which said no
 * more than the character itself.
 */
export function asciiOnly(text: string): string {
  // deno-lint-ignore no-control-regex -- ASCII starts with the control characters
  return text.replace(/(\\*)([^\x00-\x7f])/g, (_, backslashes: string, character: string) => {
    const kept = backslashes.slice(backslashes.length % 2);
    return `${kept}\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

async function copy(from: string, to: string): Promise<void> {
  const { isDirectory } = await Deno.stat(from);
  await Deno.mkdir(isDirectory ? to : to.slice(0, to.lastIndexOf("/")), { recursive: true });
  if (!isDirectory) return await Deno.copyFile(from, to);
  for await (const { name } of Deno.readDir(from)) await copy(`${from}/${name}`, `${to}/${name}`);
}
