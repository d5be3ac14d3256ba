/**
 * What people hold on pages: a stick, key or pad whose movement is sent again and again while it is held.
 *
 * A page marks these calls with an id that begins with each hold. StopAll ends the holds of everybody, so that what
 * another person still holds on another page moves nothing until it was let go and taken again.
 */

import { SvcError } from "../../base/error.ts";
import type { Metadata } from "../../wire/rpc/metadata.ts";
import { idFrom } from "./call.ts";

/** Metadata key of a hold's id. */
export const HOLD_ID = "svc-hold";
/** Pages show this text, and know the refusal by it. */
export const HOLD_ENDED = "everything was stopped: let go first";

/** Holds that are remembered, those used last; what is held is used several times a second. */
const HOLDS_MAX = 256;

export class Holds {
  /** Whether each may still move something, by its id. Those used last come last. */
  readonly #isValid = new Map<string, boolean>();

  /** Throws `failed_precondition` for a call of a hold that has ended. */
  check(header: Metadata): void {
    const id = idFrom(header, HOLD_ID);
    if (id === undefined) return;
    const isValid = this.#isValid.get(id) ?? true;
    this.#isValid.delete(id);
    this.#isValid.set(id, isValid);
    const [oldest = ""] = this.#isValid.keys();
    if (this.#isValid.size > HOLDS_MAX) this.#isValid.delete(oldest);
    if (!isValid) throw new SvcError("failed_precondition", HOLD_ENDED);
  }

  /** Ends the present holds. */
  end(): void {
    for (const id of this.#isValid.keys()) this.#isValid.set(id, false);
  }
}
