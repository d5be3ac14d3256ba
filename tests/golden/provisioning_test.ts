/**
 * A device's handling of its networks, step by step: a transcript per scenario in `provisioning/`, from power-on. `deno
 * task golden` rewrites them.
 */

import { assertEquals } from "@std/assert";
import {
  decide,
  firstState,
  isConnected,
  type KnownNetwork,
  type ProvisioningRules,
} from "../../lib/agent/network/decision.ts";

const MINUTE_MS = 60_000;
const TICK_MS = 15_000;

const RULES: ProvisioningRules = {
  hotspotAfterMs: 2 * MINUTE_MS,
  retryAfterMs: 10 * MINUTE_MS,
  userIdleMs: 5 * MINUTE_MS,
  needsInternet: false,
  mayOpenHotspot: true,
};

/** A router: its name, and whether it lets the device in, and leads on to the internet. */
interface Router {
  accepts?: boolean;
  internet?: boolean;
}

/** The world around a device, changed by what happens at a minute. */
interface World {
  configured: boolean;
  /** Networks that the device has a profile of, by name: their priority. */
  known: Record<string, number>;
  /** Those of them that users chose. */
  chosen?: readonly string[];
  /** Routers in range. */
  routers: Record<string, Router>;
  wired?: boolean;
}

interface Happening {
  readonly minute: number;
  /** Empty for a repetition. */
  readonly what: string;
  readonly change?: (world: World) => void;
  /** A person uses the portal, and may submit this. */
  readonly user?: true | { ssid?: string };
  /** An app looks. */
  readonly look?: true;
  readonly asked?: true;
}

interface Scenario {
  readonly rules?: Partial<ProvisioningRules>;
  readonly world: World;
  readonly minutes: number;
  readonly happenings: readonly Happening[];
}

const SHOP = { shop: {} };

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "out of the box": {
    world: { configured: false, known: {}, routers: SHOP },
    minutes: 30,
    happenings: [
      { minute: 11, what: "a person opens the portal", user: true },
      {
        minute: 12,
        what: "they hand in the network's password and the machine's key",
        user: { ssid: "shop" },
        change: (world) => {
          world.known.shop = 999;
          world.configured = true;
        },
      },
    ],
  },
  "wrong password": {
    world: { configured: true, known: {}, routers: { shop: { accepts: false } } },
    minutes: 12,
    happenings: [
      {
        minute: 1,
        what: "they hand in a wrong password",
        user: { ssid: "shop" },
        change: (world) => world.known.shop = 999,
      },
      {
        minute: 3,
        what: "they hand in the right one",
        user: { ssid: "shop" },
        change: (world) => world.routers.shop = {},
      },
    ],
  },
  "the router dies and returns": {
    world: { configured: true, known: { shop: 999 }, routers: SHOP },
    minutes: 45,
    happenings: [
      { minute: 5, what: "the router loses power", change: (world) => world.routers = {} },
      { minute: 30, what: "the router is back", change: (world) => world.routers = { shop: {} } },
    ],
  },
  "a user is not interrupted": {
    world: { configured: true, known: { shop: 999 }, routers: {} },
    minutes: 30,
    happenings: [
      { minute: 4, what: "a person opens the portal", user: true },
      { minute: 6, what: "the router is back", change: (world) => world.routers = { shop: {} } },
      { minute: 8, what: "they look at the portal again", user: true },
    ],
  },
  "an app that only looks is no user for ever": {
    world: { configured: true, known: { shop: 999 }, routers: {} },
    minutes: 45,
    happenings: [
      { minute: 4, what: "the router is back", change: (world) => world.routers = { shop: {} } },
      ...looks(3, 17),
      { minute: 20, what: "the router loses power", change: (world) => world.routers = {} },
      ...looks(24, 44),
      { minute: 30, what: "a person enters something", user: true },
    ],
  },
  "an app that looks keeps the hotspot open": {
    world: { configured: true, known: { shop: 999 }, routers: {} },
    minutes: 20,
    happenings: [
      ...looks(3, 6),
      { minute: 7, what: "the router is back", change: (world) => world.routers = { shop: {} } },
    ],
  },
  "only the first network is tried": {
    world: { configured: true, known: { shop: 10, home: 5 }, routers: { home: {} } },
    minutes: 16,
    happenings: [],
  },
  "a chosen network is the only one that is tried": {
    world: {
      configured: true,
      known: { shop: 100, depot: 900 },
      chosen: ["shop"],
      routers: { depot: {} },
    },
    minutes: 16,
    happenings: [{ minute: 14, what: "the router is back", change: (world) => world.routers.shop = {} }],
  },
  "with roaming every network is tried": {
    rules: { needsInternet: true },
    world: {
      configured: true,
      known: { shop: 10, home: 5 },
      routers: { shop: { accepts: false }, home: {} },
    },
    minutes: 6,
    happenings: [],
  },
  "no internet behind the wifi counts as online": {
    world: { configured: true, known: { shop: 10 }, routers: { shop: { internet: false } } },
    minutes: 20,
    happenings: [],
  },
  "no internet behind the wifi, with roaming": {
    rules: { needsInternet: true },
    world: { configured: true, known: { shop: 10, home: 5 }, routers: { shop: { internet: false } } },
    minutes: 26,
    happenings: [{
      minute: 20,
      what: "another network comes into range",
      change: (world) => world.routers.home = {},
    }],
  },
  "a cable is enough": {
    world: { configured: true, known: {}, routers: {}, wired: true },
    minutes: 20,
    happenings: [
      { minute: 10, what: "the cable is pulled", change: (world) => world.wired = false },
      { minute: 15, what: "the cable is back", change: (world) => world.wired = true },
    ],
  },
  "somebody asks for the hotspot": {
    world: { configured: true, known: { shop: 10 }, routers: SHOP },
    minutes: 20,
    happenings: [{ minute: 3, what: "the owner asks for the hotspot", asked: true }],
  },
  "no hotspot where the settings forbid it": {
    rules: { mayOpenHotspot: false },
    world: { configured: true, known: { shop: 10 }, routers: {} },
    minutes: 20,
    happenings: [{ minute: 15, what: "the router is back", change: (world) => world.routers = { shop: {} } }],
  },
};

/** An app looks each minute of these. */
function looks(from: number, to: number): Happening[] {
  return Array.from({ length: to - from + 1 }, (_, at) => ({
    minute: from + at,
    what: at === 0 ? "an app begins to look each minute" : "",
    look: true,
  }));
}

/** Plays a scenario, a decision every 15 s and after each attempt. */
function transcript({ rules: changed, world: first, minutes, happenings }: Scenario): string {
  const rules = { ...RULES, ...changed };
  const world = structuredClone(first);
  const lines: string[] = [];
  const tried = new Map<string, number>();
  let state = firstState(0, Object.keys(world.known).length > 0, rules);
  let [connectedTo, userMs] = [undefined as string | undefined, undefined as number | undefined];
  let lookMs: number | undefined;
  let [wasConnected, next] = [false, 0];
  const waiting = happenings.toSorted((one, other) => one.minute - other.minute);
  for (let nowMs = 0; nowMs <= minutes * MINUTE_MS; nowMs += TICK_MS) {
    const say = (text: string) =>
      lines.push(
        `${String(Math.floor(nowMs / MINUTE_MS)).padStart(2)}:${
          String(nowMs / 1000 % 60).padStart(2, "0")
        }  ${text}`,
      );
    let [submitted, asked] = [undefined as { ssid?: string } | undefined, false];
    while (waiting[0]?.minute * MINUTE_MS <= nowMs) {
      const { what, change, user, look, asked: asks } = waiting.shift()!;
      if (what !== "") say(`(${what})`);
      change?.(world);
      if (user) userMs = nowMs;
      if (look) lookMs = nowMs;
      if (user && user !== true) submitted = user;
      asked ||= asks === true;
    }
    for (const ssid of tried.keys()) if (!world.routers[ssid]) tried.delete(ssid);
    // At most one attempt after another in a moment; the last decision has nothing to do.
    for (next = 0; next < 5; next++) {
      if (connectedTo !== undefined && !world.routers[connectedTo]) connectedTo = undefined;
      const router = connectedTo === undefined ? undefined : world.routers[connectedTo];
      const networks = Object.entries(world.known).map(([ssid, priority]): KnownNetwork => {
        return {
          ssid,
          priority,
          isChosen: world.chosen?.includes(ssid) ?? false,
          inRange: ssid in world.routers,
          triedMs: tried.get(ssid),
        };
      });
      const online = world.wired === true || (router !== undefined && router.internet !== false);
      const seen = {
        nowMs,
        configured: world.configured,
        connectedTo,
        online,
        networks,
        userMs,
        lookMs,
        submitted,
        asked,
      };
      const connected = isConnected(seen, rules);
      if (connected !== wasConnected) say(connected ? "online" : "offline");
      wasConnected = connected;
      const { state: after, steps } = decide(state, seen, rules);
      state = after;
      [submitted, asked] = [undefined, false];
      for (const step of steps) {
        say(`${step.do}${step.do === "try" ? ` ${step.ssid}` : ""}: ${step.why}`);
        if (step.do === "open hotspot") connectedTo = undefined;
        if (step.do !== "try") continue;
        tried.set(step.ssid, nowMs);
        const router = world.routers[step.ssid];
        const joined = router !== undefined && router.accepts !== false;
        connectedTo = joined ? step.ssid : undefined;
        say(joined ? `joined ${step.ssid}` : `${step.ssid} refused the device`);
      }
      if (steps.length === 0) break;
    }
  }
  return `${lines.join("\n")}\n`;
}

for (const [name, scenario] of Object.entries(SCENARIOS)) {
  Deno.test(`provisioning: ${name}`, async () => {
    const file = new URL(`./provisioning/${name.replaceAll(/[ ,]+/g, "_")}.txt`, import.meta.url);
    const written = transcript(scenario);
    if (Deno.args.includes("--update")) await Deno.writeTextFile(file, written);
    const kept = await Deno.readTextFile(file);
    assertEquals(written, kept, `${name} differs; if that is right, run: deno task golden`);
  });
}
