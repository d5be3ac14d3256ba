/**
 * The sources of configurations: the interface of a file and of a control plane.
 *
 * A source only fetches. Other parts decide what a configuration means, and whether and when it is used.
 */

import type { SvcError } from "../../base/error.ts";
import type { JsonObject, Problem } from "../../base/schema/schema.ts";
import type { LineColumn } from "../../base/schema/text_places.ts";

/** A configuration from its source, not decoded yet. */
export interface ConfigDraft {
  readonly json: JsonObject;
  /** Its name if it does not name its own revision. */
  readonly revision: string;
  /** Warnings about its form, such as duplicate keys. */
  readonly problems: readonly Problem[];
  /** Where a path of the document stands in its text, for a source that has one. */
  readonly where?: (path: string) => LineColumn | undefined;
}

export interface ConfigSource {
  /** The source's name in errors: a path or an address. */
  readonly name: string;
  /** The first configuration. Throws if there is none. */
  first(): Promise<ConfigDraft>;
  /**
   * Reports every later configuration, and every failure to read one, each once. The returned function stops it, and
   * resolves when no work of it is left.
   */
  follow(hear: (news: ConfigDraft | SvcError) => void): () => Promise<void>;
  /** The draft is usable: the source may store it for the next start. */
  keep(draft: ConfigDraft): Promise<void>;
  /** The stored copy of an earlier run, if the source stores any; call it after `first`. */
  kept(): Promise<ConfigDraft | undefined>;
}
