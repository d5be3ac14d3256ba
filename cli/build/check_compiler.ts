/**
 * The older Deno that compiles executables for checks if the pinned Deno's runtime for them is not available.
 */

import { type Compiler, execute, exists, runtimePath, type Target } from "./compiler.ts";
import { installPackages, whileLocked } from "./module_package.ts";
import { RECOVERED_DENO, recoverRuntime } from "./recovered_runtime.ts";

/** That Deno, ready to compile for `target`. Throws if it or its runtime is not available. */
export async function checkCompiler(target: Target): Promise<Compiler> {
  const { denoDir } = JSON.parse((await execute(Deno.execPath(), ["info", "--json"])).output);
  const folder = `${denoDir}/svc_check`;
  await Deno.mkdir(folder, { recursive: true });
  return await whileLocked(`${folder}/.lock`, async () => {
    const compiler = await obtainCompiler(`${folder}/deno-${RECOVERED_DENO}`);
    const runtime = await runtimePath(compiler, target);
    if (!await exists(runtime)) await recoverRuntime(target.name, runtime);
    return compiler;
  });
}

/** The older Deno, from npm, stored beside Deno's own downloads. */
async function obtainCompiler(folder: string): Promise<Compiler> {
  const processor = Deno.build.arch === "x86_64" ? "x64" : "arm64";
  const deno = `${folder}/node_modules/@deno/linux-${processor}-glibc/deno`;
  if (!await exists(deno)) {
    await Deno.mkdir(folder, { recursive: true });
    await installPackages(folder, [`deno@${RECOVERED_DENO}`]);
  }
  return { deno, version: RECOVERED_DENO };
}
