/**
 * Announces the machine's port on the networks that it is on, so that clients find the machine by its names.
 *
 * Promises that the port never waits for it, and that it can do no harm: where there is no multicast, nothing is
 * announced. Its code is loaded when the port is open.
 */

import type { Clock } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Announcer } from "../../wire/mdns/announcer.ts";
import type { MdnsNetwork } from "../../wire/mdns/links.ts";

/** Where the machine is reached. */
export interface Place {
  /** Its names, if the configuration gives it any. */
  readonly names: readonly string[];
  /** What it listens on: `127.0.0.1`, or `::` for every address. */
  readonly address: string;
  readonly port: number;
}

export interface AnnouncementParts {
  /** What it serves: `grpc`, `webrtc`. */
  readonly serves: readonly string[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** The networks of this computer where left out. */
  readonly network?: MdnsNetwork;
}

export class PortAnnouncement {
  readonly #parts: AnnouncementParts;
  /** What a machine without a name is called until the program ends, as published clients expect it. */
  readonly #someName = crypto.randomUUID();
  #told = "";
  #announcer: Announcer | undefined;
  #work = Promise.resolve();
  #closed = false;

  constructor(parts: AnnouncementParts) {
    this.#parts = parts;
  }

  /** From now on the machine is there. Does not wait, never throws. */
  tell(place: Place): void {
    const told = JSON.stringify(place);
    if (this.#closed || told === this.#told) return;
    this.#told = told;
    this.#enqueue(() => this.#announce(place));
  }

  /** Tells that the machine has gone. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#enqueue(() => this.#recall());
    await this.#work;
  }

  #enqueue(work: () => Promise<void>): void {
    this.#work = this.#work.then(work).catch((error) =>
      this.#parts.logger.warn(`the machine is not announced by multicast DNS: ${chainOf(error)}`)
    );
  }

  async #recall(): Promise<void> {
    const announcer = this.#announcer;
    this.#announcer = undefined;
    await announcer?.close();
  }

  async #announce({ names, address, port }: Place): Promise<void> {
    await this.#recall();
    if (this.#closed) return;
    const { serves, clock, logger, network: given } = this.#parts;
    const [{ Announcer }, { SYSTEM_NETWORK }] = await Promise.all([
      import("../../wire/mdns/announcer.ts"),
      import("../../wire/mdns/links.ts"),
    ]);
    const announcement = {
      names: names.length > 0 ? names : [this.#someName],
      port,
      serves,
      address: ["0.0.0.0", "::"].includes(address) ? undefined : address,
    };
    const parts = { network: given ?? SYSTEM_NETWORK, clock, logger, random: Math.random };
    this.#announcer = new Announcer(announcement, parts);
    await this.#announcer.open();
    logger.debug("announced by multicast DNS", { names: announcement.names, port });
  }
}
