/** What the commands of the first steps get. */

import type { Host } from "../../../lib/base/host.ts";
import type { Registry } from "../../../lib/resource/registry.ts";
import type { CommandContext } from "../../command.ts";

/** The outside of the program. */
export interface FirstContext extends CommandContext {
  readonly host: Host;
  readonly registry: Registry;
  /** Asks a question and returns the answer without its newline; `undefined` at the end of the input. */
  readonly ask: (question: string) => string | undefined;
}
