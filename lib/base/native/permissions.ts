/**
 * The rights of this process: it begins with all of them, and gives up those that its work does not need, before it
 * reads anything from outside.
 *
 * What is given up does not come back. A thread shares the rights of its process.
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
