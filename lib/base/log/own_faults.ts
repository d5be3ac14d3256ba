/**
 * Faults of the program itself: a rejected promise that nobody awaits, an exception in a timer or in a listener of
 * events.
 */

import { chainOf } from "../error.ts";
import type { Logger } from "./log.ts";

/** Every line of such a fault says this. */
export const FAULT_MARK = "goes on after a fault of its own";

/**
 * Logs the faults of the program, and lets it go on until the returned value is disposed of.
 *
 * By default the runtime ends at the first of them. That would end everybody's calls for the fault of one, and on a
 * machine it takes away the only way to stop what moves. An error that somebody awaits is none of these: it ends the
 * work that met it, as always.
 */
export function logOwnFaults(program: string, logger: Logger, target: EventTarget = globalThis): Disposable {
  const tell = (event: Event, error: unknown) => {
    event.preventDefault();
    try {
      const stack = error instanceof Error ? error.stack : undefined;
      logger.error(`${program} ${FAULT_MARK}, please report it: ${chainOf(error)}`, { stack });
    } catch {
      // A fault of the log must not become the next one.
    }
  };

  const onRejection = (event: Event) => tell(event, (event as PromiseRejectionEvent).reason);
  const onException = (event: Event) => {
    const { error, message } = event as ErrorEvent;
    tell(event, error ?? message);
  };
  target.addEventListener("unhandledrejection", onRejection);
  target.addEventListener("error", onException);
  return {
    [Symbol.dispose]: () => {
      target.removeEventListener("unhandledrejection", onRejection);
      target.removeEventListener("error", onException);
    },
  };
}
