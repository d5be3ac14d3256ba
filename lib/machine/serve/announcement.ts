/**
 * Announces the machine's port on its networks, so that clients find the machine by its names.
 *
 * The port never waits for it, and it can do no harm: without multicast nothing is announced. Its code is loaded when
 * the port is open.
 */

import { SerialQueue } from "../../base/async/serial_queue.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Announcer } from "../../wire/mdns/announcer.ts";
import type { MdnsNetwork } from "../../wire/mdns/links.ts";

/** The machine's address. */
export interface AnnouncedAddress {
  /** Its names from the configuration. */
  readonly names: readonly string[];
  /** The address it listens on: `127.0.0.1`, or `::` for every address. */
  readonly address: string;
  readonly port: number;
}

export interface AnnouncementParts {
  /** Its transports: `grpc`, `webrtc`. */
  readonly serves: readonly string[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** By default the networks of this computer. */
  readonly network?: MdnsNetwork;
}

export class PortAnnouncement {
  readonly #parts: AnnouncementParts;
  /** The name of an unnamed machine until the program ends, as published clients expect it. */
  readonly #someName = crypto.randomUUID();
  #announced = "";
  #announcer: Announcer | undefined;
  readonly #work = new SerialQueue();
  #closed = false;

  constructor(parts: AnnouncementParts) {
    this.#parts = parts;
  }

  /** Announces the machine from now on. Does not wait, never throws. */
  tell(place: AnnouncedAddress): void {
    const announced = JSON.stringify(place);
    if (this.#closed || announced === this.#announced) return;
    this.#announced = announced;
    this.#enqueue(() => this.#announce(place));
  }

  /** Announces that the machine has gone. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#enqueue(() => this.#recall());
    await this.#work.idle();
  }

  #enqueue(work: () => Promise<void>): void {
    this.#work.run(work).catch((error) =>
      this.#parts.logger.warn(`the machine is not announced by multicast DNS: ${chainOf(error)}`)
    );
  }

  async #recall(): Promise<void> {
    const announcer = this.#announcer;
    this.#announcer = undefined;
    await announcer?.close();
  }

  async #announce({ names, address, port }: AnnouncedAddress): Promise<void> {
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
