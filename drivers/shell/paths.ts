/** The paths that a caller writes, as paths of this machine, and the limits of one copy. */

import { SvcError } from "../../lib/base/error.ts";
import { homeFolder } from "../../lib/base/files/home.ts";
import type { Environment } from "../../lib/base/host.ts";
import { withoutEnd } from "../../lib/base/escape.ts";

export const FILES_MAX = 100_000;
const DEPTH_MAX = 64;
const LENGTH_MAX = 4096;

/**
 * The variables for the folder of the program's own files, ours and the published one; and the folders from which the
 * published command line fetches traces and diagnostics.
 */
const OWN_FOLDER = /^(\$(SVC|VIAM)_HOME(?=\/|$)|~\/\.viam(?=\/(trace|diagnostics\.data)(\/|$)))/;

/** An absolute path; a relative one begins in the home folder of the machine's user. */
export function pathHere(host: Environment, path: string): string {
  checkLength(path);
  if (OWN_FOLDER.test(path)) return path.replace(OWN_FOLDER, homeFolder((name) => host.env(name)));
  if (path.startsWith("/")) return path;
  const home = host.env("HOME") ?? host.env("USERPROFILE");
  if (home === undefined) {
    throw new SvcError("failed_precondition", `cannot tell where "${path}" is: there is no home folder`);
  }
  const below = path === "~" ? "" : path.replace(/^~\//, "");
  return below === "" ? home : `${home}/${below}`;
}

/** The parts of a file's name below the destination. Throws if the name leads out of the destination. */
export function partsOfName(name: string): string[] {
  checkLength(name);
  const parts = name.split("/");
  if (parts.some((part) => part === "" || part === "." || part === "..")) {
    throw new SvcError("invalid_argument", `"${name}" is not the name of a file below the destination`);
  }
  checkDepth(parts.length, name);
  return parts;
}

export function checkDepth(depth: number, path: string): void {
  if (depth <= DEPTH_MAX) return;
  throw new SvcError("invalid_argument", `"${path}" is more than ${DEPTH_MAX} folders deep`);
}

function checkLength(path: string): void {
  if (path.length > LENGTH_MAX || path.includes("\0")) {
    const found = path.length > LENGTH_MAX ? `longer than ${LENGTH_MAX} characters` : "no path";
    throw new SvcError("invalid_argument", `"${path.slice(0, 80)}" is ${found}`);
  }
}

/** The last part of a path, and the part before it. */
export function splitPath(path: string): { readonly folder: string; readonly name: string } {
  const clean = withoutEnd(path, "/");
  const slash = clean.lastIndexOf("/");
  return { folder: clean.slice(0, slash) || "/", name: clean.slice(slash + 1) };
}
