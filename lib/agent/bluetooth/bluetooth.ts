/**
 * Setup by Bluetooth LE: a phone nearby reads the device's facts, and writes what the device needs, encrypted.
 *
 * The agent offers the service only while the device needs setup, and not while it tries a submission, so that no phone
 * reads outdated facts. A device without Bluetooth logs this once, and checks again at growing intervals.
 *
 * The room owns setup by Bluetooth: the values that a phone reads and writes, and the service in BlueZ.
 */

import { type BackoffLimits, backoffMs } from "../../base/async/backoff.ts";
import type { Bus } from "../../base/bus/bus.ts";
import { type Clock, deadline } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Secret } from "../../base/secret.ts";
import type { ProvisioningSubmissions } from "../portal/submissions.ts";
import { BlueZ } from "./bluez.ts";
import { SealedCharacteristics } from "./characteristics.ts";
import { Pairing } from "./pairing.ts";
import { READ, type Read, valuesOf } from "./values.ts";

export interface BluetoothParts {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly submissions: ProvisioningSubmissions;
  /** Whether the device accepts setup this way now, under which name, and with which password. */
  readonly offer: () => BluetoothOffer;
  /** Takes the address of a phone that has paired, to go online through its connection. */
  readonly paired: (address: string) => void;
}

export interface BluetoothOffer {
  readonly wanted: boolean;
  readonly name: string;
  readonly password: Secret;
  /** Whether every phone may pair. */
  readonly trustsAll: boolean;
}

const LOOK_MS = 1_000;
/** Interval of the check that BlueZ still offers the service. */
const ALIVE_MS = 15_000;
const RETRY: BackoffLimits = { firstMs: 5_000, mostMs: 20 * 60_000, jitter: 0 };
const CLOSE_MS = 10_000;

export class Bluetooth {
  readonly #bluez: BlueZ;
  readonly #pairing: Pairing;
  #characteristics: SealedCharacteristics | undefined;
  /** The offered name. */
  #name: string | undefined;
  readonly #notified = new Map<Read, string>();
  #problem = "";
  #failures = 0;
  #nextMs = 0;

  constructor(private readonly parts: BluetoothParts) {
    this.#bluez = new BlueZ(parts.bus);
    this.#pairing = new Pairing(parts);
  }

  /** Offers the service whenever the device needs setup, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.parts;
    while (!signal.aborted) {
      try {
        await this.#look(signal);
      } catch (error) {
        if (signal.aborted) break;
        await this.#close();
        const problem = messageOf(error);
        if (problem !== this.#problem) logger.warn(`nobody can set this device up by Bluetooth: ${problem}`);
        this.#problem = problem;
        this.#nextMs = clock.monotonicMs() + backoffMs(RETRY, ++this.#failures);
      }
      await clock.sleep(LOOK_MS, signal).catch(() => {});
    }
    await this.#close();
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { clock, offer } = this.parts;
    const { wanted, name, trustsAll } = offer();
    if (this.#name !== undefined && (!wanted || name !== this.#name)) await this.#close();
    if (!wanted) return;
    if (clock.monotonicMs() >= this.#nextMs) {
      if (this.#name === undefined) await this.#open(name, signal);
      else if (!await this.#bluez.isOpen(signal)) throw new SvcError("unavailable", "BlueZ has let go of it");
      this.#nextMs = clock.monotonicMs() + ALIVE_MS;
    }
    if (this.#name === undefined) return;
    await this.#pairing.keep(trustsAll, signal);
    this.#tellChanges();
  }

  async #open(name: string, signal: AbortSignal): Promise<void> {
    const { clock, submissions, logger, offer } = this.parts;
    if (!this.#characteristics || this.#characteristics.isWorn) {
      this.#characteristics = await SealedCharacteristics.make({
        ...{ submissions, clock, password: () => offer().password },
        unlock: (open) => this.#pairing.unlock(open),
      });
    }
    const characteristics = this.#characteristics;
    characteristics.forget();
    const adapter = await this.#bluez.open({
      name,
      read: (one) => one === "pub_key" ? characteristics.publicKey : this.#values()[one],
      write: async (one, sealed, phone) => {
        try {
          await characteristics.write(one, sealed, phone);
        } catch (error) {
          // A phone that writes without a response reads the error here.
          submissions.report(`The value from Bluetooth was refused: ${messageOf(error)}.`);
          throw error;
        }
      },
    }, signal);
    this.#name = name;
    await this.#pairing.open(adapter, name, signal);
    this.#notified.clear();
    [this.#failures, this.#problem] = [0, ""];
    logger.info(`this device can be set up by Bluetooth as ${name}`, { adapter });
  }

  #values() {
    const { submissions } = this.parts;
    return valuesOf(submissions.device(), submissions.recentErrors);
  }

  #tellChanges(): void {
    const values = this.#values();
    for (const name of READ) {
      if (name === "pub_key") continue;
      const value = values[name].toString("base64");
      if (this.#notified.has(name) && this.#notified.get(name) !== value) this.#bluez.changed(name);
      this.#notified.set(name, value);
    }
  }

  /** Also runs when the agent is told to stop. */
  async #close(): Promise<void> {
    if (this.#name === undefined) return;
    this.#name = undefined;
    this.#nextMs = 0;
    const late = deadline(
      this.parts.clock,
      CLOSE_MS,
      () => new SvcError("deadline_exceeded", "BlueZ does not let go of it"),
    );
    await this.#pairing.close(late.signal);
    await this.#bluez.close(late.signal);
    late.done();
    this.parts.logger.info("this device can no longer be set up by Bluetooth");
  }
}
