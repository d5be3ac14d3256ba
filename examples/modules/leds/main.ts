/**
 * A board of your own: each light that Linux shows in a folder is a pin of it, so `num`, `caps` and the lights of a
 * small computer blink from any client. A light has as many steps as its `max_brightness`, so it takes a duty cycle, too.
 *
 * The folder belongs to the system: give the user of svc-server the right to write to `brightness`.
 */

// deno-lint-ignore-file require-await -- every method of a resource gives a promise

import { readdir, readFile, writeFile } from "node:fs/promises";
import {
  type Board,
  BoardApi,
  type Made,
  model,
  object,
  serveModule,
  SvcError,
  text,
  unsupported,
} from "svc-module";

const leds = model({
  api: BoardApi,
  name: "example:leds:board",
  attributes: object({ folder: text("where the system shows its lights").default("/sys/class/leds") }),
  construct: async ({ name, attributes: { folder } }): Promise<Made<Board>> => {
    // A pin that is none of these never becomes a path.
    const lights = new Set(await readdir(folder));
    const file = (pin: string, what: "brightness" | "max_brightness") => {
      if (lights.has(pin)) return `${folder}/${pin}/${what}`;
      throw new SvcError(
        "not_found",
        `${name} has no light "${pin}", it has ${[...lights].join(", ") || "none"}`,
      );
    };
    const read = async (pin: string, what: "brightness" | "max_brightness") =>
      Number(await readFile(file(pin, what), "utf8"));

    const setPwm = async (pin: string, share: number) => {
      if (!(share >= 0 && share <= 1)) {
        throw new SvcError("invalid_argument", `a duty cycle is between 0 and 1, not ${share}`);
      }
      await writeFile(file(pin, "brightness"), `${Math.round(share * await read(pin, "max_brightness"))}\n`);
    };

    return {
      setGpio: (pin, high) => setPwm(pin, high ? 1 : 0),
      getGpio: async (pin) => await read(pin, "brightness") > 0,
      setPwm,
      getPwm: async (pin) => await read(pin, "brightness") / await read(pin, "max_brightness"),
      getPwmFrequency: async (pin) => {
        throw unsupported(name, "PWMFrequency", `the system dims ${pin} as it likes`);
      },
      setPwmFrequency: async (pin) => {
        throw unsupported(name, "SetPWMFrequency", `the system dims ${pin} as it likes`);
      },
      readAnalog: async () => {
        throw unsupported(name, "ReadAnalogReader", "lights measure nothing");
      },
      writeAnalog: async () => {
        throw unsupported(name, "WriteAnalog", "a light takes a duty cycle");
      },
      getDigitalInterruptValue: async () => {
        throw unsupported(name, "GetDigitalInterruptValue", "lights count nothing");
      },
      streamTicks: async () => {
        throw unsupported(name, "StreamTicks", "lights count nothing");
      },
      setPowerMode: async () => {
        throw unsupported(name, "SetPowerMode", "lights have one mode");
      },
    };
  },
});

await serveModule([leds]);
