/** A device over a network service that is not there, for tests of its networks: in a shop, with a person who sets it up. */

import { assertEquals } from "@std/assert";
import { type LogRecord, Logs } from "../../lib/base/log/log.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Networking } from "../../lib/agent/network/networking.ts";
import { ProvisioningSubmissions } from "../../lib/agent/portal/submissions.ts";
import { decideSettings } from "../../lib/agent/settings/settings.ts";
import { FakeClock } from "./fake_clock.ts";
import { FakeFiles } from "./fake_files.ts";
import { FakeNetwork } from "./fake_network.ts";

const MINUTE_MS = 60_000;
const REFUSED = "/opt/svc/state/refused_networks.json";
export const CREDENTIALS = JSON.stringify({
  cloud: { id: "part", app_address: "https://cloud:8090", api_key: { id: "key", key: "s3cr3t" } },
});

/** A device in a shop, and a person who sets it up. */
export class NetworkDevice {
  readonly clock = new FakeClock();
  readonly network = new FakeNetwork();
  readonly log: string[] = [];
  readonly settings;
  readonly stop = new AbortController();
  readonly networking: Networking;
  submissions!: ProvisioningSubmissions;
  configured = false;
  /** The control plane answered a minute ago. */
  reachesCloud = false;
  serving = 0;
  failToServe = false;
  /** The portal never ends. */
  servesOn = false;
  readonly #running: Promise<void>;

  constructor(
    section: Record<string, unknown> = {},
    more: Record<string, unknown> = {},
    readonly files = new FakeFiles(),
  ) {
    this.settings = (networks: Record<string, unknown> = {}, now = section) =>
      decideSettings({
        cloud: { network_configuration: now, additional_networks: networks, ...more } as never,
      }).settings;
    const sink = ({ message }: LogRecord) => void this.log.push(message);
    this.networking = new Networking({
      port: this.network,
      files: this.files,
      clock: this.clock,
      logger: new Logs(this.clock, [sink]).logger("networks"),
      hostname: "rover",
      refusedFile: REFUSED,
      agentVersion: "1",
      submissions: (device, take) => this.submissions = new ProvisioningSubmissions(this.clock, device, take),
      isConfigured: () => this.configured,
      reachesCloud: () => this.reachesCloud,
      tryCloud: () => Promise.resolve(this.configured ? this.network.leadsOut : undefined),
      configure: (text) => {
        assertEquals(text, CREDENTIALS);
        this.configured = true;
        return Promise.resolve();
      },
      serve: () => {
        if (this.failToServe) return Promise.reject(new SvcError("unavailable", "port 80 is taken"));
        this.serving++;
        const never = new Promise<void>(() => {});
        return Promise.resolve({
          close: () => this.servesOn ? never : Promise.resolve(void this.serving--),
        });
      },
    }, this.settings());
    this.#running = this.networking.run(this.stop.signal);
  }

  async minutes(count: number): Promise<void> {
    await this.clock.advance(count * MINUTE_MS);
  }

  async apply(networks: Record<string, unknown>, section?: Record<string, unknown>): Promise<string> {
    const applied = this.networking.apply(this.settings(networks, section), this.stop.signal);
    const ended = applied.then(() => "", (error) => String(error.message));
    await this.minutes(4);
    return await ended;
  }

  async end(): Promise<void> {
    this.stop.abort();
    await this.clock.advance(0);
    await this.#running;
    await this.networking.close();
  }
}
