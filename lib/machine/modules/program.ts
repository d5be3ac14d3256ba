/**
 * A module's program: found, unpacked if it comes as an archive, and prepared by its first run.
 *
 * Owns `packages-local` under the program's home, which has the unpacked archives of local modules. A version gets its
 * folder only when it is complete. The first-run script of a version runs until it has succeeded once.
 */

import { createHash, randomUUID } from "node:crypto";
import { dirname, isAbsolute, join, normalize } from "node:path";
import type { Environment, Platform, WholeEnvironment, WorkingFolder } from "../../base/host.ts";
import { unpackWithLinks } from "../../base/files/archive.ts";
import type { LinkFiles, ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { readHead } from "../../base/files/head.ts";
import { type Clock, deadline } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { endProcess, type ProcessCommand, type SpawnHost } from "../../base/process.ts";
import { DecodeContext, object, text } from "../../base/schema/schema.ts";
import { formatDuration } from "../../base/schema/schema.ts";
import type { ModuleConfig } from "../config/config.ts";
import { FIRST_RUN_MARK, packageFolder } from "../config/placeholder.ts";
import { fileNameFrom } from "../../base/files/names.ts";
import { ModuleOutput } from "./output.ts";

const ARCHIVE = /\.(tgz|tar\.gz)$/;
/** Limits of an archive's content. */
const LIMITS = { filesMax: 100_000, bytesMax: 8 * 1024 ** 3 };
const META_CHARS_MAX = 1_000_000;
/** Time between SIGTERM and SIGKILL for a first run that takes too long. */
const FIRST_RUN_STOP_MS = 5_000;

type ProgramHost =
  & (SpawnHost & ReadFiles & WriteFiles & LinkFiles)
  & (Environment & WholeEnvironment & Platform & WorkingFolder);

/** The files of a module's program. */
export interface ModuleProgram {
  readonly path: string;
  /** The module's root folder. */
  readonly root: string;
  /** The script of the first run, if there is one. */
  readonly firstRun?: string;
}

export interface FirstRunParts {
  readonly host: ProgramHost;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Puts a command under the module's limits. */
  readonly within: (command: ProcessCommand) => Promise<ProcessCommand>;
}

/** The used keys of `meta.json` of a module's package. */
const metaField = object({
  entrypoint: text("path of the program in the package"),
  firstRun: text("path of the script that prepares the module"),
}).required();

/** The program of `config`, in version `release` if it is known. Throws if it cannot run. */
export async function findProgram(
  config: ModuleConfig,
  home: string,
  host: ProgramHost,
  release?: string,
): Promise<ModuleProgram> {
  const program = await locate(config, home, host, release);
  await requireInterpreter(program.path, config.name, host);
  return program;
}

async function locate(
  config: ModuleConfig,
  home: string,
  host: ProgramHost,
  release?: string,
): Promise<ModuleProgram> {
  const { name, executablePath, type, moduleId = "" } = config;
  const version = release ?? config.version ?? "latest";
  if (type === "registry") {
    const folder = packageFolder(home, { name, type: "module", package: moduleId, version });
    if (await host.stat(folder)) return await packaged(folder, executablePath, config, host);
    if (!executablePath) {
      const wanted = `wanted it in ${folder}`;
      throw new SvcError(
        "failed_precondition",
        `module "${name}" (${moduleId} ${version}) is not installed, ${wanted}`,
      );
    }
  }

  const path = await completed(absolute(executablePath!, host), host);
  if (ARCHIVE.test(path)) {
    return await packaged(await unpackedFolder(path, name, home, host), undefined, config, host);
  }

  await checkExecutable(path, name, host);
  const root = dirname(path);
  // A registry module may name a program inside its package.
  return type === "registry" ? { path, root, ...await firstRunIn(root, host) } : { path, root };
}

/**
 * Runs the first-run script in the environment of `command`, and as `within` has it, unless it has succeeded for this
 * version before.
 */
export async function firstRun(
  { root, firstRun: script }: ModuleProgram,
  { env }: ProcessCommand,
  { name, firstRunTimeout }: ModuleConfig,
  parts: FirstRunParts,
  signal: AbortSignal,
): Promise<void> {
  const { host, clock, logger, within } = parts;
  const mark = `${root}${FIRST_RUN_MARK}`;
  if (script === undefined || await host.stat(mark)) return;

  await checkExecutable(script, name, host);
  await requireInterpreter(script, name, host);
  logger.info(`the first run of module "${name}" begins`, { script });

  const limit = formatDuration(firstRunTimeout);
  const late = () =>
    new SvcError("deadline_exceeded", `the first run of module "${name}" took longer than ${limit}`);
  const { signal: over, done } = deadline(clock, firstRunTimeout, late, signal);
  try {
    const run = await within({ command: script, cwd: root, env, bare: true, leash: true });
    const process = host.spawn(run);
    const output = new ModuleOutput(process, logger.child("first_run"), clock, "warn");
    const stop = () => void endProcess(process, clock, FIRST_RUN_STOP_MS);
    over.addEventListener("abort", stop, { once: true });

    const { code } = await process.exited;
    over.removeEventListener("abort", stop);
    await output.drained();
    over.throwIfAborted();
    if (code !== 0) {
      const printed = output.lastError === undefined ? "" : `: ${output.lastError}`;
      throw new SvcError(
        "failed_precondition",
        `the first run of module "${name}" ended with exit code ${code}${printed}`,
      );
    }

    await host.writeFile(mark, "");
    logger.info(`the first run of module "${name}" has succeeded`);
  } finally {
    done();
  }
}

/**
 * The program of a module's package in `folder`, for any system. Throws, as a machine does, if no machine could run it.
 */
export async function packagedProgram(folder: string, name: string, host: ReadFiles): Promise<ModuleProgram> {
  return await packaged(folder, undefined, { name }, host, { anySystem: true });
}

/** The program of an unpacked package: its `meta.json` precedes the configuration. */
async function packaged(
  folder: string,
  configured: string | undefined,
  { name }: Pick<ModuleConfig, "name">,
  host: ReadFiles,
  { anySystem = false } = {},
): Promise<ModuleProgram> {
  const meta = await readMeta(folder, host);
  const entry = meta?.entrypoint ?? configured;
  if (!entry) {
    const wanted = 'wanted "entrypoint", the path of the program in the package';
    throw new SvcError(
      "failed_precondition",
      `module "${name}": ${folder}/meta.json names no program, ${wanted}`,
    );
  }

  const written = isAbsolute(entry) ? entry : join(folder, entry);
  const path = await completed(meta?.entrypoint ? inside(folder, entry) : written, host);
  if (!anySystem || !await isForWindows(path, host)) await checkExecutable(path, name, host);
  return { path, root: folder, ...await firstRunIn(folder, host) };
}

async function firstRunIn(folder: string, host: ReadFiles): Promise<Pick<ModuleProgram, "firstRun">> {
  const script = (await readMeta(folder, host))?.firstRun;
  return script ? { firstRun: inside(folder, script) } : {};
}

async function readMeta(folder: string, host: ReadFiles) {
  const path = join(folder, "meta.json");
  const size = await host.fileSize(path);
  if (size === undefined) return undefined;
  if (size > META_CHARS_MAX) {
    throw new SvcError("invalid_argument", `${path} has ${size} bytes, wanted at most ${META_CHARS_MAX}`);
  }

  const at = new DecodeContext(path);
  try {
    const meta = metaField.decode(JSON.parse(await host.readTextFile(path)), at);
    const [problem] = at.problems.filter(({ severity }) => severity === "error");
    if (!problem) return meta;
    throw new SvcError("invalid_argument", `${problem.path}: ${problem.message}`);
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw new SvcError("invalid_argument", `cannot read ${path}: ${messageOf(cause)}`, { cause });
  }
}

/** The folder of an archive's content; unpacks it unless the same content is unpacked already. */
async function unpackedFolder(
  archive: string,
  name: string,
  home: string,
  host: ProgramHost,
): Promise<string> {
  if (!await host.findFile(archive)) {
    throw new SvcError("not_found", `cannot run module "${name}": there is no file ${archive}`);
  }
  const hash = createHash("sha256");
  for await (const piece of host.readPieces(archive)) hash.update(piece);
  const all = join(home, "packages-local");
  const folder = join(all, `${fileNameFrom(name)}-${hash.digest("hex").slice(0, 16)}`);
  if (await host.stat(folder)) return folder;

  const temporary = join(all, `${randomUUID()}.tmp`);
  try {
    await host.makeFolder(temporary);
    await unpackWithLinks(host, temporary, host.readPieces(archive), LIMITS);
    // Somebody may have removed the folder alone, with all that its first run made.
    await host.remove(`${folder}${FIRST_RUN_MARK}`);
    await host.moveDurably(temporary, folder);
  } catch (error) {
    await host.removeTree(temporary);
    throw new SvcError(
      SvcError.from(error).code,
      `module "${name}": cannot unpack ${archive}: ${messageOf(error)}`,
    );
  }

  await removeOthers(all, folder, name, host);
  return folder;
}

/** Removes the folders of the module's earlier archives. */
async function removeOthers(all: string, folder: string, name: string, host: ProgramHost): Promise<void> {
  const own = new RegExp(`^${fileNameFrom(name)}-[0-9a-f]{16}(\\${FIRST_RUN_MARK})?$`);
  for (const entry of await host.readFolder(all)) {
    const path = join(all, entry);
    if (own.test(entry) && !path.startsWith(folder)) await host.removeTree(path);
  }
}

/** Resolves a path of a package, which must not lead out of it. */
function inside(folder: string, path: string): string {
  const inner = normalize(path);
  if (!isAbsolute(inner) && !inner.startsWith("..")) return join(folder, inner);
  throw new SvcError("invalid_argument", `"${path}" in ${folder}/meta.json leads out of the package`);
}

/** `~` is the home of the user's account: on Windows, and in a service, no variable has it. */
function absolute(path: string, host: Environment & Platform & WorkingFolder): string {
  const home = host.platform().os === "windows" ? /^~(?=[/\\])/ : /^~(?=\/)/;
  const whole = path.replace(home, (named) => host.env("HOME") ?? named);
  return isAbsolute(whole) ? whole : join(host.cwd(), whole);
}

/** Windows starts a program without the ending of its name, too, so modules for several systems name it without. */
async function completed(path: string, host: ReadFiles): Promise<string> {
  const whole = `${path}.exe`;
  return !await host.stat(path) && await host.findFile(whole) ? whole : path;
}

/** Whether a file is a program for Windows, where programs need no permission. */
async function isForWindows(path: string, host: ReadFiles): Promise<boolean> {
  if (!await host.findFile(path)) return false;
  return /\.(?:bat|cmd)$/i.test(path) || (await readLetters(path, host)).startsWith("MZ");
}

async function checkExecutable(path: string, name: string, host: ReadFiles): Promise<void> {
  const facts = await host.stat(path);
  const attempt = `cannot run module "${name}"`;
  if (!facts) throw new SvcError("not_found", `${attempt}: there is no file ${path}`);
  if (facts.kind !== "file") {
    throw new SvcError("failed_precondition", `${attempt}: ${path} is not a file, wanted a program`);
  }
  // Windows has no such permission and reports 0.
  if (facts.mode !== 0 && (facts.mode & 0o111) === 0) {
    throw new SvcError("permission_denied", `${attempt}: ${path} is not executable; run chmod +x on it`);
  }
  if (facts.mode !== 0) await checkBeginning(path, attempt, host);
}

/** The beginnings of programs: ELF, and those of macOS for one or several processors; and of scripts. */
const BEGINNINGS = ["\x7fELF", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "#!"];

/** The system reads no more of a script's first line. */
const FIRST_LINE_BYTES = 256;
const BYTE_ORDER_MARK = "\xef\xbb\xbf";

/** The system hands any other file to a shell, which reads a script in Python as its own commands. */
async function checkBeginning(path: string, attempt: string, host: ReadFiles): Promise<void> {
  const head = await readLetters(path, host);
  const refuse = (message: string) => new SvcError("failed_precondition", `${attempt}: ${message}`);
  if (/^#![^\n]*\r\n/.test(head)) {
    throw refuse(`the lines of ${path} end as on Windows; run sed -i 's/\\r$//' on it`);
  }
  if (BEGINNINGS.some((one) => head.startsWith(one))) return;
  if (head.startsWith(`${BYTE_ORDER_MARK}#!`)) {
    throw refuse(`${path} begins with a byte order mark; run sed -i '1s/^\\xef\\xbb\\xbf//' on it`);
  }

  let interpreter = "sh";
  if (/\.[cm]?[jt]s$/.test(path)) interpreter = "node";
  else if (path.endsWith(".py")) interpreter = "python3";
  const found = `${path} is neither a program of this system nor a script that names its interpreter`;
  throw refuse(`${found}, wanted a first line such as #!/usr/bin/env ${interpreter}`);
}

/** Without its interpreter, the system says of the script itself that it does not exist. */
async function requireInterpreter(path: string, name: string, host: ReadFiles): Promise<void> {
  const [, interpreter] = /^#![ \t]*(\/[^ \t\r\n]*)/.exec(await readLetters(path, host)) ?? [];
  if (interpreter === undefined || await host.stat(interpreter)) return;
  throw new SvcError(
    "failed_precondition",
    `cannot run module "${name}": the interpreter of ${path} is not there: ${interpreter}; install it, or name ` +
      "another one in the first line",
  );
}

/** The first bytes, as letters. */
async function readLetters(path: string, host: ReadFiles): Promise<string> {
  return String.fromCharCode(...await readHead(host, path, FIRST_LINE_BYTES));
}
