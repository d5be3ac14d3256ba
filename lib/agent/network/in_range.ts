/** The Wi-Fi networks in range, with their last tries and failures. Pure except for its memory. */

import type { SeenNetwork } from "../portal/submissions.ts";
import type { WifiInRange } from "./network_port.ts";

/** Tries of networks that no scan finds are remembered for this long, which exceeds any time until the next try. */
const TRIED_MS = 24 * 3600_000;
/** A network unseen for this long is out of range; when it returns, it is tried again. */
const UNSEEN_MS = 60_000;

interface Remembered {
  readonly network: WifiInRange;
  readonly seenMs: number;
  readonly triedMs?: number;
  readonly error: string;
}

export class InRange {
  readonly #networks = new Map<string, Remembered>();
  /** The last tries of networks that no scan finds: hidden ones, and those of chips that see none during the hotspot. */
  readonly #hidden = new Map<string, number>();
  lastTried = "";

  see(networks: readonly WifiInRange[], nowMs: number): void {
    for (const network of networks) {
      const before = this.#networks.get(network.ssid);
      const triedMs = this.#hidden.get(network.ssid);
      this.#hidden.delete(network.ssid);
      // If the last try was long ago, the network has come into range since then.
      const tried = triedMs !== undefined && nowMs - triedMs < UNSEEN_MS ? { triedMs } : {};
      this.#networks.set(network.ssid, { error: "", ...tried, ...before, network, seenMs: nowMs });
    }
    for (const [ssid, { seenMs }] of this.#networks) {
      if (nowMs - seenMs >= UNSEEN_MS) this.#networks.delete(ssid);
    }
    for (const [ssid, triedMs] of this.#hidden) if (nowMs - triedMs >= TRIED_MS) this.#hidden.delete(ssid);
  }

  of(ssid: string): { readonly inRange: boolean; readonly triedMs?: number } {
    const found = this.#networks.get(ssid);
    return { inRange: found !== undefined, triedMs: found?.triedMs ?? this.#hidden.get(ssid) };
  }

  tried(ssid: string, nowMs: number): void {
    this.lastTried = ssid;
    const found = this.#networks.get(ssid);
    if (found) this.#networks.set(ssid, { ...found, triedMs: nowMs });
    else this.#hidden.set(ssid, nowMs);
  }

  /** Why joining it failed; empty if it did not. */
  failed(ssid: string, error: string): void {
    const found = this.#networks.get(ssid);
    if (found) this.#networks.set(ssid, { ...found, error });
  }

  /** Strongest first. */
  all(): Omit<SeenNetwork, "connected">[] {
    return [...this.#networks.values()]
      .map(({ network, error }) => ({ ...network, lastError: error }))
      .sort((a, b) => b.signal - a.signal || (a.ssid < b.ssid ? -1 : 1));
  }
}
