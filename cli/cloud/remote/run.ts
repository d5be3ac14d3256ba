/**
 * Runs a command at a control plane elsewhere.
 *
 * The room owns commands from afar on both sides of the program: profiles and logins, administrators, the order, its
 * output, and the process in which the control plane runs it.
 */

import type { Host } from "../../../lib/base/host.ts";
import { openWayOutAtTerminal } from "../../way_out.ts";
import { editFromAfar } from "./edit.ts";
import { type AnyValues, buildOrder, type RemoteCommand } from "./order.ts";
import { RemoteOutput } from "./output.ts";
import type { NamedProfile } from "./profiles.ts";
import { REMOTE_ROWS, type RemoteRow } from "./rows.ts";
import { sendOrder } from "./send.ts";

/** Returns the exit code of the command. */
export async function runFromAfar(
  command: RemoteCommand,
  words: readonly string[],
  values: AnyValues,
  { host, profile }: { readonly host: Host; readonly profile: NamedProfile },
): Promise<number> {
  const context = { host, ...profile };
  await openWayOutAtTerminal(host, "svc-cloud");
  const row = REMOTE_ROWS[command.words];
  if (row === "edit") return await editFromAfar(context, words, values);
  const order = await buildOrder(command, row as RemoteRow, words, values, host);
  return await sendOrder(context, order, new RemoteOutput(host, order.files, values.json === true));
}
