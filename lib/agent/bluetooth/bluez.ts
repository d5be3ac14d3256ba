/**
 * A Bluetooth LE service of BlueZ (5.50 or newer), over the system's bus: an adapter, its advertisement, and the
 * characteristics that a phone reads and writes.
 *
 * Published names of BlueZ's doc/gatt-api.txt and doc/advertising-api.txt.
 */

import { Buffer } from "node:buffer";
import { type Bus, BusRefusal, typed } from "../../base/bus/bus.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { SEALED_BYTES } from "./characteristics.ts";
import { BLUETOOTH_SERVICE, READ, type Read, uuidOf, WRITTEN, type Written } from "./values.ts";

export interface Offered {
  /** The name in a phone's list. */
  readonly name: string;
  readonly read: (name: Read) => Buffer;
  /** `phone` is BlueZ's name for the phone, empty if there is none. */
  readonly write: (name: Written, sealed: Uint8Array, phone: string) => Promise<void>;
}

const BLUEZ = "org.bluez";
const ADAPTER = `${BLUEZ}.Adapter1`;
const GATT = `${BLUEZ}.GattManager1`;
const ADVERTISING = `${BLUEZ}.LEAdvertisingManager1`;
const CHARACTERISTIC = `${BLUEZ}.GattCharacteristic1`;
const PROPERTIES = "org.freedesktop.DBus.Properties";

/** The paths of our own objects. */
const TREE = "/svc/provisioning";
const SERVICE_PATH = `${TREE}/service`;
const ADVERTISEMENT = "/svc/advertisement";
const ADAPTERS_MAX = 16;
/** Incomplete values; the oldest are dropped. */
const PIECES_MAX = 64;

type Objects = Record<string, Record<string, Record<string, unknown>>>;

export class BlueZ {
  #adapter: string | undefined;
  #owner: unknown;
  /** Values that arrive in pieces, by characteristic and phone. */
  readonly #pieces = new Map<string, Buffer>();

  constructor(private readonly bus: Bus) {}

  /**
   * Offers the service on the first usable adapter. Throws `unavailable` without BlueZ, `not_found` without an
   * adapter.
   */
  async open(offered: Offered, signal: AbortSignal): Promise<string> {
    const owner = await this.#nameOwner(signal);
    const objects = await this.#call<Objects>(
      "/",
      "org.freedesktop.DBus.ObjectManager",
      "GetManagedObjects",
      signal,
    );
    const adapter = Object.keys(objects).sort().slice(0, ADAPTERS_MAX).find((path) => {
      const interfaces = objects[path] ?? {};
      return GATT in interfaces && ADVERTISING in interfaces;
    });
    if (!adapter) throw new SvcError("not_found", "there is no Bluetooth adapter that phones could find");
    await this.#call(adapter, PROPERTIES, "Set", signal, "ssv", [ADAPTER, "Powered", typed("b", true)]);
    this.#serve(offered);
    try {
      await this.#call(adapter, GATT, "RegisterApplication", signal, "oa{sv}", [TREE, {}]);
      await this.#call(adapter, ADVERTISING, "RegisterAdvertisement", signal, "oa{sv}", [ADVERTISEMENT, {}]);
    } catch (error) {
      this.#adapter = adapter;
      await this.close(signal);
      throw error;
    }
    [this.#adapter, this.#owner] = [adapter, owner];
    return adapter;
  }

  /**
   * Whether phones can still find the service: BlueZ has not restarted, and its adapter is present and powered.
   */
  async isOpen(signal: AbortSignal): Promise<boolean> {
    if (this.#adapter === undefined || await this.#nameOwner(signal) !== this.#owner) return false;
    return await this.#call<unknown>(this.#adapter, PROPERTIES, "Get", signal, "ss", [ADAPTER, "Powered"]) ===
      true;
  }

  /** Notifies phones of a changed value. */
  changed(name: Read): void {
    this.bus.changed(`${SERVICE_PATH}/${name}`, CHARACTERISTIC, "Value");
  }

  async close(signal: AbortSignal): Promise<void> {
    const adapter = this.#adapter;
    this.#adapter = undefined;
    this.#pieces.clear();
    if (adapter !== undefined) {
      // A restarted BlueZ has forgotten it already.
      const forgotten = () => {};
      await this.#call(adapter, ADVERTISING, "UnregisterAdvertisement", signal, "o", [ADVERTISEMENT])
        .catch(forgotten);
      await this.#call(adapter, GATT, "UnregisterApplication", signal, "o", [TREE]).catch(forgotten);
    }
    this.bus.unserve(ADVERTISEMENT);
    this.bus.unserve(TREE);
  }

  #serve({ name, read, write }: Offered): void {
    this.bus.serveTree(TREE);
    this.bus.serve(SERVICE_PATH, {
      name: `${BLUEZ}.GattService1`,
      properties: { UUID: ["s", () => BLUETOOTH_SERVICE], Primary: ["b", () => true] },
    });
    const characteristic = (one: Read | Written, flags: readonly string[]) => ({
      UUID: ["s", () => uuidOf(one)] as const,
      Service: ["o", () => SERVICE_PATH] as const,
      Flags: ["as", () => flags] as const,
    });
    for (const one of READ) {
      this.bus.serve(`${SERVICE_PATH}/${one}`, {
        name: CHARACTERISTIC,
        properties: { ...characteristic(one, ["read", "notify"]), Value: ["ay", () => read(one)] },
        methods: {
          ReadValue: { in: { options: "a{sv}" }, out: "ay", run: ({ options }) => from(read(one), options) },
          StartNotify: { run: () => {} },
          StopNotify: { run: () => {} },
        },
      });
    }
    for (const one of WRITTEN) {
      this.bus.serve(`${SERVICE_PATH}/${one}`, {
        name: CHARACTERISTIC,
        properties: characteristic(one, ["write", "write-without-response"]),
        methods: {
          WriteValue: {
            in: { value: "ay", options: "a{sv}" },
            run: async ({ value, options }) => {
              const whole = this.#whole(one, value, options);
              if (whole) await write(one, whole, optionsOf(options).phone).catch(refuse);
            },
          },
        },
      });
    }
    this.bus.serve(ADVERTISEMENT, {
      name: `${BLUEZ}.LEAdvertisement1`,
      properties: {
        Type: ["s", () => "peripheral"],
        ServiceUUIDs: ["as", () => [BLUETOOTH_SERVICE]],
        LocalName: ["s", () => name],
        Discoverable: ["b", () => true],
      },
      methods: { Release: { run: () => {} } },
    });
  }

  /** The complete value, once it is there; a long one arrives in pieces. */
  #whole(name: Written, value: unknown, options: unknown): Uint8Array | undefined {
    const { offset, type, phone } = optionsOf(options);
    const key = `${name} ${phone}`;
    const before = offset === 0 ? Buffer.alloc(0) : this.#pieces.get(key) ?? Buffer.alloc(0);
    this.#pieces.delete(key);
    if (offset !== before.length) throw new BusRefusal(`${BLUEZ}.Error.InvalidOffset`, "wrong offset");
    if (!(value instanceof Uint8Array) || before.length + value.length > SEALED_BYTES) return wrongLength();
    const whole = Buffer.concat([before, value]);
    if (whole.length === SEALED_BYTES) return whole;
    if (type !== "reliable") return wrongLength();
    if (this.#pieces.size >= PIECES_MAX) this.#pieces.delete(this.#pieces.keys().next().value!);
    this.#pieces.set(key, whole);
    return undefined;
  }

  async #nameOwner(signal: AbortSignal): Promise<unknown> {
    const bus = "org.freedesktop.DBus";
    // The first call starts BlueZ if the system is set up for it.
    return await this.bus.call({
      destination: bus,
      path: "/org/freedesktop/DBus",
      interface: bus,
      member: "GetNameOwner",
      signature: "s",
      args: [BLUEZ],
      signal,
    }).catch((error) => {
      throw new SvcError("unavailable", `BlueZ is not on the message bus: ${messageOf(error)}`);
    });
  }

  async #call<T = void>(
    path: string,
    iface: string,
    member: string,
    signal: AbortSignal,
    signature?: string,
    args: readonly unknown[] = [],
  ): Promise<T> {
    return await this.bus.call<T>({
      destination: BLUEZ,
      path,
      interface: iface,
      member,
      signature,
      args,
      signal,
    });
  }
}

function from(value: Buffer, options: unknown): Buffer {
  const { offset } = optionsOf(options);
  if (offset > value.length) throw new BusRefusal(`${BLUEZ}.Error.InvalidOffset`, "behind the end");
  return value.subarray(offset);
}

function optionsOf(options: unknown): { offset: number; type: unknown; phone: string } {
  const { offset = 0, type, device = "" } = (options ?? {}) as Record<string, unknown>;
  return { offset: Number(offset), type, phone: String(device) };
}

function wrongLength(): never {
  throw new BusRefusal(`${BLUEZ}.Error.InvalidValueLength`, `a value has ${SEALED_BYTES} bytes`);
}

/** Maps an error to one of the few error names of ATT. */
function refuse(error: unknown): never {
  const { code } = SvcError.from(error);
  const name = code === "permission_denied" ? "NotAuthorized" : "Failed";
  throw new BusRefusal(`${BLUEZ}.Error.${name}`, messageOf(error));
}
