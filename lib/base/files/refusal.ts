/**
 * Why the system refuses a path: whose the file or folder is that stands in the way, and what its permissions are.
 *
 * "Permission denied" alone leaves a person to look for both, for every folder on the way to the path.
 */

import { dirname } from "node:path";

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
