/** The programs, run from source by tests that give them a home of their own. */

const ROOT = new URL("../../", import.meta.url).pathname;

/**
 * Where Deno keeps packages and compiled code. It finds them by HOME: a program that gets another home needs this, or it
 * fetches and compiles everything again.
 */
export function keptCode(): { readonly DENO_DIR: string } {
  const { DENO_DIR, XDG_CACHE_HOME, HOME = "/root" } = Deno.env.toObject();
  return { DENO_DIR: DENO_DIR ?? `${XDG_CACHE_HOME ?? `${HOME}/.cache`}/deno` };
}

/** Fills a folder for the PATH with the programs. */
export async function makePrograms(bin: string): Promise<void> {
  await Deno.mkdir(bin, { recursive: true });
  for (const name of ["server", "agent", "cloud", "ml"]) {
    const start = `"${Deno.execPath()}" run -A --config "${ROOT}deno.json" "${ROOT}cli/${name}/main.ts"`;
    await Deno.writeTextFile(`${bin}/svc-${name}`, `#!/bin/sh\nexec ${start} "$@"\n`, { mode: 0o755 });
  }
}
