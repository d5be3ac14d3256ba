import { assertEquals } from "@std/assert";
import { RunawayWatch, StandstillWatch } from "./steering.ts";

Deno.test("StandstillWatch: a shaft that full power turns, however slowly, does not stand", () => {
  const run = (
    positionOf: (seconds: number) => number,
    { ticksPerRotation = 200, ticksPerMs = 0.2, max = 1, power = (_seconds: number) => max } = {},
  ) => {
    const watch = new StandstillWatch(max, ticksPerRotation, ticksPerMs);
    for (let ms = 0; ms <= 60_000; ms += 10) {
      if (watch.sees(positionOf(ms / 1000), ms, power(ms / 1000))) return ms;
    }
    return undefined;
  };
  assertEquals(run(() => 40), 5_000, "it stands");
  assertEquals(run(() => -40, { max: 0.3, power: () => -0.3 }), 5_000, "with all that it may have");
  assertEquals(run((s) => Math.round(Math.sin(40 * s))), 5_000, "it is held and shaken");
  assertEquals(run((s) => Math.min(400 * s, 1_000)), 7_500, "it comes to the end of its way");
  assertEquals(run(() => 0, { power: () => 0.9 }), undefined, "it may get more power yet");
  assertEquals(run(() => 0, { power: (s) => s % 3 < 2 ? 1 : 0 }), undefined, "the power is not for long");
  assertEquals(run((s) => Math.floor(s)), undefined, "a crawl");
  assertEquals(
    run((s) => Math.floor(s / 15), { ticksPerRotation: 1, ticksPerMs: 1 / 15_000 }),
    undefined,
    "one tick in a rotation, four rotations a minute",
  );
});

Deno.test("RunawayWatch: a shaft that is braked, held, shaken or reversed has not run away", () => {
  const run = (positionOf: (seconds: number) => number, powerOf: (seconds: number) => number = () => 1) => {
    const watch = new RunawayWatch(200);
    for (let ms = 0; ms <= 10_000; ms += 10) {
      if (watch.sees(positionOf(ms / 1000), ms, powerOf(ms / 1000))) return ms;
    }
    return undefined;
  };
  assertEquals(run((s) => -400 * s), 2_000, "it turns evenly against its power");
  assertEquals(run((s) => -50 * s ** 2), 2_000, "and ever faster");
  assertEquals(run((s) => 400 * s, () => -0.5), 2_000, "and the other way round");
  assertEquals(run((s) => 400 * s), undefined, "it obeys");
  assertEquals(run((s) => -2_000 * (1 - Math.exp(-s / 5))), undefined, "a heavy wheel is braked");
  assertEquals(run((s) => 15 * Math.sin(40 * s)), undefined, "it is held and shaken");
  assertEquals(run((s) => -400 * s, () => 0), undefined, "something else turns it, without power");
  assertEquals(run((s) => -400 * s, (s) => Math.sin(5 * s)), undefined, "a loop that seeks its goal");
});
