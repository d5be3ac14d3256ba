/**
 * The rights of this process: it begins with all of them, and gives up those that its work does not need, before it
 * reads anything from outside.
 *
 * What is given up does not come back. A thread has the rights of its process, or those that it is started with.
 */

export const RIGHTS = ["read", "write", "net", "env", "run", "ffi", "sys", "import"] as const;

/** One of Deno's permissions, whole. */
export type Right = typeof RIGHTS[number];

/** Gives up all rights except these. */
export function keepOnly(kept: readonly Right[]): void {
  for (const name of RIGHTS) if (!kept.includes(name)) Deno.permissions.revokeSync({ name });
}

/** The rights that this process has. */
export function rightsLeft(): Right[] {
  return RIGHTS.filter((name) => Deno.permissions.querySync({ name }).state === "granted");
}

/**
 * Options of a thread that has only these rights of its process, and gets no others later.
 *
 * Deno wants `--unstable-worker-options` for them, or ends the program: it stands in deno.json for programs that run
 * from source, and the build compiles executables with it.
 */
export function threadWith(kept: readonly Right[]): WorkerOptions {
  const permissions = Object.fromEntries(
    RIGHTS.map((name) => [name, kept.includes(name) ? "inherit" : false]),
  );
  return { type: "module", deno: { permissions } } as WorkerOptions;
}
