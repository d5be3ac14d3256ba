/**
 * Lets the network service join, by itself, the networks that the agent tries: all of them, or only the first one. So a
 * device whose router restarts reconnects at once, even if the agent is not running.
 */

import { messageOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { LogOnChange } from "../../base/log/on_change.ts";
import { firstProfile, managedProfiles } from "./managed_profiles.ts";
import type { NetworkPort, NetworkView } from "./network_port.ts";

export class Autoconnect {
  /** The problem of each profile that could not be changed, by its path. */
  readonly #unchanged = new LogOnChange();

  constructor(private readonly port: Pick<NetworkPort, "setAutoconnect">, private readonly logger: Logger) {}

  /** Sets it for the profiles of the view: for all managed networks, or for the first one. */
  async apply(view: NetworkView, all: boolean, signal: AbortSignal): Promise<void> {
    const [networks, first] = [managedProfiles(view), firstProfile(view)];
    for (const profile of view.profiles) {
      if (profile.name === "" || profile.ssid === undefined || profile.isHotspot) continue;
      const wanted = all || profile === first || !networks.some((one) => one === profile);
      if (profile.autoconnect === wanted) continue;
      try {
        await this.port.setAutoconnect(profile, wanted, signal);
        this.#unchanged.clear(profile.path);
      } catch (error) {
        if (signal.aborted) throw error;
        const problem = messageOf(error);
        if (!this.#unchanged.isNew(problem, profile.path)) continue;
        this.logger.warn(`cannot change the profile ${profile.id}: ${problem}`);
      }
    }
  }
}
