/**
 * Rollouts: a change goes to a share of simulated machines first, goes on, halts and reverts by their health, over
 * restarts of the control plane.
 */

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { ChangeService } from "../../proto/gen/changes_pb.ts";
import { RolloutService, type StartRolloutRequestSchema } from "../../proto/gen/rollouts_pb.ts";
import { configText } from "../../lib/cloud/config/resolution.ts";
import { Fragments } from "../../lib/cloud/config/fragments.ts";
import { PartConfigs } from "../../lib/cloud/config/part_config.ts";
import { Fleet } from "../../lib/cloud/fleet/fleet.ts";
import { keepHealth } from "../../lib/cloud/rollouts/part_health.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import type { MessageInitShape } from "../../lib/wire/rpc/proto.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { pause, until } from "../support/until.ts";
import { storeTest } from "./stores.ts";
import { newWorld, ownKey, type ServedCloud, withCloud, type World } from "./world.ts";

const NOW_MS = Date.parse("2026-11-27T12:00:00Z");
/** A control plane looks at a rollout after 5 s. */
const STEP_MS = 6_000;
const SOAK = { soakSeconds: 1, takeSeconds: 600 };

/** Machines that poll, report, and turn unhealthy with the fragment's revision 2 if their name is among the bad ones. */
class SimulatedFleet {
  readonly parts = new Map<string, { readonly id: string; readonly machineId: string }>();
  readonly bad = new Set<string>();
  readonly offline = new Set<string>();
  fragment = "";

  constructor(
    private readonly store: Store,
    private readonly world: World,
    private readonly clock: FakeClock,
  ) {}

  async create(count: number, version?: string): Promise<void> {
    await this.store.transaction(async (sql) => {
      const fragments = new Fragments(sql);
      this.fragment = await fragments.create(
        this.world.organization,
        "arm",
        configText({ debug: false }),
        NOW_MS,
      );
      if (version) await fragments.update(this.fragment, "arm", configText({ debug: true }), NOW_MS);
      for (let at = 0; at < count; at++) {
        const name = `m${String(at).padStart(2, "0")}`;
        const { id: machineId, partId: id } = await new Fleet(sql).createMachine(
          this.world.location,
          name,
          NOW_MS,
        );
        const entry = version ? { id: this.fragment, version } : this.fragment;
        await new PartConfigs(sql).set(id, configText({ fragments: [entry] }), "", NOW_MS);
        this.parts.set(name, { id, machineId });
      }
    });
  }

  /** A moment in which every machine polls and reports. */
  readonly live = async () => {
    await this.clock.advance(STEP_MS);
    const nowMs = this.clock.nowMs();
    await this.store.transaction(async (sql) => {
      const online = [...this.parts].filter(([name]) => !this.offline.has(name));
      await new Fleet(sql).saw(new Map(online.map(([, { id }]) => [id, { atMs: nowMs }])));
      for (const [name, { id }] of online) {
        const { config, revision } = await new PartConfigs(sql).get(id);
        const isBad = this.bad.has(name) && versionIn(config) === "2";
        const unhealthy = isBad ? ["rdk:component:arm/left: no such file"] : [];
        await keepHealth(sql, id, { revision: `${revision}+x`, unhealthy }, nowMs);
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

function tally(versions: Record<string, string>) {
  return Object.fromEntries(
    [...Map.groupBy(Object.values(versions), (one) => one)].map(([k, v]) => [k, v.length]),
  );
}

/** A served control plane with a fleet, and the owner's calls. */
async function rolloutsOf(served: ServedCloud, fleet: SimulatedFleet, { owner, organization }: World) {
  const calls = client(RolloutService, await served.channel(owner));
  const stateOf = async (id: string) => (await calls.getRollout({ id })).rollout!;
  const reached = async (id: string, state: string) => {
    const isThere = async () => (await stateOf(id)).state === state;
    const found = async () => JSON.stringify(await stateOf(id));
    await until(isThere, { meanwhile: fleet.live, found });
    return await stateOf(id);
  };
  const change = { kind: "fragment", id: fleet.fragment, version: "2" };
  return { calls, stateOf, reached, order: { organizationId: organization, change } };
}

async function refusal(call: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => call, Error)).message;
}

storeTest(
  "of 20 machines 3 turn unhealthy: it halts at the first step and reverts those",
  async (database) => {
    const clock = new FakeClock(NOW_MS);
    const store = await database.open();
    const world = await newWorld(store);
    const fleet = new SimulatedFleet(store, world, clock);
    await fleet.create(20, "1");
    await fleet.live();
    let id = "";
    let bad: string[] = [];
    await withCloud(database, async (served) => {
      const { calls, order } = await rolloutsOf(served, fleet, world);
      const { rollout } = await calls.startRollout({ ...order, plan: { ...SOAK, steps: ["50%"] } });
      id = rollout!.id;
      assertEquals(rollout!.steps.map(({ name, machines }) => [name, machines]), [["50%", 10], [
        "the rest",
        10,
      ]]);
      const first = (await calls.listRolloutParts({ id })).parts.filter(({ step }) => step === 0);
      bad = first.slice(2, 5).map(({ machineName }) => machineName);
      for (const name of bad) fleet.bad.add(name);
      const isApplied = async () => tally(await fleet.versions())["2"] === 10;
      await until(isApplied, { meanwhile: fleet.live });

      // Nobody else has the machines meanwhile.
      const other = calls.startRollout({
        ...order,
        change: { kind: "svc-server", id: "", version: "stable" },
      });
      assertStringIncludes(await refusal(other), "has some of these machines");
    }, { clock });

    // The control plane has ended in the middle of the first step, and another one takes over.
    await withCloud(database, async (served) => {
      const { calls, reached } = await rolloutsOf(served, fleet, world);
      const halted = await reached(id, "halted");
      assertStringIncludes(halted.reason, "3 machines turned unhealthy in 50%, wanted none");
      await until(async () => tally(await fleet.versions())["2"] === 7, { meanwhile: fleet.live });
      const versions = await fleet.versions();
      const parts = (await calls.listRolloutParts({ id })).parts;
      for (const { machineName, step, state, reason } of parts) {
        const isBad = bad.includes(machineName);
        assertEquals(versions[machineName], step === 0 && !isBad ? "2" : "1", machineName);
        assertEquals(state, step > 0 ? "waiting" : isBad ? "reverted" : "healthy");
        if (isBad) assertStringIncludes(reason, "rdk:component:arm/left: no such file");
      }
      const unhealthy = (await calls.listRolloutParts({ id, unhealthy: true })).parts;
      assertEquals(unhealthy.map(({ machineName }) => machineName).sort(), bad.toSorted());

      // The exact configuration before, the person in its history, and a word in the machine's log.
      const { id: partId } = fleet.parts.get(bad[0])!;
      const configs = new PartConfigs(store);
      assertEquals(await configs.at(partId, 3), await configs.at(partId, 1));
      assertEquals((await configs.history(partId, { limit: 2 })).map(({ who }) => who), [
        world.owner.id,
        world.owner.id,
      ]);
      const told = "SELECT words FROM logs WHERE part_id = ?";
      await until(async () => (await store.query(told, partId)).length === 1);

      // A person accepts that, and it goes on to the rest.
      await calls.resumeRollout({ id });
      const { steps, reason } = await reached(id, "completed");
      assertEquals([reason, steps[1].healthy], ["", 10]);
      assertEquals(tally(await fleet.versions()), { "1": 3, "2": 17 });
      assertStringIncludes(
        await refusal(calls.pauseRollout({ id })),
        "the rollout is completed, wanted running",
      );
    }, { clock });
  },
);

storeTest(
  "a new revision reaches machines that follow the newest one by one, also those that come late",
  async (database) => {
    const clock = new FakeClock(NOW_MS);
    const store = await database.open();
    const world = await newWorld(store);
    const fleet = new SimulatedFleet(store, world, clock);
    await fleet.create(6);
    const [late, edited] = ["m01", "m02"].map((name) => fleet.parts.get(name)!);
    fleet.offline.add("m01");
    await fleet.live();
    await withCloud(database, async (served) => {
      const { calls, stateOf, reached, order } = await rolloutsOf(served, fleet, world);
      const started = {
        ...order,
        change: { ...order.change, version: "" },
        fragmentConfig: '{"debug": true}',
      };
      const some = calls.startRollout({ ...started, partIds: [late.id] });
      assertStringIncludes(await refusal(some), "5 other parts and 0 fragments follow the newest revision");
      assertEquals(tally(await fleet.versions()), { newest: 6 });

      const plan = { ...SOAK, steps: ["50%"], atOnce: 1, windows: ["fri 13:00-14:00"] };
      const { id } = (await calls.startRollout({ ...started, plan })).rollout!;
      assertEquals(tally(await fleet.versions()), { "1": 6 });
      await fleet.live();
      assertEquals((await stateOf(id)).steps[0].waiting, 3);
      clock.setOn(3_600_000);

      // One at a time.
      const healthy = async () => (await stateOf(id)).steps.reduce((sum, one) => sum + one.healthy, 0);
      let most = 0;
      const counted = async () => {
        await fleet.live();
        most = Math.max(most, (await stateOf(id)).steps.reduce((sum, one) => sum + one.changing, 0));
      };
      await until(async () => await healthy() === 5, { meanwhile: counted });
      assertEquals(most, 1);
      assertEquals((await stateOf(id)).state, "running");
      assertEquals((await fleet.versions()).m01, "1");
      fleet.offline.delete("m01");
      await reached(id, "completed");
      assertEquals(tally(await fleet.versions()), { "2": 6 });

      // Taken back to the first revision by another rollout, which is aborted; one machine was edited meanwhile.
      const back = {
        ...order,
        change: { ...order.change, version: "1" },
        plan: { ...SOAK, steps: ["100%"] },
      };
      const second = (await calls.startRollout(back)).rollout!.id;
      await until(async () => tally(await fleet.versions())["1"] === 6, { meanwhile: fleet.live });
      await store.transaction(async (sql) => {
        const fragments = [{ id: fleet.fragment, version: "1", variables: {} }];
        await new PartConfigs(sql).set(edited.id, configText({ fragments }), "", clock.nowMs());
      });
      await calls.pauseRollout({ id: second });
      await calls.abortRollout({ id: second, revert: true });
      await until(async () => tally(await fleet.versions())["2"] === 5, { meanwhile: fleet.live });
      const [kept] = (await calls.listRolloutParts({ id: second })).parts.filter(({ partId }) =>
        partId === edited.id
      );
      assertEquals(kept.state, "kept");
      assertStringIncludes(kept.reason, "somebody has changed the same setting since");

      // The machines are free again.
      const third = (await calls.startRollout(back)).rollout!.id;
      await calls.abortRollout({ id: third });
    }, { clock });
  },
);

storeTest(
  "what a rollout is refused, with its field; a machine reports its own health alone",
  async (database) => {
    await withCloud(database, async (served) => {
      const { store } = served;
      const [world, other] = [await newWorld(store), await newWorld(store)];
      const fleet = new SimulatedFleet(store, world, new FakeClock(NOW_MS));
      await fleet.create(2, "1");
      const { calls, order } = await rolloutsOf(served, fleet, world);
      const refused = async (more: MessageInitShape<typeof StartRolloutRequestSchema>, wanted: string) =>
        assertStringIncludes(await refusal(calls.startRollout({ ...order, ...more } as typeof more)), wanted);
      await refused({ change: { kind: "config", id: "", version: "1" } }, "change.kind");
      await refused({ change: { kind: "fragment", id: "", version: "1" } }, "change.id");
      await refused({ change: { ...order.change, version: "7" } }, 'revision or tag "7"');
      await refused({ change: { ...order.change, version: "1" } }, "no chosen machine names fragment");
      await refused({ change: { kind: "module", id: "a:b", version: "1.0.0" } }, 'no module "a:b"');
      await refused({ change: { kind: "svc-server", id: "", version: "9.9.9" } }, "9.9.9");
      await refused({ plan: { steps: ["0%"] } }, "plan.steps[0]");
      await refused({ fragmentConfig: "[" }, "not JSON");
      await refused({ partIds: [other.part] }, "no chosen machine");
      await refused({ organizationId: other.organization }, "this needs an API key that is owner");

      const { id } = (await calls.startRollout(order)).rollout!;
      const stranger = client(RolloutService, await served.channel(other.owner));
      for (const call of [stranger.getRollout, stranger.abortRollout, stranger.resumeRollout]) {
        assertStringIncludes(await refusal(call({ id })), "this needs an API key");
      }
      const operator = client(RolloutService, await served.channel(world.operator));
      assertEquals((await operator.listRollouts({ organizationId: world.organization })).rollouts.length, 1);
      assertStringIncludes(
        await refusal(operator.pauseRollout({ id })),
        "this needs an API key that is owner",
      );

      const { report } = client(ChangeService, await served.channel(await ownKey(store, world)));
      await report({ id: world.part, revision: "1", unhealthy: Array(100).fill("x".repeat(1000)) });
      assertStringIncludes(await refusal(report({ id: other.part, revision: "1" })), "this needs");
      const [row] = await store.query<{ unhealthy: string }>(
        "SELECT unhealthy FROM part_health WHERE revision = '1'",
      );
      assertEquals([JSON.parse(row.unhealthy).length, JSON.parse(row.unhealthy)[0].length], [50, 300]);
    });
  },
);
