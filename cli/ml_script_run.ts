/**
 * A training script run on this computer, as the control plane runs it: installed with pip into an environment of its
 * own, started as `python -m model.training` in the folder of the dataset, and judged by its exit code and its output.
 */

import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { isAbsolute, join, relative } from "node:path";
import { SvcError } from "../lib/base/error.ts";
import { endProcess, type ProcessCommand } from "../lib/base/process.ts";
import { checkScriptFolder } from "./ml_script_folder.ts";
import type { Session } from "./ml_session.ts";

const GRACE_MS = 5_000;
/** What a script leaves there is for itself. */
const SCRATCH = "tmp";

export interface LocalRun {
  /** The folders, whole. */
  readonly script: string;
  readonly datasetRoot: string;
  readonly output: string;
  /** From the folder of the dataset. */
  readonly datasetFile: string;
  readonly arguments: { readonly [key: string]: string };
  readonly python: string;
  readonly install: boolean;
}

/** Gives the files that the script has left. Throws where the control plane would call the job failed. */
export async function testLocal(session: Session, run: LocalRun): Promise<string[]> {
  const { script, datasetRoot, datasetFile, output, install } = run;
  await checkScriptFolder(script);
  await checkDataset(session, datasetRoot, datasetFile);
  await session.host.makeFolder(output);
  const environment = await mkdtemp(join(tmpdir(), "svc-ml-"));
  try {
    const python = install ? await installed(session, run, environment) : run.python;
    const given = Object.entries(run.arguments).map(([key, value]) => `--${key}=${value}`);
    const own = [`--dataset_file=${datasetFile}`, `--model_output_directory=${output}`];
    session.note(`running python -m model.training ${[...own, ...given].join(" ")}`);
    const code = await toEnd(session, {
      command: python,
      args: ["-m", "model.training", ...own, ...given],
      cwd: datasetRoot,
      env: { PYTHONUNBUFFERED: "1", ...install ? {} : { PYTHONPATH: script } },
    });
    if (code !== 0) {
      throw new SvcError("unknown", `the script ended with exit code ${code}: the job would have failed`);
    }
  } finally {
    await rm(environment, { recursive: true, force: true });
  }
  const files = await filesIn(output);
  if (files.length > 0) return files;
  const wanted = `wanted a model there; what is in ${SCRATCH}/ does not count`;
  throw new SvcError("unknown", `the script left nothing in ${output}: the job would have failed; ${wanted}`);
}

async function checkDataset(session: Session, root: string, file: string): Promise<void> {
  const inside = !isAbsolute(file) && !relative(root, join(root, file)).startsWith("..");
  if (!inside) {
    throw new SvcError("invalid_argument", `--dataset-file: found "${file}", wanted a file in ${root}`);
  }
  if (await session.host.fileSize(join(root, file)) !== undefined) return;
  const advice = "svc-ml dataset export writes one";
  throw new SvcError(
    "not_found",
    `there is no ${file} in ${root}: ${advice}; tell where with --dataset-root`,
  );
}

/** Makes the environment and installs the script in it; gives its Python. */
async function installed(
  session: Session,
  { script, python }: LocalRun,
  environment: string,
): Promise<string> {
  const folder = join(environment, "python");
  // What the computer has need not be fetched.
  const made = await toEnd(session, {
    command: python,
    args: ["-m", "venv", "--system-site-packages", folder],
  });
  if (made !== 0) {
    throw new SvcError("failed_precondition", `${python} cannot make an environment: is its venv installed?`);
  }
  const windows = session.host.platform().os === "windows";
  const own = join(folder, windows ? "Scripts" : "bin", windows ? "python.exe" : "python");
  const quiet = ["--quiet", "--disable-pip-version-check"];
  const code = await toEnd(session, { command: own, args: ["-m", "pip", "install", ...quiet, script] });
  if (code === 0) return own;
  const otherwise = "with --no-install it is run with what is installed here";
  throw new SvcError("unknown", `pip cannot install ${script} (exit code ${code}); ${otherwise}`);
}

/** Runs a program and shows what it says; ends it where this program is to end. */
async function toEnd(session: Session, command: ProcessCommand): Promise<number> {
  session.signal.throwIfAborted();
  const process = session.world.processes.spawn({
    ...command,
    leash: session.host.platform().os !== "windows",
  });
  const stop = () => void endProcess(process, session.clock, GRACE_MS);
  session.signal.addEventListener("abort", stop, { once: true });
  const show = async (lines: AsyncIterable<string>) => {
    for await (const line of lines) session.note(line);
  };
  try {
    const [{ code }] = await Promise.all([process.exited, show(process.stdout), show(process.stderr)]);
    session.signal.throwIfAborted();
    return code;
  } finally {
    session.signal.removeEventListener("abort", stop);
  }
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true });
  return entries.filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).replaceAll("\\", "/"))
    .filter((path) => !path.startsWith(`${SCRATCH}/`))
    .sort();
}
