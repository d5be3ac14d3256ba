/** A clock of the system on which a pause of a second lasts a hundredth. */

import { SystemClock } from "../../lib/base/clock.ts";

export class QuickClock extends SystemClock {
  override after(ms: number, run: () => void): () => void {
    return super.after(ms / 100, run);
  }
}
