/**
 * What making a service of a program asks of whoever runs it.
 */

import type { Platform } from "../lib/base/host.ts";
import { SvcError } from "../lib/base/error.ts";

/** Throws `permission_denied` for anybody but root. */
export function requireRoot(what: string, host: Platform): void {
  // Windows itself refuses what only an administrator may do.
  if (host.platform().os === "windows") return;
  if (Deno.uid() !== 0) throw new SvcError("permission_denied", `only root can ${what}: run it with sudo`);
}

/** Throws `failed_precondition` where the program runs from source: there is no file that could become a service. */
export function requireExecutable(): void {
  if (Deno.build.standalone) return;
  const wanted = "wanted the executable: it is what becomes the service (deno task compile makes it)";
  throw new SvcError("failed_precondition", `cannot install from source, ${wanted}`);
}
