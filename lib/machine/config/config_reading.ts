/**
 * Reads configurations: decodes a draft and logs what is doubtful in it. A draft that cannot be used is an error with
 * every problem.
 *
 * Each draft is decoded once, the first one included: where the file is the whole configuration, `originOf` has decoded
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
import type { ConfigSource, Draft } from "./config_source.ts";

/** A draft and what it decodes to, whether that can be used or not. */
export interface DecodedDraft {
  readonly draft: Draft;
  readonly decoded: DecodedConfig;
}

/** A configuration that can be used. */
export interface Candidate {
  readonly draft: Draft;
  readonly config: MachineConfig;
  /** Of the first one: why the source's own cannot be used, so that this one is what the source kept. */
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

export function decodeDraft(
  draft: Draft,
  registry: Registry,
  env: ConfigSurroundings["env"],
): DecodedDraft {
  const json = { ...draft.json, revision: draft.json.revision || draft.revision };
  return { draft, decoded: decodeConfig(json, registry, { env }) };
}

export class ConfigReading {
  readonly source: ConfigSource;
  readonly #parts: ReadingParts;
  /** The lines of the last configuration that were logged. */
  #told = new Set<string>();

  constructor(parts: ReadingParts) {
    this.source = parts.source;
    this.#parts = parts;
  }

  /** The configuration to begin with: the source's, or what it kept. Throws, with every problem, where neither can be used. */
  async first(): Promise<Candidate> {
    const { source, read, logger } = this.#parts;
    try {
      return read ? this.#usable(read) : this.candidate(await source.first());
    } catch (thrown) {
      const kept = await source.kept();
      if (!kept) throw thrown;
      const candidate = this.candidate(kept);
      const instead = chainOf(thrown);
      logger.warn(`starting with the last good configuration: ${instead}`);
      return { ...candidate, instead };
    }
  }

  /** Throws `invalid_argument` with every problem of a draft that cannot be used; tells what is doubtful, once. */
  candidate(draft: Draft): Candidate {
    const { registry, env } = this.#parts;
    return this.#usable(decodeDraft(draft, registry, env));
  }

  #usable({ draft, decoded: { config, problems: found, fatal } }: DecodedDraft): Candidate {
    const { source: { name }, logger } = this.#parts;
    const problems = [...draft.problems, ...found];
    if (fatal) {
      const text = formatProblems(problems, name).replaceAll("\n", "\n  ");
      throw new SvcError("invalid_argument", `the configuration cannot be used:\n  ${text}`);
    }
    // What keeps a resource from being built is told once, as its reason to be unhealthy.
    const doubtful = problems.filter((problem) => !isReason(problem, config));
    const lines = doubtful.map((problem) => formatProblems([problem], name));
    for (const line of lines) if (!this.#told.has(line)) logger.warn(line);
    this.#told = new Set(lines);
    return { draft, config };
  }
}

/** Whether the machine tells the problem itself, with the resource that is not built because of it. */
function isReason({ severity, path, message }: Problem, { resources }: MachineConfig): boolean {
  return severity === "error" &&
    resources.some(({ path: own, problems, modelProblem }) =>
      problems.some((one) => one.path === path && one.message === message) ||
      (modelProblem === message && path === `${own}.model`)
    );
}
