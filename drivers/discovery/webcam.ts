/**
 * `webcam` discovery: lists the connected cameras, each as the configuration of a `webcam` that would use it.
 */

import { type Discovered, type Discovery, DiscoveryApi } from "../../lib/api/services/discovery.ts";
import type { Devices, Platform } from "../../lib/base/host.ts";
import type { ReadFolders } from "../../lib/base/files/files.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { type JsonObject, object } from "../../lib/base/schema/schema.ts";
import { bestMode, VideoDevice, videoPaths } from "../../lib/device/v4l2.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseResource } from "../../lib/resource/resource.ts";

/** Links whose names stay the same regardless of the order in which cameras are plugged in. */
const STABLE_FOLDER = "/dev/v4l/by-id";

class WebcamDiscovery extends BaseResource implements Discovery {
  constructor(
    name: ResourceName,
    private readonly host: Devices & ReadFolders & Platform,
    private readonly logger: Logger,
  ) {
    super(name);
  }

  async discoverResources(): Promise<readonly Discovered[]> {
    const { os } = this.host.platform();
    if (os !== "linux") {
      throw new SvcError(
        "unimplemented",
        `${this.name} cannot look for cameras on ${os}, wanted Linux (Video4Linux)`,
      );
    }
    const stable = await this.#stablePaths();
    const found: Discovered[] = [];
    for (const path of await videoPaths(this.host)) {
      const camera = this.#look(path, stable.get(path) ?? path);
      if (camera) found.push({ ...camera, name: unusedName(camera.name, found) });
    }
    return found;
  }

  /** `undefined` for a device that is no camera or that `webcam` cannot use. */
  #look(path: string, stablePath: string): Discovered | undefined {
    let device: VideoDevice | undefined;
    try {
      device = VideoDevice.open(this.host, path);
      const { card, captures } = device.identity();
      if (!captures) return undefined;
      const { width, height, rates } = bestMode(device.modes(), { width: 0, height: 0, format: undefined });
      const [first] = rates;
      const rate: JsonObject = first === undefined ? {} : { frame_rate: first };
      return {
        name: card.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "") || "webcam",
        api: "rdk:component:camera",
        model: "rdk:builtin:webcam",
        attributes: { video_path: stablePath, width_px: width, height_px: height, ...rate },
      };
    } catch (cause) {
      // A device without permission is likely the camera that somebody misses in the list, so it gets a
      // warning.
      const level = SvcError.from(cause).code === "permission_denied" ? "warn" : "debug";
      this.logger[level](`${path} is passed over: ${chainOf(cause)}`);
      return undefined;
    } finally {
      device?.close();
    }
  }

  /** The stable path of each device that has one. */
  async #stablePaths(): Promise<ReadonlyMap<string, string>> {
    const names = await this.host.readFolder(STABLE_FOLDER).catch(() => []);
    const found = names.map(async (name) => {
      const path = `${STABLE_FOLDER}/${name}`;
      return [await this.host.realPath(path).catch(() => path), path] as const;
    });
    return new Map(await Promise.all(found));
  }
}

/** The name, with a number appended if another camera has it already. */
function unusedName(name: string, found: readonly Discovered[]): string {
  const taken = new Set(found.map((one) => one.name));
  let unused = name;
  for (let number = 2; taken.has(unused); number++) unused = `${name}-${number}`;
  return unused;
}

export const WebcamDiscoveryModel = model({
  api: DiscoveryApi,
  name: "rdk:builtin:webcam",
  doc: "Finds cameras on USB ports and built-in cameras (Linux).",
  attributes: object({}).required(),
  construct: ({ name, host, logger }) => new WebcamDiscovery(name, host, logger),
});
