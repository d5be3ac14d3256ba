import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { chooseBackEnd, type GpioFacts } from "./gpio_back_end.ts";

const FACTS: GpioFacts = { os: "linux", chips: ["gpiochip0"], sysfs: true };
const OLD = new SvcError("invalid_argument", "Invalid argument");
const FORBIDDEN = new SvcError("permission_denied", "Permission denied");

Deno.test("chooseBackEnd: prefers the character device, then sysfs, or the configured back end", () => {
  assertEquals(chooseBackEnd(FACTS), "character_device");
  assertEquals(chooseBackEnd(FACTS, "sysfs"), "sysfs");
  assertEquals(chooseBackEnd({ ...FACTS, refusal: OLD }), "sysfs");
  assertEquals(chooseBackEnd({ ...FACTS, chips: [] }), "sysfs");
  assertEquals(chooseBackEnd({ ...FACTS, refusal: FORBIDDEN }, "sysfs"), "sysfs");
});

Deno.test("chooseBackEnd: without a usable back end, the error names the missing part", () => {
  const refused = (facts: Partial<GpioFacts>, words: string, wanted?: "sysfs" | "character_device") => {
    assertThrows(() => chooseBackEnd({ ...FACTS, ...facts }, wanted), SvcError, words);
  };
  refused({ os: "windows" }, "work on Linux only");
  refused({ chips: [], sysfs: false }, "no GPIO chip");
  refused({ refusal: FORBIDDEN }, "Permission denied");
  refused({ refusal: OLD }, "Invalid argument", "character_device");
  refused({ sysfs: false }, "no GPIO in sysfs", "sysfs");
});
