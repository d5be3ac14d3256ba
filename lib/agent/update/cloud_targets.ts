/** The versions that the cloud chooses for the programs, and its problems with the choice. */

import type { DeviceAgentConfigResponse } from "../../../proto/gen/agent_pb.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { LogOnChange } from "../../base/log/on_change.ts";
import { shownUrlsIn } from "../../base/log/shown_url.ts";
import { releaseOf } from "./release.ts";
import type { Updates } from "./updater.ts";

/** The cloud's problems with the versions, for the status. */
const VERSION_PROBLEMS_MAX = 20;
const PROBLEM_CHARS = 1000;

export class CloudTargets {
  #problems: readonly string[] = [];
  readonly #logged = new LogOnChange();

  constructor(
    private readonly updaters: { readonly agent: Updates; readonly server: Updates },
    private readonly logger: Logger,
  ) {}

  /** The cloud's problems with the versions that the configuration chooses. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  /** Adopts an answer of the cloud. */
  adopt({ versionProblems, agentUpdateInfo, viamServerUpdateInfo }: DeviceAgentConfigResponse): void {
    this.#problems = versionProblems.slice(0, VERSION_PROBLEMS_MAX)
      .map((problem) => shownUrlsIn(problem.slice(0, PROBLEM_CHARS)));
    if (this.#logged.isNew(this.#problems.join("\n"), "versions")) {
      for (const problem of this.#problems) this.logger.warn(problem);
    }

    const targets = [
      ["svc-agent", agentUpdateInfo, this.updaters.agent],
      ["svc-server", viamServerUpdateInfo, this.updaters.server],
    ] as const;
    for (const [name, info, updater] of targets) {
      try {
        if (info) updater.setTarget(releaseOf(name, info));
      } catch (error) {
        const problem = `no update of ${name}: ${chainOf(error)}`;
        if (this.#logged.isNew(problem, problem)) this.logger.error(problem);
      }
    }
  }
}
