/**
 * The capture control sensor, a published setting: a sensor of the machine says what is captured.
 *
 * It is read ten times a second. Under the key of the setting it lists methods of resources that are captured at another
 * frequency or with other tags than in the configuration, and under `sequences` the recordings that are under way: spans
 * of time that belong together. While it gives no usable answer, the configuration alone counts.
 */

import { FREQUENCY_MAX_HZ } from "../../lib/api/services/data_manager.ts";
import { SensorApi } from "../../lib/api/sensors/sensor.ts";
import { type Clock, deadline, race } from "../../lib/base/clock.ts";
import { messageOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import {
  type ConfigField,
  DecodeContext,
  type JsonObject,
  list,
  number,
  object,
  text,
} from "../../lib/base/schema/schema.ts";
import type { Dependencies } from "../../lib/resource/registry.ts";
import type { SequencedResource } from "../../lib/resource/uploader.ts";

/** Another way to capture a method than in the configuration. */
export interface CaptureOverride {
  readonly resourceName: string;
  readonly method: string;
  /** 0 captures nothing; absent, that of the configuration. */
  readonly frequencyHz?: number;
  /** All tags of the data; absent, those of the configuration. */
  readonly tags?: readonly string[];
}

/** A recording that has ended. */
export interface EndedRecording {
  readonly startMs: number;
  readonly endMs: number;
  readonly resources: readonly SequencedResource[];
  readonly tags: readonly string[];
}

export interface CaptureControlParts {
  /** The sensor, and where its readings have the overrides. */
  readonly from: { readonly name: string; readonly key: string };
  readonly dependencies: Pick<Dependencies, "lookUp">;
  /** The overrides are other ones. */
  readonly changed: () => void;
  readonly ended: (recording: EndedRecording) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

type Recording = Omit<EndedRecording, "endMs">;

const EVERY_MS = 100;
const SENSOR_MS = 5_000;
const ENTRIES_MAX = 1_000;
/** The published name of the readings that list recordings. */
const SEQUENCES = "sequences";

const method = {
  resourceName: text("short name of a resource").required(),
  method: text("method to capture").required(),
};
const overridesField = atMost(list(
  object({
    ...method,
    captureFrequencyHz: number("how often", { max: FREQUENCY_MAX_HZ }),
    tags: list(text(), "tags of the captured data"),
  }).required(),
));
const sequencesField = atMost(list(
  object({
    resources: list(object(method).required(), "captured methods").default([]),
    sequenceTags: list(text(), "tags of the sequence").default([]),
  }).required(),
));

export class CaptureControl {
  readonly #closing = new AbortController();
  readonly #working: Promise<void>;
  #overrides: readonly CaptureOverride[] = [];
  /** By content: one that stays in the list goes on. */
  readonly #recordings = new Map<string, Recording>();
  #problem: string | undefined;

  constructor(private readonly parts: CaptureControlParts) {
    this.#working = this.#work();
  }

  get overrides(): readonly CaptureOverride[] {
    return this.#overrides;
  }

  /** Ends the recordings that are under way. */
  async close(): Promise<void> {
    this.#closing.abort(new SvcError("canceled", "the data manager closes"));
    await this.#working;
    await this.#record([]);
  }

  async #work(): Promise<void> {
    const { clock } = this.parts;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await this.#look(signal);
      await clock.sleep(EVERY_MS, signal).catch(() => {});
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { name, key } = this.parts.from;
    let [overrides, recordings]: [readonly CaptureOverride[], readonly Recording[]] = [[], []];
    let problem: string | undefined;
    try {
      const readings = await this.#readings(signal);
      if (readings[key] === undefined && readings[SEQUENCES] === undefined) {
        const there = Object.keys(readings).join(", ") || "nothing";
        throw new SvcError("invalid_argument", `found ${there}, wanted "${key}" or "${SEQUENCES}"`);
      }
      overrides = decoded(overridesField, key, readings).map(({ captureFrequencyHz: hz, ...one }) => {
        return { ...one, frequencyHz: hz === undefined ? undefined : Math.max(0, hz) };
      });
      recordings = decoded(sequencesField, SEQUENCES, readings).map(({ resources, sequenceTags: tags }) => {
        const methods = resources.map(({ resourceName, method: methodName }) => ({
          resourceName,
          methodName,
        }));
        return { startMs: this.parts.clock.nowMs(), resources: methods, tags };
      });
    } catch (error) {
      if (signal.aborted) return;
      problem = `capture control sensor "${name}": ${messageOf(error)}`;
    }
    this.#tell(problem);
    await this.#record(recordings);
    if (JSON.stringify(overrides) === JSON.stringify(this.#overrides)) return;
    this.#logChanges(this.#overrides, overrides);
    this.#overrides = overrides;
    this.parts.changed();
  }

  async #readings(closing: AbortSignal): Promise<JsonObject> {
    const { dependencies, clock, from } = this.parts;
    const late = () => new SvcError("deadline_exceeded", `no answer within ${SENSOR_MS} ms`);
    const { signal, done } = deadline(clock, SENSOR_MS, late, closing);
    try {
      return await race(dependencies.lookUp(SensorApi, from.name).getReadings({ signal }), signal);
    } finally {
      done();
    }
  }

  /** Begins the recordings that are new, and ends those that are no longer there. */
  async #record(present: readonly Recording[]): Promise<void> {
    const { clock, ended, logger } = this.parts;
    const keyed = new Map(present.map((one) => [JSON.stringify([one.resources, one.tags]), one]));
    for (const [key, recording] of this.#recordings) {
      if (keyed.has(key)) continue;
      this.#recordings.delete(key);
      logger.info("sequence ended", { tags: recording.tags.join(", ") });
      const endMs = Math.max(recording.startMs + 1, clock.nowMs());
      await ended({ ...recording, endMs }).catch((error) => {
        logger.error(`cannot keep a sequence: ${messageOf(error)}`);
      });
    }
    for (const [key, recording] of keyed) {
      if (this.#recordings.has(key) || recording.resources.length === 0) continue;
      this.#recordings.set(key, recording);
      logger.info("sequence started", { tags: recording.tags.join(", ") });
    }
  }

  /** As published, for those who look for these words in the log. */
  #logChanges(before: readonly CaptureOverride[], now: readonly CaptureOverride[]): void {
    const { logger } = this.parts;
    const nameOf = (one: CaptureOverride) => `${one.resourceName}/${one.method}`;
    const known = new Map(before.map((one) => [nameOf(one), JSON.stringify(one)]));
    for (const one of now) {
      const name = nameOf(one);
      if (known.get(name) !== JSON.stringify(one)) {
        const { frequencyHz: hz, tags } = one;
        const facts = { capture_frequency_hz: hz, tags: tags?.join(", ") };
        if (hz === 0) logger.info(`capture control sensor disabling capture for ${name}`);
        else logger.info(`capture control sensor enabling capture for ${name}`, facts);
      }
      known.delete(name);
    }
    for (const name of known.keys()) {
      logger.info(`capture control sensor leaves ${name} to the configuration`);
    }
  }

  /** Logs a problem once. */
  #tell(problem: string | undefined): void {
    if (problem === this.#problem) return;
    const { logger } = this.parts;
    if (problem === undefined) logger.info("the capture control sensor answers again");
    else logger.warn(`${problem}; only the configuration says what is captured`);
    this.#problem = problem;
  }
}

function atMost<T>(field: ConfigField<readonly T[] | undefined>): ConfigField<readonly T[] | undefined> {
  return field.with((all, at: DecodeContext) => {
    return all && all.length > ENTRIES_MAX ? at.wanted(`at most ${ENTRIES_MAX} entries`, all.length) : all;
  });
}

/** The entries under a key of readings; none if the key is missing. Throws `invalid_argument`. */
function decoded<T>(
  field: ConfigField<readonly T[] | undefined>,
  key: string,
  readings: JsonObject,
): readonly T[] {
  const at = new DecodeContext();
  const found = field.decode(readings[key], at);
  const [problem] = at.problems.filter(({ severity }) => severity === "error");
  if (problem) throw new SvcError("invalid_argument", `"${key}": ${problem.path} ${problem.message}`.trim());
  return found ?? [];
}
