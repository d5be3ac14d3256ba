/** The threads of devices against each other: one makes pulses into a pipe, another reads them. */

import { assert, assertEquals, assertThrows } from "@std/assert";
import { until } from "../../../tests/support/until.ts";
import { SvcError } from "../error.ts";
import { DenoDevice } from "./device.ts";
import { PulseThread } from "./pulses.ts";

const HIGH = 0x31, LOW = 0x30;

async function withPipe(use: (path: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc_threads_" });
  try {
    const path = `${folder}/pipe`;
    const { success } = await new Deno.Command("mkfifo", { args: [path] }).output();
    assert(success, "mkfifo");
    await use(path);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test({
  name: "PulseThread: alternates levels, and a follower reads each of them until end",
  ignore: Deno.build.os !== "linux",
  fn: () =>
    withPipe(async (path) => {
      const device = new DenoDevice(path);
      const levels: number[] = [];
      const end = device.follow(64, {
        heard: (bytes) => void levels.push(...bytes),
        failed: (error) => assertEquals(error, undefined),
      });
      const pulses = new PulseThread();
      const wire = { file: device.file, request: 0, on: Uint8Array.of(HIGH), off: Uint8Array.of(LOW) };
      const pulse = pulses.attach(wire);
      pulse.set(1e6, 3e5);
      await until(() => levels.length > 20);
      for (const busy = performance.now() + 100; performance.now() < busy;);
      await pulse.end();
      const { switches } = pulses.lateness();
      await until(() => levels.length >= switches);
      await pulse.end();
      await pulses.close();
      await end();
      device.close();
      assertEquals(levels.length, switches);
      levels.forEach((level, index) => assertEquals(level, index % 2 === 0 ? HIGH : LOW));
    }),
});

Deno.test({
  name: "PulseThread: the last pulse of a servo is whole, and a long one is cut off",
  ignore: Deno.build.os !== "linux",
  fn: () =>
    withPipe(async (path) => {
      const device = new DenoDevice(path);
      let levels = "";
      const end = device.follow(64, {
        heard: (bytes) => void (levels += String.fromCharCode(...bytes)),
        failed: (error) => assertEquals(error, undefined),
      });
      const pulses = new PulseThread();
      const wire = { file: device.file, request: 0, on: Uint8Array.of(HIGH), off: Uint8Array.of(LOW) };
      for (let turn = 0; turn < 10; turn++) {
        levels = "";
        const pulse = pulses.attach(wire);
        pulse.set(20e6, 2.5e6);
        await until(() => levels.endsWith("1"));
        await pulse.end();
        await until(() => levels.endsWith("0"));
      }

      levels = "";
      const pulse = pulses.attach(wire);
      pulse.set(60e9, 30e9);
      await until(() => levels.endsWith("1"));
      await pulse.end();
      assertEquals(levels, "1");
      await pulses.close();
      await end();
      device.close();
    }),
});

Deno.test({
  name: "DenoDevice: follow reports a device that gives no more data",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const device = new DenoDevice("/dev/null");
    const failed = Promise.withResolvers<SvcError>();
    const end = device.follow(64, { heard: () => {}, failed: failed.resolve });
    assertEquals((await failed.promise).message, 'the device "/dev/null" gives nothing more');
    await end();
    device.close();
    assertThrows(() => device.tell(0, 0), SvcError, "is closed");
  },
});

Deno.test({
  name: "DenoDevice: close gives back the descriptor, so that others can open the device",
  ignore: Deno.build.os !== "linux",
  fn: () =>
    withPipe(async (path) => {
      const device = new DenoDevice(path);
      const opened = async () => await Deno.realPath(`/proc/self/fd/${device.file}`).catch(() => undefined);
      const real = await Deno.realPath(path);
      assertEquals(await opened(), real);
      device.close();
      device.close();
      assert(await opened() !== real, "the descriptor is still open");
    }),
});

Deno.test({
  name: "DenoDevice: lock takes a device for one opening, under any of its names, until it is closed",
  ignore: Deno.build.os !== "linux",
  fn: () =>
    withPipe((path) => {
      const link = `${path}-by-id`;
      Deno.symlinkSync(path, link);
      const [one, other, third] = [path, link, path].map((name) => new DenoDevice(name));
      assertEquals([one.lock(), one.lock(), other.lock(), third.lock()], [true, true, false, false]);
      one.close();
      assertEquals([other.lock(), third.lock()], [true, false]);
      for (const device of [other, third]) device.close();
      assertThrows(() => one.lock(), SvcError, "is closed");
      return Promise.resolve();
    }),
});
