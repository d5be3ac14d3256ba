/**
 * Whether the internet answers. The system's network service is asked if it checks that itself; where its check is off,
 * it calls every route to anywhere the internet, and the control plane's address is tried instead.
 *
 * Promises: nothing is tried oftener than every ten seconds, and no answer takes longer than five.
 */

import { type Clock, deadline } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { NetworkPort, NetworkView } from "./network_port.ts";

export interface InternetParts {
  readonly port: Pick<NetworkPort, "check">;
  readonly clock: Clock;
  /** The control plane answered when it was asked last, which may be a minute ago. */
  readonly reachesCloud: () => boolean;
  /** Tries the control plane's address; `undefined` where the device knows none yet. */
  readonly tryCloud: (signal: AbortSignal) => Promise<boolean | undefined>;
}

const AGAIN_MS = 10_000;
const ANSWER_MS = 5_000;

export class Internet {
  #answer: boolean | undefined;
  #askedMs = 0;

  constructor(private readonly parts: InternetParts) {}

  /** The next question is asked anew: something has changed. */
  forget(): void {
    this.#answer = undefined;
  }

  async answers({ internet, checksInternet }: NetworkView, signal: AbortSignal): Promise<boolean> {
    const { clock, reachesCloud } = this.parts;
    const cloud = reachesCloud();
    if (cloud && internet) return true;
    const isFresh = clock.monotonicMs() - this.#askedMs < AGAIN_MS;
    // A service that checks and has found the internet meanwhile is right.
    if (isFresh && this.#answer !== undefined && !(checksInternet && internet && !this.#answer)) {
      return this.#answer && (internet || cloud);
    }
    // The control plane answered a while ago and the service sees no internet: the network is lost, or not the service's.
    const byService = checksInternet && !cloud;
    const answer = byService || internet || cloud ? await this.#ask(byService, signal) : false;
    this.#askedMs = clock.monotonicMs();
    return this.#answer = answer ?? internet;
  }

  async #ask(byService: boolean, signal: AbortSignal): Promise<boolean | undefined> {
    const { clock, port, tryCloud } = this.parts;
    const late = deadline(
      clock,
      ANSWER_MS,
      () => new SvcError("deadline_exceeded", "the internet does not answer"),
      signal,
    );
    try {
      return byService ? await port.check(late.signal) : await tryCloud(late.signal);
    } catch (error) {
      if (signal.aborted) throw error;
      return false;
    } finally {
      late.done();
    }
  }
}

/** Whether something answers at the address, which is not where a Wi-Fi sends those who have not signed in. */
export async function reaches(address: string, signal: AbortSignal): Promise<boolean> {
  const answer = await fetch(address, { method: "HEAD", redirect: "manual", signal });
  await answer.body?.cancel();
  return answer.status < 300 || answer.status >= 400;
}
