/** What the agent's Wi-Fi profiles say: how a network is secured, and whether the radio saves power. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { NetworkDevice } from "../../../tests/support/network_device.ts";

const POWER_SAVE = "/etc/NetworkManager/conf.d/81-svc-wifi-powersave.conf";

Deno.test("Networking: joins networks that are encrypted without a password, with or without a password typed in", async () => {
  for (const [security, typed] of [["OWE", ""], ["OWE", "87654321"], ["OWE-TM", ""], ["", ""]] as const) {
    const device = new NetworkDevice();
    device.configured = true;
    device.network.routers.set("airport", { password: "", security });
    await device.minutes(1);
    device.submissions.network("airport", typed);
    device.submissions.submit();
    await device.minutes(2);
    assertEquals(device.network.joined, "airport", `${security} ${typed}`);
    await device.end();
  }
});

Deno.test("additional_networks: an entry without a password is joined by OWE where the network has nothing else", async () => {
  for (const security of ["OWE", "OWE-TM", ""]) {
    const device = new NetworkDevice();
    device.configured = true;
    // It is out of range at first.
    await device.apply({ airport: { type: "wifi", ssid: "airport" } });
    await device.minutes(1);
    device.network.routers.set("airport", { password: "", security });
    await device.minutes(4);
    assertEquals(device.network.joined, "airport", security);

    // Applied once more, also out of range, the profile stays.
    const before = [...device.network.profiles.values()].map(({ digest }) => digest);
    device.network.routers.delete("airport");
    device.network.active = undefined;
    await device.minutes(2);
    await device.apply({ airport: { type: "wifi", ssid: "airport" } });
    assertEquals([...device.network.profiles.values()].map(({ digest }) => digest), before);

    // Its router has other security now.
    const other = security === "OWE" ? "" : "OWE";
    device.network.routers.set("airport", { password: "", security: other });
    await device.minutes(12);
    assertEquals(device.network.joined, "airport", `${security}, then ${other}`);
    await device.end();
  }
});

Deno.test("Networking: joins networks with WPA3 alone, chosen by a person or configured", async () => {
  for (const security of ["WPA3", "WPA2 WPA3", "WPA2"]) {
    const device = new NetworkDevice();
    device.configured = true;
    device.network.routers.set("shop", { password: "12345678", security });
    await device.minutes(1);
    device.submissions.network("shop", "12345678");
    device.submissions.submit();
    await device.minutes(2);
    assertEquals(device.network.joined, "shop", security);
    await device.end();
  }
});

Deno.test("additional_networks: an entry with a password follows the network to WPA3 and back", async () => {
  const device = new NetworkDevice();
  device.configured = true;
  const entry = { hall: { type: "wifi", ssid: "hall", psk: "12345678" } };
  const keys = () =>
    [...device.network.profiles.values()].filter(({ ssid }) => ssid === "hall")
      .map(({ wanted }) => wanted.settings["802-11-wireless-security"]["key-mgmt"][1]).join();
  // It is out of range at first.
  await device.apply(entry);
  await device.minutes(1);
  const found = [];
  for (const security of ["WPA2", "WPA3", "WPA2 WPA3", "", "WPA2", "WPA2 WPA3"]) {
    device.network.active = undefined;
    if (security === "") device.network.routers.delete("hall");
    else device.network.routers.set("hall", { password: "12345678", security });
    await device.minutes(12);
    await device.apply(entry);
    found.push([security, device.network.joined, keys()]);
  }
  assertEquals(found, [
    ["WPA2", "hall", "wpa-psk"],
    ["WPA3", "hall", "sae"],
    ["WPA2 WPA3", "hall", "sae"],
    ["", undefined, "sae"],
    ["WPA2", "hall", "wpa-psk"],
    ["WPA2 WPA3", "hall", "wpa-psk"],
  ]);
  await device.end();
});

Deno.test("additional_networks: a network without a password never takes the place of one with a password", async () => {
  const device = new NetworkDevice();
  device.configured = true;
  device.network.routers.set("hall", { password: "", security: "OWE" });
  await device.apply({ hall: { type: "wifi", ssid: "hall", psk: "12345678" } });
  await device.minutes(12);
  assertEquals(device.network.joined, undefined);
  const [profile] = [...device.network.profiles.values()].filter(({ ssid }) => ssid === "hall");
  assertEquals(profile.wanted.settings["802-11-wireless-security"]["key-mgmt"][1], "wpa-psk");
  await device.end();
});

Deno.test("writes the setting for power saving, or leaves it to the system", async () => {
  const device = new NetworkDevice();
  device.configured = true;
  device.network.wired = true;
  await device.apply({}, { wifi_power_save: false });
  assertStringIncludes(await device.files.readTextFile(POWER_SAVE), "wifi.powersave=2");
  await device.apply({}, { wifi_power_save: true });
  assertStringIncludes(await device.files.readTextFile(POWER_SAVE), "wifi.powersave=3");
  await device.apply({}, {});
  assertEquals([await device.files.findFile(POWER_SAVE) !== undefined, device.network.reloads], [false, 3]);
  await device.end();
});

Deno.test("the setting for power saving counts at last if the network service did not take it at first", async () => {
  const device = new NetworkDevice();
  device.configured = true;
  device.network.wired = true;
  const { network } = device;
  const reload = network.reload.bind(network);
  network.reload = () => Promise.reject(new SvcError("unavailable", "NetworkManager restarts"));
  assertStringIncludes(await device.apply({}, { wifi_power_save: false }), "NetworkManager restarts");
  network.reload = reload;
  await device.apply({}, { wifi_power_save: false });
  assertEquals(network.reloads, 1);
  await device.apply({}, { wifi_power_save: false });
  assertEquals(network.reloads, 1, "it has read the file");
  await device.end();
});
