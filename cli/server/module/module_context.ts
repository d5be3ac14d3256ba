/** What the commands for authors of modules get. */

import type { Host } from "../../../lib/base/host.ts";
import type { CommandContext } from "../../command.ts";

/** The outside of the program. */
export interface ModuleContext extends CommandContext {
  readonly host: Host;
  /** Asks a question and returns the answer; `undefined` at the end of the input. */
  readonly ask: (question: string) => string | undefined;
}
