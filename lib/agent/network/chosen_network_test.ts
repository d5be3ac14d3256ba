/** Choices of people in place of a network that worked. */

import { assertEquals } from "@std/assert";
import { NetworkDevice } from "../../../tests/support/network_device.ts";

Deno.test("Networking: a choice that does not connect leaves the earlier one, which the device returns to", async () => {
  for (const roaming of [false, true]) {
    const device = new NetworkDevice({ turn_on_hotspot_if_wifi_has_no_internet: roaming });
    device.configured = true;
    const choose = async (ssid: string, password: string) => {
      device.submissions.network(ssid, password);
      device.submissions.submit();
      await device.minutes(1);
    };
    const outage = async () => {
      device.network.routers.delete("shop");
      device.network.active = undefined;
      await device.minutes(4);
      assertEquals(device.network.hotspot, "svc-setup-rover");
    };
    const names = () =>
      [...device.network.profiles.values()].filter((one) => !one.isHotspot).map(({ name }) => name).sort();
    device.network.routers.set("shop", { password: "right one" });
    device.network.routers.set("cafe", { password: "of the cafe" });
    await device.minutes(1);
    await choose("shop", "right one");
    assertEquals([device.network.joined, names()], ["shop", ["chosen:shop"]]);

    // While the router is off, somebody chooses another network, or this one, with a wrong password.
    for (const ssid of ["cafe", "shop"]) {
      await outage();
      await choose(ssid, "mistyped");
      assertEquals([device.network.joined, device.network.hotspot], [undefined, "svc-setup-rover"], ssid);
      device.network.routers.set("shop", { password: "right one" });
      await device.minutes(25);
      assertEquals([device.network.joined, device.serving], ["shop", 0], `after ${ssid}`);
    }
    assertEquals(names().includes("chosen:shop"), true);

    // A right password replaces the earlier choice.
    await outage();
    device.network.routers.set("shop", { password: "changed it" });
    await choose("shop", "changed it");
    assertEquals([device.network.joined, names().filter((name) => name.endsWith("shop"))], ["shop", [
      "chosen:shop",
    ]]);
    await outage();
    await choose("cafe", "of the cafe");
    assertEquals(device.network.joined, "cafe");
    assertEquals(names(), roaming ? ["chosen:cafe", "chosen:shop"] : ["chosen:cafe"]);
    assertEquals(device.network.profiles.get(device.network.active!)!.autoconnect, true);
    await device.end();
  }
});
