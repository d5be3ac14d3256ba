/**
 * `deno task distribute`: what a release page offers, of the executables in `dist/<target>/`: an archive for each program
 * and target, Debian packages, and the signed sums of all. Writes into `dist/release/`.
 *
 * The room owns the forms in which programs are handed out.
 */

import { DenoHost } from "../../../lib/base/host_deno.ts";
import { begin, failed, type Terminal } from "../../program.ts";
import { NOTICES_FILE, PINNED_DENO, VERSION } from "../../version.ts";
import { collectProvenance } from "../compile.ts";
import { choose, chooseTargets, EXECUTABLES, exists, ROOT } from "../compiler.ts";
import { readSignKey, writeSums } from "../sums.ts";
import { makeArchive } from "./archive.ts";
import { isDebian, makeDeb } from "./deb.ts";

const FOLDER = "dist/release";

const PROGRAM = {
  name: "deno task distribute",
  summary:
    `Packs the executables in dist/<target>/, all or the PROGRAMs named, for a release page, into ${FOLDER}/.`,
  style: "gnu",
  usage: "[PROGRAM …] [flags]",
  flags: [
    { name: "target", type: "string", default: "", value: "NAME", help: "Only this target." },
    {
      name: "sign-key",
      type: "string",
      default: "",
      value: "FILE",
      help: "Sign SHA256SUMS with this private key of the project (PEM, Ed25519).",
    },
  ],
} as const;

export async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const begun = begin(PROGRAM, args, terminal);
  if (begun.exitCode !== undefined) return begun.exitCode;
  try {
    await distribute({ ...begun.values, programs: begun.rest }, terminal);
    return 0;
  } catch (thrown) {
    return failed(PROGRAM.name, thrown, terminal);
  }
}

interface Chosen {
  readonly target: string;
  /** Their names; none for all. */
  readonly programs: readonly string[];
  readonly signKey: string;
}

async function distribute(chosen: Chosen, terminal: Terminal): Promise<void> {
  const targets = chooseTargets(chosen.target);
  const programs = choose("program", EXECUTABLES, chosen.programs);
  const privateKeyPem = chosen.signKey === "" ? undefined : await readSignKey(chosen.signKey, ROOT);
  const built = [];
  for (const target of targets) {
    for (const program of programs) {
      const path = `${ROOT}dist/${target.name}/${program.name}${target.suffix}`;
      if (await exists(path)) built.push({ target, program, path });
    }
  }
  if (built.length === 0 || !await exists(`${ROOT}${NOTICES_FILE}`)) {
    throw new Error("dist/ has no executables to pack: run deno task compile first");
  }

  const folder = `${ROOT}${FOLDER}`;
  await Deno.remove(folder, { recursive: true }).catch(() => {});
  await Deno.mkdir(folder, { recursive: true });
  const files: string[] = [];
  for (const { target, program, path } of built) {
    const build = { path, notices: `${ROOT}${NOTICES_FILE}`, version: VERSION, folder };
    const made = [await makeArchive(program, target, build)];
    if (isDebian(program, target)) made.push(await makeDeb(program, target, build));
    for (const file of made) {
      const { size } = await Deno.stat(`${folder}/${file}`);
      terminal.write(`${FOLDER}/${file}  ${(size / 1e6).toFixed(1)} MB\n`);
    }
    files.push(...made);
  }
  await writeSums(folder, files, await collectProvenance(PINNED_DENO), privateKeyPem);
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
