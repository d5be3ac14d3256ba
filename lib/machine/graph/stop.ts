/**
 * Stops what moves: for StopAll, after a client is lost, and at the end of the program.
 */

import { type Clock, deadline, race } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { isActuator, type Resource } from "../../resource/resource.ts";

/** Time limit of one actuator's stop. */
const STOP_TIMEOUT_MS = 10_000;
/** Closing waits this long for stops, and no longer: a hung module must not hold back the rest. */
const REST_MS = 2_000;

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

/**
 * Stops this machine's own actuators before these resources close, at the end of the program or because a configuration
 * changes them. Resources close dependents first, each after its dependents: below a dependent that hangs, a motor would
 * turn until the deadline and beyond. Logs what does not stop; never rejects. Actuators of remotes may be in others'
 * hands.
 */
export async function stopBeforeClosing(
  resources: readonly Resource[],
  clock: Clock,
  logger: Logger,
): Promise<void> {
  const own = resources.filter((one) => !one.name.isRemote && isActuator(one));
  if (own.length === 0) return;
  const stopping = stopActuators(own, clock).then((failures) => {
    // What has no Stop stops when it closes.
    const failed = failures.filter(({ code }) => code !== "unimplemented");
    for (const failure of failed) logger.warn(chainOf(failure));
  });
  const waited = new AbortController();
  await Promise.race([stopping, clock.sleep(REST_MS, waited.signal).catch(() => {})]);
  waited.abort();
}
