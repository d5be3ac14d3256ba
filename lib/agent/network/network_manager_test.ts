/** What the agent asks of NetworkManager, and what it makes of the answers. */

import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock, passing } from "../../../tests/support/fake_clock.ts";
import { type Bus, type BusCall, type BusSignal, typed } from "../../base/bus/bus.ts";
import { SvcError } from "../../base/error.ts";
import { NetworkManager } from "./network_manager.ts";
import type { NetworkView } from "./network_port.ts";
import { PROFILE_MARK } from "./profiles.ts";

const NM = "org.freedesktop.NetworkManager";
const ROOT = "/org/freedesktop/NetworkManager";
const { signal } = new AbortController();

type Values = Record<string, unknown>;

/** A bus with NetworkManager alone, by the published names of its objects. */
class NetworkManagerBus implements Bus {
  /** Calls that change something: the member, the path and the arguments. */
  readonly changes: unknown[][] = [];
  /** Properties of the interfaces of objects. */
  readonly properties: Record<string, Values> = {
    [`${ROOT} ${NM}`]: {
      Connectivity: 4,
      ConnectivityCheckAvailable: true,
      ConnectivityCheckEnabled: true,
      WirelessEnabled: true,
      ActiveConnections: ["/active/1", "/active/2", "/active/3"],
    },
    [`/device/1 ${NM}.Device`]: { Interface: "eth0", DeviceType: 1, State: 100 },
    [`/device/2 ${NM}.Device`]: { Interface: "wlan0", DeviceType: 2, State: 10, ActiveConnection: "/" },
    [`/device/3 ${NM}.Device`]: {
      ...{ Interface: "wlan1", DeviceType: 2, State: 100, InterfaceFlags: 3, ActiveConnection: "/active/2" },
    },
    [`/active/1 ${NM}.Connection.Active`]: { Connection: "/profile/1", State: 2 },
    [`/active/2 ${NM}.Connection.Active`]: { Connection: "/profile/2", State: 2 },
    [`/point/1 ${NM}.AccessPoint`]: pointOf("home", 40, 1, 0x100),
    [`/point/2 ${NM}.AccessPoint`]: pointOf("home", 70, 1, 0x500),
    [`/point/3 ${NM}.AccessPoint`]: pointOf("café", 90, 0, 0),
  };
  readonly profiles: Record<string, Values> = {
    "/profile/1": { connection: { id: "wired", "autoconnect-priority": 5 } },
    "/profile/2": {
      connection: { id: "home@any", autoconnect: false, "interface-name": "wlan1" },
      "802-11-wireless": { ssid: bytesOf("home"), hidden: true },
      user: { data: { "svc.network": "home", "svc.digest": "abc" } },
    },
  };
  #listener: ((args: readonly unknown[]) => void) | undefined;

  /** What follows when a connection is activated. */
  constructor(private readonly activated: (tell: (args: readonly unknown[]) => void) => void = () => {}) {}

  call<T>({ path, member, args = [] }: BusCall): Promise<T> {
    const [first, second] = args;
    const lists: Record<string, unknown> = {
      GetDevices: ["/device/1", "/device/2", "/device/3"],
      ListConnections: Object.keys(this.profiles),
      GetAllAccessPoints: ["/point/1", "/point/2", "/point/3", "/point/gone"],
    };
    const answer = () => {
      if (member === "GetAll") return this.properties[`${path} ${first}`];
      if (member === "Get") return this.properties[`${path} ${first}`]?.[`${second}`];
      if (member === "GetSettings") return this.profiles[path];
      if (member in lists) return lists[member];
      this.changes.push([member, path, ...args]);
      if (member === "AddConnection") return "/profile/1";
      if (member === "ActivateConnection") {
        this.activated((args) => this.#listener?.(args));
        return "/active/9";
      }
      return null;
    };
    const found = answer();
    return found === undefined
      ? Promise.reject(new SvcError("not_found", `${path} has no ${member}`))
      : Promise.resolve(found as T);
  }

  listen(_signal: BusSignal, listener: (args: readonly unknown[]) => void): Promise<() => void> {
    this.#listener = listener;
    return Promise.resolve(() => this.#listener = undefined);
  }

  get listens(): boolean {
    return this.#listener !== undefined;
  }

  serve(): void {}
  serveTree(): void {}
  unserve(): void {}
  changed(): void {}
  close(): Promise<void> {
    return Promise.resolve();
  }
}

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function pointOf(ssid: string, strength: number, flags: number, rsn: number): Values {
  return { Ssid: bytesOf(ssid), Strength: strength, Flags: flags, WpaFlags: 0, RsnFlags: rsn };
}

function managerOf(bus: NetworkManagerBus, clock = new FakeClock()): NetworkManager {
  return new NetworkManager(bus, clock);
}

async function viewWith(root: Values, wanted = ""): Promise<NetworkView> {
  const bus = new NetworkManagerBus();
  Object.assign(bus.properties[`${ROOT} ${NM}`], root);
  return await managerOf(bus).look(wanted, signal);
}

Deno.test("NetworkManager.look: the managed Wi-Fi device, its network, those in range, and all profiles", async () => {
  const view = await viewWith({});
  assertEquals([view.wifiDevice, view.isUnmanaged, view.connectedTo], ["wlan1", false, "home"]);
  assertEquals(view.inRange, [
    { ssid: "café", signal: 90, security: "" },
    { ssid: "home", signal: 70, security: "WPA2 WPA3" },
  ]);
  assertEquals(view.profiles.map(({ id, name, ssid, priority }) => [id, name, ssid, priority]), [
    ["wired", "", undefined, 5],
    ["home@any", "home", "home", 0],
  ]);
  const [wired, home] = view.profiles;
  assertEquals([wired.autoconnect, wired.isHidden, wired.device], [true, false, ""]);
  assertEquals([home.autoconnect, home.isHidden, home.device, home.digest], [false, true, "wlan1", "abc"]);
  const other = await viewWith({}, "wlan0");
  assertEquals([other.wifiDevice, other.isUnmanaged], ["wlan0", true]);
  assertEquals((await viewWith({}, "wlan7")).wifiDevice, undefined);
});

Deno.test("NetworkManager.look: the internet counts as tested only where it is, and Wi-Fi may be off", async () => {
  const factsOf = async (root: Values) => {
    const { internet, checksInternet, isWifiOff } = await viewWith(root);
    return [internet, checksInternet, isWifiOff];
  };
  assertEquals(await factsOf({}), [true, true, false]);
  assertEquals(await factsOf({ Connectivity: 3 }), [false, true, false]);
  assertEquals(await factsOf({ ConnectivityCheckAvailable: false }), [true, false, false]);
  assertEquals(await factsOf({ ConnectivityCheckEnabled: false }), [true, false, false]);
  assertEquals(await factsOf({ WirelessEnabled: false }), [true, true, true]);
});

Deno.test("NetworkManager: profiles are added, replaced, switched and deactivated, each alone", async () => {
  const bus = new NetworkManagerBus(), manager = managerOf(bus);
  const { profiles } = await manager.look("", signal);
  const [wired, home] = profiles;
  const settings = { connection: { id: typed("s", "x") } };
  await manager.put({ name: "new", digest: "d", settings }, profiles, signal);
  assertEquals(
    (await manager.put({ name: "home", digest: "d", settings }, profiles, signal)).path,
    home.path,
  );
  await manager.setAutoconnect(home, true, signal);
  await manager.rename(home, "chosen:home", signal);
  await manager.deactivate(home, signal);
  await manager.remove(wired, signal);
  const [added, replaced, switched, renamed, ...others] = bus.changes;
  assertEquals(added, ["AddConnection", `${ROOT}/Settings`, settings]);
  assertEquals(replaced, ["Update", "/profile/2", settings]);
  assertEquals(switched.slice(0, 2), ["Update", "/profile/2"]);
  const { connection } = switched[2] as Record<string, Values>;
  assertEquals([connection.autoconnect, connection.id], [typed("b", true), typed("s", "home@any")]);
  const { user, connection: { autoconnect } } = renamed[2] as Record<string, Values>;
  const data = typed("a{ss}", { [PROFILE_MARK.name]: "chosen:home", [PROFILE_MARK.digest]: "abc" });
  assertEquals([user.data, autoconnect], [data, typed("b", true)]);
  // The name has changed, and the UUID cannot.
  bus.profiles["/profile/2"] = { ...bus.profiles["/profile/2"], connection: { uuid: "of-the-first-name" } };
  await manager.put({ name: "home", digest: "d", settings }, profiles, signal);
  assertEquals((bus.changes.at(-1)![2] as Record<string, Values>).connection, {
    ...settings.connection,
    uuid: typed("s", "of-the-first-name"),
  });
  assertEquals(others, [["DeactivateConnection", ROOT, "/active/2"], ["Delete", "/profile/1"]]);
});

Deno.test("NetworkManager.activate: ends when the network is there, or says why it is not", async () => {
  const outcomeOf = async (state: number | undefined, reason?: number, device = "wlan1") => {
    const bus = new NetworkManagerBus((tell) => {
      if (reason !== undefined) tell([120, 50, reason]);
    });
    if (state !== undefined) bus.properties[`/active/9 ${NM}.Connection.Active`] = { State: state };
    const clock = new FakeClock(), manager = managerOf(bus, clock);
    const { profiles } = await manager.look("", signal);
    const work = manager.activate(profiles[1], device, signal);
    const outcome = await passing(clock, 60_000, work).then(() => "joined", (error) => {
      const { code, message } = SvcError.from(error);
      return `${code}: ${message}`;
    });
    assertEquals([bus.listens, clock.pending], [false, 0]);
    return outcome;
  };
  assertEquals(await outcomeOf(2), "joined");
  assertEquals(await outcomeOf(1, 7), "failed_precondition: the password is wrong or missing");
  assertEquals(await outcomeOf(undefined, 15), "failed_precondition: no address came from the network");
  // The network has WPA3, too, whose devices call a refused password so.
  const refused = "failed_precondition: the password may be wrong: the network did not accept it";
  assertEquals(await outcomeOf(4, 53), refused);
  assertEquals(await outcomeOf(4), "failed_precondition: it did not work (reason 0)");
  assertEquals(await outcomeOf(1), "deadline_exceeded: joining home took longer than 50 s");
  assertEquals(await outcomeOf(2, undefined, "wlan7"), "not_found: there is no network device wlan7");
});

Deno.test("NetworkManager.scan: waits for a newer scan, for 30 s at most", async () => {
  for (const scans of [true, false]) {
    const bus = new NetworkManagerBus(), clock = new FakeClock();
    const wireless: Values = bus.properties[`/device/3 ${NM}.Device.Wireless`] = { LastScan: 5n };
    if (scans) clock.after(2_000, () => wireless.LastScan = 6n);
    const work = passing(clock, 60_000, managerOf(bus, clock).scan("wlan1", signal));
    if (scans) await work;
    else await assertRejects(() => work, SvcError, "looking for networks took longer than 30 s");
    assertEquals(bus.changes, [["RequestScan", "/device/3", {}]]);
    await managerOf(bus, clock).scan("wlan7", signal);
  }
});
