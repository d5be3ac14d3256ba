/**
 * Releases of svc-server for tests: real programs, made with the system's C compiler, because an agent installs only
 * programs.
 */

import { outputOf } from "../support/needing.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** A release's behaviour: serves like svc-server, ends at once, or does nothing. */
export type Kind = "serves" | "ends" | "hangs";

const WORKS: { readonly [K in Kind]: string } = {
  serves: "execv(words[0], words);",
  ends: 'fputs("this version is broken\\n", stderr);',
  hangs: "for (;;) pause();",
};

/** Whether programs can be made here. */
export async function canBuild(): Promise<boolean> {
  if (Deno.build.os !== "linux") return false;
  return await outputOf("cc", "--version") !== undefined;
}

/** Makes a program that calls itself a version of svc-server. */
export async function buildRelease(path: string, version: string, kind: Kind): Promise<void> {
  const begin = [Deno.execPath(), "run", "-A", "--config", `${ROOT}deno.json`, `${ROOT}cli/server/main.ts`];
  const text = `#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **args) {
  char *words[64] = {${begin.map((word) => JSON.stringify(word)).join(", ")}};
  if (count > 1 && !strcmp(args[1], "--version")) return puts("svc-server ${version}") < 0;
  for (int at = 1; at < count && at < 50; at++) words[${begin.length - 1} + at] = args[at];
  ${WORKS[kind]}
  return 1;
}
`;
  await Deno.writeTextFile(`${path}.c`, text);
  const { success, stderr } = await new Deno.Command("cc", { args: ["-O", "-o", path, `${path}.c`] })
    .output();
  if (!success) throw new Error(`cannot make ${path}: ${new TextDecoder().decode(stderr)}`);
}
