/**
 * Custom training scripts, run here: each in a virtual environment of its own, under watch.
 *
 * The published contract: the script is a package of Python with the module `model.training`, which is called with
 * `--dataset_file`, `--model_output_directory` and the arguments of its job, and leaves the model in that directory.
 * Promises: nothing of a script outlives its job or this program. A script is not shut in, though: it can do what the
 * user can whom this program runs as.
 */

import { createWriteStream } from "node:fs";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { unpackInto } from "../base/archive.ts";
import { type Clock, deadline } from "../base/clock.ts";
import { messageOf, SvcError } from "../base/error.ts";
import type { Host } from "../base/host.ts";
import { endProcess, type Exit, type ProcessCommand, type ProcessHost } from "../base/process.ts";
import type { JsonObject } from "../base/schema.ts";
import type { Environment, Executor, Work } from "./executor.ts";
import { datasetLine } from "./jsonl.ts";

/** Programs that may be there. */
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
/** How long a script may take to stop when it is asked to, before it is killed. */
const STOP_MS = 10_000;
/** How long something that a script has left behind may keep its output open. */
const DRAIN_MS = 2_000;
/** What an error shows of the script's own words. */
const LAST_LINES = 15;
/** What scripts, and pip, see of our environment; everything else is ours alone. */
const PASSED =
  /^(PATH|LANG|LC_\w+|TZ|SYSTEMROOT|(https?|no)_proxy|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|PIP_\w+)$/i;
/** Tried one after the other: a machine without a network can install what needs nothing that is not there. */
const INSTALLS = [
  { flags: ["--no-build-isolation"], how: "with the build tools of this machine" },
  { flags: [], how: "with build tools of its own" },
  { flags: ["--no-build-isolation", "--no-deps"], how: "without the packages that it depends on" },
];
const PIP = ["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--retries=1"];

type ScriptHost = Pick<ProcessHost, "spawn"> & Pick<Host, "environment" | "platform">;

export class ScriptExecutor implements Executor {
  readonly capacity = 1;

  private constructor(
    readonly environments: readonly Environment[],
    private readonly host: ScriptHost,
    private readonly clock: Clock,
  ) {}

  /** With every Python that is found here; `undefined` where there is none. */
  static async open(host: ScriptHost, clock: Clock): Promise<ScriptExecutor | undefined> {
    const all = await Promise.all(PYTHONS.map((program) => environmentOf(program, host, clock)));
    const found = new Map<string, Environment>();
    for (const one of all) if (one && !found.has(one.key)) found.set(one.key, one);
    return found.size > 0 ? new ScriptExecutor([...found.values()], host, clock) : undefined;
  }

  async run(work: Work): Promise<JsonObject> {
    const { folder, job, log } = work;
    const environment = this.environments.find(({ key }) => key === job.script!.container);
    if (!environment) {
      throw new SvcError("failed_precondition", `"${job.script!.container}" is not here any more`);
    }
    const script = join(folder, "script");
    await mkdir(script);
    await unpackInto(script, work.read(job.script!.sha256), SCRIPT_FILES);
    const source = await sourceIn(script);
    const dataset = await writeDataset(work);
    const python = await this.#prepare(work, environment, source);
    const given = Object.entries(job.script!.arguments).map(([name, value]) => `--${name}=${value}`);
    const paths = [`--dataset_file=${dataset}`, `--model_output_directory=${join(folder, "output")}`];
    const args = ["-m", "model.training", ...paths, ...given];
    log("info", `running python3 ${args.join(" ")}`);
    const { exit, last } = await this.#execute(work, {
      ...python,
      args,
      cwd: join(folder, "data"),
      env: { ...python.env, API_KEY: work.apiKey?.key ?? "", API_KEY_ID: work.apiKey?.id ?? "" },
    });
    if (exit.code !== 0) {
      const how = exit.signal ? `was ended by ${exit.signal}` : `ended with exit code ${exit.code}`;
      const words = last.length > 0 ? `; its last lines: ${last.join("\n")}` : ", without a word";
      throw new SvcError("failed_precondition", `the script ${how}${words}`);
    }
    return { model_type: job.modelType, model_framework: job.modelFramework };
  }

  /** Makes the virtual environment with the script in it; gives how to start its Python. */
  async #prepare(work: Work, { uri }: Environment, source: string): Promise<ProcessCommand> {
    const { folder, log } = work;
    const place = join(folder, "environment");
    const temporary = join(folder, "tmp");
    await mkdir(temporary);
    const windows = this.host.platform().os === "windows";
    const programs = join(place, windows ? "Scripts" : "bin");
    const passed = Object.entries(this.host.environment()).filter(([name]) => PASSED.test(name));
    const env: Record<string, string> = {
      ...Object.fromEntries(passed),
      HOME: folder,
      TMPDIR: temporary,
      PYTHONUNBUFFERED: "1",
      VIRTUAL_ENV: place,
    };
    env.PATH = `${programs}${windows ? ";" : ":"}${env.PATH ?? ""}`;
    const make = ["-m", "venv", "--system-site-packages", "--without-pip", place];
    const made = await this.#execute(work, { command: uri, args: make, env, bare: true });
    if (made.exit.code !== 0) {
      throw new SvcError(
        "failed_precondition",
        `cannot make a virtual environment with ${uri}: ${made.last.join("\n")}`,
      );
    }
    const python = { command: join(programs, windows ? "python.exe" : "python3"), env, bare: true };
    for (const { flags, how } of INSTALLS) {
      log("info", `installing the script ${how}: pip install ${[...flags, "."].join(" ")}`);
      const { exit } = await this.#execute(work, { ...python, args: [...PIP, ...flags, source] });
      if (exit.code === 0) return python;
      log("warn", `it cannot be installed ${how} (exit code ${exit.code})`);
    }
    log("warn", "running the script from where it was unpacked");
    return { ...python, env: { ...env, PYTHONPATH: source } };
  }

  /** Runs a program to its end, writing what it says to the log of the job. Throws when the job is to stop. */
  async #execute(
    { signal, log }: Pick<Work, "signal" | "log">,
    command: ProcessCommand,
  ): Promise<{ exit: Exit; last: string[] }> {
    signal.throwIfAborted();
    const process = this.host.spawn({ ...command, leash: true });
    const last: string[] = [];
    const hear = async (lines: AsyncIterable<string>, level: "info" | "warn") => {
      for await (const line of lines) {
        if (line.trim() === "") continue;
        log(level, line);
        last.push(line);
        if (last.length > LAST_LINES) last.shift();
      }
    };
    const hearing = Promise.all([hear(process.stdout, "info"), hear(process.stderr, "warn")]);
    let ending: Promise<Exit> | undefined;
    const stop = () => {
      ending ??= endProcess(process, this.clock, STOP_MS);
    };
    signal.addEventListener("abort", stop, { once: true });
    try {
      const exit = await process.exited;
      await ending;
      const over = new AbortController();
      await Promise.race([hearing, this.clock.sleep(DRAIN_MS, over.signal).catch(() => {})]);
      over.abort();
      signal.throwIfAborted();
      return { exit, last };
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }
}

/** The images beside each other, and the published file that tells of them; gives its path. */
async function writeDataset({ folder, images, read, signal, log }: Work): Promise<string> {
  const data = join(folder, "data");
  await mkdir(data);
  const lines: string[] = [];
  for (const [index, image] of images.entries()) {
    signal.throwIfAborted();
    const path = join(data, `${index}_${image.fileName.replace(/[^\w.-]/g, "_").slice(-100)}`);
    await pipeline(Readable.from(read(image.sha256)), createWriteStream(path));
    lines.push(datasetLine(image, path));
  }
  const file = join(folder, "dataset.jsonl");
  await writeFile(file, lines.map((line) => `${line}\n`).join(""));
  log("info", `${images.length} images are in place`);
  return file;
}

/** Where the package of Python begins: at the top, or in the only folder there. */
async function sourceIn(folder: string): Promise<string> {
  const entries = await readdir(folder, { withFileTypes: true });
  if (entries.some(({ name }) => name === "setup.py" || name === "pyproject.toml")) return folder;
  if (entries.length === 1 && entries[0].isDirectory()) return await sourceIn(join(folder, entries[0].name));
  const found = entries.map(({ name }) => name).join(", ") || "nothing";
  throw new SvcError(
    "failed_precondition",
    `the script's package has ${found}, wanted setup.py and model/training.py`,
  );
}

async function environmentOf(
  program: string,
  host: ScriptHost,
  clock: Clock,
): Promise<Environment | undefined> {
  const code = "import sys, venv; print(sys.version.split()[0], sys.executable)";
  const tooLong = () => new SvcError("deadline_exceeded", `${program} does not answer`);
  const { signal, done } = deadline(clock, LOOK_MS, tooLong);
  try {
    const process = host.spawn({ command: program, args: ["-c", code], leash: true });
    const kill = () => process.signal("SIGKILL", { group: true });
    signal.addEventListener("abort", kill, { once: true });
    const lines: string[] = [];
    const hear = async (from: AsyncIterable<string>, into: string[]) => {
      for await (const line of from) into.push(line);
    };
    await Promise.all([hear(process.stdout, lines), hear(process.stderr, [])]);
    const [, version, minor, uri] = /^((\d+\.\d+)\S*) (.+)$/.exec(lines[0] ?? "") ?? [];
    if ((await process.exited).code !== 0 || !version) return undefined;
    const description =
      `Python ${version} of the control plane's machine, with the packages that are installed there`;
    return { key: `python:${minor}`, uri, framework: "python", description };
  } catch (error) {
    if ((error as SvcError).code === "not_found") return undefined;
    throw new SvcError("unavailable", `cannot find out about ${program}: ${messageOf(error)}`, {
      cause: error,
    });
  } finally {
    done();
  }
}
