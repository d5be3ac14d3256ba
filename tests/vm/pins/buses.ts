/** Checks of buses in the virtual machine: I2C and IIO on stubs, serial on a pseudo-terminal. */

import type { DenoHost } from "../../../lib/base/host_deno.ts";
import type { Clock } from "../../../lib/base/clock.ts";
import { LinuxBoard } from "../../../drivers/board/linux.ts";
import { I2cDevice } from "../../../lib/device/i2c.ts";
import { SerialLine } from "../../../lib/device/serial.ts";
import { construct } from "../../support/construct.ts";
import { HELPER, sh, SHARE } from "./simulated.ts";

/** The bus of the stubs. */
async function busNumber(): Promise<string> {
  const path = (await sh("grep -l 'SMBus stub' /sys/bus/i2c/devices/i2c-*/name")).trim();
  return path.match(/i2c-(\d+)\/name$/)![1];
}

export function busChecks(
  host: DenoHost,
  clock: Clock,
): [name: string, run: () => Promise<string | void>][] {
  return [
    ["I2C: bytes, words and blocks of registers", async () => {
      const bus = await busNumber();
      const device = I2cDevice.open(host, bus, 0x68);
      device.writeByte(0x10, 0xab);
      device.writeWord(0x20, 0x1234);
      const found = [device.readByte(0x10), device.readWord(0x20)];
      device.close();
      const [byte, word] = [await sh(`i2cget -y ${bus} 0x68 0x10`), await sh(`i2cget -y ${bus} 0x68 0x20 w`)];
      // i2cget shows the first byte of a word as the lower one.
      const wanted = "171,4660,0xab,0x3412";
      const all = [...found, byte.trim(), word.trim()].join();
      if (all !== wanted) throw new Error(`found ${all}, wanted ${wanted}`);
    }],
    ["I2C: a device that a driver of the kernel has", async () => {
      const bus = await busNumber();
      try {
        I2cDevice.open(host, bus, 0x48).close();
      } catch (error) {
        const { message } = error as Error;
        if (message.includes("a driver of the kernel uses it")) return message;
      }
      throw new Error("it was not refused");
    }],
    ["analogs through IIO", async () => {
      const bus = await busNumber();
      // The twelve upper bits of the conversion register, its higher byte first.
      await sh(`i2cset -f -y ${bus} 0x48 0x00 0x3012 w`);
      const attributes = { analogs: [{ name: "a", iio: "ads1015/voltage0" }] };
      const board = await construct(LinuxBoard, attributes, { host, clock });
      const { value } = await board.readAnalog("a");
      await board.close();
      if (value !== 0x123) throw new Error(`found ${value}, wanted ${0x123}`);
    }],
    ["serial: lines of a pseudo-terminal", async () => {
      const other = new Deno.Command(HELPER, { args: ["pty", `${SHARE}/gps.nmea`], stdout: "piped" }).spawn();
      const reader = other.stdout.getReader();
      try {
        const path = new TextDecoder().decode((await reader.read()).value).trim();
        const line = SerialLine.open(host, path, 9600, 100);
        const heard: string[] = [];
        for (const end = clock.monotonicMs() + 10_000; heard.length < 3 && clock.monotonicMs() < end;) {
          heard.push(...await line.lines(500));
        }
        line.close();
        if (!heard.some((one) => one.startsWith("$GPGGA"))) throw new Error(`found ${heard}`);
        return path;
      } finally {
        other.kill("SIGKILL");
        await other.status;
        await reader.cancel();
      }
    }],
  ];
}
