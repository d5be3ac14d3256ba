/**
 * The preconditions of making a program a service.
 */

import type { Platform } from "../lib/base/host.ts";
import { SvcError } from "../lib/base/error.ts";

/** Throws `permission_denied` for every user except root. */
export function requireRoot(what: string, host: Platform): void {
  // Windows itself checks for an administrator.
  if (host.platform().os === "windows") return;
  if (Deno.uid() !== 0) throw new SvcError("permission_denied", `only root can ${what}: run it with sudo`);
}

/** Throws `failed_precondition` for a program that runs from source: there is no file to install. */
export function requireExecutable(): void {
  if (Deno.build.standalone) return;
  const wanted = "wanted the executable, which becomes the service (deno task compile makes it)";
  throw new SvcError("failed_precondition", `cannot install from source, ${wanted}`);
}
