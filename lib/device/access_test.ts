import { assertEquals, assertStringIncludes } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { permissionHint } from "./access.ts";

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
