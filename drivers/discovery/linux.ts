/**
 * `linux` discovery: the board that the program runs on, as the configuration of a `linux` board. Its status lists
 * every line with who uses it.
 */

import { type Discovered, type Discovery, DiscoveryApi } from "../../lib/api/services/discovery.ts";
import { type JsonObject, object } from "../../lib/base/schema/schema.ts";
import { CharacterGpio } from "../../lib/device/character_gpio.ts";
import { chooseBackEnd, lineTable, probeGpio } from "../../lib/device/gpio_back_end.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model, type ModelHost } from "../../lib/resource/registry.ts";
import { BaseResource } from "../../lib/resource/resource.ts";

/** The board's name in the device tree. */
const MODEL = "/proc/device-tree/model";

class LinuxDiscovery extends BaseResource implements Discovery {
  constructor(name: ResourceName, private readonly host: ModelHost) {
    super(name);
  }

  /** Throws if there are no pins or the permission is missing; the error says what to do. */
  async discoverResources(): Promise<readonly Discovered[]> {
    const gpio = await this.#kind();
    const board = (await this.host.readTextFile(MODEL).catch(() => "")).replace(/\0.*$/s, "");
    const name = board.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
    return [{
      name: name || "board",
      api: "rdk:component:board",
      model: "rdk:builtin:linux",
      attributes: { gpio },
    }];
  }

  override async getStatus(): Promise<JsonObject> {
    if (await this.#kind() !== "character_device") return { chips: [] };
    const gpio = new CharacterGpio(this.host, this.name.short);
    try {
      return { chips: lineTable(await gpio.chips()) };
    } finally {
      gpio.close();
    }
  }

  async #kind() {
    return chooseBackEnd(await probeGpio(this.host, this.host.platform().os));
  }
}

export const LinuxDiscoveryModel = model({
  api: DiscoveryApi,
  name: "rdk:builtin:linux",
  doc: "Finds the pins of this computer, and shows the user of each line (Linux).",
  attributes: object({}).required(),
  construct: ({ name, host }) => new LinuxDiscovery(name, host),
});
