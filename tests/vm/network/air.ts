/**
 * The device's surroundings in the virtual machine: the shop's router, the annex's, and a phone.
 *
 * Each call runs one command of `air.sh`, or one on the phone.
 */

import { ROOT } from "../../../cli/build/compiler.ts";
import type { TestPlace } from "../place.ts";

/** The passwords of the routers' networks, the same as in `air.sh`. */
export const PASSWORDS = { shop: "shop password", annex: "annex password" } as const;
export type Router = keyof typeof PASSWORDS;

/** The files that the machine mounts. */
export const SCRIPTS = ["air.sh", "phone-address.sh", "phone-bluetooth.sh", "names.pl"];

const LOOK_MS = 1000;
const COMMAND_MS = 120_000;
const READY_MS = 300_000;
const BLUETOOTH_MS = 300_000;

export class Air {
  constructor(private readonly machine: TestPlace) {}

  static async share(folder: string): Promise<void> {
    await Deno.mkdir(folder, { recursive: true });
    for (const name of SCRIPTS) await Deno.copyFile(`${ROOT}tests/vm/network/${name}`, `${folder}/${name}`);
  }

  /** Waits until the routers and the phone are there, which a busy emulator makes later than the shell. */
  async ready(): Promise<void> {
    await this.machine.eventually("systemctl is-active -q air", READY_MS);
  }

  async router(name: Router, state: "on" | "off"): Promise<void> {
    await this.#air("router", name, state);
  }

  /** Connects a router to the internet or disconnects it. */
  async internet(name: Router, state: "on" | "off"): Promise<void> {
    await this.#air("internet", name, state);
  }

  /** Gives a router WPA2 (`WPA-PSK`) or WPA3 (`SAE`) alone, from its next start on. */
  async keys(name: Router, keys: "WPA-PSK" | "SAE"): Promise<void> {
    await this.#air("keys", name, keys);
  }

  /** Lets the phone join a network; returns the phone's address and its DNS server. */
  async join(ssid: string, password: string): Promise<string> {
    const printed = await this.#air("join", ssid, password);
    return printed.split("\n").find((line) => line.includes(" names by ")) ?? `no address: ${printed}`;
  }

  async leave(): Promise<void> {
    await this.#air("leave");
  }

  /** Waits until the phone sees a network, or no longer does. With `withinMs` 0 the first scan that succeeds decides. */
  async sees(ssid: string, wanted: boolean, withinMs: number): Promise<void> {
    const until = performance.now() + withinMs;
    for (let seen = "";;) {
      // A scan may be refused while the radio is busy.
      const { code, output } = await this.machine.try("bash /mnt/share/air.sh networks", COMMAND_MS);
      if (code === 0) seen = output;
      const there = seen.split("\n").some((line) => line === `${ssid}\tWPA2`);
      if (code === 0 && there === wanted) return;
      if (performance.now() > until + (code === 0 ? 0 : COMMAND_MS)) {
        throw new Error(`the phone ${wanted ? "does not see" : "still sees"} ${ssid}; it sees:\n${seen}`);
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  /** Runs a command on the phone. */
  async phone(command: string): Promise<string> {
    return await this.machine.run(`ip netns exec phone ${command}`, COMMAND_MS);
  }

  /** Runs a command of `phone-bluetooth.sh`. */
  async bluetooth(...words: readonly string[]): Promise<string> {
    return await this.machine.run(`bash /mnt/share/phone-bluetooth.sh ${quoted(words)}`, BLUETOOTH_MS);
  }

  async #air(...words: readonly string[]): Promise<string> {
    return await this.machine.run(`bash /mnt/share/air.sh ${quoted(words)}`, COMMAND_MS);
  }
}

function quoted(words: readonly string[]): string {
  return words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
}
