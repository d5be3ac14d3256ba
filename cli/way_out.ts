/**
 * Opens a program's way to other hosts (`lib/base/way_out.ts`) with the usual places of its files.
 */

import { join } from "node:path";
import { homeFolder } from "../lib/base/files/home.ts";
import type { Output } from "../lib/base/host.ts";
import { authoritiesBeside, openWayOut, type WayOut, type WayOutHost } from "../lib/base/way_out.ts";

/** The folder of the credentials of a device. */
function deviceFolder(host: WayOutHost): string {
  return host.platform().os === "windows" ? `${host.env("ProgramData") ?? "C:\\ProgramData"}\\svc` : "/etc";
}

/** For a program that keeps its files in the home folder of the programs. */
export function openOwnWayOut(host: WayOutHost): Promise<WayOut> {
  return openWayOut(host, {
    authorities: authoritiesBeside(deviceFolder(host), host),
    bundle: join(homeFolder((name) => host.env(name)), "authorities.pem"),
  });
}

/** The same for a program at a terminal, which shows what is wrong with the files and goes on. */
export async function openWayOutAtTerminal(
  host: WayOutHost & Pick<Output, "writeError">,
  program: string,
): Promise<void> {
  const { problems } = await openOwnWayOut(host);
  for (const problem of problems) host.writeError(`${program}: ${problem}\n`);
}
