/**
 * Readings that a movement is controlled by.
 *
 * A sensor that fails ends the movement. One that neither answers nor fails, because its module hangs or its bus is
 * stuck, must end it as well: the device would go on at its last power, past its goal.
 */

import { type Clock, deadline, race } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import type { ResourceName } from "./name.ts";

/** Time limit of a reading. A sensor that takes longer cannot control anything that moves. */
export const FEEDBACK_MS = 1_000;

/** A reading of `sensor` for a movement that `moving` ends. Rejects with `deadline_exceeded` if the sensor hangs. */
export async function feedback<T>(
  sensor: ResourceName,
  clock: Clock,
  moving: AbortSignal,
  read: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = () =>
    new SvcError("deadline_exceeded", `${sensor} gave no reading within ${FEEDBACK_MS / 1000} s`);
  const { signal, done } = deadline(clock, FEEDBACK_MS, late, moving);
  try {
    return await race(read(signal), signal);
  } finally {
    done();
  }
}
