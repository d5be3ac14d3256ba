/**
 * Captures one method of one resource at its own interval.
 *
 * A call that takes longer than the interval delays the next call; late calls do not pile up. The collector
 * logs a failure when it changes.
 */

import { type Clock, deadline, race } from "../../lib/base/clock.ts";
import { messageOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { withViewpoint } from "../../lib/geometry/cloud/viewpoint.ts";
import { MIME } from "../../lib/geometry/image/image.ts";
import type { CaptureCall, CaptureMethods, CaptureResult, TakenFile } from "../../lib/resource/facets.ts";
import { type FrameView, placeInWorld } from "../../lib/resource/frame_view.ts";
import type { AnyApi } from "../../lib/resource/registry.ts";
import type { Call, Resource } from "../../lib/resource/resource.ts";
import type { CaptureSource } from "../../lib/resource/uploader.ts";
import type { Spool } from "./spool.ts";

export interface CaptureSettings {
  readonly method: string;
  readonly intervalMs: number;
  readonly parameters: JsonObject;
  readonly tags: readonly string[];
  /** Size limit of the readings collected for one upload. */
  readonly collectedBytes?: number;
}

export interface CollectorParts {
  /** The API of the resource's type, if it is built in. */
  readonly api?: AnyApi;
  readonly resource: Resource;
  /** The resource's name in the captured data. */
  readonly componentName: string;
  readonly settings: CaptureSettings;
  /** When the first capture is due, by the monotonic clock; by default after one interval. */
  readonly dueMs?: number;
  readonly spool: Spool;
  /** Throws outside of a machine. */
  readonly frames: () => FrameView;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A call has at least this long, or until the next call is due. */
const CALL_MS = 10_000;
/** An arm that carries a camera has this long to say where it is. */
const POSE_MS = 1_000;
/** Times are whole microseconds. */
const STEPS_IN_MS = 1_000;
/** A clock that goes back by less is only corrected a little: times stand still until it has caught up. */
const SET_BACK_MS = 1_000;
/** The last digits of a time tell how often the clock was set back before it. */
const SET_BACKS_MAX = 500;
/** The error message of published models for "nothing to capture this time". */
const NOTHING = "no capture from filter module";

export class Collector {
  readonly resource: Resource;
  readonly #closing = new AbortController();
  readonly #source: CaptureSource;
  readonly #capture: CaptureCall;
  readonly #working: Promise<void>;
  #lastMs = 0;
  #setBacks = 0;
  #dueMs: number;
  #failure: string | undefined;
  #captured = 0;

  /** Throws `invalid_argument` if the resource has no such method. */
  constructor(private readonly parts: CollectorParts) {
    const { api, resource, componentName, settings: { method, parameters, tags } } = parts;
    this.resource = resource;
    this.#capture = captureOf(resource.name.api, api, method);
    this.#source = {
      componentType: resource.name.api,
      componentName,
      methodName: method,
      parameters,
      tags,
      datasetIds: [],
    };
    this.#dueMs = parts.dueMs ?? parts.clock.monotonicMs() + parts.settings.intervalMs;
    this.#working = this.#work();
  }

  get settings(): CaptureSettings {
    return this.parts.settings;
  }

  /** When the next capture is due, by the monotonic clock. */
  get dueMs(): number {
    return this.#dueMs;
  }

  get failure(): string | undefined {
    return this.#failure;
  }

  /** For the status of the data manager. */
  get status(): JsonObject {
    const { resource, settings: { method, intervalMs } } = this.parts;
    return {
      resource: resource.name.full,
      method,
      frequency_hz: 1000 / intervalMs,
      captured: this.#captured,
      last_captured: this.#lastMs === 0 ? null : new Date(this.#lastMs).toISOString(),
      error: this.#failure ?? null,
    };
  }

  async close(): Promise<void> {
    this.#closing.abort(new SvcError("canceled", "it is no longer captured"));
    await this.#working;
  }

  async #work(): Promise<void> {
    const { clock, settings: { intervalMs } } = this.parts;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      const nowMs = clock.monotonicMs();
      this.#dueMs = Math.max(this.#dueMs, nowMs);
      await clock.sleep(this.#dueMs - nowMs, signal).catch(() => {});
      if (signal.aborted) return;
      this.#dueMs += intervalMs;
      await this.#attempt();
    }
  }

  async #attempt(): Promise<void> {
    const { resource, logger, settings: { method } } = this.parts;
    try {
      await this.#captureOnce();
      if (this.#failure !== undefined) logger.info(`${resource.name} ${method}: capturing works again`);
      this.#failure = undefined;
    } catch (error) {
      const failure = messageOf(error);
      if (this.#closing.signal.aborted || failure.includes(NOTHING)) return;
      if (failure !== this.#failure) logger.warn(`cannot capture ${resource.name} ${method}: ${failure}`);
      this.#failure = failure;
    }
  }

  async #captureOnce(): Promise<void> {
    const { resource, settings: { parameters, intervalMs, collectedBytes }, clock, spool } = this.parts;
    const limitMs = Math.max(CALL_MS, intervalMs);
    const late = () => new SvcError("deadline_exceeded", `no answer within ${limitMs} ms`);
    const { signal, done } = deadline(clock, limitMs, late, this.#closing.signal);
    try {
      const atMs = clock.nowMs();
      const call = { extra: { ...parameters, fromDataManagement: true }, signal };
      const taken = await race(this.#capture(resource, parameters, call), signal);
      const receivedMs = clock.nowMs();
      if ("reading" in taken) {
        const reading = { timeMs: this.#time(atMs), receivedMs, payload: taken.reading };
        await spool.addReading(this.#source, reading, collectedBytes);
        this.#captured++;
        return;
      }
      for (const file of taken.files) {
        const timeMs = this.#time(atMs);
        await spool.addFile({
          kind: "file",
          source: this.#source,
          timeMs,
          receivedMs,
          fileName: "",
          ...await this.#withPlace(file, signal),
        });
        this.#captured++;
      }
    } finally {
      done();
    }
  }

  /** A point cloud says where its sensor was on the machine, if the sensor has a frame. */
  async #withPlace(file: TakenFile, signal: AbortSignal): Promise<TakenFile> {
    const { resource, frames, clock } = this.parts;
    if (file.mimeType !== MIME.pcd) return file;
    const late = () => new SvcError("deadline_exceeded", `no answer within ${POSE_MS} ms`);
    const limited = deadline(clock, POSE_MS, late, signal);
    try {
      const asked = placeInWorld(frames(), resource.name, { signal: limited.signal });
      const place = await race(asked, limited.signal);
      return place ? { ...file, content: withViewpoint(file.content, place) } : file;
    } catch {
      // It has no frame, or what carries it does not answer: the cloud is worth keeping all the same.
      signal.throwIfAborted();
      return file;
    } finally {
      limited.done();
    }
  }

  /**
   * Gives every reading of a source its own time, by which the control plane recognizes a repeated upload. After a clock
   * that was ahead, the times are right again, and still other ones than those before.
   */
  #time(atMs: number): number {
    if (atMs < this.#lastMs - SET_BACK_MS) {
      this.#setBacks = (this.#setBacks + 1) % SET_BACKS_MAX;
      this.#lastMs = 0;
    }
    const nextStep = Math.round(this.#lastMs * STEPS_IN_MS) + 1;
    return this.#lastMs = Math.max(atMs * STEPS_IN_MS + this.#setBacks, nextStep) / STEPS_IN_MS;
  }
}

/**
 * The capturable method of a type. Every resource has DoCommand. Throws `invalid_argument` for an unknown
 * method.
 */
function captureOf(type: string, api: AnyApi | undefined, method: string): CaptureCall {
  const methods = methodsOf(api);
  const capture = Object.hasOwn(methods, method) ? methods[method] : undefined;
  if (capture) return capture;
  const known = Object.keys(methods).join(", ");
  throw new SvcError("invalid_argument", `found method "${method}" of ${type}, wanted one of ${known}`);
}

export function canCapture(api: AnyApi | undefined, method: string): boolean {
  return Object.hasOwn(methodsOf(api), method);
}

function methodsOf(api: AnyApi | undefined): CaptureMethods {
  const { captured = "none" } = api ?? {};
  return { ...(captured === "none" ? {} : captured), DoCommand: doCommand };
}

async function doCommand(
  resource: Resource,
  { docommand_input: command }: JsonObject,
  call: Call,
): Promise<CaptureResult> {
  const answer = await resource.doCommand((command ?? {}) as JsonObject, call);
  return { reading: { docommand_output: answer } };
}
