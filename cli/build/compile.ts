/**
 * `deno task compile`: compiles all programs for all targets into `dist/<target>/`, and writes their sums.
 *
 * It compiles with the pinned Deno only. If something is missing, it prints on one line what is missing and what to do,
 * and exits with 1.
 *
 * The room owns how executables are made, and how each one is tried before it is handed out.
 */

import { DenoHost } from "../../lib/base/host_deno.ts";
import { begin, EXIT, failed, type Terminal, unexpected } from "../program.ts";
import { choose, compile, EXECUTABLES, PINNED_DENO, ROOT, TARGETS } from "./compiler.ts";

const PROGRAM = {
  name: "deno task compile",
  summary: "Makes the executables in dist/<target>/, and SHA256SUMS beside them.",
  style: "gnu",
  usage: "[flags]",
  flags: [
    { name: "target", type: "string", default: "", value: "NAME", help: names("target", TARGETS) },
    { name: "program", type: "string", default: "", value: "NAME", help: names("program", EXECUTABLES) },
  ],
} as const;

function names(what: string, rows: readonly { name: string }[]): string {
  return `Only this ${what}: ${rows.map((row) => row.name).join(", ")}.`;
}

export async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const begun = begin(PROGRAM, args, terminal);
  if (begun.exitCode !== undefined) return begun.exitCode;
  if (begun.rest.length > 0) {
    terminal.writeError(`${PROGRAM.name}: ${unexpected(begun.rest[0])}; see --help\n`);
    return EXIT.usage;
  }
  try {
    await compileAll(begun.values.target, begun.values.program, terminal);
    return 0;
  } catch (thrown) {
    return failed(PROGRAM.name, thrown, terminal);
  }
}

async function compileAll(targetName: string, programName: string, terminal: Terminal): Promise<void> {
  const targets = choose("target", TARGETS, targetName);
  const programs = choose("program", EXECUTABLES, programName);
  const version = Deno.version.deno;
  if (version !== PINNED_DENO) {
    throw new Error(`Cannot compile with Deno ${version}: run npx --yes deno@${PINNED_DENO} task compile`);
  }
  for (const target of targets) {
    const folder = `dist/${target.name}`;
    for (const program of programs) {
      const { bytes } = await compile({ deno: Deno.execPath(), version }, program, target, folder);
      terminal.write(`${folder}/${program.name}${target.suffix}  ${(bytes / 1e6).toFixed(1)} MB\n`);
    }
    await writeSums(`${ROOT}${folder}`, EXECUTABLES.map((program) => program.name + target.suffix));
  }
}

/** Writes `SHA256SUMS` for the existing files among `files`, in the form that `sha256sum -c` reads. */
async function writeSums(folder: string, files: readonly string[]): Promise<void> {
  let sums = "";
  for (const file of files) {
    const bytes = await Deno.readFile(`${folder}/${file}`).catch(() => undefined);
    if (bytes === undefined) continue;
    const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    sums += `${sum.toHex()}  ${file}\n`;
  }
  await Deno.writeTextFile(`${folder}/SHA256SUMS`, sums);
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
