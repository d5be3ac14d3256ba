import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { construct } from "../../tests/support/construct.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";
import { FakePins } from "../../tests/support/fake_pins.ts";
import { LinuxDiscoveryModel } from "./linux.ts";

Deno.test("linux discovery: finds the board by its name and lists its lines with their users", async () => {
  const pins = new FakePins();
  const chip = pins.chip("gpiochip0", "pinctrl-bcm2711", 2, { 1: "LED" });
  chip.lines[1].user = "led0";
  const files = { "/proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0" };
  const discovery = await construct(LinuxDiscoveryModel, {}, {
    host: new FakeHost({ devices: pins, files }),
  });
  assertEquals(await discovery.discoverResources(), [{
    name: "raspberry-pi-4-model-b-rev-1-4",
    api: "rdk:component:board",
    model: "rdk:builtin:linux",
    attributes: { gpio: "character_device" },
  }]);
  assertEquals(await discovery.getStatus(), {
    chips: [{
      name: "gpiochip0",
      label: "pinctrl-bcm2711",
      free: 1,
      lines: [
        { line: 0, name: "", used_by: "", output: false },
        { line: 1, name: "LED", used_by: "led0", output: false },
      ],
    }],
  });
  assertEquals(pins.open, 0);
});

Deno.test("linux discovery: without GPIO chips or permission the error says what to do", async () => {
  const pins = new FakePins();
  const discovery = await construct(LinuxDiscoveryModel, {}, { host: new FakeHost({ devices: pins }) });
  await assertRejects(() => discovery.discoverResources(), SvcError, "no GPIO chip");
  pins.chip("gpiochip0", "pinctrl-bcm2711", 2);
  pins.forbidden.add("/dev/gpiochip0");
  await assertRejects(() => discovery.discoverResources(), SvcError, "usermod -aG gpio");
});
