/** What faults and checks work on: control planes, devices, releases. */

import type { Planes } from "../planes.ts";
import { buildRelease, type Kind } from "../../agent/test_release.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import type { Device } from "./device.ts";

const clock = new SystemClock();
const AGAIN_MS = 500;
const COMMAND_MS = 120_000;

export class World {
  /** The versions that work, the latest last. */
  readonly good: string[] = [];
  readonly bad: string[] = [];
  /** What is on its way back. */
  readonly returning = new Set<Promise<void>>();
  #releases = 0;

  constructor(
    readonly planes: Planes,
    readonly devices: readonly Device[],
    readonly folder: string,
    readonly print: (line: string) => void,
  ) {}

  /** A command of an operator, who repeats it while the control planes are in trouble. */
  async command(...args: string[]): Promise<string> {
    const endMs = clock.monotonicMs() + COMMAND_MS;
    for (;;) {
      try {
        return await this.planes.command(...args);
      } catch (error) {
        // The command before has succeeded, and its end was lost.
        if (String(error).includes("already")) return "";
        if (clock.monotonicMs() > endMs) throw error;
        await clock.sleep(AGAIN_MS);
      }
    }
  }

  /** Publishes the next version in the stable channel, and returns it. */
  async release(kind: Kind): Promise<string> {
    const version = `1.${this.#releases++}.0`;
    const program = `${this.folder}/svc-server-${version}`;
    await buildRelease(program, version, kind);
    await this.command("release", "publish", "svc-server", version, program, "--channel", "stable");
    (kind === "serves" ? this.good : this.bad).push(version);
    return version;
  }

  /** @param agent the section of that name, such as the wanted version */
  async configure(device: Device, agent: Record<string, unknown> = {}): Promise<void> {
    const before = this.devices[this.devices.indexOf(device) - 1] ?? device;
    const file = `${this.folder}/${device.name}.config.json`;
    const config = device.configuration(before, this.planes.example.ownerKey);
    await Deno.writeTextFile(file, JSON.stringify({ ...config, agent }));
    await this.command("config", "set", device.partId, file);
  }
}
