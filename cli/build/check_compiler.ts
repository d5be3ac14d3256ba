/**
 * The older Deno that compiles executables for checks if the pinned Deno's runtime for them is not available.
 */

import { resolve } from "node:path";
import { type Compiler, execute, exists, ROOT, runtimePath, type Target } from "./compiler.ts";
import { installPackages } from "./module_package.ts";

/** The Deno whose runtime the seeding tool provides. */
export const CHECK_DENO = "2.7.11";

/** Puts that runtime where `deno compile` looks for it. */
const SEEDING_TOOL = resolve(ROOT, "../shared/tools/seed-denort");

/** That Deno, ready to compile for `target`. Throws if it or its runtime is not available. */
export async function checkCompiler(target: Target): Promise<Compiler> {
  const compiler = await obtainCompiler();
  await seedRuntime(compiler, target);
  return compiler;
}

/** The older Deno, from npm, stored beside Deno's own downloads. */
async function obtainCompiler(): Promise<Compiler> {
  const { denoDir } = JSON.parse((await execute(Deno.execPath(), ["info", "--json"])).output);
  const folder = `${denoDir}/svc_check/deno-${CHECK_DENO}`;
  const processor = Deno.build.arch === "x86_64" ? "x64" : "arm64";
  const deno = `${folder}/node_modules/@deno/linux-${processor}-glibc/deno`;
  if (!await exists(deno)) {
    await Deno.mkdir(folder, { recursive: true });
    await installPackages(folder, [`deno@${CHECK_DENO}`]);
  }
  return { deno, version: CHECK_DENO };
}

async function seedRuntime(compiler: Compiler, target: Target): Promise<void> {
  if (await exists(await runtimePath(compiler, target))) return;
  if (!await exists(SEEDING_TOOL)) {
    throw new Error(`Cannot provide the runtime of Deno ${compiler.version}: ${SEEDING_TOOL} is missing`);
  }
  const { code, errors } = await execute(SEEDING_TOOL, [target.name]);
  if (code !== 0) throw new Error(`${SEEDING_TOOL} failed: ${errors.trim()}`);
}
