/**
 * Compiles one program for one target with a given Deno, for `compile` and `compile:check`.
 *
 * Owns the lists of programs and targets. An executable embeds exactly the npm packages that its program reaches, and
 * the native addons of its target only.
 */

import { fileURLToPath, pathToFileURL } from "node:url";
import { brotliCompressSync, constants } from "node:zlib";
import { assert, SvcError } from "../../lib/base/error.ts";
import { didYouMean } from "../../lib/base/schema/suggest.ts";
import { UsageError } from "../flags.ts";
import { FLEET_PAGE, MACHINE_PAGE, type PagePaths } from "../page_path.ts";
import { MODULE_PACKAGE, NOTICES_FILE, REVISION_FILE } from "../version.ts";
import { CLOUD_V8_FLAGS, V8_FLAGS } from "../v8_flags.ts";
import {
  EXTENT_SUFFIX,
  FACTS_SUFFIX,
  PACKED_FOLDER,
  PACKED_SUFFIX,
  type PlainFacts,
} from "../../lib/base/native/packed.ts";
import { SQL_ADDON, SQL_PACKAGE } from "../../lib/cloud/sandbox/content/sql_package.ts";
import { ONNX_ADDON, ONNX_PACKAGE } from "../../lib/learn/onnx/package.ts";
import { VIDEO_PACKAGE, VIDEO_WASM } from "../../lib/machine/streams/video_worker.ts";
import { RTC_ADDON, RTC_PACKAGE } from "../../lib/wire/webrtc/addon.ts";
import { bundle, isInlined, type ToolOutcome } from "./bundle.ts";
import { carries, writeCarrier } from "./carrier.ts";
import { makeModulePackage } from "./module_package.ts";
import { buildPage, makeOnce } from "./page.ts";
import { bytesSum } from "./sums.ts";
import { onlyFileOf } from "./zip.ts";

export interface Target {
  readonly name: string;
  /** Deno's name for the target. */
  readonly triple: string;
  readonly suffix: string;
  /** The package of the WebRTC addon for the target. */
  readonly addon: string;
  /** The folder of ONNX Runtime's libraries for the target, and the library in it. */
  readonly onnx: string;
  readonly onnxLibrary: string;
  /** The package of DuckDB's addon for the target, and its files. */
  readonly sql: string;
  readonly sqlFiles: readonly string[];
  /** Whether its executables keep what stands behind the end of their runtime. */
  readonly carries: boolean;
}

export const TARGETS: readonly Target[] = [
  {
    name: "linux-x64",
    triple: "x86_64-unknown-linux-gnu",
    suffix: "",
    addon: "@node-datachannel/linux-x64-gnu",
    onnx: "linux/x64",
    onnxLibrary: "libonnxruntime.so.1",
    sql: "@duckdb/node-bindings-linux-x64",
    sqlFiles: [SQL_ADDON, "libduckdb.so"],
    carries: true,
  },
  {
    name: "linux-arm64",
    triple: "aarch64-unknown-linux-gnu",
    suffix: "",
    addon: "@node-datachannel/linux-arm64-gnu",
    onnx: "linux/arm64",
    onnxLibrary: "libonnxruntime.so.1",
    sql: "@duckdb/node-bindings-linux-arm64",
    sqlFiles: [SQL_ADDON, "libduckdb.so"],
    carries: true,
  },
  {
    name: "windows-x64",
    triple: "x86_64-pc-windows-msvc",
    suffix: ".exe",
    addon: "@node-datachannel/win32-x64-msvc",
    onnx: "win32/x64",
    onnxLibrary: "onnxruntime.dll",
    sql: "@duckdb/node-bindings-win32-x64",
    sqlFiles: [SQL_ADDON, "duckdb.dll"],
    carries: false,
  },
];

export interface Executable {
  readonly name: string;
  /** The entry point, from the root of the tree. */
  readonly entry: string;
  /** Modules that it imports by computed addresses, which no compiler finds. */
  readonly later?: readonly string[];
  /** Options of its runtime. */
  readonly runtime?: readonly string[];
  /** Whether it embeds the library for modules, for its users. */
  readonly modulePackage?: boolean;
  /** The page that it embeds. */
  readonly page?: PagePaths;
  /** Packages of features that it never turns on; only those features import them. */
  readonly without?: readonly string[];
}

export const EXECUTABLES: readonly Executable[] = [
  {
    name: "svc-server",
    entry: "cli/server/main.ts",
    later: [
      "cli/server/serve.ts",
      "cli/server/slam/program.ts",
      "cli/server/module/program.ts",
      "cli/server/first/program.ts",
      "cli/server/running/program.ts",
      "drivers/base/simulated.ts",
      "drivers/camera/lidar/carmen.ts",
      "drivers/camera/lidar/simulated.ts",
      "drivers/movement_sensor/carmen_odometry.ts",
      "drivers/movement_sensor/simulated.ts",
      "drivers/slam/mapper/service.ts",
      "drivers/slam/mapper/worker.ts",
      "lib/learn/onnx/worker.ts",
      "lib/slam/bags/bag_file.ts",
    ],
    runtime: [V8_FLAGS],
    modulePackage: true,
    page: MACHINE_PAGE,
  },
  {
    name: "svc-micro-server",
    entry: "cli/micro/main.ts",
    later: ["cli/micro/serve.ts", "drivers/base/simulated.ts", "drivers/movement_sensor/simulated.ts"],
    runtime: [V8_FLAGS],
    without: [
      "@libav.js/variant-webm",
      "@opentelemetry/api",
      "@opentelemetry/otlp-transformer",
      "@opentelemetry/resources",
      "@opentelemetry/sdk-metrics",
      "@opentelemetry/sdk-trace",
      "@xmldom/xmldom",
      "node-datachannel",
    ],
  },
  { name: "svc-agent", entry: "cli/agent/main.ts", later: ["cli/agent/program.ts"] },
  { name: "svc-ml", entry: "cli/ml/main.ts", later: ["cli/ml/program.ts"] },
  {
    name: "svc-cloud",
    entry: "cli/cloud/main.ts",
    later: [
      "cli/cloud/program.ts",
      "cli/cloud/checks/validator.ts",
      "cli/cloud/checks/worker.ts",
      "cli/cloud/remote/run.ts",
      "cli/cloud/remote/signing.ts",
      "cli/cloud/remote/worker.ts",
      "cli/cloud/serve/content.ts",
      "cli/cloud/serve/serving.ts",
      "cli/cloud/sqlite.ts",
      "lib/learn/onnx/worker.ts",
    ],
    runtime: [CLOUD_V8_FLAGS],
    page: FLEET_PAGE,
  },
];

/**
 * By default an executable stores V8's compiled code as `deno-compile-PROGRAM.cache` in the folder for temporary files
 * and runs whatever it finds there at its next start. Anybody may write such a file, so root would run their code.
 */
const NO_CODE_CACHE = "--no-code-cache";

/** Lets threads have fewer rights than their process (`lib/base/native/permissions.ts`). */
const THREAD_RIGHTS = "--unstable-worker-options";

/** The program that writes the notices, from the root of the tree. */
const NOTICES = "cli/build/notices.ts";

/** A program that does nothing, from the root of the tree. */
const EMPTY = "cli/build/empty.ts";

/** The time of embedded files: the first that archives of any kind can hold. */
const FILE_TIME = new Date("1980-01-01T00:00:00Z");

/** The root of the tree, with a slash at its end. */
export const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** The rows with these names, or all of them for none; throws a usage error for a name that no row has. */
export function choose<T extends { readonly name: string }>(
  what: string,
  rows: readonly T[],
  names: readonly string[],
): [T, ...T[]] {
  const known = rows.map((row) => row.name);
  for (const name of names) {
    if (known.includes(name)) continue;
    throw new UsageError(
      `Unknown ${what} ${name}, wanted one of ${known.join(", ")}${didYouMean(name, known)}`,
    );
  }
  const [first, ...others] = rows.filter((row) => names.length === 0 || names.includes(row.name));
  assert(first, `there is no ${what} to choose from`);
  return [first, ...others];
}

/** The target of this name, or all for an empty one, as `choose` gives them. */
export function chooseTargets(name: string) {
  return choose("target", TARGETS, name === "" ? [] : [name]);
}

/** Runs a command in the root of the tree to its end and returns its output, without colours. */
export async function execute(
  command: string,
  args: readonly string[],
  variables?: { readonly [name: string]: string },
): Promise<ToolOutcome> {
  const env = { NO_COLOR: "1", ...variables };
  const options: Deno.CommandOptions = { args: [...args], cwd: ROOT, env, stdin: "null" };
  const { code, stdout, stderr } = await new Deno.Command(command, options).output();
  return { code, output: new TextDecoder().decode(stdout), errors: new TextDecoder().decode(stderr) };
}

/** A compiler: a Deno executable and its version. */
export interface Compiler {
  readonly deno: string;
  readonly version: string;
}

export interface Compiled {
  readonly path: string;
  readonly bytes: number;
  /** Deno's list of the embedded modules, a tree for people to read. */
  readonly listing: string;
  /** The embedded packed files, from the root of the tree. */
  readonly packed: readonly string[];
  /** The rows of the import map that the program uses. */
  readonly imports: Readonly<Record<string, string>>;
}

/**
 * Compiles into `output` (from the root of the tree). `version` replaces the project's version, for tests of updates.
 * Throws `unavailable` if the target's runtime is neither present nor downloadable, `internal` with the compiler's
 * output if it fails otherwise.
 */
export async function compile(
  compiler: Compiler,
  { name, entry, later = [], without = [], runtime = [], modulePackage = false, page }: Executable,
  target: Target,
  output: string,
  version?: string,
): Promise<Compiled> {
  await recordRevision();
  await requireNotices();
  if (modulePackage) await makeModulePackage();
  if (page) await buildPage(page);
  const reached = await Promise.all([entry, ...later].map((one) => reach(compiler, one)));
  const imports: Record<string, string> = Object.assign({}, ...reached.map((one) => one.imports));
  for (const name of without) delete imports[name];
  const work = `dist/.build/${name}`;
  const config = `${work}/deno.json`;
  await Deno.mkdir(`${ROOT}${work}`, { recursive: true });
  await configure(work, { ...imports, ...version && await otherVersion(version, work) });
  const packed = await packFiles(compiler, imports, target, { modulePackage, page });
  const carrier = packed.length > 0 && target.carries
    ? await buildCarrier(compiler, name, target, packed)
    : undefined;
  const facts = packed.map((path) => path.replace(PACKED_SUFFIX, FACTS_SUFFIX));
  const files = [REVISION_FILE, NOTICES_FILE, "install", ...facts];
  const folder = `${work}/bundle`;
  const [start, ...others] = await bundle({
    // Always the running Deno: its bundles suit the runtime of an older one too.
    run: (args) => execute(Deno.execPath(), args),
    ...{ root: ROOT, entries: [entry, ...later], config, folder },
    files: [...files, ...packed, ...carrier?.extents ?? []],
    modules: [...new Set(reached.flatMap((one) => one.modules))],
    packages: Object.keys(await importMap()),
    without,
  });
  await forgetTimes(`${ROOT}${folder}`);
  // The configuration has only what the bundle imports, because Deno embeds everything that is mapped or locked.
  const isOutside = (name: string) => !isInlined(name) && name !== RTC_PACKAGE;
  const outside = Object.fromEntries(Object.entries(imports).filter(([name]) => isOutside(name)));
  await configure(work, outside);
  const path = `${output}/${name}${target.suffix}`;
  // A right that a process has given up is refused; nobody at the terminal is asked for it.
  const args = [
    "compile",
    "--allow-all",
    "--no-prompt",
    "--no-check",
    "--config",
    config,
    NO_CODE_CACHE,
    THREAD_RIGHTS,
    ...runtime,
  ];
  args.push("--target", target.triple, "--output", path, ...await exclusions(compiler, imports, target));
  const make = async (carrier?: Carrier) => {
    const included = [...files, ...carrier?.extents ?? packed].map((file) => `${folder}/${file}`);
    const includes = [...included, ...others].flatMap((one) => ["--include", one]);
    const made = await execute(compiler.deno, [...args, ...includes, start], carrier?.env);
    if (made.code !== 0) throw await failure(compiler, name, target, made.errors);
    return made;
  };
  let { output: printed, errors } = await make(carrier);
  // A Deno that lays its executables out in another way embeds the packed files.
  if (carrier && !await carrier.isWhole(`${ROOT}${path}`)) ({ output: printed, errors } = await make());
  const { size } = await Deno.stat(`${ROOT}${path}`);
  const listing = (printed + errors).split("Embedded Files")[1] ?? "";
  return { path: `${ROOT}${path}`, bytes: size, listing, packed, imports };
}

/** Gives all files one time: executables contain it, and two builds of one revision should be the same bytes. */
async function forgetTimes(folder: string): Promise<void> {
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (isDirectory) await forgetTimes(path);
    else await Deno.utime(path, FILE_TIME, FILE_TIME);
  }
}

/** Writes the configuration and the lock of a program that uses `imports`. */
async function configure(work: string, imports: Record<string, string>): Promise<void> {
  await Deno.writeTextFile(`${ROOT}${work}/deno.json`, JSON.stringify({ nodeModulesDir: "none", imports }));
  await Deno.writeTextFile(`${ROOT}${work}/deno.lock`, JSON.stringify(await lockFor(imports)));
}

/** A row of the import map that replaces the project file by one with this version. */
async function otherVersion(version: string, work: string): Promise<Record<string, string>> {
  await Deno.writeTextFile(`${ROOT}${work}/project.json`, JSON.stringify({ version }));
  // Relative, because an executable has another root.
  return { [`${work.replaceAll(/[^/]+/g, "..")}/deno.json`]: "./project.json" };
}

/** Writes the tree's git revision for the executables; outside a repository it is empty. */
async function recordRevision(): Promise<void> {
  const { code, output } = await execute("git", [
    "describe",
    "--always",
    "--dirty",
    "--abbrev=12",
    "--exclude=*",
  ])
    .catch(() => ({ code: 1, output: "" }));
  await Deno.mkdir(`${ROOT}dist`, { recursive: true });
  await Deno.writeTextFile(`${ROOT}${REVISION_FILE}`, code === 0 ? output : "");
}

/** Writes the notices of third-party software unless they are there; `compile` writes them anew. */
async function requireNotices(): Promise<void> {
  if (await exists(`${ROOT}${NOTICES_FILE}`)) return;
  const { code, errors } = await execute(Deno.execPath(), ["run", "-A", NOTICES]);
  if (code !== 0) throw new SvcError("internal", `Cannot write ${NOTICES_FILE}:\n${errors.trimEnd()}`);
}

/** Path of the runtime from which Deno makes executables for `target`. */
export async function runtimePath({ deno, version }: Compiler, target: Target): Promise<string> {
  return `${(await folders(deno)).denoDir}/dl/release/v${version}/denort-${target.triple}.zip`;
}

export async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}

async function failure(compiler: Compiler, name: string, target: Target, errors: string): Promise<SvcError> {
  const attempt = `Cannot compile ${name} for ${target.name}`;
  const runtime = await runtimePath(compiler, target);
  const lacksRuntime = errors.includes("denort") && !await exists(runtime);
  if (!lacksRuntime) return new SvcError("internal", `${attempt}:\n${errors.trimEnd()}`);
  const found = `the runtime of Deno ${compiler.version} could not be downloaded`;
  const remedy = `connect to Deno's download host, or put the official file at ${runtime}`;
  return new SvcError("unavailable", `${attempt}: ${found}; ${remedy}`);
}

/** The project's import map: the outside packages by their import names. */
export async function importMap(): Promise<Record<string, string>> {
  return JSON.parse(await Deno.readTextFile(`${ROOT}deno.json`)).imports;
}

/** The used part of `deno info --json`. */
interface ModuleGraph {
  readonly roots: readonly string[];
  readonly modules: readonly {
    readonly specifier: string;
    /** `code` is missing for an import of types. */
    readonly dependencies?: readonly { readonly specifier: string; readonly code?: { specifier: string } }[];
  }[];
}

interface Reached {
  /** The rows of the import map that it needs at run time. */
  readonly imports: Record<string, string>;
  /** Its modules, from the root of the tree. */
  readonly modules: readonly string[];
}

async function reach({ deno }: Compiler, entry: string): Promise<Reached> {
  const { code, output, errors } = await execute(deno, ["info", "--json", entry]);
  if (code !== 0) throw new SvcError("internal", `Cannot read the modules of ${entry}:\n${errors.trimEnd()}`);
  const graph: ModuleGraph = JSON.parse(output);
  const mapped = await importMap();
  const modules = new Map(graph.modules.map((module) => [module.specifier, module]));
  const imports: Record<string, string> = {};
  const reached = new Set(graph.roots);
  // A set can grow while it is walked.
  for (const specifier of reached) {
    for (const dependency of modules.get(specifier)?.dependencies ?? []) {
      if (dependency.code === undefined) continue;
      const external = mapped[dependency.specifier];
      if (external !== undefined) imports[dependency.specifier] = external;
      else reached.add(dependency.code.specifier);
    }
  }
  const root = pathToFileURL(ROOT).href;
  const own = [...reached].filter((specifier) => specifier.startsWith(root));
  return { imports, modules: own.map((specifier) => specifier.slice(root.length)) };
}

interface Lock {
  readonly version: string;
  readonly specifiers: Readonly<Record<string, string>>;
  /** By name and version: `nan@2.30.0`. */
  readonly npm: Readonly<Record<string, unknown>>;
}

/** The packages of the project, with the checksums of their content. */
async function projectLock(): Promise<Lock> {
  const { version, specifiers, npm } = JSON.parse(await Deno.readTextFile(`${ROOT}deno.lock`));
  return { version, specifiers, npm };
}

/** The project's lock, reduced to the packages in `imports` and their dependencies. */
async function lockFor(imports: Record<string, string>) {
  const { version, specifiers, npm } = await projectLock();
  const wanted = new Set(Object.values(imports).map((mapped) => mapped.match(/^npm:@?[^@]+@[^/]+/)?.[0]));
  const kept = Object.entries(specifiers).filter(([specifier]) => wanted.has(specifier));
  return { version, specifiers: Object.fromEntries(kept), npm };
}

/** Options that leave out native code for other systems, which Deno does not distinguish. */
async function exclusions(
  { deno }: Compiler,
  imports: Record<string, string>,
  target: Target,
): Promise<string[]> {
  const foreign = [...foreignPaths(imports, target), ...unusedPaths((await projectLock()).npm)];
  const { npmCache } = await folders(deno);
  const registries = await Array.fromAsync(Deno.readDir(npmCache));
  // They need not exist yet.
  return registries.flatMap(({ name }) => foreign.map((path) => `--exclude=${npmCache}/${name}/${path}`));
}

/** ONNX Runtime's library folders; each also has libraries for graphics processors. */
const ONNX_FOLDERS = ["darwin", "linux/x64", "linux/arm64", "win32/x64", "win32/arm64"];
const ONNX_GRAPHICS = ["DirectML.dll", "dxcompiler.dll", "dxil.dll"];

/** Unused forms of the video encoder: without WebAssembly, and with threads. */
const VIDEO_FORMS = ["asm.js", "asm.mjs", "thr.js", "thr.mjs", "thr.wasm", "wasm.js"];

/** Packages that others need only to install themselves. */
export const INSTALLERS = [
  "adm-zip",
  "global-agent",
  "matcher",
  "nan",
  "semver",
  "serialize-error",
  "type-fest",
];
/** Parts of packages that no program reads: examples, sources, types. */
const UNREAD: { readonly [name: string]: string } = {
  "@libav.js/variant-webm": "dist/libav.types.d.ts",
  "onnxruntime-common": "lib",
  "onoff": "examples",
};

/** The parts of the packages that `target` does not need, from the folder of a registry's packages. */
export function foreignPaths(imports: Record<string, string>, target: Target): string[] {
  const version = (name: string) => versionOf(imports, name);
  const paths: string[] = [];
  if (ONNX_PACKAGE in imports) {
    const folder = `${ONNX_PACKAGE}/${version(ONNX_PACKAGE)}/bin/napi-v6`;
    paths.push(...ONNX_FOLDERS.filter((one) => one !== target.onnx).map((one) => `${folder}/${one}`));
    // The library itself is embedded packed.
    paths.push(...[...ONNX_GRAPHICS, target.onnxLibrary].map((name) => `${folder}/${target.onnx}/${name}`));
  }
  if (VIDEO_PACKAGE in imports) {
    const file = videoFile(version(VIDEO_PACKAGE));
    // The WebAssembly is embedded packed.
    paths.push(...[...VIDEO_FORMS, "wasm.wasm"].map((form) => `${file}.${form}`));
  }
  return paths;
}

/** The parts of locked packages that no program needs, from the folder of a registry's packages. */
function unusedPaths(npm: Lock["npm"]): string[] {
  return Object.keys(npm).flatMap((key) => {
    const [, name = key, version] = /^(@?[^@]+)@([^_]+)/.exec(key) ?? [];
    if (INSTALLERS.includes(name)) return [`${name}/${version}`];
    return UNREAD[name] === undefined ? [] : [`${name}/${version}/${UNREAD[name]}`];
  });
}

/** Quick to pack; the best quality would take 40 times as long for a seventh less. */
const PACKING_QUALITY = 6;
/** Larger files are packed once for all builds: DuckDB and ONNX Runtime take 17 s together. */
const KEPT_BYTES_MIN = 8e6;

/** The encoder's files without their endings, from the folder of a registry's packages. */
function videoFile(version: string): string {
  return `${VIDEO_PACKAGE}/${version}/dist/libav-${version}.0-webm`;
}

/**
 * Packs the large files that the program needs on `target`: native code, WebAssembly, the library for modules. Returns
 * the paths of the packed files, from the root of the tree.
 */
async function packFiles(
  compiler: Compiler,
  imports: Record<string, string>,
  { addon, onnx, onnxLibrary, sql, sqlFiles }: Target,
  { modulePackage, page }: Pick<Executable, "modulePackage" | "page">,
): Promise<string[]> {
  await Deno.remove(`${ROOT}${PACKED_FOLDER}`, { recursive: true }).catch(() => {});
  const { npmCache } = await folders(compiler.deno);
  const packed: string[] = [];
  const packPublished = async (name: string, path: string, file = path.slice(path.lastIndexOf("/") + 1)) => {
    packed.push(await pack(await published(npmCache, path), `${name}/${file}`));
  };
  if (RTC_PACKAGE in imports) {
    const version = versionOf(imports, RTC_PACKAGE);
    await download(compiler, addon, version);
    await packPublished(RTC_PACKAGE, `${addon}/${version}/${RTC_ADDON}`);
  }
  if (ONNX_PACKAGE in imports) {
    const folder = `${ONNX_PACKAGE}/${versionOf(imports, ONNX_PACKAGE)}/bin/napi-v6/${onnx}`;
    for (const file of [ONNX_ADDON, onnxLibrary]) await packPublished(ONNX_PACKAGE, `${folder}/${file}`);
  }
  if (SQL_PACKAGE in imports) {
    const version = versionOf(imports, SQL_PACKAGE);
    await download(compiler, sql, version);
    for (const file of sqlFiles) await packPublished(SQL_PACKAGE, `${sql}/${version}/${file}`);
  }
  if (VIDEO_PACKAGE in imports) {
    await packPublished(
      VIDEO_PACKAGE,
      `${videoFile(versionOf(imports, VIDEO_PACKAGE))}.wasm.wasm`,
      VIDEO_WASM,
    );
  }
  if (modulePackage) {
    const name = MODULE_PACKAGE.slice(MODULE_PACKAGE.lastIndexOf("/") + 1);
    for await (const { name: file } of Deno.readDir(`${ROOT}${MODULE_PACKAGE}`)) {
      packed.push(await pack(`${ROOT}${MODULE_PACKAGE}/${file}`, `${name}/${file}`));
    }
  }
  if (page) packed.push(await pack(`${ROOT}${page.path}`, `${page.name}/page`));
  return packed;
}

/**
 * Downloads a package of the project's lock, which vouches for its content. Deno downloads packages for the system that
 * it runs on only, unless they are wanted by name.
 */
async function download({ deno }: Compiler, name: string, version: string): Promise<void> {
  const specifier = `npm:${name}@${version}`;
  const lock = "dist/.build/download.lock";
  const text = JSON.stringify({ ...await projectLock(), specifiers: { [specifier]: version } });
  await Deno.writeTextFile(`${ROOT}${lock}`, text);
  const { code, errors } = await execute(deno, [
    "cache",
    "--no-config",
    "--frozen",
    "--lock",
    lock,
    specifier,
  ]);
  if (code !== 0) throw new SvcError("internal", `Cannot download ${specifier}:\n${errors.trimEnd()}`);
}

/** A file of a downloaded package; `path` is from the folder of a registry's packages. */
async function published(npmCache: string, path: string): Promise<string> {
  for await (const { name: registry } of Deno.readDir(npmCache)) {
    const file = `${npmCache}/${registry}/${path}`;
    if (await exists(file)) return file;
  }
  throw new SvcError("not_found", `Cannot find ${path} in ${npmCache}`);
}

/** Packs a file into the folder of packed files, with its facts beside it; returns its path from the root of the tree. */
async function pack(file: string, to: string): Promise<string> {
  const bytes = await Deno.readFile(file);
  const facts: PlainFacts = { bytes: bytes.length, sha256: await bytesSum(bytes) };
  const packed = `${PACKED_FOLDER}/${to}${PACKED_SUFFIX}`;
  await Deno.mkdir(`${ROOT}${packed.slice(0, packed.lastIndexOf("/"))}`, { recursive: true });
  const content = bytes.length < KEPT_BYTES_MIN
    ? packBytes(bytes)
    : await makeOnce(`packed-${PACKING_QUALITY}-${facts.sha256}`, () => packBytes(bytes));
  await Deno.writeFile(`${ROOT}${packed}`, content);
  await Deno.writeTextFile(`${ROOT}${packed.replace(PACKED_SUFFIX, FACTS_SUFFIX)}`, JSON.stringify(facts));
  return packed;
}

function packBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: PACKING_QUALITY,
    [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  return new Uint8Array(brotliCompressSync(bytes, { params }));
}

interface Carrier {
  /** Lets Deno make an executable of the carrier. */
  readonly env: { readonly [name: string]: string };
  /** Files that say where in the executable the carried ones are, from the root of the tree. */
  readonly extents: readonly string[];
  /** Whether the executable has each of them there. */
  isWhole(executable: string): Promise<boolean>;
}

/** A runtime that carries `packed` files, so that starts do not read them. */
async function buildCarrier(
  compiler: Compiler,
  name: string,
  target: Target,
  packed: readonly string[],
): Promise<Carrier> {
  const zip = await runtimePath(compiler, target);
  if (!await exists(zip)) {
    // Deno downloads the runtime to compile any program.
    const args = ["compile", "--no-check", "--target", target.triple, "--output", "dist/.build/first", EMPTY];
    const { code, errors } = await execute(compiler.deno, args);
    if (code !== 0) throw await failure(compiler, name, target, errors);
  }
  const runtime = `${ROOT}dist/.build/carrier-${target.name}`;
  const files = packed.map((path) => `${ROOT}${path}`);
  const found = await writeCarrier(runtime, onlyFileOf(await Deno.readFile(zip)), files);
  const extents = packed.map((path) => path.replace(PACKED_SUFFIX, EXTENT_SUFFIX));
  for (const [at, extent] of found.entries()) {
    await Deno.writeTextFile(`${ROOT}${extents[at]}`, JSON.stringify(extent));
  }
  return {
    env: { DENORT_BIN: runtime },
    extents,
    isWhole: (executable) => carries(executable, files, found),
  };
}

function versionOf(imports: Record<string, string>, name: string): string {
  const address = imports[name];
  assert(address !== undefined, `deno.json has no import ${name}`);
  return address.slice(address.lastIndexOf("@") + 1);
}

/** Deno's download folders. */
async function folders(deno: string): Promise<{ denoDir: string; npmCache: string }> {
  return JSON.parse((await execute(deno, ["info", "--json"])).output);
}
