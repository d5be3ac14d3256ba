/**
 * BlueZ with one adapter on a private bus, and a phone nearby: it finds, reads and writes.
 */

import { Buffer } from "node:buffer";
import type { Bus } from "../../lib/base/bus/bus.ts";
import { uuidOf } from "../../lib/agent/bluetooth/values.ts";
import type { PrivateBus } from "./private_bus.ts";

const TREE = "org.freedesktop.DBus.ObjectManager";
const PROPERTIES = "org.freedesktop.DBus.Properties";
const CHARACTERISTIC = "org.bluez.GattCharacteristic1";
const ADAPTER_PATH = "/org/bluez/hci0";
export const PHONE = "AA:BB:CC:00:11:22";
const PHONE_PATH = `${ADAPTER_PATH}/dev_${PHONE.replaceAll(":", "_")}`;
const KEY = { name: "RSA-OAEP", hash: "SHA-256" } as const;

type Objects = Record<string, Record<string, Record<string, unknown>>>;

export class FakeBluez {
  isPowered = false;
  /** Whether phones find the adapter itself, to pair with it. */
  isVisible = false;
  alias = "";
  isTrusted = false;
  #agent: { owner: string; path: string } | undefined;
  #isPaired = false;
  /** The present advertisement. */
  advertised: Record<string, unknown> | undefined;
  #application: { owner: string; objects: Objects } | undefined;

  private constructor(private readonly bus: Bus) {}

  static async start(privateBus: PrivateBus, { adapter = true } = {}): Promise<FakeBluez> {
    const bus = await privateBus.own("org.bluez");
    const bluez = new FakeBluez(bus);
    bus.serveTree("/");
    if (adapter) {
      bluez.#serveAdapter();
      bluez.#serveAgents();
    }
    return bluez;
  }

  /** The characteristics that a phone finds, by UUID. */
  get found(): ReadonlyMap<string, { path: string; flags: readonly string[] }> {
    const found = new Map<string, { path: string; flags: readonly string[] }>();
    for (const [path, interfaces] of Object.entries(this.#application?.objects ?? {})) {
      const one = interfaces[CHARACTERISTIC];
      if (one) found.set(String(one.UUID), { path, flags: one.Flags as string[] });
    }
    return found;
  }

  /** The services that a phone finds, by UUID. */
  get services(): readonly unknown[] {
    return Object.values(this.#application?.objects ?? {}).flatMap((one) =>
      one["org.bluez.GattService1"]?.UUID ?? []
    );
  }

  async read(name: string, offset = 0): Promise<Buffer> {
    const value = await this.#ask(name, "ReadValue", "a{sv}", [offset === 0 ? {} : { offset }]);
    return Buffer.from(value as Uint8Array);
  }

  /** Writes the bytes as they are. */
  async writeBytes(name: string, bytes: Uint8Array, options: Record<string, unknown> = {}): Promise<void> {
    await this.#ask(name, "WriteValue", "aya{sv}", [Buffer.from(bytes), options]);
  }

  /** Writes as the app does: encrypted for the device's key, after the hotspot's password. */
  async write(name: string, password: string, value: string): Promise<void> {
    await this.writeBytes(name, await this.sealed(password, value));
  }

  /** Pairs as a phone that shows a number; throws the refusal of the device's agent. */
  async pair(): Promise<void> {
    await this.ask("RequestConfirmation", "ou", [PHONE_PATH, 123456]);
    this.#isPaired = true;
  }

  /** Puts a question to the device's agent. */
  async ask(member: string, signature: string, args: readonly unknown[]): Promise<unknown> {
    if (!this.#agent) throw new Error("no agent answers a phone that wants to pair");
    const { owner, path } = this.#agent;
    return await this.#call(owner, path, "org.bluez.Agent1", member, signature, args);
  }

  async sealed(password: string, value: string): Promise<Uint8Array> {
    const spki = new Uint8Array(await this.read("pub_key"));
    const key = await crypto.subtle.importKey("spki", spki, KEY, false, ["encrypt"]);
    const text = new TextEncoder().encode(`${password}:${value}`);
    return new Uint8Array(await crypto.subtle.encrypt(KEY, key, text));
  }

  /** Ends as bluetoothd does when it is stopped. */
  async stop(): Promise<void> {
    await this.bus.close();
  }

  async #ask(name: string, member: string, signature: string, args: readonly unknown[]): Promise<unknown> {
    const one = this.found.get(uuidOf(name));
    if (!one) throw new Error(`a phone finds no ${name}`);
    return await this.#callApplication(one.path, CHARACTERISTIC, member, signature, args);
  }

  #serveAdapter(): void {
    this.bus.serve(ADAPTER_PATH, {
      name: "org.bluez.Adapter1",
      properties: {
        Address: ["s", () => "00:AA:01:00:00:23"],
        Powered: ["b", () => this.isPowered, (on) => void (this.isPowered = on === true)],
        Alias: ["s", () => this.alias, (text) => void (this.alias = String(text))],
        Discoverable: ["b", () => this.isVisible, (on) => void (this.isVisible = on === true)],
        DiscoverableTimeout: ["u", () => 180, () => {}],
        Pairable: ["b", () => true, () => {}],
      },
    });
    this.bus.serve(ADAPTER_PATH, {
      name: "org.bluez.GattManager1",
      methods: {
        RegisterApplication: {
          in: { application: "o", options: "a{sv}" },
          run: async ({ application }, owner) => {
            const objects = await this.#call<Objects>(owner, String(application), TREE, "GetManagedObjects");
            this.#application = { owner, objects };
          },
        },
        UnregisterApplication: { in: { application: "o" }, run: () => void (this.#application = undefined) },
      },
    });
    this.bus.serve(ADAPTER_PATH, {
      name: "org.bluez.LEAdvertisingManager1",
      methods: {
        RegisterAdvertisement: {
          in: { advertisement: "o", options: "a{sv}" },
          run: async ({ advertisement }, owner) => {
            const args = ["org.bluez.LEAdvertisement1"];
            this.advertised = await this.#call(owner, String(advertisement), PROPERTIES, "GetAll", "s", args);
          },
        },
        UnregisterAdvertisement: {
          in: { advertisement: "o" },
          run: () => void (this.advertised = undefined),
        },
      },
    });
  }

  /** The list of agents, and a phone nearby. */
  #serveAgents(): void {
    this.bus.serve("/org/bluez", {
      name: "org.bluez.AgentManager1",
      methods: {
        RegisterAgent: {
          in: { agent: "o", capability: "s" },
          run: ({ agent }, owner) => void (this.#agent = { owner, path: String(agent) }),
        },
        RequestDefaultAgent: { in: { agent: "o" }, run: () => {} },
        UnregisterAgent: { in: { agent: "o" }, run: () => void (this.#agent = undefined) },
      },
    });
    this.bus.serve(PHONE_PATH, {
      name: "org.bluez.Device1",
      properties: {
        Address: ["s", () => PHONE],
        Paired: ["b", () => this.#isPaired],
        Trusted: ["b", () => this.isTrusted, (on) => void (this.isTrusted = on === true)],
      },
    });
  }

  async #callApplication(
    path: string,
    iface: string,
    member: string,
    signature: string,
    args: readonly unknown[],
  ): Promise<unknown> {
    if (!this.#application) throw new Error("a phone finds no service");
    return await this.#call(this.#application.owner, path, iface, member, signature, args);
  }

  async #call<T>(
    destination: string,
    path: string,
    iface: string,
    member: string,
    signature?: string,
    args: readonly unknown[] = [],
  ): Promise<T> {
    return await this.bus.call<T>({ destination, path, interface: iface, member, signature, args });
  }
}
