/**
 * Pairing with phones that share their internet connection by Bluetooth.
 *
 * The adapter is visible, and accepts new phones, only while pairing is open: always, if the settings trust everybody,
 * or else for a few minutes after a request by somebody with the hotspot's password. Phones that BlueZ trusts may pair
 * again at any time. The device has no display and no keys, so it confirms numbers without comparing them, and refuses
 * PINs.
 *
 * Published names of BlueZ's doc/agent-api.txt and doc/device-api.txt.
 */

import { type Bus, BusRefusal, typed } from "../../base/bus/bus.ts";
import { type Clock, deadline } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";

export interface PairingParts {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Takes the address of a phone that has paired: `AA:BB:CC:DD:EE:FF`. */
  readonly paired: (address: string) => void;
}

const BLUEZ = "org.bluez";
const PROPERTIES = "org.freedesktop.DBus.Properties";
const ADAPTER = `${BLUEZ}.Adapter1`;
const DEVICE = `${BLUEZ}.Device1`;
const AGENT_MANAGER = `${BLUEZ}.AgentManager1`;
const AGENT = "/svc/pairing";
const NO_LIMIT_S = 0;
/** How long pairing stays open after a request. */
const OPEN_MS = 5 * 60_000;
/** Time limit of a pairing: a phone shows its user the number for half a minute. */
const PAIR_MS = 60_000;
const LOOK_MS = 500;
/** Limit of phones that pair at the same time. */
const PHONES_MAX = 4;
const ADDRESS = /^([0-9A-F]{2}:){5}[0-9A-F]{2}$/;

export class Pairing {
  #adapter: string | undefined;
  #trustsAll = false;
  #untilMs = 0;
  #isVisible = false;
  /** The phones that are pairing. */
  readonly #busy = new Map<string, Promise<void>>();
  #stop = new AbortController();

  constructor(private readonly parts: PairingParts) {}

  /** Becomes BlueZ's agent for pairing at the adapter. */
  async open(adapter: string, name: string, signal: AbortSignal): Promise<void> {
    const { bus } = this.parts;
    this.#stop = new AbortController();
    this.#serve();
    try {
      await this.#call(`/org/bluez`, AGENT_MANAGER, "RegisterAgent", signal, "os", [AGENT, "DisplayYesNo"]);
      await this.#call(`/org/bluez`, AGENT_MANAGER, "RequestDefaultAgent", signal, "o", [AGENT]);
      await this.#set(adapter, ADAPTER, "Alias", typed("s", name), signal);
    } catch (error) {
      bus.unserve(AGENT);
      throw error;
    }
    this.#adapter = adapter;
  }

  /** Opens pairing to every phone for a few minutes, or closes it. */
  unlock(open: boolean): void {
    const { clock, logger } = this.parts;
    this.#untilMs = open ? clock.monotonicMs() + OPEN_MS : 0;
    logger.info(open ? `phones may pair for ${OPEN_MS / 60_000} minutes` : "phones may no longer pair");
  }

  /** Shows the adapter while it is open to new phones, and hides it otherwise. */
  async keep(trustsAll: boolean, signal: AbortSignal): Promise<void> {
    this.#trustsAll = trustsAll;
    const isOpen = this.#isOpen();
    if (this.#adapter === undefined || isOpen === this.#isVisible) return;
    if (isOpen) {
      await this.#set(this.#adapter, ADAPTER, "DiscoverableTimeout", typed("u", NO_LIMIT_S), signal);
      await this.#set(this.#adapter, ADAPTER, "Pairable", typed("b", true), signal);
    }
    await this.#set(this.#adapter, ADAPTER, "Discoverable", typed("b", isOpen), signal);
    this.#isVisible = isOpen;
  }

  /** Ends pairing; a restarted BlueZ has forgotten it already. */
  async close(signal: AbortSignal): Promise<void> {
    const adapter = this.#adapter;
    [this.#adapter, this.#untilMs] = [undefined, 0];
    this.#stop.abort(new SvcError("canceled", "pairing has ended"));
    await Promise.all(this.#busy.values());
    if (adapter === undefined) return;
    const forgotten = () => {};
    if (this.#isVisible) {
      await this.#set(adapter, ADAPTER, "Discoverable", typed("b", false), signal).catch(forgotten);
    }
    this.#isVisible = false;
    // The empty name restores the system's own.
    await this.#set(adapter, ADAPTER, "Alias", typed("s", ""), signal).catch(forgotten);
    await this.#call("/org/bluez", AGENT_MANAGER, "UnregisterAgent", signal, "o", [AGENT]).catch(forgotten);
    this.parts.bus.unserve(AGENT);
  }

  #isOpen(): boolean {
    return this.#trustsAll || this.parts.clock.monotonicMs() < this.#untilMs;
  }

  #serve(): void {
    const ask = (inputs: Record<string, string>, out?: string) => ({ in: inputs, out, run: refuse });
    const allow = (inputs: Record<string, string>, pairs: boolean) => ({
      in: inputs,
      run: async ({ device }: { readonly [name: string]: unknown }) =>
        await this.#allow(String(device), pairs),
    });
    this.parts.bus.serve(AGENT, {
      name: `${BLUEZ}.Agent1`,
      methods: {
        RequestConfirmation: allow({ device: "o", passkey: "u" }, true),
        RequestAuthorization: allow({ device: "o" }, true),
        AuthorizeService: allow({ device: "o", uuid: "s" }, false),
        RequestPinCode: ask({ device: "o" }, "s"),
        RequestPasskey: ask({ device: "o" }, "u"),
        DisplayPinCode: ask({ device: "o", pincode: "s" }),
        DisplayPasskey: { in: { device: "o", passkey: "u", entered: "q" }, run: () => {} },
        Cancel: { run: () => {} },
        Release: { run: () => {} },
      },
    });
  }

  /** Lets a phone pair or use a service, or throws the refusal. */
  async #allow(device: string, pairs: boolean): Promise<void> {
    const { logger } = this.parts;
    const { signal } = this.#stop;
    const address = String(await this.#get(device, "Address", signal).catch(refuse)).toUpperCase();
    const isTrusted = await this.#get(device, "Trusted", signal).catch(refuse) === true;
    if (!ADDRESS.test(address)) refuse();
    if (!isTrusted && !this.#isOpen()) {
      logger.warn(`the phone ${address} may not pair: nobody has opened pairing`);
      refuse();
    }
    if (!pairs || this.#busy.has(device)) return;
    if (this.#busy.size >= PHONES_MAX) refuse();
    const pairing = this.#finish(device, address).catch((error) => {
      if (!signal.aborted) logger.warn(`the phone ${address} has not paired: ${messageOf(error)}`);
    });
    this.#busy.set(device, pairing.finally(() => this.#busy.delete(device)));
  }

  /** Waits for the end of the pairing; the phone's services are used without a question from then on. */
  async #finish(device: string, address: string): Promise<void> {
    const { clock, logger, paired } = this.parts;
    const late = deadline(
      clock,
      PAIR_MS,
      () => new SvcError("deadline_exceeded", `it took longer than ${PAIR_MS / 1000} s`),
      this.#stop.signal,
    );
    try {
      while (await this.#get(device, "Paired", late.signal) !== true) await clock.sleep(LOOK_MS, late.signal);
      await this.#set(device, DEVICE, "Trusted", typed("b", true), late.signal);
      logger.info(`the phone ${address} has paired`);
      paired(address);
    } finally {
      late.done();
    }
  }

  async #get(device: string, name: string, signal: AbortSignal): Promise<unknown> {
    return await this.#call<unknown>(device, PROPERTIES, "Get", signal, "ss", [DEVICE, name]);
  }

  async #set(path: string, iface: string, name: string, value: unknown, signal: AbortSignal): Promise<void> {
    await this.#call(path, PROPERTIES, "Set", signal, "ssv", [iface, name, value]);
  }

  async #call<T = void>(
    path: string,
    iface: string,
    member: string,
    signal: AbortSignal,
    signature: string,
    args: readonly unknown[],
  ): Promise<T> {
    const call = { destination: BLUEZ, path, interface: iface, member, signature, args, signal };
    return await this.parts.bus.call<T>(call);
  }
}

function refuse(): never {
  throw new BusRefusal(`${BLUEZ}.Error.Rejected`, "this device accepts no new phones now");
}
