/**
 * The programs of others that the interop tests run: Node with the published TypeScript SDK, Python with the published
 * Python SDK, a browser.
 *
 * The libraries come from their registries and are kept in the folder for temporary files. Where a program cannot be
 * had, its function says why, and `needingTest` ignores the test.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import type { Needed } from "../support/needing.ts";

const HERE = new URL("./", import.meta.url).pathname;
const ESBUILD = "esbuild@0.28.2";
/** Keeps objects in a folder, and checks signatures; it has no list of unfinished uploads. */
const S3_SERVER = "s3rver@3.7.1";
const PLAYWRIGHT = "playwright-core@1.64.1";
const POWERSHELL = ["web-tree-sitter@0.26.4", "tree-sitter-powershell@0.26.4"];
const NODE = "22.18.0";
const PYTHON_SDK = "0.85.1";
/** The last version that Go's tools take; later ones name themselves otherwise than they are published. */
const H2SPEC = "v2.2.1+incompatible";

/**
 * How Go programs are compiled: to run for seconds, so without optimization, tables for debuggers and C, which takes a
 * third less. All are compiled alike: packages that they share are compiled once.
 */
const GO_FLAGS = ["-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w"];
const GO_ENV = { CGO_ENABLED: "0" };

/** Fetches what most tests of this kind need, so that none of them waits long for it. */
export async function prepareForeignPrograms(): Promise<void> {
  const wanted = [pythonProgram, nodeFolder, goDialProgram, h2specProgram, typeStrippingNode];
  for (const prepare of wanted) await prepare().catch(() => {});
}

/** A folder with the tours and the packages they need, as npm installs them. */
export function nodeFolder(): Promise<string> {
  return oneAtATime("node", installNode);
}

async function installNode(): Promise<string> {
  const folder = `${cacheFolder()}/svc-interop-node`;
  await Deno.mkdir(folder, { recursive: true });
  const { imports } = JSON.parse(await Deno.readTextFile(`${HERE}packages.json`));
  const published = Object.values<string>(imports).map((specifier) => specifier.replace("npm:", ""));
  const packages = [...published, ESBUILD, PLAYWRIGHT, S3_SERVER, ...POWERSHELL];

  // npm itself takes seconds to find out that nothing is missing.
  const [list, wanted] = [`${folder}/installed.txt`, packages.join("\n")];
  if (await Deno.readTextFile(list).catch(() => "") !== wanted) {
    await fetched(["npm", "install", "--silent", "--ignore-scripts", "--prefix", folder, ...packages]);
    await Deno.writeTextFile(list, wanted);
  }

  for await (const { name } of Deno.readDir(HERE)) {
    if (name.endsWith(".mjs")) await copyIfChanged(`${HERE}${name}`, `${folder}/${name}`);
  }
  return folder;
}

/** Another process may be reading the copy. */
async function copyIfChanged(from: string, to: string): Promise<void> {
  const text = await Deno.readTextFile(from);
  if (await Deno.readTextFile(to).catch(() => undefined) !== text) await Deno.writeTextFile(to, text);
}

/** The first Node that runs TypeScript directly. */
export function typeStrippingNode(): Promise<Needed<string>> {
  return oneAtATime("node22", async () => {
    const folder = `${cacheFolder()}/svc-interop-node22`;
    const node = `${folder}/node_modules/node/bin/node`;
    try {
      const there = await run([node, "--version"]).then(({ stdout }) => stdout.trim(), () => undefined);
      if (there === `v${NODE}`) return { found: node };
      await Deno.mkdir(folder, { recursive: true });
      await fetched(["npm", "install", "--silent", "--prefix", folder, `node@${NODE}`]);
      return { found: node };
    } catch (error) {
      return { missing: `Node ${NODE} cannot be installed here: ${error}` };
    }
  });
}

/** A script of this folder for a browser, with all that it needs, as one module. */
export async function browserScript(
  name: "browser_tour" | "browser_keys" | "browser_specs",
): Promise<string> {
  return await bundledScript(`${await nodeFolder()}/${name}.mjs`);
}

/** A script that lies in the folder of `nodeFolder()`, as `browserScript` has those of this folder. */
export async function bundledScript(path: string): Promise<string> {
  const esbuild = `${await nodeFolder()}/node_modules/.bin/esbuild`;
  return await succeed([esbuild, path, "--bundle", "--format=esm"]);
}

/** A Python that has the SDK, in a virtual environment that is kept. */
export function pythonProgram(): Promise<Needed<string>> {
  return oneAtATime("python", installPython);
}

async function installPython(): Promise<Needed<string>> {
  const folder = `${cacheFolder()}/svc-interop-python`;
  const python = `${folder}/bin/python3`;
  const wanted = `import importlib.metadata as all; assert all.version("viam-sdk") == "${PYTHON_SDK}"`;
  try {
    const there = await run([python, "-c", wanted]).then(({ code }) => code === 0, () => false);
    if (there) return { found: python };
    await succeed(["python3", "-m", "venv", folder]);
    await fetched([python, "-m", "pip", "install", "--quiet", `viam-sdk==${PYTHON_SDK}`]);
    return { found: python };
  } catch (error) {
    return { missing: `the Python SDK cannot be installed here: ${error}` };
  }
}

/** Makes of a command one that knows the names in a file of hosts, and in no other. */
export type WithNames = (hosts: string, command: readonly string[]) => string[];

/** How to give a program names of its own: in a space of mounts where another file stands for /etc/hosts. */
export async function ownNames(): Promise<Needed<WithNames>> {
  const found: WithNames = (hosts, command) => [
    ...["unshare", "--mount", "--map-root-user", "sh", "-c"],
    ...['mount --bind "$0" /etc/hosts && exec "$@"', hosts, ...command],
  ];
  const tried = await run(found("/etc/hosts", ["true"])).catch((error) => ({
    code: 1,
    stderr: String(error),
  }));
  return tried.code === 0
    ? { found }
    : { missing: `a program cannot be given names of its own here: ${tried.stderr.trim()}` };
}

/** A browser of the Chromium family. */
export async function browserProgram(): Promise<Needed<string>> {
  const found = await first(["chromium", "chromium-browser", "google-chrome"], "--version");
  return found ? { found } : { missing: "there is no chromium, chromium-browser or google-chrome here" };
}

/** h2spec, the conformance tests of HTTP/2, installed or built with Go. */
export function h2specProgram(): Promise<Needed<string>> {
  return oneAtATime("go", installH2spec);
}

async function installH2spec(): Promise<Needed<string>> {
  const folder = `${cacheFolder()}/svc-interop-go`;
  const found = await first(
    ["h2spec", `${Deno.env.get("GOBIN") ?? folder}/h2spec`, `${folder}/h2spec`],
    "--version",
  );
  if (found) return { found };
  const go = await first(["go", "/usr/local/go/bin/go"], "version");
  if (!go) return { missing: "there is neither h2spec nor a Go toolchain here" };
  try {
    const h2spec = `github.com/summerwind/h2spec/cmd/h2spec@${H2SPEC}`;
    await fetched([go, "install", ...GO_FLAGS, h2spec], { ...GO_ENV, GOBIN: folder });
    return { found: `${folder}/h2spec` };
  } catch (error) {
    return { missing: `h2spec cannot be installed here: ${error}` };
  }
}

/** Runs an installation while no other process of the tests runs an installation of the same name. */
async function oneAtATime<T>(name: string, install: () => Promise<T>): Promise<T> {
  using file = await Deno.open(`${cacheFolder()}/svc-interop-${name}.lock`, { write: true, create: true });
  await file.lock(true);
  return await install();
}

/** The program in `go_dial`, made with the published Go client. */
export function goDialProgram(): Promise<Needed<string>> {
  return goProgram(`${HERE}go_dial`);
}

/** Builds the program of a folder with a Go module; keeps its downloads and its result. */
export async function goProgram(folder: string): Promise<Needed<string>> {
  const go = await first(["go", "/usr/local/go/bin/go"], "version");
  if (!go) return { missing: "there is no Go toolchain here" };
  const name = folder.slice(folder.lastIndexOf("/") + 1).replaceAll("_", "-");
  const program = `${cacheFolder()}/svc-interop-${name}`;
  try {
    await fetched([go, "build", "-C", folder, ...GO_FLAGS, "-o", program, "."], GO_ENV);
    return { found: program };
  } catch (error) {
    return { missing: `the Go program in ${folder} cannot be made here: ${error}` };
  }
}

/** Set to `yes` by the task that compiles the Rust program. */
const RUST_WANTED = "SVC_INTEROP_RUST";

/** The program in `rust_dial`, made with the published Rust client. */
export async function rustDialProgram(): Promise<Needed<string>> {
  if (Deno.env.get(RUST_WANTED) !== "yes") {
    return { missing: "compiling it takes minutes: deno task interop:rust" };
  }
  const cargo = await first(["cargo", `${Deno.env.get("HOME")}/.cargo/bin/cargo`], "--version");
  if (!cargo) return { missing: "there is no Rust toolchain here" };
  const target = `${cacheFolder()}/svc-interop-rust-dial`;
  const manifest = `${HERE}rust_dial/Cargo.toml`;
  const command = [cargo, "build", "--quiet", "--locked", "--manifest-path", manifest];
  await succeed([...command, "--target-dir", target], {}, COMPILE_MS);
  return { found: `${target}/debug/rust_dial` };
}

/** Set to `java` or `cpp` by the tasks that compile these programs. */
const DIRECT_WANTED = "SVC_INTEROP_DIRECT";

/** The command of the program in `java_dial`, made by Maven with the published packages of gRPC. */
export async function javaDialProgram(): Promise<Needed<readonly string[]>> {
  if (Deno.env.get(DIRECT_WANTED) !== "java") {
    return { missing: "making it fetches many packages: deno task interop:java" };
  }
  if (!await first(["mvn"], "--version")) return { missing: "there is no Maven here" };
  const folder = `${cacheFolder()}/svc-interop-java-dial`;
  await fetched(["mvn", "-q", "-B", "-f", `${HERE}java_dial/pom.xml`, `-Dfolder=${folder}`, "package"]);
  return { found: ["java", "-cp", `${folder}/classes:${folder}/lib/*`, "Dial"] };
}

/** The files of the contracts that the program in C++ is compiled with. */
const CPP_CONTRACTS = [
  ...["annotations", "auth", "board", "common", "datasync", "motor", "packages", "robot", "trace"],
  ...["trace_common", "trace_resource"],
];

/** The command of the program in `cpp_dial`, compiled with the system's libraries of gRPC. */
export async function cppDialProgram(): Promise<Needed<readonly string[]>> {
  if (Deno.env.get(DIRECT_WANTED) !== "cpp") {
    return { missing: "compiling it takes minutes: deno task interop:cpp" };
  }
  const missing =
    "wanted g++, protoc, grpc_cpp_plugin and grpc++ (Debian: libgrpc++-dev protobuf-compiler-grpc)";
  const libraries = await run(["pkg-config", "--libs", "grpc++", "protobuf"]).catch(() => undefined);
  const plugin = await run(["which", "grpc_cpp_plugin"]).catch(() => undefined);
  if (libraries?.code !== 0 || plugin?.code !== 0) return { missing };

  const folder = `${cacheFolder()}/svc-interop-cpp-dial`;
  await Deno.mkdir(folder, { recursive: true });
  const proto = new URL("../../proto/", import.meta.url).pathname;
  const contracts = CPP_CONTRACTS.map((name) => `${proto}${name}.proto`);
  const out = [
    `--cpp_out=${folder}`,
    `--grpc_out=${folder}`,
    `--plugin=protoc-gen-grpc=${plugin.stdout.trim()}`,
  ];
  await succeed(["protoc", "-I", proto, ...out, ...contracts]);

  const made = CPP_CONTRACTS.flatMap((name) => [`${folder}/${name}.pb.cc`, `${folder}/${name}.grpc.pb.cc`]);
  const sources = [`${HERE}cpp_dial/main.cc`, ...made];
  const program = `${folder}/cpp_dial`;
  const flags = ["-std=c++17", "-O0", "-I", folder, "-o", program];
  await succeed(["g++", ...flags, ...sources, ...libraries.stdout.trim().split(/\s+/)], {}, COMPILE_MS);
  return { found: [program] };
}

/**
 * Programs against the packages of the published runtime, by name: compiles all, and links those to run. The runtime's own module is not fetched: the
 * packages in `go_rdk` stand in for it, with its signatures, and dial with the published client.
 */
export async function runtimePrograms(
  programs: Readonly<Record<string, string>>,
  toRun: readonly string[],
): Promise<Needed<{ readonly folder: string }>> {
  const go = await first(["go", "/usr/local/go/bin/go"], "version");
  if (!go) return { missing: "there is no Go toolchain here" };
  const folder = await Deno.makeTempDir({ prefix: "svc-go-programs-" });
  for (const file of ["logging/logging.go", "robot/client/client.go", "components/motor/motor.go"]) {
    await Deno.mkdir(`${folder}/${file.slice(0, file.lastIndexOf("/"))}`, { recursive: true });
    await Deno.copyFile(`${HERE}go_rdk/${file}`, `${folder}/${file}`);
  }
  const module = await Deno.readTextFile(`${HERE}go_dial/go.mod`);
  await Deno.writeTextFile(`${folder}/go.mod`, module.replace(/^module .*/, "module go.viam.com/rdk"));
  await Deno.copyFile(`${HERE}go_dial/go.sum`, `${folder}/go.sum`);
  for (const [name, text] of Object.entries(programs)) {
    await Deno.mkdir(`${folder}/programs/${name}`, { recursive: true });
    await Deno.writeTextFile(`${folder}/programs/${name}/main.go`, text);
  }
  // This compiles them; `build` would link each as well.
  await succeed([go, "list", "-C", folder, "-export", ...GO_FLAGS, "./programs/..."], GO_ENV);
  const linked = toRun.map((name) => `./programs/${name}`);
  await succeed([go, "build", "-C", folder, ...GO_FLAGS, "-o", `${folder}/`, ...linked], GO_ENV);
  return { found: { folder } };
}

/** The first of some programs that is there: that runs with this argument. */
async function first(programs: string[], argument: string): Promise<string | undefined> {
  for (const program of programs) {
    const there = await run([program, argument]).then(({ code }) => code === 0, () => false);
    if (there) return program;
  }
  return undefined;
}

/** How long a program may run: a tour, or the installation of a library. */
const RUN_MS = 10 * 60_000;
/** Between the attempts to fetch something. */
const FETCH_PAUSES_MS = [10_000, 60_000];
/** How long hundreds of packages may compile. */
const COMPILE_MS = 60 * 60_000;

/** Runs a program to its end; one that does not come to it is killed. */
export async function run(
  [program, ...args]: string[],
  env: Record<string, string> = {},
  limitMs = RUN_MS,
) {
  const child = new Deno.Command(program, { args, env, stdin: "null", stdout: "piped", stderr: "piped" })
    .spawn();
  const cancel = new SystemClock().after(limitMs, () => child.kill("SIGKILL"));
  const { code, stdout, stderr } = await child.output();
  cancel();
  const text = new TextDecoder();
  return { code, stdout: text.decode(stdout), stderr: text.decode(stderr) };
}

async function succeed(
  command: string[],
  env: Record<string, string> = {},
  limitMs = RUN_MS,
): Promise<string> {
  const { code, stdout, stderr } = await run(command, env, limitMs);
  if (code !== 0) throw new Error(`${command.join(" ")} failed: ${stderr}`);
  return stdout;
}

/** Runs an installation, again after a while if it fails: a registry may not answer for a minute. */
async function fetched(command: string[], env: Record<string, string> = {}): Promise<void> {
  const clock = new SystemClock();
  for (const pauseMs of FETCH_PAUSES_MS) {
    const done = await succeed(command, env).then(() => true, () => false);
    if (done) return;
    await clock.sleep(pauseMs);
  }
  await succeed(command, env);
}

function cacheFolder(): string {
  return Deno.env.get("TMPDIR") ?? "/tmp";
}
