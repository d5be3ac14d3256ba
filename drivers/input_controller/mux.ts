/** `mux`: several input controllers as one. The latest event of a control counts, whichever controller it is from. */

import {
  type EventFilter,
  type InputController,
  InputControllerApi,
  type InputEvent,
} from "../../lib/api/sensors/input_controller.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { chainOf, joined, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { Queue } from "../../lib/base/collections/queue.ts";
import { list, object, text } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call, unsupported } from "../../lib/resource/resource.ts";
import { matches } from "./input_events.ts";

/** Most events that wait for one listener. */
const QUEUE_LIMIT = 1024;
/** The pause before a source without a stream is listened to again. */
const LISTEN_AGAIN_MS = 1_000;

export const MuxInputController = model({
  api: InputControllerApi,
  name: "rdk:builtin:mux",
  doc: "Several input controllers as one: the latest event of each control counts.",
  attributes: object({
    sources: list(text(), "names of input controllers").required().names("input_controller")
      .with((names, at) => names.length > 0 ? names : at.wanted("at least one input controller", names)),
  }).required(),
  construct: ({ name, attributes, dependencies, clock, logger }) =>
    new Mux(name, attributes.sources.map((one) => dependencies.get(InputControllerApi, one)), clock, logger),
});

class Mux extends BaseComponent implements InputController {
  readonly #closing = new AbortController();

  constructor(
    name: ResourceName,
    private readonly sources: readonly InputController[],
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {
    super(name);
  }

  async getControls(call?: Call): Promise<readonly string[]> {
    return [...new Set((await this.#all((source) => source.getControls(call))).flat())];
  }

  async getEvents(call?: Call): Promise<readonly InputEvent[]> {
    const latest = new Map<string, InputEvent>();
    for (const event of (await this.#all((source) => source.getEvents(call))).flat()) {
      const known = latest.get(event.control);
      if (!known || event.timeMs > known.timeMs) latest.set(event.control, event);
    }
    return [...latest.values()];
  }

  /**
   * Ends when no source has a stream. While another one has, a source whose stream ends or fails is listened to again,
   * and its controls are reported as disconnected, so that nothing stays pressed.
   */
  async *streamEvents(filters: readonly EventFilter[], call?: Call): AsyncGenerator<InputEvent> {
    const stop = new AbortController();
    const signal = AbortSignal.any([stop.signal, this.#closing.signal, ...call?.signal ? [call.signal] : []]);
    const events = new Queue<InputEvent>(QUEUE_LIMIT, () => stop.abort(), signal);
    let streams = this.sources.length;
    const give = (event: InputEvent) => {
      if (events.push(event) || signal.aborted) return;
      const found = `${QUEUE_LIMIT} input events wait to be read`;
      events.end(new SvcError("resource_exhausted", `${found}, the stream ends: wanted a faster reader`));
    };
    const follow = async (source: InputController) => {
      const controls = new Set<string>();
      for (let isLost = false; !signal.aborted; isLost = true) {
        const reason = await this.#listen(source, filters, { ...call, signal }, (event) => {
          controls.add(event.control);
          give(event);
        });
        if (signal.aborted) return;
        if (--streams === 0) return events.close();
        if (!isLost) this.logger.warn(`${source.name} gives no more events${reason}`);
        for (const control of controls) {
          const gone = { timeMs: this.clock.nowMs(), event: "Disconnect", control, value: 0 };
          if (filters.some((filter) => matches(filter, gone))) give(gone);
        }
        controls.clear();
        await this.clock.sleep(LISTEN_AGAIN_MS, signal).catch(() => {});
        streams++;
      }
    };
    const all = Promise.all(this.sources.map(follow));
    try {
      yield* events;
    } finally {
      stop.abort();
      await all;
    }
  }

  triggerEvent(): Promise<void> {
    return Promise.reject(unsupported(this.name, "TriggerEvent", "trigger the event on one of its sources"));
  }

  override close(): Promise<void> {
    this.#closing.abort();
    return Promise.resolve();
  }

  /** Until the source's stream ends; returns the reason, if it gives one. Never rejects. */
  async #listen(
    source: InputController,
    filters: readonly EventFilter[],
    call: Call,
    heard: (event: InputEvent) => void,
  ): Promise<string> {
    try {
      for await (const event of source.streamEvents(filters, call)) heard(event);
      return "";
    } catch (error) {
      return `: ${chainOf(error)}`;
    }
  }

  /** The answers of the sources that answer; fails if none does. */
  async #all<T>(ask: (source: InputController) => Promise<T>): Promise<T[]> {
    const results = await Promise.allSettled(this.sources.map(ask));
    const answers = results.flatMap((result) => result.status === "fulfilled" ? [result.value] : []);
    if (answers.length > 0) return answers;
    const reasons = results.flatMap((result) => result.status === "rejected" ? [result.reason] : []);
    throw joined(`no source of ${this.name} answers`, reasons);
  }
}
