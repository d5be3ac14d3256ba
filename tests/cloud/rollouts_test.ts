/**
 * Rollouts: a change goes to a share of simulated machines first, goes on, halts and reverts by their health, over
 * restarts of the control plane.
 */

import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { ChangeService } from "../../proto/gen/changes_pb.ts";
import { RolloutService, type StartRolloutRequestSchema } from "../../proto/gen/rollouts_pb.ts";
import { configText } from "../../lib/cloud/config/resolution.ts";
import { PartConfigs } from "../../lib/cloud/config/part_config.ts";
import { storeReadings } from "../../lib/cloud/data/store_readings.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import type { MessageInitShape } from "../../lib/wire/rpc/proto.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { until } from "../support/until.ts";
import { svcCloud } from "./program.ts";
import { FLEET_NOW_MS as NOW_MS, SimulatedFleet, tally } from "./simulated_fleet.ts";
import { storeTest } from "./stores.ts";
import { newWorld, ownKey, type ServedCloud, withCloud, type World } from "./world.ts";

const SOAK = { soakSeconds: 1, takeSeconds: 600 };

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
      // Those that took the change are still judged.
      const judged = async () =>
        (await calls.listRolloutParts({ id })).parts.every(({ state }) => state !== "taken");
      await until(judged, { meanwhile: fleet.live });
      const versions = await fleet.versions();
      const parts = (await calls.listRolloutParts({ id })).parts;
      for (const { machineName, step, state, reason } of parts) {
        const isBad = bad.includes(machineName);
        assertEquals(versions[machineName], step === 0 && !isBad ? "2" : "1", machineName);
        const judgedState = isBad ? "reverted" : "healthy";
        assertEquals(state, step > 0 ? "waiting" : judgedState);
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
      const logged = "SELECT words FROM logs WHERE part_id = ?";
      await until(async () => (await store.query(logged, partId)).length === 1);

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
  "more followers than one transaction pins are all pinned, and a refused rollout pins nobody",
  async (database) => {
    const clock = new FakeClock(NOW_MS);
    const store = await database.open();
    const world = await newWorld(store);
    const fleet = new SimulatedFleet(store, world, clock);
    await fleet.create(25);
    await withCloud(database, async (served) => {
      const { calls, order } = await rolloutsOf(served, fleet, world);
      const plan = { ...SOAK, steps: ["50%"] };
      const change = { kind: "svc-server", id: "", version: "http://localhost/svc-server" };
      const busy = (await calls.startRollout({ ...order, change, plan })).rollout!.id;
      const started = {
        ...order,
        change: { ...order.change, version: "" },
        fragmentConfig: '{"debug": true}',
        plan,
      };
      assertStringIncludes(await refusal(calls.startRollout(started)), "has some of these machines");
      assertEquals(tally(await fleet.versions()), { newest: 25 });

      await calls.abortRollout({ id: busy, revert: false });
      await calls.startRollout(started);
      assertEquals(tally(await fleet.versions()), { "1": 25 });
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
      const partOf = async () =>
        (await calls.listRolloutParts({ id: second })).parts.find(({ partId }) => partId === edited.id)!;
      await until(async () => (await partOf()).state === "kept", { meanwhile: fleet.live });
      const kept = await partOf();
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

storeTest(
  "readings, errors in the log and machines that stay offline decide as the plan says; a quota limits rollouts",
  async (database) => {
    const clock = new FakeClock(NOW_MS);
    const store = await database.open();
    const world = await newWorld(store);
    const fleet = new SimulatedFleet(store, world, clock);
    await fleet.create(4, "1");
    fleet.offline.add("m03");
    await fleet.live();
    const capture = async (name: string, cpu: number) => {
      const { id, machineId } = fleet.parts.get(name)!;
      const origin = {
        organizationId: world.organization,
        locationId: world.location,
        ...{ machineId, machineName: name, partId: id, partName: `${name}-main` },
        ...{
          componentType: "rdk:component:sensor",
          componentName: "load",
          methodName: "Readings",
          parameters: "{}",
        },
      };
      const nowUs = clock.nowMs() * 1000;
      const reading = { capturedUs: nowUs, receivedUs: nowUs, payload: { readings: { cpu } } };
      await storeReadings({ store }, origin, [reading], [], clock.nowMs());
    };
    // m00 is well, m01 works too hard, m02 captures nothing.
    const live = async () => {
      await fleet.live();
      await capture("m00", 10);
      await capture("m01", 90);
    };
    await withCloud(database, async (served) => {
      const { calls, stateOf, order } = await rolloutsOf(served, fleet, world);
      const readings = [{ component: "load", operator: "lt", value: '{"readings.cpu": 50}' }];
      const plan = { ...SOAK, steps: ["100%"], readings, unhealthyMax: 2, lateSeconds: 60 };
      const { id } = (await calls.startRollout({ ...order, plan })).rollout!;
      const over = calls.startRollout({ ...order, partIds: [fleet.parts.get("m03")!.id] });
      assertStringIncludes(await refusal(over), "has some of these machines");
      await until(async () => (await stateOf(id)).state === "completed", { meanwhile: live });
      assertEquals((await stateOf(id)).reason, "without 1 machine that was offline all the time");
      const { parts } = await calls.listRolloutParts({ id });
      const reasons = parts.map(({ machineName, reason }) => [machineName, reason]).sort();
      assertEquals(reasons, [
        ["m00", ""],
        ["m01", 'the reading of load is not lt {"readings.cpu":50}'],
        ["m02", 'no reading of load since the change, wanted lt {"readings.cpu":50}'],
        ["m03", "it was offline all the time"],
      ]);
      assertEquals(await fleet.versions(), { m00: "2", m01: "1", m02: "1", m03: "1" });

      // The quota counts those that have not ended.
      const one = { ...order, partIds: [fleet.parts.get("m01")!.id] };
      const first = (await calls.startRollout(one)).rollout!;
      const second = calls.startRollout({ ...order, partIds: [fleet.parts.get("m02")!.id] });
      assertStringIncludes(await refusal(second), "rollouts_at_once");
      await calls.abortRollout({ id: first.id });
      await calls.startRollout({ ...order, partIds: [fleet.parts.get("m02")!.id] });
    }, { clock, limits: { ...defaultLimits(), rolloutsAtOnce: 1 } });
  },
);

storeTest("rollouts by command: start, status, list, pause, resume, abort", async ({ flags, folder }) => {
  const run = (...args: string[]) => svcCloud(...args, ...flags);
  const json = async (...args: string[]) => JSON.parse(await run(...args, "--json"));
  await run("init");
  await run("machine", "create", "second");
  await run("machine", "tag", "second", "canary");
  const write = async (name: string, config: unknown) => {
    await Deno.writeTextFile(`${folder}/${name}`, JSON.stringify(config));
    return `${folder}/${name}`;
  };
  await run("fragment", "set", "eye", await write("1.json", { debug: false }));
  await run("fragment", "apply", "eye", "--all");
  await assertRejects(() => run("rollout", "status"), Error, "there is no rollout yet");
  assertEquals(await json("rollout", "list"), { rollouts: [] });
  const next = await write("2.json", { debug: true });
  for (
    const [wrong, wanted] of [
      [[], "found 0 changes"],
      [["--fragment", "eye"], "wanted --to or --config"],
      [["--fragment", "eye", "--module", "a:b", "--to", "1"], "found 2 changes"],
      [["--fragment", "eye", "--to", "1", "--config", next], "either --to or --config"],
      [["--fragment", "eyes", "--to", "1"], "did you mean eye?"],
      [["--program", "svc-sever", "--to", "1.0.0"], "--program"],
      [["--fragment", "eye", "--config", next, "--step", "0%"], "plan.steps[0]"],
      [["--fragment", "eye", "--config", next, "--step", "location:nowhere"], "nowhere"],
      [["--fragment", "eye", "--config", next, "--reading", "cpu < 50"], "--reading"],
      [["--fragment", "eye", "--config", next, "--window", "friday"], "plan.windows[0]"],
      [["--fragment", "eye", "--config", next, "--soak", "1ms"], "--soak"],
      [["--fragment", "eye", "--config", next, "--at-once", "-1"], "--at-once"],
      [["--fragment", "eye", "--config", next, "second"], "1 other part and"],
    ] as const
  ) {
    await assertRejects(() => run("rollout", "start", ...wrong), Error, wanted);
  }
  const [{ location }] = (await json("machine", "list")).machines;
  const begin = ["rollout", "start", "--fragment", "eye", "--config", next, "--name", "new eye"];
  const { id, steps } = await json(...begin, "--step", "tag:canary", "--step", `location:${location}`);
  assertEquals(steps.map(({ machines }: { machines: number }) => machines), [1, 1, 0]);
  const { parts, ...status } = await json("rollout", "status", "--parts");
  assertEquals([status.id, status.state, status.who, parts[0].machineName], [
    id,
    "running",
    "cli:tester",
    "second",
  ]);
  const shown = await run("rollout", "status", id.slice(0, 8));
  assertMatch(shown, /^change +fragment eye 2$/m);
  assertStringIncludes(shown, "> tag:canary");
  assertStringIncludes(shown, "the rest");
  await run("rollout", "pause", "new eye");
  await assertRejects(() => run("rollout", "pause", id), Error, "the rollout is paused, wanted running");
  await run("rollout", "resume", id);
  assertEquals((await json("rollout", "abort", id, "--revert")).state, "aborted");
  const [listed] = (await json("rollout", "list")).rollouts;
  assertEquals([listed.name, listed.state, typeof listed.ended], ["new eye", "aborted", "string"]);
  assertStringIncludes(await run("rollout", "list"), "0 of 2");
  const actions = (await json("audit", "--action", "ollout")).entries.map((one: { action: string }) =>
    one.action
  );
  assertEquals(actions.sort(), ["StartRollout", "rollout abort", "rollout pause", "rollout resume"]);
});
