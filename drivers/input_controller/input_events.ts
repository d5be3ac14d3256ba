/**
 * The events of an input controller: the latest event of each control, and the listeners' streams. A listener
 * who reads too slowly loses the whole stream rather than single events, because a lost release would leave a
 * button pressed.
 */

import type { EventFilter, InputEvent } from "../../lib/api/sensors/input_controller.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Queue } from "../../lib/base/collections/queue.ts";

/** Most events that wait for one listener. */
const QUEUE_LIMIT = 1024;
/** Most controls of a controller: callers may trigger events of any name. */
const CONTROLS_MAX = 256;

interface Listener {
  readonly filters: readonly EventFilter[];
  readonly queue: Queue<InputEvent>;
}

export class InputEvents {
  readonly #latest = new Map<string, InputEvent>();
  readonly #listeners = new Set<Listener>();

  /** The latest event of each control that had an event. */
  get latest(): InputEvent[] {
    return [...this.#latest.values()];
  }

  /** The kinds of events that have a listener, each once. */
  get wanted(): { control: string; event: string }[] {
    const wanted = new Map<string, { control: string; event: string }>();
    for (const { filters } of this.#listeners) {
      for (const { control, events } of filters) {
        for (const event of events) wanted.set(JSON.stringify([control, event]), { control, event });
      }
    }
    return [...wanted.values()];
  }

  /**
   * Makes `event` the state of its control and sends it to the listeners. Throws `resource_exhausted` for too many
   * controls.
   */
  happened(event: InputEvent): void {
    if (this.#latest.size >= CONTROLS_MAX && !this.#latest.has(event.control)) {
      throw new SvcError("resource_exhausted", `an input controller has at most ${CONTROLS_MAX} controls`);
    }
    this.#latest.set(event.control, event);
    this.tell(event);
  }

  /** Sends `event` to the listeners only. */
  tell(event: InputEvent): void {
    for (const { filters, queue } of this.#listeners) {
      if (!filters.some((filter) => matches(filter, event)) || queue.push(event)) continue;
      const found = `${QUEUE_LIMIT} input events wait to be read`;
      queue.end(new SvcError("resource_exhausted", `${found}, the stream ends: wanted a faster reader`));
    }
  }

  stream(filters: readonly EventFilter[], signal?: AbortSignal): AsyncIterable<InputEvent> {
    const queue = new Queue<InputEvent>(QUEUE_LIMIT, () => this.#listeners.delete(listener), signal);
    const listener = { filters, queue };
    if (!signal?.aborted) this.#listeners.add(listener);
    return queue;
  }

  close(): void {
    for (const { queue } of this.#listeners) queue.end();
  }
}

/** Whether a listener with this filter wants the event. */
export function matches({ control, events }: EventFilter, event: InputEvent): boolean {
  if (control !== event.control) return false;
  const button = event.event === "ButtonPress" || event.event === "ButtonRelease";
  return events.includes(event.event) || events.includes("AllEvents") ||
    (button && events.includes("ButtonChange"));
}
