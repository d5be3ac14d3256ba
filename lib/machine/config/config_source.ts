/**
 * Where configurations come from: the face of a file and of a control plane.
 *
 * A source only fetches. What a configuration means, whether it can be used and when, is decided behind it.
 */

import type { SvcError } from "../../base/error.ts";
import type { JsonObject, Problem } from "../../base/schema/schema.ts";

/** A configuration as its source has it, not decoded yet. */
export interface Draft {
  readonly json: JsonObject;
  /** What to call it where it does not name its own revision. */
  readonly revision: string;
  /** What is only doubtful about its form, such as keys written twice. */
  readonly problems: readonly Problem[];
}

export interface ConfigSource {
  /** What it is called in errors: a path or an address. */
  readonly name: string;
  /** The configuration to begin with. Throws where there is none. */
  first(): Promise<Draft>;
  /**
   * Tells of every later configuration, and of what keeps one from being read, each once. The returned function
   * ends that, and resolves when nothing of it is under way.
   */
  follow(hear: (news: Draft | SvcError) => void): () => Promise<void>;
  /** The draft can be used: it is what the next start may begin with if there is no better one. */
  keep(draft: Draft): Promise<void>;
  /** What an earlier run has kept last, where the source keeps anything; to be asked for after `first`. */
  kept(): Promise<Draft | undefined>;
}
