/**
 * `deno task module:package`: the library for modules as an npm package, in `dist/svc-module`.
 *
 * The package is one file of JavaScript for Deno and Node, and one file with its types. It depends on nothing, so a
 * module that has a copy of it needs neither a registry nor an installation.
 */

import { messageOf, SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { begin, type Terminal } from "../program.ts";
import { bytesSum } from "./sums.ts";
import { MODULE_PACKAGE, VERSION } from "../version.ts";

const ROOT = new URL("../../", import.meta.url);
const ENTRY = "lib/module/package.ts";
const WORK = "dist/.build/svc-module";

/** The bundler of types, with the packages that its compiler needs. */
const TOOLS = ["dts-bundle-generator@9.5.1", "typescript@5.9.3", "@types/node@20.19.39"];

/** Types that the library uses and TypeScript 5.9 lacks. */
const NEWER_TYPES = `interface Uint8ArrayConstructor {
  fromBase64(text: string, options?: object): Uint8Array<ArrayBuffer>;
}
`;

/** npm's own limits let it try for many minutes where no registry answers. What its cache has needs no registry. */
const NPM_INSTALL = [
  ...[
    "install",
    "--loglevel=error",
    "--ignore-scripts",
    "--no-save",
    "--no-package-lock",
    "--no-audit",
    "--no-fund",
  ],
  ...["--prefer-offline", "--fetch-timeout=30000", "--fetch-retries=1"],
  ...["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000"],
];

/** Deno's arguments for bundling a module with its imports into one file. */
export const MODULE_BUNDLING = ["bundle", "--quiet", "--platform", "deno", "--format", "esm"];

const PROGRAM = {
  name: "deno task module:package",
  summary: `Makes the npm package of the library for modules in ${MODULE_PACKAGE}.`,
  style: "gnu",
  usage: "",
  flags: [],
} as const;

export async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const begun = begin(PROGRAM, args, terminal);
  if (begun.exitCode !== undefined) return begun.exitCode;
  try {
    await makeModulePackage();
    terminal.write(`${MODULE_PACKAGE}\n`);
    return 0;
  } catch (thrown) {
    terminal.writeError(`${PROGRAM.name}: ${messageOf(thrown)}\n`);
    return 1;
  }
}

/** Builds the package, if its sources have changed since it was built. */
export async function makeModulePackage(): Promise<void> {
  await Deno.mkdir(new URL(`${WORK}/`, ROOT), { recursive: true });
  await whileLocked(new URL(`${WORK}/.lock`, ROOT), async () => {
    const work = new URL(`${WORK}/`, ROOT), stamp = new URL(`${WORK}/.stamp`, ROOT);
    await copySources(work);
    const sum = await packageSum(work);
    if (await Deno.readTextFile(stamp).catch(() => undefined) === sum && await isMade()) return;
    await Deno.remove(stamp).catch(() => {});
    await buildModulePackage(work);
    await Deno.writeTextFile(stamp, sum);
  });
}

/** Runs `work` while no other process holds the lock of this file. */
export async function whileLocked<T>(path: URL | string, work: () => Promise<T>): Promise<T> {
  using file = await Deno.open(path, { write: true, create: true });
  await file.lock(true);
  return await work();
}

async function isMade(): Promise<boolean> {
  const files = ["mod.js", "mod.d.ts", "package.json", "LICENSE"].map((name) =>
    new URL(`${MODULE_PACKAGE}/${name}`, ROOT)
  );
  const there = files.map((file) => Deno.stat(file).then(() => true, () => false));
  return (await Promise.all(there)).every((one) => one);
}

/** The checksum of all that decides what the package becomes. */
async function packageSum(work: URL): Promise<string> {
  const paths = ["deno.json", "LICENSE", "cli/build/module_package.ts"].map((name) => new URL(name, ROOT));
  for (const folder of ["lib/", "proto/"]) await filesBelow(new URL(folder, work), paths);
  paths.sort((one, other) => one.href < other.href ? -1 : 1);
  const texts = await Promise.all(paths.map((path) => Deno.readFile(path)));
  return await bytesSum(new Uint8Array(await new Blob(texts).arrayBuffer()));
}

async function filesBelow(folder: URL, found: URL[]): Promise<void> {
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory) await filesBelow(new URL(`${name}/`, folder), found);
    else found.push(new URL(name, folder));
  }
}

async function buildModulePackage(work: URL): Promise<void> {
  const made = new URL(`${MODULE_PACKAGE}/`, ROOT);
  const [code, types] = await Promise.all([bundled(), bundledTypes(work)]);
  await Deno.mkdir(made, { recursive: true });
  const files: Record<string, string> = {
    "mod.js": `// @ts-self-types="./mod.d.ts"\n${code}`,
    "mod.d.ts": types,
    "package.json": `${JSON.stringify(description(), null, 2)}\n`,
    "LICENSE": await Deno.readTextFile(new URL("LICENSE", ROOT)),
  };
  for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(new URL(name, made), text);
}

function description() {
  return {
    name: "svc-module",
    version: VERSION,
    description: "Modules of a machine in TypeScript, for Deno and Node.",
    type: "module",
    exports: { ".": { types: "./mod.d.ts", default: "./mod.js" } },
    engines: { node: ">=20" },
    license: "SEE LICENSE IN LICENSE",
  };
}

async function bundled(): Promise<string> {
  const file = `${WORK}/mod.js`;
  await run(Deno.execPath(), [...MODULE_BUNDLING, "-o", file, ENTRY]);
  return await Deno.readTextFile(new URL(file, ROOT));
}

/** The tool expects npm's layout of packages, so the copy of the sources gets a node_modules beside it. */
async function bundledTypes(work: URL): Promise<string> {
  const { imports } = JSON.parse(await Deno.readTextFile(new URL("deno.json", ROOT)));
  const used = ["@bufbuild/protobuf", "@xmldom/xmldom", "jpeg-js"].map((name) =>
    imports[name].replace("npm:", "")
  );
  await installPackages(work.pathname, [...TOOLS, ...used]);
  const compilerOptions = {
    target: "esnext",
    module: "esnext",
    moduleResolution: "bundler",
    strict: true,
    allowImportingTsExtensions: true,
    noEmit: true,
    skipLibCheck: true,
    lib: ["esnext", "dom", "dom.iterable", "dom.asynciterable"],
    types: ["node", "newer"],
  };
  await Deno.mkdir(new URL("node_modules/@types/newer/", work), { recursive: true });
  await Deno.writeTextFile(new URL("node_modules/@types/newer/index.d.ts", work), NEWER_TYPES);
  const config = JSON.stringify({ compilerOptions, files: ["lib/module/mod.ts"] });
  await Deno.writeTextFile(new URL("tsconfig.json", work), config);
  const tool = new URL("node_modules/.bin/dts-bundle-generator", work).pathname;
  const inlined = ["--external-inlines", "@bufbuild/protobuf"];
  const kept = ["--project", "tsconfig.json", "--no-check", "--no-banner", "--export-referenced-types=false"];
  await run(tool, [...kept, ...inlined, "-o", "mod.d.ts", "lib/module/mod.ts"], work);
  return await Deno.readTextFile(new URL("mod.d.ts", work));
}

/** Installs packages with npm, in `folder/node_modules`. Throws `unavailable`, soon also where there is no network. */
export async function installPackages(
  folder: string,
  packages: readonly string[],
  env: { readonly [name: string]: string } = {},
): Promise<void> {
  const args = [...NPM_INSTALL, "--prefix", folder, ...packages];
  const { code, stdout, stderr } = await new Deno.Command("npm", { args, env, stdin: "null" }).output();
  if (code === 0) return;
  const output = new TextDecoder().decode(stderr) + new TextDecoder().decode(stdout);
  const why = output.match(/(?<=npm error )(?!code|errno|syscall).+/)?.[0] ?? output.trim();
  throw new SvcError(
    "unavailable",
    `Cannot install ${packages.join(", ")} with npm: ${why}; connect to npm's registry`,
  );
}

async function copySources(work: URL): Promise<void> {
  for (const folder of ["lib", "proto"]) {
    const target = new URL(`${folder}/`, work);
    await Deno.remove(target, { recursive: true }).catch(() => {});
    await copyFolder(new URL(`${folder}/`, ROOT), target);
  }
}

async function copyFolder(from: URL, to: URL): Promise<void> {
  await Deno.mkdir(to, { recursive: true });
  for await (const { name, isDirectory } of Deno.readDir(from)) {
    if (name === "node_modules") continue;
    if (isDirectory) await copyFolder(new URL(`${name}/`, from), new URL(`${name}/`, to));
    else if (name.endsWith(".ts") && !name.endsWith("_test.ts")) {
      await Deno.copyFile(new URL(name, from), new URL(name, to));
    }
  }
}

async function run(command: string, args: readonly string[], cwd: URL = ROOT): Promise<void> {
  const child = new Deno.Command(command, { args: [...args], cwd, env: { NO_COLOR: "1" }, stdin: "null" });
  const { code, stdout, stderr } = await child.output();
  if (code === 0) return;
  const output = new TextDecoder().decode(stderr) + new TextDecoder().decode(stdout);
  throw new SvcError(
    "internal",
    `Cannot make ${MODULE_PACKAGE}: ${command} ended with ${code}:\n${output.trimEnd()}`,
  );
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
