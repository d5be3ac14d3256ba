/**
 * Reads configurations: decodes a draft and logs its warnings. An unusable draft is an error with every problem.
 *
 * Each draft is decoded once, the first one included: if the file is the whole configuration, `originOf` has decoded
 * it already.
 */

import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Problem } from "../../base/schema/schema.ts";
import type { Registry } from "../../resource/registry.ts";
import {
  type ConfigSurroundings,
  decodeConfig,
  type DecodedConfig,
  formatProblems,
  type MachineConfig,
} from "./config.ts";
import type { ConfigDraft, ConfigSource } from "./source.ts";

/** A draft and its decoded form, usable or not. */
export interface DecodedDraft {
  readonly draft: ConfigDraft;
  readonly decoded: DecodedConfig;
}

/** A usable configuration. */
export interface UsableConfig {
  readonly draft: ConfigDraft;
  readonly config: MachineConfig;
  /** For the first one: why the source's own is unusable, so that this one is the source's stored copy. */
  readonly instead?: string;
}

export interface ReadingParts {
  readonly source: ConfigSource;
  /** The source's first configuration, if it has been read already. */
  readonly read?: DecodedDraft;
  readonly registry: Registry;
  readonly env: ConfigSurroundings["env"];
  readonly logger: Logger;
}

export async function decodeDraft(
  draft: ConfigDraft,
  registry: Registry,
  env: ConfigSurroundings["env"],
): Promise<DecodedDraft> {
  const json = { ...draft.json, revision: draft.json.revision || draft.revision };
  return { draft, decoded: await decodeConfig(json, registry, { env }) };
}

export class ConfigReading {
  readonly source: ConfigSource;
  readonly #parts: ReadingParts;
  /** The lines logged for the last configuration. */
  #loggedLines = new Set<string>();

  constructor(parts: ReadingParts) {
    this.source = parts.source;
    this.#parts = parts;
  }

  /** The first configuration: the source's, or its stored copy. Throws, with every problem, if neither is usable. */
  async first(): Promise<UsableConfig> {
    const { source, read, logger } = this.#parts;
    try {
      return read ? this.#usable(read) : await this.candidate(await source.first());
    } catch (thrown) {
      const kept = await source.kept();
      if (!kept) throw thrown;
      const candidate = await this.candidate(kept);
      const instead = chainOf(thrown);
      logger.warn(`starting with the last good configuration: ${instead}`);
      return { ...candidate, instead };
    }
  }

  /** Rejects with `invalid_argument` and every problem of an unusable draft; logs each warning once. */
  async candidate(draft: ConfigDraft): Promise<UsableConfig> {
    const { registry, env } = this.#parts;
    return this.#usable(await decodeDraft(draft, registry, env));
  }

  #usable({ draft, decoded: { config, problems: found, fatal } }: DecodedDraft): UsableConfig {
    const { source: { name }, logger } = this.#parts;
    const problems = [...draft.problems, ...found];
    if (fatal) {
      const text = formatProblems(problems, name, draft.where).replaceAll("\n", "\n  ");
      throw new SvcError("invalid_argument", `the configuration cannot be used:\n  ${text}`);
    }

    // The log reports a resource that cannot be built once, as its reason to be unhealthy.
    const doubtful = problems.filter((problem) => !isReason(problem, config));
    // A line that moved in the file says nothing new.
    const keyed = doubtful.map((problem) => ({ problem, key: formatProblems([problem], name) }));
    for (const { problem, key } of keyed) {
      if (!this.#loggedLines.has(key)) logger.warn(formatProblems([problem], name, draft.where));
    }
    this.#loggedLines = new Set(keyed.map(({ key }) => key));

    return { draft, config };
  }
}

/** Whether the machine itself reports the problem, with the resource that it does not build. */
function isReason({ severity, path, message }: Problem, { resources }: MachineConfig): boolean {
  return severity === "error" &&
    resources.some(({ path: own, problems, modelProblem }) =>
      problems.some((one) => one.path === path && one.message === message) ||
      (modelProblem === message && path === `${own}.model`)
    );
}
