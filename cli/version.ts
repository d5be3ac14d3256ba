/**
 * The program's version, from this file alone.
 *
 * The version is that of deno.json. Only an executable knows the git revision: the build stores it as an embedded file
 * beside the program. A program that runs from source has none.
 */

import project from "../deno.json" with { type: "json" };

export const VERSION: string = project.version;

/** The runtime of the product. */
export const PINNED_DENO = "2.9.6";

/** What to say about a runtime that is not the product's; `undefined` on that one. */
export function otherRuntime(running: string = Deno.version.deno): string | undefined {
  if (running === PINNED_DENO) return undefined;
  return `this program is made for Deno ${PINNED_DENO} and runs on ${running}: what was tested may not hold here`;
}

/** Where the build puts the git revision for the executables; relative to the root of the tree. */
export const REVISION_FILE = "dist/revision.txt";

/** Where the build puts the notices of third-party software; relative to the root of the tree. */
export const NOTICES_FILE = "dist/THIRD_PARTY_NOTICES.txt";

/** The notices of the third-party software in this program. */
export function licensesText(program: string): string {
  try {
    return Deno.readTextFileSync(new URL(`../${NOTICES_FILE}`, import.meta.url));
  } catch {
    return `${program} runs from source; "deno task licenses" writes the notices of third-party software\n`;
  }
}

/** Where the build puts the library for modules, which executables embed; relative to the root of the tree. */
export const MODULE_PACKAGE = "dist/svc-module";

/** The git revision of this executable, with the ending `-dirty` if the tree had changes. */
export function revision(): string | undefined {
  if (!Deno.build.standalone) return undefined;
  try {
    return Deno.readTextFileSync(new URL(`../${REVISION_FILE}`, import.meta.url)).trim() || undefined;
  } catch {
    return undefined;
  }
}

/** `svc-server 0.1.0 (revision 1a2b3c4d5e6f, linux-x86_64)`; without a revision, `built from source`. */
export function versionLine(program: string): string {
  const known = revision();
  const origin = known === undefined ? "built from source" : `revision ${known}`;
  return `${program} ${VERSION} (${origin}, ${Deno.build.os}-${Deno.build.arch})`;
}
