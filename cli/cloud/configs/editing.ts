/** Texts that a person changes in an editor before they are saved. */

import { join } from "node:path";
import { chainOf, SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import type { JsonObject } from "../../../lib/base/schema/schema.ts";

/** A configuration as people read and write it. */
export function editableText(config: JsonObject): string {
  return `${JSON.stringify(config, null, 2)}\n`;
}

/**
 * Opens a text in the editor, and saves what comes back with `save`; false if it comes back unchanged. If the editor or
 * `save` fails, a changed text stays, and the error says where. An unchanged one, which may hold passwords, never stays.
 */
export async function editText(
  host: Host,
  name: string,
  before: string,
  save: (file: string) => Promise<void>,
): Promise<boolean> {
  const editor = host.env("VISUAL") || host.env("EDITOR") || (Deno.build.os === "windows" ? "notepad" : "vi");
  const folder = await host.temporaryFolder("svc-config-");
  const file = join(folder, name.replaceAll("/", "_"));
  const isChanged = () => host.readTextFile(file).then((text) => text !== before, () => false);
  try {
    await host.writeFile(file, before, { mode: 0o600 });
    // From here on the terminal is the editor's: no line that a command still works.
    host.writeError("");
    if (!await succeeds(editor, file)) throw new SvcError("aborted", `${editor} failed: nothing is saved`);
    if (!await isChanged()) {
      await host.removeTree(folder);
      return false;
    }
    await save(file);
  } catch (error) {
    if (await isChanged()) {
      throw new SvcError(SvcError.from(error).code, `${chainOf(error)}; your text is ${file}`);
    }
    await host.removeTree(folder);
    throw error;
  }
  await host.removeTree(folder);
  return true;
}

/** Lets the person edit a file; whether the editor ended well. Throws `not_found` if there is no such editor. */
async function succeeds(editor: string, file: string): Promise<boolean> {
  const [command, ...args] = [...editor.split(/\s+/), file];
  const onTerminal = { stdin: "inherit", stdout: "inherit", stderr: "inherit" } as const;
  try {
    return (await new Deno.Command(command, { args, ...onTerminal }).spawn().status).success;
  } catch (cause) {
    const remedy = "name one that is installed in EDITOR, or save a file with config set";
    throw new SvcError("not_found", `cannot start the editor ${command}; ${remedy}`, { cause });
  }
}
