/**
 * Names that people give to things of the control plane: one line, without invisible characters.
 */

import { SvcError } from "../../base/error.ts";
import { escapedLine, hasHidden } from "../../base/escape.ts";

export const NAME_CHARS_MAX = 200;

/** Throws `invalid_argument` for a name that is empty, too long, or has control characters in it. */
export function checkedName(name: string): string {
  if (hasHidden(name)) {
    throw new SvcError(
      "invalid_argument",
      `found the name "${escapedLine(name.slice(0, NAME_CHARS_MAX))}", wanted one without control characters`,
    );
  }
  if (name.trim() !== "" && name.length <= NAME_CHARS_MAX) return name;
  throw new SvcError(
    "invalid_argument",
    `found a name of ${name.length} characters, wanted 1 to ${NAME_CHARS_MAX} and not only spaces`,
  );
}
