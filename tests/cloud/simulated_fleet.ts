/** A fleet of machines for tests of rollouts, whose time, presence and health the test decides. */

import { configText } from "../../lib/cloud/config/resolution.ts";
import { Fragments } from "../../lib/cloud/config/fragments/fragments.ts";
import { PartConfigs } from "../../lib/cloud/config/part_config.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { sightingsStatements } from "../../lib/cloud/tenants/parts.ts";
import { ONLINE_MS } from "../../lib/cloud/tenants/presence.ts";
import { keepHealth } from "../../lib/cloud/fleet/part_health.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import type { FakeClock } from "../support/fake_clock.ts";
import { pause } from "../support/until.ts";
import type { World } from "./world.ts";

export const FLEET_NOW_MS = Date.parse("2026-11-27T12:00:00Z");
/** A control plane looks at a rollout after 5 s. */
const STEP_MS = 6_000;

/** Machines that poll, report, and turn unhealthy with the fragment's revision 2 if their name is among the bad ones. */
export class SimulatedFleet {
  readonly parts = new Map<string, { readonly id: string; readonly machineId: string }>();
  readonly bad = new Set<string>();
  readonly offline = new Set<string>();
  fragment = "";

  constructor(
    private readonly store: Store,
    private readonly world: Pick<World, "organization" | "location">,
    private readonly clock: Pick<FakeClock, "nowMs" | "advance">,
  ) {}

  async create(count: number, version?: string): Promise<void> {
    const nowMs = this.clock.nowMs();
    await this.store.transaction(async (sql) => {
      const fragments = new Fragments(sql);
      this.fragment = await fragments.create(
        this.world.organization,
        "arm",
        configText({ debug: false }),
        nowMs,
      );
      if (version) await fragments.update(this.fragment, "arm", configText({ debug: true }), nowMs);
      for (let at = 0; at < count; at++) {
        const name = `m${String(at).padStart(2, "0")}`;
        const { id: machineId, partId: id } = await new Machines(sql).create(
          this.world.location,
          name,
          nowMs,
        );
        const entry = version ? { id: this.fragment, version } : this.fragment;
        await new PartConfigs(sql).set(id, configText({ fragments: [entry] }), "", nowMs);
        this.parts.set(name, { id, machineId });
      }
    });
  }

  /** A moment in which every machine polls and reports. */
  readonly live = async () => {
    await this.clock.advance(STEP_MS);
    const nowMs = this.clock.nowMs();
    const online = [...this.parts].filter(([name]) => !this.offline.has(name));
    const sightings = new Map(online.map(([, { id }]) => [id, { atMs: nowMs }]));
    if (sightings.size > 0) await this.store.batch(sightingsStatements(sightings, ONLINE_MS));
    await this.store.transaction(async (sql) => {
      for (const [name, { id }] of online) {
        const { config, revision } = await new PartConfigs(sql).get(id);
        const isBad = this.bad.has(name) && versionIn(config) === "2";
        const unhealthy = isBad ? ["rdk:component:arm/left: no such file"] : [];
        await keepHealth(sql, id, { revision: `${revision}+x`, unhealthy, heldBack: false }, nowMs);
      }
    });
    await pause();
  };

  /** The version of the fragment at each machine. */
  async versions(): Promise<Record<string, string>> {
    const found: Record<string, string> = {};
    for (const [name, { id }] of this.parts) {
      found[name] = versionIn((await new PartConfigs(this.store).get(id)).config);
    }
    return found;
  }
}

function versionIn(config: { fragments?: unknown }): string {
  const [entry] = config.fragments as [string | { version: string }];
  return typeof entry === "string" ? "newest" : entry.version;
}

export function tally(versions: Record<string, string>) {
  return Object.fromEntries(
    [...Map.groupBy(Object.values(versions), (one) => one)].map(([k, v]) => [k, v.length]),
  );
}
