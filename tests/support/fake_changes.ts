/**
 * A control plane's announcements (`ChangeFeed`), which a test makes.
 */

import type { Announcements, Changed } from "../../lib/cloud_client/changes/change_feed.ts";

export class FakeChanges implements Announcements {
  connection: number | undefined;
  readonly #listeners = new Set<readonly [what: string, listener: () => void]>();
  #connections = 0;

  hear(what: Changed | "end", listener: () => void): () => void {
    const entry = [what, listener] as const;
    this.#listeners.add(entry);
    return () => void this.#listeners.delete(entry);
  }

  open(): void {
    this.connection = ++this.#connections;
  }

  end(): void {
    this.connection = undefined;
    this.tell("end");
  }

  tell(what: Changed | "end"): void {
    for (const [wanted, listener] of [...this.#listeners]) if (wanted === what) listener();
  }

  get listeners(): number {
    return this.#listeners.size;
  }
}
