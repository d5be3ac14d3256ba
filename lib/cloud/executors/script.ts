/**
 * Custom training scripts on this computer: each in a virtual environment of its own, in a sandbox, supervised.
 *
 * The published contract: the script is a Python package with the module `model.training`, which is called with
 * `--dataset_file`, `--model_output_directory` and the arguments of its job, and leaves the model in that directory.
 * In a confining sandbox a script, including its installation, can access only its job's folder, and no process of
 * it outlives the job. Without one it can do whatever this program's user can, and only its process group ends with
 * it.
 */

import { dirname, isAbsolute, join, relative } from "node:path";
import type { Platform, WholeEnvironment } from "../../base/host.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { unpackInto } from "../../base/files/archive.ts";
import { type Clock, deadline } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { endProcess, type Exit, type ProcessCommand, type SpawnHost } from "../../base/process.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { Executor, ScriptEnvironment, Work } from "./executor.ts";
import { datasetLine } from "../../cloud_client/dataset.ts";
import type { Cell, Sandbox, SandboxedProgram } from "../sandbox/sandbox.ts";
import type { UsageLimits } from "../sandbox/sandbox_usage.ts";
import { counted } from "../../base/log/counted.ts";

/** Optional programs. */
const PYTHONS = [
  "python3",
  "python3.14",
  "python3.13",
  "python3.12",
  "python3.11",
  "python3.10",
  "python3.9",
];
const LOOK_MS = 10_000;
const SCRIPT_FILES = { filesMax: 10_000, bytesMax: 1024 ** 3 };
/** How long a script may take to stop before it is killed. */
const STOP_MS = 10_000;
/** How long a leftover of a script may keep its output open. */
const DRAIN_MS = 2_000;
/** Length of the script's own output in an error. */
const LAST_LINES = 15;
/** The only variables of our environment that scripts and pip get. */
const PASSED = /^(LANG|LC_\w+|TZ|PIP_FIND_LINKS|PIP_NO_INDEX)$/i;
/** Further variables for scripts that may use the network; they may hold passwords of proxies and indexes. */
const PASSED_WITH_NETWORK = /^((https?|no)_proxy|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|PIP_\w+)$/i;
/** Further variables for scripts without a sandbox. */
const PASSED_WITHOUT_SANDBOX = /^(PATH|SYSTEMROOT)$/i;
/** Variables among these that name a file or folder. */
const FILES = /^(SSL_CERT_\w+|REQUESTS_CA_BUNDLE|PIP_CERT|PIP_CONFIG_FILE|PIP_FIND_LINKS)$/i;
const SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin";
/** The published file that lists the images. */
const DATASET = "dataset.jsonl";
/** Tried in turn: a machine without a network can install packages whose requirements are present. */
const INSTALLS = [
  { flags: ["--no-build-isolation"], how: "with the build tools of this machine", lacks: false },
  { flags: [], how: "with build tools of its own", lacks: false },
  {
    flags: ["--no-build-isolation", "--no-deps"],
    how: "without the packages that it depends on",
    lacks: true,
  },
];
const PIP = ["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--retries=1"];

type ScriptHost = SpawnHost & WholeEnvironment & Platform & ReadFiles & WriteFiles;

interface Options {
  readonly sandbox: Sandbox;
  /** Whether scripts may use the network. Without a sandbox they always can. */
  readonly network: boolean;
  readonly limits: UsageLimits;
}

/** A Python, and its folders. */
interface Python extends ScriptEnvironment {
  readonly prefixes: readonly string[];
}

export const SCRIPT_LIMITS: UsageLimits = {
  memoryBytes: 4096 * 1024 ** 2,
  cpuSeconds: 24 * 3600,
  processes: 512,
  openFiles: 4096,
  fileBytes: 8 * 1024 ** 3,
  folderBytes: 10 * 1024 ** 3,
  folderFiles: 200_000,
};

export class ScriptExecutor implements Executor {
  readonly capacity = 1;

  private constructor(
    private readonly pythons: readonly Python[],
    private readonly host: ScriptHost,
    private readonly clock: Clock,
    private readonly options: Options,
  ) {}

  /** Opens the executor with every installed Python that works in the sandbox; `undefined` if there is none. */
  static async open(host: ScriptHost, clock: Clock, options: Options): Promise<ScriptExecutor | undefined> {
    const all = await Promise.all(PYTHONS.map((program) => findPython(program, host, clock)));
    const found = new Map<string, Python>();
    for (const one of all) {
      if (one && !found.has(one.key) && await worksIn(one, host, clock, options)) found.set(one.key, one);
    }
    return found.size > 0 ? new ScriptExecutor([...found.values()], host, clock, options) : undefined;
  }

  get environments(): readonly ScriptEnvironment[] {
    return this.pythons;
  }

  get reachesUs(): boolean {
    return this.options.network || !this.options.sandbox.confines;
  }

  async run(work: Work): Promise<JsonObject> {
    const { folder, job } = work;
    const { sandbox, network, limits } = this.options;
    const python = this.pythons.find(({ key }) => key === job.script!.container);
    if (!python) {
      throw new SvcError("failed_precondition", `"${job.script!.container}" is no longer available`);
    }
    const inside = sandbox.inside(folder);
    const script = join(folder, "script");
    await this.host.makeFolder(script);
    await unpackInto(this.host, script, work.read(job.script!.sha256), SCRIPT_FILES);
    const source = join(inside, relative(folder, await sourceIn(this.host, script)));
    await writeDataset(this.host, work, inside);
    await this.host.makeFolder(join(folder, "tmp"));
    const readable = [...python.prefixes, ...await filesNamedIn(this.host, this.#passed())];
    const cell = await sandbox.cell({ folder, readable, network, limits });
    try {
      await this.#train(work, cell, { python, inside, source });
    } finally {
      cell.close();
    }
    return { model_type: job.modelType, model_framework: job.modelFramework };
  }

  async #train(work: Work, cell: Cell, { python, inside, source }: Setting): Promise<void> {
    const prepared = await this.#prepare(work, cell, { python, inside, source });
    const given = Object.entries(work.job.script!.arguments).map(([name, value]) => `--${name}=${value}`);
    const dataset = join(inside, DATASET);
    const paths = [`--dataset_file=${dataset}`, `--model_output_directory=${join(inside, "output")}`];
    const args = ["-m", "model.training", ...paths, ...given];
    work.log("info", `running python3 ${args.join(" ")}`);
    const { exit, last } = await this.#execute(work, cell, {
      ...prepared,
      args,
      cwd: join(inside, "data"),
      env: { ...prepared.env, API_KEY: work.apiKey?.key ?? "", API_KEY_ID: work.apiKey?.id ?? "" },
    });
    if (exit.code === 0) return;
    const how = exit.signal ? `was ended by ${exit.signal}` : `ended with exit code ${exit.code}`;
    const words = last.length > 0 ? `; its last lines: ${last.join("\n")}` : ", without a word";
    throw new SvcError("failed_precondition", `the script ${how}${words}`);
  }

  /** Makes the virtual environment with the script in it; returns the command of its Python. */
  async #prepare(
    work: Work,
    cell: Cell,
    { python: { uri }, inside, source }: Setting,
  ): Promise<SandboxedProgram> {
    const { log } = work;
    const place = join(inside, "environment");
    const windows = this.host.platform().os === "windows";
    const programs = join(place, windows ? "Scripts" : "bin");
    const passed = this.#passed();
    const env: Record<string, string> = {
      ...passed,
      ...this.reachesUs ? {} : { PIP_NO_INDEX: "1" },
      HOME: inside,
      TMPDIR: join(inside, "tmp"),
      PYTHONUNBUFFERED: "1",
      VIRTUAL_ENV: place,
      PATH: `${programs}${windows ? ";" : ":"}${passed.PATH ?? SYSTEM_PATH}`,
    };
    const make = ["-m", "venv", "--system-site-packages", "--without-pip", place];
    const made = await this.#execute(work, cell, { command: uri, args: make, env });
    if (made.exit.code !== 0) {
      throw new SvcError(
        "failed_precondition",
        `cannot make a virtual environment with ${uri}: ${made.last.join("\n")}`,
      );
    }
    const python = { command: join(programs, windows ? "python.exe" : "python3"), env };
    // The errors of an attempt matter only if no later attempt works.
    const complaints: string[] = [];
    const patient: Work["log"] = (level, line) =>
      void (level === "info" ? log(level, line) : complaints.push(line));
    let first: string | undefined;
    for (const { flags, how, lacks } of INSTALLS) {
      log("info", `installing the script ${how}: pip install ${[...flags, "."].join(" ")}`);
      const attempt = { ...python, args: [...PIP, ...flags, source] };
      const { exit, last } = await this.#execute({ signal: work.signal, log: patient }, cell, attempt);
      if (exit.code === 0) {
        if (lacks) {
          log(
            "warn",
            `installed ${how}, because their installation failed: ${first ?? "pip does not say why"}`,
          );
        }
        return python;
      }
      first ??= last.at(-1);
      complaints.push(`it cannot be installed ${how} (exit code ${exit.code})`);
    }
    for (const line of complaints) log("warn", line);
    log("warn", "running the script from where it was unpacked");
    return { ...python, env: { ...env, PYTHONPATH: source } };
  }

  /** The variables of our environment that scripts get. */
  #passed(): Record<string, string> {
    const all = Object.entries(this.host.environment());
    const { confines } = this.options.sandbox;
    const passes = (name: string) =>
      PASSED.test(name) || this.reachesUs && PASSED_WITH_NETWORK.test(name) ||
      !confines && PASSED_WITHOUT_SANDBOX.test(name);
    return Object.fromEntries(all.filter(([name]) => passes(name)));
  }

  /** Runs a program to its end, and writes its output to the job's log. Throws if the job has to stop. */
  async #execute(
    { signal, log }: Pick<Work, "signal" | "log">,
    cell: Cell,
    program: SandboxedProgram,
  ): Promise<{ exit: Exit; last: string[] }> {
    signal.throwIfAborted();
    const process = this.host.spawn(cell.command(program));
    const guard = cell.guard(process);
    const last: string[] = [];
    const hear = async (lines: AsyncIterable<string>, level: "info" | "warn") => {
      for await (const line of lines) {
        if (line.trim() === "") continue;
        log(level, line);
        last.push(line);
        if (last.length > LAST_LINES) last.shift();
      }
    };
    const listening = Promise.all([hear(process.stdout, "info"), hear(process.stderr, "warn")]);
    let ending: Promise<Exit> | undefined;
    const stop = () => {
      ending ??= endProcess(process, this.clock, STOP_MS);
    };
    signal.addEventListener("abort", stop, { once: true });
    try {
      const exit = await process.exited;
      await ending;
      const breach = await guard;
      const over = new AbortController();
      await Promise.race([listening, this.clock.sleep(DRAIN_MS, over.signal).catch(() => {})]);
      over.abort();
      signal.throwIfAborted();
      if (breach) throw breach;
      return { exit, last };
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }
}

interface Setting {
  readonly python: Python;
  /** The path of the job's folder as the script sees it. */
  readonly inside: string;
  readonly source: string;
}

/** Files and folders that variables name: certificates, packages to install. */
async function filesNamedIn(
  files: ReadFiles,
  variables: { readonly [name: string]: string },
): Promise<string[]> {
  const paths = Object.entries(variables).filter(([name, value]) => FILES.test(name) && isAbsolute(value));
  const there = paths.map(async ([, path]) => await files.stat(path) ? [path] : []);
  return (await Promise.all(there)).flat();
}

/** The images in one folder, and the published file that lists them. */
async function writeDataset(
  files: WriteFiles,
  { folder, images, read, signal, log }: Work,
  inside: string,
): Promise<void> {
  await files.makeFolder(join(folder, "data"));
  const lines: string[] = [];
  for (const [index, image] of images.entries()) {
    signal.throwIfAborted();
    const path = join("data", `${index}_${image.fileName.replace(/[^\w.-]/g, "_").slice(-100)}`);
    await files.createFile(join(folder, path), read(image.sha256));
    lines.push(datasetLine(image, join(inside, path)));
  }
  await files.createFile(join(folder, DATASET), lines.map((line) => `${line}\n`).join(""));
  log("info", `${counted(images.length, "image is", "images are")} in place`);
}

/** The root of the Python package: the top, or the only folder there. */
async function sourceIn(files: ReadFiles, folder: string): Promise<string> {
  const entries = await files.entries(folder);
  if (entries.some(({ name }) => name === "setup.py" || name === "pyproject.toml")) return folder;
  const [first, ...others] = entries;
  if (first?.kind === "folder" && others.length === 0) {
    return await sourceIn(files, join(folder, first.name));
  }
  const found = entries.map(({ name }) => name).join(", ") || "nothing";
  throw new SvcError(
    "failed_precondition",
    `the script's package has ${found}, wanted setup.py and model/training.py`,
  );
}

async function findPython(program: string, host: ScriptHost, clock: Clock): Promise<Python | undefined> {
  const lines = await forwardLines(
    { command: program, args: ["-c", ASK], leash: true },
    program,
    host,
    clock,
  );
  const [version = "", minor, uri = "", ...prefixes] = lines ?? [];
  if (prefixes.length === 0) return undefined;
  const description =
    `Python ${version} of the control plane's machine, with the packages that are installed there`;
  // The sandbox contains the system's anyway.
  const own = [...new Set([...prefixes, dirname(uri)])].filter((path) =>
    !/^\/(usr(\/s?bin)?|s?bin)?$/.test(path)
  );
  return { key: `python:${minor}`, uri, framework: "python", description, prefixes: own };
}

/** Prints, one per line: its version, the version without its last part, its path, and the path of its files. */
const ASK = `import sys, venv
print(sys.version.split()[0], "%d.%d" % sys.version_info[:2], sys.executable, sys.prefix, sys.base_prefix, sep="\\n")`;

async function worksIn(
  { uri, prefixes }: Python,
  host: ScriptHost,
  clock: Clock,
  { sandbox, limits }: Options,
): Promise<boolean> {
  const cell = await sandbox.cell({ readable: prefixes, limits });
  try {
    const command = cell.command({ command: uri, args: ["-c", ASK], env: { PATH: SYSTEM_PATH } });
    return await forwardLines(command, uri, host, clock) !== undefined;
  } finally {
    cell.close();
  }
}

/** A program's output; nothing if it fails or is missing. */
async function forwardLines(
  command: ProcessCommand,
  name: string,
  host: ScriptHost,
  clock: Clock,
): Promise<string[] | undefined> {
  const tooLong = () => new SvcError("deadline_exceeded", `${name} does not answer`);
  const { signal, done } = deadline(clock, LOOK_MS, tooLong);
  try {
    const process = host.spawn(command);
    const kill = () => process.signal("SIGKILL", { group: true });
    signal.addEventListener("abort", kill, { once: true });
    const lines: string[] = [];
    const hear = async (from: AsyncIterable<string>, into: string[]) => {
      for await (const line of from) into.push(line);
    };
    await Promise.all([hear(process.stdout, lines), hear(process.stderr, [])]);
    return (await process.exited).code === 0 ? lines : undefined;
  } catch (error) {
    if (SvcError.from(error).code === "not_found") return undefined;
    throw new SvcError("unavailable", `cannot examine ${name}: ${messageOf(error)}`, { cause: error });
  } finally {
    done();
  }
}
