/**
 * Stops what moves: for StopAll, and after a client is lost.
 */

import { type Clock, deadline, race } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { isActuator, type Resource } from "../../resource/resource.ts";

/** Time limit of one actuator's stop. */
const STOP_TIMEOUT_MS = 10_000;

/**
 * Stops every actuator among `resources` in parallel, and returns the failures, each naming its resource. `extraOf`
 * gives the arguments of a resource's own Stop.
 */
export async function stopActuators(
  resources: readonly Resource[],
  clock: Clock,
  extraOf: (resource: Resource) => JsonObject | undefined = () => undefined,
): Promise<SvcError[]> {
  const outcomes = await Promise.all(
    resources.filter(isActuator).map(async (actuator) => {
      const late = () => new SvcError("deadline_exceeded", `it did not stop within ${STOP_TIMEOUT_MS} ms`);
      const { signal, done } = deadline(clock, STOP_TIMEOUT_MS, late);
      try {
        await race(Promise.resolve().then(() => actuator.stop({ extra: extraOf(actuator), signal })), signal);
      } catch (cause) {
        return new SvcError(SvcError.from(cause).code, `cannot stop ${actuator.name}`, { cause });
      } finally {
        done();
      }
    }),
  );
  return outcomes.filter((outcome) => outcome !== undefined);
}
