/**
 * Activities: long actions of the machine and their durations, as lines of the logger `rdk.activity` with the
 * published fields `activity`, `event` and `duration_us`, for programs that follow the debug log.
 */

import type { Clock } from "../clock.ts";
import type { Fields, Logger } from "./log.ts";

export type Activity =
  | "startup"
  | "shutdown"
  | "reconfigure"
  | "resource_construct"
  | "resource_rebuild"
  | "remote"
  | "module";

export class Activities {
  constructor(private readonly logger: Logger, private readonly clock: Clock) {}

  /** Logs the start; the returned function logs the end and the outcome. */
  begin(activity: Activity, fields: Fields = {}): (outcome?: Fields) => void {
    const begunMs = this.clock.monotonicMs();
    this.tell(activity, "begin", fields);
    return (outcome = {}) => {
      const durationUs = Math.round((this.clock.monotonicMs() - begunMs) * 1000);
      this.tell(activity, "end", { ...fields, ...outcome, duration_us: durationUs });
    };
  }

  tell(activity: Activity, event: string, fields: Fields = {}): void {
    this.logger.debug(`${activity} ${event}`, { activity, event, ...fields });
  }
}

/** Why the program ends, in the published word if there is one. */
export function shutdownReason(why: string): string {
  return why.startsWith("SIG") ? "signal" : why;
}
