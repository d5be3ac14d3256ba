/**
 * `deno task compile:check`: compiles the programs and runs the executables, in isolation.
 *
 * The pinned Deno's runtime for executables is not available everywhere. This command takes an older Deno whose runtime
 * is available, compiles the same entry points with it, and runs them without Deno, node_modules or a network. It
 * prints a line per check, `ok …` or `FAILED …`, and their count at the end.
 */

import { assert, assertEquals } from "@std/assert";
import { messageOf } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { begin, EXIT, type Terminal, unexpected } from "../program.ts";
import { checkCompiler } from "./check_compiler.ts";
import { RECOVERED_DENO } from "./recovered_runtime.ts";
import type { RunRequest } from "./check_run.ts";
import {
  choose,
  compile,
  type Compiled,
  type Compiler,
  EXECUTABLES,
  execute,
  exists,
  importMap,
  ROOT,
  type Target,
  TARGETS,
} from "./compiler.ts";
import { Report } from "./report.ts";
import { bytesSum } from "./sums.ts";

/** Where the systems' cross-compilation packages install the libraries of another processor. */
const ARM64_LIBRARIES = "/usr/aarch64-linux-gnu";

const EMPTY = { name: "empty", entry: "cli/build/empty.ts" };

const PROGRAM = {
  name: "deno task compile:check",
  summary:
    `Compiles the programs with Deno ${RECOVERED_DENO} and runs them without Deno, packages and network.`,
  style: "gnu",
  usage: "[flags]",
  flags: [{
    name: "target",
    type: "string",
    default: "linux-x64",
    value: "NAME",
    help: "linux-x64, or linux-arm64 (emulated where the processor is another).",
  }],
} as const;

async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const begun = begin(PROGRAM, args, terminal);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const [surplus] = begun.rest;
  if (surplus !== undefined) {
    terminal.writeError(`${PROGRAM.name}: ${unexpected(surplus)}; see --help\n`);
    return EXIT.usage;
  }
  const report = new Report(terminal);
  try {
    const linux = TARGETS.filter((target) => target.name.startsWith("linux"));
    const [target] = choose("target", linux, [begun.values.target]);
    const runner = await runnerFor(target);
    const compiler = await checkCompiler(target);
    const programs = await compileAll(report, compiler, target);
    await report.check("svc-ml compiled once more is the same bytes", async () => {
      const [executable] = choose("program", EXECUTABLES, ["svc-ml"]);
      const again = await compile(compiler, executable, target, `dist/check/again`);
      const first = programs.find(({ name }) => name === "svc-ml")!;
      assertEquals(
        await bytesSum(await Deno.readFile(first.path)),
        await bytesSum(await Deno.readFile(again.path)),
      );
      await Deno.remove(again.path);
    });
    const empty = await compile(compiler, EMPTY, target, `dist/check/${target.name}`);
    const emulated = runner.length > 0;
    report.include(
      await runAll({
        ...{ runner, emulated, os: "linux", programs },
        empty: emulated ? undefined : empty.path,
      }, terminal),
    );
  } catch (thrown) {
    terminal.writeError(`${PROGRAM.name}: ${messageOf(thrown)}\n`);
    return 1;
  }
  return report.finish();
}

/** The command that runs an executable for `target` here: none, or an emulator. */
async function runnerFor(target: Target): Promise<string[]> {
  if (target.triple.startsWith(Deno.build.arch)) return [];
  const emulator = target.triple.startsWith("aarch64") ? "qemu-aarch64-static" : "qemu-x86_64-static";
  const { code, output } = await execute("sh", ["-c", `command -v ${emulator}`]);
  if (code !== 0 || !await exists(`${ARM64_LIBRARIES}/lib`)) {
    const packages = "qemu-user-static, libc6-arm64-cross, libgcc-s1-arm64-cross and libstdc++6-arm64-cross";
    throw new Error(
      `Cannot run ${target.name} here: install ${packages} (wanted ${emulator}, ${ARM64_LIBRARIES})`,
    );
  }
  return [output.trim(), "-L", ARM64_LIBRARIES];
}

/** Compiles the programs into `folder`; returns the successful ones. */
export async function compileAll(
  report: Report,
  compiler: Compiler,
  target: Target,
  folder = `dist/check/${target.name}`,
  executables = EXECUTABLES,
): Promise<RunRequest["programs"]> {
  const made: (Compiled & { name: string })[] = [];
  for (const executable of executables) {
    const { name } = executable;
    await report.check(`${name} compiles for ${target.name}`, async () => {
      const compiled = await compile(compiler, executable, target, folder);
      made.push({ name, ...compiled });
      return `${(compiled.bytes / 1e6).toFixed(1)} MB`;
    });
  }
  await report.check("executables embed addons packed only", () => {
    for (const { name, listing } of made) {
      const addons = listing.match(/\b(?:linux|win32|darwin|android)-(?:x64|arm64)(?:-\w+)?(?=\/)/g);
      assert(addons === null, `${name} embeds ${addons}`);
    }
    return Promise.resolve(
      made.map(({ name, packed }) => `${name} has ${packed.length} packed files`).join(", "),
    );
  });
  await report.check("no executable embeds a package that only tests use", async () => {
    const used = made.flatMap(({ imports }) => Object.values(imports)).map(scopeOf);
    const unused = new Set(Object.values(await importMap()).map(scopeOf)).difference(new Set(used));
    for (const scope of unused) {
      const embedded = new RegExp(`─[─┬] ${scope}(?:/| |$)`, "m");
      for (const { name, listing } of made) assert(!embedded.test(listing), `${name} embeds ${scope}`);
    }
  });
  return made.map(({ name, path }) => ({ name, path }));
}

/**
 * `@scope` of `npm:@scope/name@1.2.3/path`, `name` of `npm:name@1.2.3/path`: the beginning of its entry in the listing.
 */
function scopeOf(mapped: string): string {
  return mapped.match(/^npm:(@?[^@/]+)/)?.[1] ?? mapped;
}

/**
 * Runs the executables by way of `isolation`, which is a network without anybody else if the system allows it; returns
 * the printed lines.
 */
export async function runAll(
  request: RunRequest,
  terminal: Terminal,
  isolation?: readonly string[],
): Promise<string> {
  const script = `${ROOT}cli/build/check_run.ts`;
  isolation ??= await networkless(terminal);
  const args = ["run", "--allow-all", "--cached-only", script, JSON.stringify(request)];
  const [command = Deno.execPath(), ...rest] = [...isolation, Deno.execPath(), ...args];
  const child = new Deno.Command(command, { args: rest, cwd: ROOT, stdin: "null", stdout: "piped" }).spawn();
  let printed = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    printed += text;
    terminal.write(text.replace(/^\d+ passed, \d+ failed\n/m, ""));
  }
  const { code } = await child.status;
  if (!/^\d+ passed, \d+ failed$/m.test(printed)) {
    throw new Error(`The executables were not run: exit code ${code}`);
  }
  return printed;
}

/** The command that gives another command a network of its own, with only the loopback interface. */
async function networkless(terminal: Terminal): Promise<string[]> {
  const mapped = Deno.uid() === 0 ? [] : ["--map-root-user"];
  const isolation = ["unshare", ...mapped, "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"];
  const { code, errors } = await execute("unshare", [...isolation.slice(1), "true"])
    .catch((thrown) => ({ code: 1, errors: messageOf(thrown) }));
  if (code === 0) return isolation;
  terminal.write(`note: the network stays reachable, this system gives no other: ${errors.trim()}\n`);
  return [];
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
