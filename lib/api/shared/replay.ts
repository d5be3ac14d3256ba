/** The error of a replaying sensor at the end of its recording. */

import { messageOf, SvcError } from "../../base/error.ts";

/** The published text. */
const END_OF_DATA = "reached end of dataset";

export function endOfData(of: string): SvcError {
  return new SvcError("out_of_range", `${of} ${END_OF_DATA}`);
}

export function isEndOfData(error: unknown): boolean {
  return messageOf(error).includes(END_OF_DATA);
}
