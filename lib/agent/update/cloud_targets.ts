/** The versions that the cloud chooses for the programs, and its problems with the choice and with the device. */

import type { DeviceAgentConfigResponse } from "../../../proto/gen/agent_pb.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { LogOnChange } from "../../base/log/on_change.ts";
import { shownUrlsIn } from "../../base/log/shown_url.ts";
import { releaseOf } from "./release.ts";
import type { Updates } from "./updater.ts";

/** Limits of the problems that the cloud sends. */
const PROBLEMS_MAX = 20;
const PROBLEM_CHARS = 1000;

export class CloudTargets {
  #problems: readonly string[] = [];
  #deviceProblems: readonly string[] = [];
  readonly #logged = new LogOnChange();

  constructor(
    private readonly updaters: {
      readonly agent: Pick<Updates, "setTarget">;
      readonly server: Pick<Updates, "setTarget">;
    },
    private readonly logger: Logger,
  ) {}

  /** The cloud's problems with the versions that the configuration chooses. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  /** What the cloud finds wrong with the device as a whole. */
  get deviceProblems(): readonly string[] {
    return this.#deviceProblems;
  }

  /** Adopts an answer of the cloud. */
  adopt(answer: DeviceAgentConfigResponse): void {
    const { agentUpdateInfo, viamServerUpdateInfo } = answer;
    this.#problems = this.#heard(answer.versionProblems, "versions");
    this.#deviceProblems = this.#heard(answer.deviceProblems, "device");

    const targets = [
      ["svc-agent", agentUpdateInfo, this.updaters.agent],
      ["svc-server", viamServerUpdateInfo, this.updaters.server],
    ] as const;
    for (const [name, info, updater] of targets) {
      try {
        if (info) updater.setTarget(releaseOf(name, info));
        this.#logged.clear(name);
      } catch (error) {
        const problem = `no update of ${name}: ${chainOf(error)}`;
        if (this.#logged.isNew(problem, name)) this.logger.error(problem);
      }
    }
  }

  /** The problems as they are shown; logs them when they change. */
  #heard(problems: readonly string[], about: string): readonly string[] {
    const shown = problems.slice(0, PROBLEMS_MAX).map((one) => shownUrlsIn(one.slice(0, PROBLEM_CHARS)));
    if (this.#logged.isNew(shown.join("\n"), about)) {
      for (const problem of shown) {
        this.logger.warn(problem);
      }
    }
    return shown;
  }
}
