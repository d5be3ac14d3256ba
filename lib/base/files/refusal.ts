/**
 * The system's errors as `FileError`s, and why it refuses a path: whose the file or folder is that stands in the way,
 * and what its permissions are.
 *
 * "Permission denied" alone leaves a person to look for both, for every folder on the way to the path.
 */

import { dirname } from "node:path";
import type { Clock } from "../clock.ts";
import { type Code, messageOf, SvcError } from "../error.ts";
import { FileError } from "./files.ts";
import { whyMissing } from "./names.ts";

/** The codes of the system's errors, with a reason where ours helps more than the system's words. */
const KNOWN: { readonly [errno: string]: readonly [Code, (string | ((path: string) => string))?] } = {
  ENOENT: ["not_found", whyMissing],
  EACCES: ["permission_denied", whyRefused],
  EPERM: ["permission_denied", whyRefused],
  EROFS: [
    "permission_denied",
    "its disk is read-only: mount it writable (mount -o remount,rw), or use another folder",
  ],
  ENOSPC: [
    "resource_exhausted",
    "the disk is full: make room on it (df -h and df -i show what is used), or use another folder",
  ],
  EDQUOT: [
    "resource_exhausted",
    "the disk is full for this user: make room, or have the quota raised (quota shows it)",
  ],
  EEXIST: ["already_exists", "it already exists"],
  EISDIR: ["unknown", "it is a folder"],
};

/** Runs an operation on the file at `path`. `verb` names it in the error: `cannot read "/etc/svc.json": …`. */
export async function attempt<T>(verb: string, path: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw failure(verb, path, error);
  }
}

/** The same for a synchronous operation. */
export function attemptNow<T>(verb: string, path: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw failure(verb, path, error);
  }
}

/** Pauses before further attempts, about 2.5 s in all. */
const HELD_PAUSES_MS = [10, 20, 40, 80, 160, 320, 640, 1_280];
/** Windows' numbers for refused access, sharing violations and locks, and a folder with files that are about to go. */
const HELD = /\(os error (?:5|32|33|145)\)/;

/**
 * Runs an operation on a name again while Windows refuses it. Whoever has a file open there keeps others from renaming
 * and removing it, and scanners for viruses and the search index open each new file for a moment. It says the same of
 * a file that a program keeps open, and of one that belongs to another user.
 */
export async function whileHeld<T>(run: () => Promise<T>, clock: Pick<Clock, "sleep">): Promise<T> {
  for (const pauseMs of HELD_PAUSES_MS) {
    try {
      return await run();
    } catch (error) {
      if (!isHeld(error)) throw error;
      await clock.sleep(pauseMs);
    }
  }
  return await run();
}

function isHeld(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.Busy ||
    HELD.test(messageOf(error));
}

function failure(verb: string, path: string, error: unknown): FileError {
  if (error instanceof FileError) return error;
  const unknown = error instanceof SvcError ? error.code : "unknown";
  const [code, why = messageOf(error)] = KNOWN[errnoOf(error)] ?? [unknown];
  const reason = typeof why === "string" ? why : why(path);
  // A known reason says more than the system's words. The cause of a full disk tells it from a caller's limit.
  const cause = reason === messageOf(error) || code === "resource_exhausted" ? error : undefined;
  return new FileError(code, `cannot ${verb} "${path}": ${reason}`, path, { cause });
}

function errnoOf(error: unknown): string {
  if (error instanceof Deno.errors.NotFound) return "ENOENT";
  if (error instanceof Deno.errors.IsADirectory) return "EISDIR";
  if (error instanceof Deno.errors.PermissionDenied) return "EACCES";
  return (error as { code?: string }).code ?? "";
}

/** What stands in the way. */
interface Obstacle {
  readonly place: string;
  readonly uid: number;
  readonly mode: number;
  /** Of a device, the rights are the system's own affair. */
  readonly isDevice: boolean;
}

/**
 * As in `permission denied: /srv/data belongs to uid 1000 with the permissions 700, and this program runs as …`; `own`
 * is the user's number.
 */
export function whyRefused(path: string, own = ownId()): string {
  const found = nearest(path);
  if (own === undefined || !found) return "permission denied";
  const permissions = (found.mode & 0o7777).toString(8).padStart(3, "0");
  if (found.uid === own) {
    const why = `permission denied: ${found.place} has the permissions ${permissions}`;
    return found.isDevice ? why : `${why}; chmod changes them, unless a rule of the system is in the way`;
  }
  const [owner, user] = accountNames([found.uid, own]);
  const why =
    `permission denied: ${found.place} belongs to ${owner} with the permissions ${permissions}, and this ` +
    `program runs as ${user}`;
  return found.isDevice
    ? why
    : `${why}: run it as ${owner} (sudo -u), or give the files to ${user} (chown -R)`;
}

/** The path itself, or the last folder on the way to it about which the system tells anything. */
function nearest(path: string): Obstacle | undefined {
  for (let place = path;; place = dirname(place)) {
    try {
      const { uid, mode, isFile, isDirectory } = Deno.statSync(place);
      return uid === null || mode === null
        ? undefined
        : { place, uid, mode, isDevice: !isFile && !isDirectory };
    } catch {
      if (dirname(place) === place) return undefined;
    }
  }
}

/** `undefined` on a system without users, and for a process that gave up the right to ask. */
function ownId(): number | undefined {
  try {
    return Deno.uid() ?? undefined;
  } catch {
    return undefined;
  }
}

/** The names of users, as far as the system tells them. Not every user of a container has one. */
function accountNames(uids: readonly number[]): string[] {
  let lines: string[][] = [];
  try {
    lines = Deno.readTextFileSync("/etc/passwd").split("\n").map((line) => line.split(":"));
  } catch {
    // The numbers do.
  }
  return uids.map((uid) => lines.find((fields) => fields[2] === String(uid))?.[0] ?? `uid ${uid}`);
}
