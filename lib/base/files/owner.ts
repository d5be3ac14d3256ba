/**
 * New files and folders of root take the owner of the folder that they are in, unless they replace a file of root.
 *
 * Otherwise `sudo` before a command leaves files that the program's own user can neither read nor replace, in a data
 * folder or at home. The owner of a folder may turn names in it into links to folders of root meanwhile. So an owner is
 * given to what is open, never to a name, and only if the system says that it lies in a folder of that owner. A process
 * without all rights of the runtime cannot ask that, and gives nothing away.
 */

import { dirname } from "node:path";
import { nodeFs } from "../native/environment.ts";

const ROOT = 0;

interface Owner {
  readonly uid: number;
  readonly gid: number;
}

type Made = Pick<Deno.FileInfo, "dev" | "ino">;

/** Whether this process is the one whose files could be in the way of others. */
export function isRoot(): boolean {
  if (Deno.build.os === "windows") return false;
  try {
    return Deno.uid() === ROOT;
  } catch {
    return false; // A process that gave up the right to ask opens no files for others.
  }
}

/** The owner of a file at `path`, or else of its folder; `undefined` if that is root. */
export function heirOf(path: string): Owner | undefined {
  const found = factsOf(path) ?? factsOf(dirname(path), Deno.statSync);
  if (!found?.uid || found.gid === null) return undefined;
  return { uid: found.uid, gid: found.gid };
}

/** Gives a new file, which this process holds open as `made`, to `heir`. */
export function giveFile(path: string, made: Made, heir: Owner): void {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = nodeFs().constants;
  give(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, heir, made);
}

/** The folders that are missing on the way to `path`, outermost first. */
export function missingFolders(path: string): string[] {
  const missing: string[] = [];
  for (let one = path; factsOf(one) === undefined && one !== dirname(one); one = dirname(one)) {
    missing.unshift(one);
  }
  return missing;
}

/** Gives folders that this process has made, outermost first, to the owner of the folder that they are in. */
export function giveFolders(made: readonly string[]): void {
  const [outermost] = made;
  const heir = outermost === undefined ? undefined : heirOf(dirname(outermost));
  if (!heir) return;
  const { O_RDONLY, O_NOFOLLOW, O_DIRECTORY } = nodeFs().constants;
  for (const path of made) give(path, O_RDONLY | O_NOFOLLOW | O_DIRECTORY, heir);
}

function give(path: string, flags: number, { uid, gid }: Owner, made?: Made): void {
  let descriptor: number;
  try {
    descriptor = nodeFs().openSync(path, flags);
  } catch {
    return; // Somebody has moved it, so it is not ours to give.
  }
  try {
    const found = nodeFs().fstatSync(descriptor);
    const isSame = !made || found.dev === made.dev && found.ino === made.ino;
    const hasOneName = found.isDirectory() || found.nlink === 1;
    if (found.uid !== ROOT || !isSame || !hasOneName) return;
    if (factsOf(dirname(placeOf(descriptor)))?.uid === uid) nodeFs().fchownSync(descriptor, uid, gid);
  } finally {
    nodeFs().closeSync(descriptor);
  }
}

/** Where an open file is now, whatever its path leads to; the root folder if the system does not say. */
function placeOf(descriptor: number): string {
  try {
    return nodeFs().readlinkSync(`/proc/self/fd/${descriptor}`);
  } catch {
    return "/";
  }
}

function factsOf(path: string, look = Deno.lstatSync): Deno.FileInfo | undefined {
  try {
    return look(path);
  } catch {
    return undefined;
  }
}
