/**
 * The settings in force: decided from the defaults file, the cloud's last answer and the last good settings.
 *
 * Owns the file of the last good settings, by which the next start finds what the cloud wants.
 */

import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { LogOnChange } from "../../base/log/on_change.ts";
import type { JsonObject, Problem } from "../../base/schema/schema.ts";
import {
  type AgentSettings,
  decideSettings,
  type LastGood,
  readDefaults,
  readLastGood,
  writeLastGood,
} from "./settings.ts";

export interface CurrentSettingsParts {
  readonly host: ReadFiles & WriteFiles;
  /** The agent's folder. */
  readonly base: string;
  readonly defaultsPath: string;
  readonly logger: Logger;
}

const UNKEPT = "cannot keep the settings";

export class CurrentSettings {
  #settings: AgentSettings = decideSettings({}).settings;
  #problems: readonly Problem[] = [];
  #lastGood: LastGood | undefined;
  /** Whether the next start will find them. */
  #isKept = true;
  readonly #logged = new LogOnChange();

  constructor(private readonly parts: CurrentSettingsParts) {}

  get now(): AgentSettings {
    return this.#settings;
  }

  get problems(): readonly Problem[] {
    return this.#problems;
  }

  /** Decides by what the last start left. */
  async open(): Promise<void> {
    this.#lastGood = await readLastGood(this.parts.host, this.parts.base);
    await this.decide(undefined);
  }

  /** Decides anew; `cloud` is the cloud's answer, if there is one. Returns whether the good settings have changed. */
  async decide(cloud: JsonObject | undefined): Promise<boolean> {
    const { host, defaultsPath, logger } = this.parts;
    const read = await readDefaults(host, defaultsPath);
    const { settings, problems, lastGood } = decideSettings({
      defaults: read.defaults,
      cloud,
      lastGood: this.#lastGood,
    });
    const before = this.#problems.map(lineOf);
    this.#problems = [...read.problems, ...problems];
    const now = this.#problems.map(lineOf);
    for (const problem of before) if (!now.includes(problem)) this.#logged.clear(problem);
    for (const [at, { severity }] of this.#problems.entries()) {
      const problem = now[at]!;
      if (this.#logged.isNew(problem, problem)) logger[severity === "error" ? "error" : "warn"](problem);
    }

    const isChanged = JSON.stringify(lastGood) !== JSON.stringify(this.#lastGood);
    this.#lastGood = lastGood;
    if (isChanged) this.#isKept = false;
    if (!this.#isKept) await this.#keep(lastGood);
    this.#settings = settings;
    return isChanged;
  }

  async #keep(lastGood: LastGood): Promise<void> {
    const { host, base, logger } = this.parts;
    try {
      await writeLastGood(host, base, lastGood);
      this.#isKept = true;
      this.#logged.clear(UNKEPT);
    } catch (error) {
      if (this.#logged.isNew(UNKEPT, UNKEPT)) logger.error(`${UNKEPT}: ${chainOf(error)}`);
    }
  }
}

function lineOf({ path, message }: Problem): string {
  return `${path}: ${message}`;
}
