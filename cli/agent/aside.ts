/**
 * Moves this program's own file out of a folder before the folder is removed: Windows does not remove a running
 * program.
 */

import { basename, join } from "node:path";
import type { WriteFiles } from "../../lib/base/files/files.ts";
import { wide } from "./win32.ts";

const FUNCTIONS = {
  MoveFileExW: { parameters: ["buffer", "pointer", "u32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const DELAY_UNTIL_REBOOT = 0x4;

/**
 * Moves this program out of `folder` to the folder for temporary files, where Windows removes it at its next start.
 * Does nothing if the program is elsewhere. Only on Windows.
 */
export async function stepAside(files: WriteFiles, folder: string): Promise<void> {
  const own = Deno.execPath();
  if (!own.toLowerCase().startsWith(`${folder.toLowerCase()}\\`)) return;
  const place = await files.temporaryFolder("svc-uninstalled-");
  const aside = join(place, basename(own));
  await files.moveDurably(own, aside);
  const kernel = Deno.dlopen("kernel32.dll", FUNCTIONS);
  for (const path of [aside, place]) kernel.symbols.MoveFileExW(wide(path), null, DELAY_UNTIL_REBOOT);
  kernel.close();
}
