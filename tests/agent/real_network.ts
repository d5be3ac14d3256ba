/**
 * The agent's operations on a real NetworkManager; prints the results as JSON. `real_network.sh` runs it.
 */

import { NetworkManager } from "../../lib/agent/network/network_manager.ts";
import {
  additionalProfile,
  chosenProfile,
  hotspotProfile,
  tetherProfile,
} from "../../lib/agent/network/profiles.ts";
import { additionalNetworkField } from "../../lib/agent/settings/settings_fields.ts";
import { openBus } from "../../lib/base/bus/bus.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { messageOf } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { DecodeContext } from "../../lib/base/schema/schema.ts";
import { Secret } from "../../lib/base/secret.ts";

const ODD = `shop ü"<'\\`;
const START_MS = 60_000;

const { signal } = new AbortController();
const clock = new SystemClock();
const saw: Record<string, unknown> = {};

async function retried<T>(work: () => Promise<T>): Promise<T> {
  const untilMs = clock.monotonicMs() + START_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (clock.monotonicMs() > untilMs) throw error;
      await clock.sleep(100);
    }
  }
}

async function addresses(): Promise<string> {
  const { stdout } = await new Deno.Command("ip", { args: ["-4", "-o", "address", "show", "eth9"] }).output();
  const routes = await new Deno.Command("ip", { args: ["-4", "route", "show", "dev", "eth9"] }).output();
  return new TextDecoder().decode(stdout) + new TextDecoder().decode(routes.stdout);
}

const manager = await retried(async () => {
  const manager = new NetworkManager(await openBus(new DenoHost(), clock), clock);
  try {
    await manager.look("", signal);
    return manager;
  } catch (error) {
    await manager.close();
    throw error;
  }
});
const own = async () => (await manager.look("", signal)).profiles.filter(({ name }) => name !== "");
const network = additionalNetworkField.decode({
  type: "wired",
  interface: "eth9",
  priority: 7,
  ipv4_address: "192.168.44.5/24",
  ipv4_gateway: "192.168.44.1",
  ipv4_dns: ["9.9.9.9", "1.2.3.4"],
  ipv4_route_metric: 321,
}, new DecodeContext())!;
const wanted = additionalProfile("lab", network, "");
const checkpoint = await manager.checkpoint(60, signal);
const lab = await manager.put(wanted, [], signal);
await retried(() => manager.activate(lab, "eth9", signal));
saw.addresses = await addresses();
saw.lab = await own();
await checkpoint.goBack(signal);
saw.gone = [await own(), await addresses()];
const kept = await manager.put(wanted, [], signal);
const usual = additionalNetworkField.decode({
  ...{ type: "wired", interface: "eth9", ipv4_address: "192.168.44.5/24", ipv4_gateway: "192.168.44.1" },
}, new DecodeContext())!;
await manager.activate(
  await manager.put(additionalProfile("lab", usual, ""), await own(), signal),
  "eth9",
  signal,
);
saw.usual = await addresses();
await manager.put(wanted, await own(), signal);
const again = await manager.put(wanted, await own(), signal);
saw.same = kept.path === again.path;
for (
  const profile of [
    chosenProfile({ ssid: ODD, psk: new Secret("12345678") }, "wlan0", false, { security: "WPA2" }),
    chosenProfile({ ssid: "open", psk: new Secret("") }, "wlan0", true, { security: "" }),
    chosenProfile({ ssid: "three", psk: new Secret("12345678") }, "wlan0", false, { security: "WPA3" }),
    hotspotProfile("svc-setup-rover", new Secret("svcsetup"), "wlan0", "10.42.0.1"),
    tetherProfile("AA:BB:CC:00:11:22"),
  ]
) await manager.put(profile, await own(), signal);
saw.profiles = (await own()).map(({ name, ssid, priority, isHotspot }) => [name, ssid, priority, isHotspot]);
const yard = additionalProfile(
  "yard",
  additionalNetworkField.decode({
    ...{ type: "wifi", ssid: "yard", psk: "12345678", priority: -5 },
    ...{ ipv4_address: "192.168.45.5/24", ipv4_gateway: "192.168.45.1", ipv4_dns: ["9.9.9.9"] },
    ipv4_route_metric: 50,
  }, new DecodeContext())!,
  "wlan0",
);
const outside = await manager.put(yard, await own(), signal);
const keyfile = () => Deno.readTextFile("/etc/NetworkManager/system-connections/yard@wlan0.nmconnection");
saw.kept = [await keyfile()];
for (const on of [true, false]) {
  await manager.setAutoconnect(outside, on, signal);
  const now = (await own()).find(({ name }) => name === "yard");
  (saw.kept as unknown[]).push([now?.autoconnect, now?.digest === yard.digest, await keyfile()]);
}
const newName = "chosen:yard";
await manager.rename(outside, newName, signal);
const renamed = (await own()).find(({ name }) => name === newName);
const rewritten = await manager.put({ ...yard, name: newName }, await own(), signal);
saw.renamed = [
  renamed?.autoconnect,
  (await keyfile()).includes("psk=12345678"),
  rewritten.path === outside.path,
];
saw.missing = await manager.activate(kept, "eth7", signal).catch(messageOf);
for (const profile of await own()) await manager.remove(profile, signal);
saw.left = await own();
await manager.close();
console.log(JSON.stringify(saw));
