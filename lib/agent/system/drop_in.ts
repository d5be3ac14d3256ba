/** Settings files for other programs: the agent writes a file if it differs, and removes it if it is not wanted. */

import { basename, dirname } from "node:path";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";

/**
 * Gives a file the content `text`, or removes it; returns whether it changed. A power loss leaves the old file or the
 * new one.
 */
export async function writeIfOther(
  files: ReadFiles & WriteFiles,
  path: string,
  text: string | undefined,
): Promise<boolean> {
  if (await readTextIfAny(files, path) === text) return false;
  if (text === undefined) await files.removeDurably(path);
  else {
    await files.makeFolder(dirname(path));
    await writeForAll(files, path, text);
  }
  return true;
}

/**
 * Notes of files that their service has yet to read. A reboot takes them away, and the service reads its files then. Not
 * in the service's own folder, which systemd before 235 removes at each stop.
 */
const UNREAD_FOLDER = "/run/svc-agent-unread";

/**
 * The file of a service that reads it only when it starts or is asked to. A changed file counts as unread until
 * `noteRead`, also if the agent dies in between.
 */
export class ServiceFile {
  readonly #path: string;
  readonly #note: string;

  /** `root` is a prefix of all paths, for tests. */
  constructor(private readonly files: ReadFiles & WriteFiles, path: string, root = "") {
    this.#path = `${root}${path}`;
    this.#note = `${root}${UNREAD_FOLDER}/${basename(path)}`;
  }

  /** Gives the file the content `text`, or removes it; returns whether its service has yet to read it. */
  async write(text: string | undefined): Promise<boolean> {
    const { files } = this;
    if (!await files.findFile(this.#note)) {
      if (await readTextIfAny(files, this.#path) === text) return false;
      // The note comes first: after the file, an agent that dies between the two would leave no trace.
      await files.makeFolder(dirname(this.#note));
      await files.writeFile(this.#note, "");
    }
    await writeIfOther(files, this.#path, text);
    return true;
  }

  /** The service works with the file as it is now. */
  noteRead(): Promise<void> {
    return this.files.removeDurably(this.#note);
  }
}

/** Modes of files that other programs and their users read. */
const FOR_ALL = 0o644;

/** Writes a file that everybody may read, whatever the umask of the shell from which this program was started. */
export async function writeForAll(files: WriteFiles, path: string, text: string): Promise<void> {
  await files.writeFile(path, text);
  await files.setMode(path, FOR_ALL);
}

async function readTextIfAny(files: ReadFiles, path: string): Promise<string | undefined> {
  return await files.findFile(path) && await files.readTextFile(path);
}
