/** A hotspot that ends without the agent. */

import { assertEquals } from "@std/assert";
import { NetworkDevice } from "../../../tests/support/network_device.ts";
import { Secret } from "../../base/secret.ts";
import { chosenProfile } from "./profiles.ts";

Deno.test("Networking: a hotspot that goes down by itself opens again, and so does one whose Wi-Fi device was away", async () => {
  const device = new NetworkDevice({ retry_connection_timeout_minutes: 60 });
  device.configured = true;
  await device.minutes(3);
  assertEquals([device.network.hotspot, device.serving], ["svc-setup-rover", 1]);
  const warned = () => device.log.filter((line) => line.includes("went down by itself")).length;
  assertEquals(warned(), 0);
  // The network service has restarted.
  device.network.active = undefined;
  await device.minutes(1);
  assertEquals([device.network.hotspot, device.serving, warned()], ["svc-setup-rover", 1, 1]);

  [device.network.active, device.network.hasWifi] = [undefined, false];
  await device.minutes(5);
  assertEquals(device.network.hotspot, undefined);
  device.network.hasWifi = true;
  await device.minutes(1);
  assertEquals([device.network.hotspot, device.serving, warned()], ["svc-setup-rover", 1, 2]);

  // The portal cannot serve for a moment, just then.
  device.network.active = undefined;
  device.failToServe = true;
  await device.minutes(1);
  assertEquals([device.network.hotspot, device.serving], [undefined, 0]);
  device.failToServe = false;
  await device.minutes(1);
  assertEquals([device.network.hotspot, device.serving, warned()], ["svc-setup-rover", 1, 3]);

  // Somebody joins a network by other means: the hotspot does not come back, and the network is left alone.
  device.network.routers.set("home", { password: "12345678" });
  const own = await device.network.put(chosenProfile(
    { ssid: "home", psk: new Secret("12345678") },
    "wlan0",
    false,
    undefined,
  ));
  device.network.profiles.set(own.path, { ...device.network.profiles.get(own.path)!, name: "" });
  device.network.active = own.path;
  await device.minutes(5);
  assertEquals([device.network.joined, device.network.hotspot, device.serving], ["home", undefined, 0]);
  assertEquals(warned(), 3);
  await device.end();
});
