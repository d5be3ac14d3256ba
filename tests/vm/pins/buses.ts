/** Checks of buses in the virtual machine: I2C and IIO on stubs, serial on a pseudo-terminal. */

import type { DenoHost } from "../../../lib/base/host_deno.ts";
import type { Clock } from "../../../lib/base/clock.ts";
import { LinuxBoard } from "../../../drivers/board/linux.ts";
import { GpsNmeaMovementSensor } from "../../../drivers/movement_sensor/gps_nmea.ts";
import { Mpu6050MovementSensor } from "../../../drivers/movement_sensor/mpu6050.ts";
import { Ina219PowerSensor } from "../../../drivers/power_sensor/ina219.ts";
import { GpioServo } from "../../../drivers/servo/gpio.ts";
import { I2cDevice } from "../../../lib/device/i2c.ts";
import { SerialLine } from "../../../lib/device/serial.ts";
import { construct } from "../../support/construct.ts";
import { HELPER, sh, SHARE, SIM } from "./simulated.ts";

/** The number of the stubs' bus. */
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
      // i2cget prints the first byte of a word as the lower byte.
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
      // The upper twelve bits of the conversion register, high byte first.
      await sh(`i2cset -f -y ${bus} 0x48 0x00 0x3012 w`);
      const attributes = { analogs: [{ name: "a", iio: "ads1015/voltage0" }] };
      const board = await construct(LinuxBoard, attributes, { host, clock });
      const { value } = await board.readAnalog("a");
      await board.close();
      if (value !== 0x123) throw new Error(`found ${value}, wanted ${0x123}`);
    }],
    ["INA219: the data sheet's example, from registers on the bus", async () => {
      const bus = await busNumber();
      await sh(`i2cset -y ${bus} 0x40 0x01 0xd007 w; i2cset -y ${bus} 0x40 0x02 0x985d w`);
      const attributes = { i2c_bus: bus, shunt_resistance: 0.002 };
      const sensor = await construct(Ina219PowerSensor, attributes, { host, clock });
      const { volts, amps } = await sensor.getReadings() as { volts: number; amps: number };
      await sensor.close();
      const set = (await sh(`i2cget -y ${bus} 0x40 0x00 w`)).trim();
      const found = `${volts.toFixed(2)} V, ${amps.toFixed(2)} A, ${set}`;
      if (found !== "11.98 V, 10.00 A, 0x9f39") throw new Error(`found ${found}`);
      return found;
    }],
    ["MPU-6050: woken, and read at once", async () => {
      const bus = await busNumber();
      const bytes = [0x40, 0, 0, 0, 0, 0, 0x01, 0x54, 0, 131, 0, 0, 0x80, 0];
      await sh(`i2cset -y ${bus} 0x68 0x75 0x68; i2cset -y ${bus} 0x68 0x6b 0x40`);
      await sh(`i2cset -y ${bus} 0x68 0x3b ${bytes.join(" ")} i`);
      const sensor = await construct(Mpu6050MovementSensor, { i2c_bus: bus }, { host, clock });
      const awake = (await sh(`i2cget -y ${bus} 0x68 0x6b`)).trim();
      const [{ x }, turning] = [await sensor.getLinearAcceleration(), await sensor.getAngularVelocity()];
      await sensor.close();
      const found = `${awake}, ${x.toFixed(3)}, ${turning.x.toFixed(3)}, ${turning.z.toFixed(1)}`;
      if (found !== "0x01, 9.807, 1.000, -250.1") throw new Error(`found ${found}`);
      return found;
    }],
    ["GPS: a position from a pseudo-terminal", async () => {
      return await withPty(async (path) => {
        const attributes = { serial_attributes: { serial_path: path } };
        const gps = await construct(GpsNmeaMovementSensor, attributes, { host, clock });
        try {
          for (const end = clock.monotonicMs() + 10_000; clock.monotonicMs() < end; await clock.sleep(100)) {
            const found = await gps.getPosition().catch(() => undefined);
            if (found?.altitudeM === 545.4) return `${found.coordinate.latitude.toFixed(4)} degrees north`;
          }
          throw new Error("no position within 10 s");
        } finally {
          await gps.close();
        }
      });
    }],
    ["servo: pulses of the right length on a real line", async () => {
      const board = await construct(LinuxBoard, {}, { host, clock, name: "b" });
      const attributes = { board: "b", pin: "gpiochip0/7" };
      const servo = await construct(GpioServo, attributes, { host, clock, dependencies: [board] });
      await servo.move(180);
      const duty = Number(await sh(`${HELPER} duty ${SIM}/sim_gpio7/value 3000`));
      await servo.close();
      await board.close();
      // 2.5 ms of 20 ms.
      if (Math.abs(duty - 0.125) > 0.05) throw new Error(`found a duty of ${duty}, wanted 0.125`);
      return `${(20 * duty).toFixed(2)} ms, wanted 2.5`;
    }],
    ["serial: lines of a pseudo-terminal", async () => {
      return await withPty(async (path) => {
        const line = SerialLine.open(host, path, 9600, 100);
        const heard: string[] = [];
        for (const end = clock.monotonicMs() + 10_000; heard.length < 3 && clock.monotonicMs() < end;) {
          heard.push(...await line.lines(500));
        }
        line.close();
        if (!heard.some((one) => one.startsWith("$GPGGA"))) throw new Error(`found ${heard}`);
        return path;
      });
    }],
  ];
}

/** Uses a serial line on which a GPS receiver repeats its sentences. */
async function withPty<T>(use: (path: string) => Promise<T>): Promise<T> {
  const other = new Deno.Command(HELPER, { args: ["pty", `${SHARE}/gps.nmea`], stdout: "piped" }).spawn();
  const reader = other.stdout.getReader();
  try {
    return await use(new TextDecoder().decode((await reader.read()).value).trim());
  } finally {
    other.kill("SIGKILL");
    await other.status;
    await reader.cancel();
  }
}
