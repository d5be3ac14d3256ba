/**
 * `deno task compile`: compiles all programs for all targets into `dist/<target>/`, and writes their sums.
 *
 * It compiles with the pinned Deno only. If something is missing, it prints on one line what is missing and what to do,
 * and exits with 1.
 *
 * The room owns how executables are made, and how each one is tried before it is handed out.
 */

import { DenoHost } from "../../lib/base/host_deno.ts";
import { begin, failed, type Terminal } from "../program.ts";
import type { Provenance } from "../../lib/base/release/sums.ts";
import { UsageError } from "../flags.ts";
import { billFile, writeNotices } from "./notices.ts";
import { installPagePackages } from "./page.ts";
import { NOTICES_FILE, PINNED_DENO, REVISION_FILE, VERSION } from "../version.ts";
import { bytesSum, makeSignKey, readSignKey, writeSums } from "./sums.ts";
import { choose, chooseTargets, compile, EXECUTABLES, ROOT, TARGETS } from "./compiler.ts";

const PROGRAM = {
  name: "deno task compile",
  summary:
    "Makes the executables in dist/<target>/, and SHA256SUMS beside them: all, or the PROGRAMs named " +
    `(${EXECUTABLES.map(({ name }) => name).join(", ")}).`,
  style: "gnu",
  usage: "[PROGRAM …] [flags]",
  flags: [
    {
      name: "target",
      type: "string",
      default: "",
      value: "NAME",
      help: `Only this target: ${TARGETS.map(({ name }) => name).join(", ")}.`,
    },
    {
      name: "sign-key",
      type: "string",
      default: "",
      value: "FILE",
      help:
        "Sign SHA256SUMS with this private key of the project (PEM, Ed25519), which lies outside of the tree.",
    },
    {
      name: "new-sign-key",
      type: "string",
      default: "",
      value: "FILE",
      help: "Make such a key, print its public half, and exit.",
    },
  ],
} as const;

interface Wanted {
  readonly target: string;
  /** Their names; none for all. */
  readonly programs: readonly string[];
  readonly signKey: string;
}

export async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const begun = begin(PROGRAM, args, terminal);
  if (begun.exitCode !== undefined) return begun.exitCode;
  try {
    const { newSignKey, ...wanted } = begun.values;
    if (newSignKey !== "") terminal.write(`${await makeSignKey(newSignKey, ROOT)}\n`);
    else await compileAll({ ...wanted, programs: begun.rest }, terminal);
    return 0;
  } catch (thrown) {
    return failed(PROGRAM.name, thrown, terminal);
  }
}

async function compileAll(
  { target: targetName, programs: programNames, signKey }: Wanted,
  terminal: Terminal,
): Promise<void> {
  const targets = chooseTargets(targetName);
  const programs = choose("program", EXECUTABLES, programNames);
  if (signKey !== "" && programNames.length > 0) {
    throw new UsageError(
      `--sign-key: found only ${
        programNames.join(", ")
      }, wanted all programs, which are then of one revision`,
    );
  }
  const privateKeyPem = signKey === "" ? undefined : await readSignKey(signKey, ROOT);
  const version = Deno.version.deno;
  if (version !== PINNED_DENO) {
    throw new Error(`Cannot compile with Deno ${version}: run npx --yes deno@${PINNED_DENO} task compile`);
  }
  // The notices have the texts of installed packages, and a page that was built before needs none of them.
  if (programs.some(({ page }) => page)) await installPagePackages();
  await writeNotices();
  for (const target of targets) {
    const folder = `dist/${target.name}`;
    for (const program of programs) {
      const { bytes } = await compile({ deno: Deno.execPath(), version }, program, target, folder);
      terminal.write(`${folder}/${program.name}${target.suffix}  ${(bytes / 1e6).toFixed(1)} MB\n`);
    }
    const provenance = await collectProvenance(version);
    if (privateKeyPem !== undefined && provenance.revision.endsWith("-dirty")) {
      throw new Error(
        "Cannot sign: the tree has changes, wanted a revision that others can build; commit first",
      );
    }
    const bills = EXECUTABLES.map(({ name }) => billFile(name));
    const beside = [NOTICES_FILE, ...bills].map((path) => path.slice(path.lastIndexOf("/") + 1));
    for (const name of beside) await Deno.copyFile(`${ROOT}dist/${name}`, `${ROOT}${folder}/${name}`);
    const files = [...EXECUTABLES.map((program) => program.name + target.suffix), ...beside];
    await writeSums(`${ROOT}${folder}`, files, provenance, privateKeyPem);
  }
}

/** What the executables in `dist/` were made from. */
export async function collectProvenance(deno: string): Promise<Provenance> {
  const revision = (await Deno.readTextFile(`${ROOT}${REVISION_FILE}`)).trim();
  const lockSha256 = await bytesSum(await Deno.readFile(`${ROOT}deno.lock`));
  return { version: VERSION, revision, deno, lockSha256 };
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
