import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { FakeI2c, FakePins } from "../../tests/support/fake_pins.ts";
import { type Code, SvcError } from "../base/error.ts";
import type { Device } from "../base/host.ts";
import { permissionHint } from "./access.ts";
import { I2cDevice } from "./i2c.ts";

const denied = new SvcError("permission_denied", "Permission denied");

Deno.test("permissionHint: a missing permission names the group and the rule of its kind of device", () => {
  const spi = permissionHint("/dev/spidev0.0", denied);
  assertStringIncludes(spi, "usermod -aG spi USER");
  assertStringIncludes(spi, 'SUBSYSTEM=="spidev", GROUP="spi", MODE="0660"');
  // A file below /sys has no node that a rule could give to a group.
  assertStringIncludes(permissionHint("/sys/class/pwm/pwmchip0/export", denied), "chgrp -R gpio /sys%p");
});

Deno.test("permissionHint: nothing for another error or an unknown device", () => {
  assertEquals(permissionHint("/dev/spidev0.0", new SvcError("not_found", "No such file or directory")), "");
  assertEquals(permissionHint("/dev/null", denied), "");
});

/** An I2C bus that refuses one of the calls by which a device is opened. */
class RefusingPins extends FakePins {
  constructor(private readonly refused: number, private readonly code: Code) {
    super();
    this.i2c.set("/dev/i2c-1 64", new FakeI2c());
  }

  override openDevice(path: string): Device {
    const device = super.openDevice(path);
    const tell = (request: number, value: number) => {
      if (request === this.refused) throw new SvcError(this.code, "refused");
      device.tell(request, value);
    };
    return { ...device, tell };
  }
}

Deno.test("I2cDevice.open: leaves no bus open that refuses the device, and keeps one without a limit of waits", () => {
  const [timeout, address] = [0x0702, 0x0703];
  const refusals: [request: number, code: Code, wanted: string][] = [
    [address, "resource_exhausted", "refused (I2C address 0x40); a driver of the kernel uses it"],
    [address, "invalid_argument", "refused (I2C address 0x40)"],
    [timeout, "unavailable", "refused (I2C address 0x40)"],
  ];
  for (const [request, code, wanted] of refusals) {
    const pins = new RefusingPins(request, code);
    const error = assertThrows(() => I2cDevice.open(pins, "1", 64), SvcError);
    assertEquals([error.message, error.code, pins.open], [wanted, code, 0]);
  }
  for (const code of ["invalid_argument", "unimplemented"] as const) {
    const pins = new RefusingPins(timeout, code);
    const device = I2cDevice.open(pins, "/dev/i2c-1", 64);
    assertEquals(pins.open, 1);
    device.close();
    assertEquals(pins.open, 0);
  }
});
