/** Work that a clock which was ahead has put off: it is found once the clock is right. */

import { assert, assertEquals } from "@std/assert";
import { JOB_LEASE_MS } from "../../lib/base/async/job_runner.ts";
import { MappingSessions } from "../../lib/cloud/mapping/sessions.ts";
import { Deliveries } from "../../lib/cloud/notifications/deliveries.ts";
import { TriggerWatch } from "../../lib/cloud/notifications/watch.ts";
import { checkedPlan } from "../../lib/cloud/rollouts/plan.ts";
import { newRolloutId, Rollouts } from "../../lib/cloud/rollouts/rollouts.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { TrainingJobs } from "../../lib/cloud/training/training.ts";
import { keepTriggers } from "../../lib/cloud/triggers/outbox.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { moving, until } from "../support/until.ts";
import { sqliteTest, storeTest } from "./stores.ts";
import { newJob } from "./training_world.ts";
import { newWorld, withCloud, type World } from "./world.ts";

/** Begins some work while the clock is ahead; resolves with a check of whether it is found. */
type PutOff = (world: World, store: Store, clock: FakeClock) => Promise<() => Promise<boolean>>;

const AHEAD_MS = 3000 * 24 * 3600 * 1000;
const LEASE_MS = 60_000;
const MESSAGE = { method: "POST" as const, headers: [], body: "", subject: "", text: "" };
const ONLINE = { name: "t", event: { type: "part_online" }, notifications: [] };
const PLAN = checkedPlan({
  ...{ steps: [], windows: [], readings: [], atOnce: 0, unhealthyMax: 0, errorsMax: 0 },
  ...{ soakSeconds: 0, takeSeconds: 0, lateSeconds: 0 },
});

const notifications: PutOff = async ({ organization: organizationId, part: partId }, store, clock) => {
  const one = {
    ...{ organizationId, partId, trigger: "t", kind: "email" as const },
    ...{ target: "ann@example.com", message: MESSAGE },
  };
  const on = <T>(work: (deliveries: Deliveries, nowMs: number) => Promise<T>) =>
    store.transaction((sql) => work(new Deliveries(sql), clock.nowMs()));
  const claim = async (most: number) =>
    (await on((all, nowMs) => all.claim({ all: most, ofOrganization: most }, [], nowMs, nowMs + LEASE_MS)))
      .length;
  await store.transaction((sql) => keepTriggers(sql, partId, [ONLINE], true));
  assert(await on((all, nowMs) => all.isDue(one, LEASE_MS, nowMs)));
  for (let at = 0; at < 2; at++) await on((all, nowMs) => all.add(one, nowMs));
  // One is under way when its control plane ends.
  assertEquals(await claim(1), 1);
  return async () => {
    const [mayNotify, claimed] = [await on((all, nowMs) => all.isDue(one, LEASE_MS, nowMs)), await claim(9)];
    return mayNotify && claimed === 2 && await claim(9) === 0;
  };
};

const logTriggers: PutOff = async ({ part }, store, clock) => {
  const event = { type: "conditional_logs_ingested", log_levels: ["error"] };
  await store.transaction((sql) => keepTriggers(sql, part, [{ name: "t", event, notifications: [] }], true));
  const next = async () => {
    await new TriggerWatch(store, clock).lookAtLogs();
    const [row] = await store.query<{ ms: number }>("SELECT next_ms AS ms FROM trigger_log_marks");
    return row.ms - clock.nowMs();
  };
  const usual = await next();
  return async () => await next() === usual;
};

const rollouts: PutOff = async ({ organization: organizationId, part }, store, clock) => {
  const id = newRolloutId();
  const change = { kind: "svc-server", id: "", version: "2.0.0" } as const;
  const nowMs = clock.nowMs();
  await store.transaction(async (sql) => {
    const all = new Rollouts(sql);
    const made = { id, organizationId, name: "r", change, plan: PLAN, who: "somebody" };
    await all.add(made, [{ id: part, step: 0 }], nowMs);
    await all.turnPart(id, part, ["waiting"], { state: "taken", appliedMs: nowMs, takenMs: nowMs });
  });
  return async () => {
    const all = new Rollouts(store);
    assert(!await all.hasDue(clock.nowMs(), Number.MAX_SAFE_INTEGER / 2));
    const wasDue = await all.hasDue(clock.nowMs(), LEASE_MS);
    const taken = await store.transaction((sql) => new Rollouts(sql).takeDue(clock.nowMs(), LEASE_MS));
    const isDueAgain = await all.hasDue(clock.nowMs(), LEASE_MS);
    const [{ appliedMs, takenMs }] = await all.parts(id, { limit: 1 });
    // How long a machine has been healthy counts from now on.
    const times = [taken?.stepMs, appliedMs, takenMs];
    return wasDue && !isDueAgain && times.every((one) => one === clock.nowMs());
  };
};

const trainingJobs: PutOff = async ({ organization }, store, clock) => {
  const id = await store.transaction(async (sql) => {
    const jobs = new TrainingJobs(sql);
    const made = await jobs.add(newJob(organization), [], clock.nowMs());
    await jobs.start(made, "gone", clock.nowMs() + JOB_LEASE_MS, clock.nowMs());
    return made;
  });
  const lapsed = async () =>
    (await new TrainingJobs(store).running({ lapsedMs: clock.nowMs() })).map((job) => job.id);
  assertEquals(await lapsed(), []);
  return async () => (await lapsed()).includes(id);
};

const mapping: PutOff = async ({ organization, location, machine }, store, clock) => {
  const begun = [organization, location, machine, clock.nowMs(), clock.nowMs() + JOB_LEASE_MS];
  await store.transaction((sql) =>
    sql.query(
      `INSERT INTO mapping_sessions (id, organization_id, location_id, machine_id, map_name, existing_version, version,
       camera, movement_sensor, from_us, config, slam_version, server_version, created_ms, runner, lease_ms)
     VALUES ('s', ?, ?, ?, 'hall', '', '', 'lidar', '', 0, '{}', '', '', ?, 'gone', ?)`,
      ...begun,
    )
  );
  const take = () =>
    store.transaction((sql) =>
      new MappingSessions(sql).take("new", "s", clock.nowMs() + JOB_LEASE_MS, clock.nowMs())
    );
  assert(!await take());
  return async () => {
    const waiting = await new MappingSessions(store).waiting([], clock.nowMs());
    return waiting?.id === "s" && await take();
  };
};

for (
  const [what, putOff] of Object.entries({
    "notifications, and the next one to their receiver": notifications,
    "a trigger that waits for log entries": logTriggers,
    "a rollout, and how long its machines are healthy": rollouts,
    "a training job whose control plane has gone": trainingJobs,
    "a mapping session whose control plane has gone": mapping,
  })
) {
  storeTest(`a clock that was ahead puts off nothing once it is right: ${what}`, async (database) => {
    const store = await database.open();
    const clock = new FakeClock();
    const world = await newWorld(store, clock.nowMs());
    clock.setOn(AHEAD_MS);
    const isFound = await putOff(world, store, clock);
    clock.setOn(-AHEAD_MS);
    assert(await isFound());
  });
}

sqliteTest("a clock that is years behind changes no times of rollouts", async (database) => {
  const clock = new FakeClock();
  await withCloud(database, async ({ store }) => {
    const { organization, part } = await newWorld(store);
    await rollouts({ organization, part } as World, store, clock);
    const takenMs = clock.nowMs();
    const taken = async () => {
      const [row] = await store.query<{ ms: number }>("SELECT taken_ms AS ms FROM rollout_parts");
      return row.ms;
    };
    const minute = moving(clock, 5_000);
    clock.setOn(-AHEAD_MS);
    for (let at = 0; at < 24; at++) await minute();
    assertEquals(await taken(), takenMs);
    // After a while the clock counts as right, and the former one as ahead.
    await until(async () => await taken() < takenMs, { meanwhile: moving(clock, 30_000) });
  }, { clock });
});
