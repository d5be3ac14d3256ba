/** What the commands on maps get. */

import type { Host } from "../../../lib/base/host.ts";
import type { CommandContext } from "../../command.ts";

/** The outside of the program. */
export interface SlamContext extends CommandContext {
  readonly host: Host;
}
