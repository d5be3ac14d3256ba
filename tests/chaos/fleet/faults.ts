/** What happens to control planes and devices: one fault of each kind, at random, with its end. */

import { SystemClock } from "../../../lib/base/clock.ts";
import { until } from "../../support/until.ts";
import { pick, takeAway } from "../planes.ts";
import type { Device } from "./device.ts";
import type { World } from "./world.ts";

const clock = new SystemClock();
/** How long a fault lasts, at most. */
const FAULT_MS = 20_000;
/** How long a program stays away before somebody starts it again, at most. */
const AWAY_MS = 3_000;
const SLOW_MS = 400;
const HOUR_S = 3_600;
const DAY_S = 24 * HOUR_S;
const SHIFTS_S = [-80 * DAY_S, -HOUR_S, -5, 5, HOUR_S, 40 * DAY_S, 400 * DAY_S];
const RPM_MAX = 1_000;
const PLANES_MS = 120_000;

export type Random = () => number;

/** Does one thing, and returns what it was, for people. What lasts is in the world's `returning`. */
type Fault = (world: World, random: Random) => Promise<string>;

export const FAULTS: Readonly<Record<string, Fault>> = {
  "control plane killed": async ({ planes, returning }, random) => {
    await until(() => planes.serving.length > 1, { withinMs: PLANES_MS });
    const number = pick(planes.serving, random);
    await planes.kill(number);
    lasts(returning, planes.start(number));
    return `control plane ${number}`;
  },

  "database killed": async (world, random) => {
    if (random() < 0.5) {
      world.planes.database.killProcess(random());
      return "one process";
    }
    return await goesAway(world, world.planes.database, random);
  },

  "object store killed": (world, random) => goesAway(world, world.planes.store, random),

  "agent killed": (world, random) =>
    onDevice(world, random, (device) => {
      lasts(world.returning, device.restart(random() * AWAY_MS));
      return "";
    }),

  "runtime killed": (world, random) =>
    onDevice(world, random, (device) => {
      device.kill("runtime");
      return "";
    }),

  "module killed": (world, random) =>
    onDevice(world, random, (device) => {
      device.kill("module");
      return "";
    }),

  "power cut": (world, random) =>
    onDevice(world, random, (device) => {
      device.kill("agent", "runtime", "module");
      lasts(world.returning, device.restart(random() * AWAY_MS));
      return "";
    }),

  "link cut": (world, random) =>
    onDevice(world, random, ({ link }) => {
      link.cut();
      return lastsFor(world, random, () => link.mend());
    }),

  "link silent": (world, random) =>
    onDevice(world, random, ({ link }) => {
      link.silence();
      return lastsFor(world, random, () => link.mend());
    }),

  "link slow": (world, random) =>
    onDevice(world, random, ({ link }) => {
      link.slow(SLOW_MS);
      return lastsFor(world, random, () => link.mend());
    }),

  "disk full": (world, random) =>
    onDevice(world, random, async (device) => {
      if (!device.hasOwnDisk) return "left out: its disk is this computer's";
      await device.fillDisk();
      return lastsFor(world, random, () => device.emptyDisk());
    }),

  "clock jumps": (world, random) =>
    onDevice(world, random, async (device) => {
      const seconds = pick(SHIFTS_S, random);
      await device.shiftClock(seconds);
      return `${seconds} s ${lastsFor(world, random, () => device.shiftClock(0))}`;
    }),

  "key rotated": (world, random) =>
    onDevice(world, random, async (device) => {
      const { id } = device.options.credentials.api_key;
      const { key } = JSON.parse(await world.command("key", "rotate", id, "--json"));
      return lastsFor(world, random, () => device.setKey({ id, key }));
    }),

  "configuration changed": (world, random) =>
    onDevice(world, random, async (device) => {
      device.maxRpm = 1 + Math.floor(random() * RPM_MAX);
      await world.configure(device);
      return `${device.maxRpm} rpm`;
    }),

  "good release": (world) => world.release("serves"),

  "bad release": (world, random) => world.release(random() < 0.5 ? "ends" : "hangs"),
};

async function onDevice(
  { devices }: World,
  random: Random,
  work: (device: Device) => string | Promise<string>,
): Promise<string> {
  const device = pick(devices, random);
  return `${device.name} ${await work(device)}`.trimEnd();
}

function lastsFor({ returning }: World, random: Random, end: () => void | Promise<void>): string {
  const ms = Math.round(random() * FAULT_MS);
  lasts(returning, clock.sleep(ms).then(end));
  return `for ${ms} ms`;
}

function lasts(returning: Set<Promise<void>>, work: Promise<void>): void {
  const one = work.finally(() => returning.delete(one));
  returning.add(one);
  // Whoever waits for all that returns hears of it.
  one.catch(() => {});
}

/** A control plane does not start without what it shares with the others. */
async function goesAway(
  { returning }: World,
  shared: Parameters<typeof takeAway>[0],
  random: Random,
): Promise<string> {
  await Promise.all(returning);
  return await takeAway(shared, random() * AWAY_MS);
}
