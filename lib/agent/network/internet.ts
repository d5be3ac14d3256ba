/**
 * Whether the internet is reachable. If the check of the system's network service is enabled, its result counts.
 * Without the check the service takes any default route for the internet, so this file tries the control plane's
 * address instead.
 *
 * `answers` tries at most once in ten seconds, `proves` always; both take at most five seconds.
 */

import { type Clock, deadline } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { NetworkPort, NetworkView } from "./network_port.ts";

export interface InternetParts {
  readonly port: Pick<NetworkPort, "check">;
  readonly clock: Clock;
  /** Whether the control plane answered the last poll, which may be a minute ago. */
  readonly reachesCloud: () => boolean;
  /** Tries the control plane's address; `undefined` while the device has none. */
  readonly tryCloud: (signal: AbortSignal) => Promise<boolean | undefined>;
}

const AGAIN_MS = 10_000;
const ANSWER_MS = 5_000;
/** RFC 6585: the network itself answers, and wants somebody to sign in. */
const SIGN_IN_FIRST = 511;

export class Internet {
  #answer: boolean | undefined;
  #askedMs = 0;

  constructor(private readonly parts: InternetParts) {}

  /** Forgets the last result, because something has changed. */
  forget(): void {
    this.#answer = undefined;
  }

  async answers({ internet, checksInternet }: NetworkView, signal: AbortSignal): Promise<boolean> {
    const { clock, reachesCloud } = this.parts;
    const cloud = reachesCloud();
    if (cloud && internet) return true;
    const isFresh = clock.monotonicMs() - this.#askedMs < AGAIN_MS;
    // A connectivity check of the service that finds internet access in the meantime overrules this.
    if (isFresh && this.#answer !== undefined && !(checksInternet && internet && !this.#answer)) {
      return this.#answer && (internet || cloud);
    }
    // If the control plane answered recently but the service sees no internet, the network is lost, or is not managed
    // by the service.
    const byService = checksInternet && !cloud;
    const answer = byService || internet || cloud ? await this.#ask(byService, signal) : false;
    this.#askedMs = clock.monotonicMs();
    return this.#answer = answer ?? internet;
  }

  /** Tries again now: the control plane, and the service's own check if it has one. */
  async proves({ internet, checksInternet }: NetworkView, signal: AbortSignal): Promise<boolean> {
    const cloud = await this.#ask(false, signal);
    if (cloud !== true && checksInternet) return await this.#ask(true, signal) === true;
    return cloud ?? internet;
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

/** Whether something answers at the address other than a Wi-Fi's sign-in page. */
export async function reaches(address: string, signal: AbortSignal): Promise<boolean> {
  const answer = await fetch(address, { method: "HEAD", redirect: "manual", signal });
  await answer.body?.cancel();
  return answer.status !== SIGN_IN_FIRST && (answer.status < 300 || answer.status >= 400);
}
