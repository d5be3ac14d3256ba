import { assert, assertEquals } from "@std/assert";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { decodeConfig } from "../../lib/machine/config/config.ts";
import { microRegistry } from "./serve.ts";

const BOARD = { name: "b", api: "rdk:component:board", model: "fake", attributes: {} };

function motor(name: string, pins: JsonObject, more: JsonObject = {}): JsonObject {
  const attributes = { board: "b", pins, max_rpm: 100, ...more };
  return { name, api: "rdk:component:motor", model: "gpio", attributes };
}

function servo(name: string, pin: string, hz: number): JsonObject {
  const attributes = { board: "b", pin, frequency_hz: hz, max_width_us: 2000 };
  return { name, api: "rdk:component:servo", model: "gpio", attributes };
}

async function decoded(...components: JsonObject[]) {
  const json = { components: [BOARD, ...components] };
  const { problems, fatal, config } = await decodeConfig(json, microRegistry(), { env: () => undefined });
  return { fatal, config, errors: problems.filter(({ severity }) => severity === "error") };
}

Deno.test("microcontroller PWM: motors share 10000 Hz and leave three frequencies", async () => {
  const motors = [motor("m1", { dir: "1", pwm: "2" }), motor("m2", { a: "3", b: "4" })];
  const { fatal, errors, config } = await decoded(
    ...motors,
    servo("s1", "5", 50),
    servo("s2", "6", 100),
    servo("s3", "7", 200),
    servo("s4", "8", 50),
  );
  assertEquals([fatal, errors], [false, []]);
  const [, first] = config.resources;
  assertEquals((first.decoded as { pwmFreq: number }).pwmFreq, 10_000);
});

Deno.test("microcontroller PWM: a fifth frequency is an error of the whole configuration and names the pins", async () => {
  const { fatal, errors: [error] } = await decoded(
    motor("m1", { dir: "1", pwm: "2" }),
    servo("s1", "5", 50),
    servo("s2", "6", 100),
    servo("s3", "7", 200),
    servo("s4", "8", 300),
  );
  assertEquals([fatal, error.path], [true, "components"]);
  assert(
    error.message.startsWith("found 5 PWM frequencies (10000 Hz on pin 2 of m1; 300 Hz on pin 8 of s4;"),
  );
});

Deno.test("microcontroller PWM: a motor with another frequency is an error that names its pin", async () => {
  const { fatal, errors: [error] } = await decoded(motor("m1", { dir: "1", pwm: "2" }, { pwm_freq: 800 }));
  assertEquals([fatal, error.path], [true, "components.1.attributes.pwm_freq"]);
  assertEquals(error.message, "found 800 Hz on pin 2, wanted 10000 Hz, which all gpio motors share");
});

Deno.test("svc-micro-server refuses modules", async () => {
  const json = { modules: [{ name: "m", type: "local", executable_path: "/m" }] };
  const { problems, fatal } = await decodeConfig(json, microRegistry(), { env: () => undefined });
  assertEquals([fatal, problems.some(({ message }) => message.includes("runs no modules"))], [true, true]);
});
