/**
 * The program in the virtual machine: checks the board and the drivers on simulated hardware, through the real kernel.
 *
 * Prints one line a check, as `Report` does. `setup.sh` makes the hardware.
 */

import { DenoHost } from "../../../lib/base/host_deno.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import { chainOf } from "../../../lib/base/error.ts";
import type { Board, Tick } from "../../../lib/api/actuators/board.ts";
import type { JsonObject } from "../../../lib/base/schema/schema.ts";
import { LinuxBoard } from "../../../drivers/board/linux.ts";
import { IncrementalEncoder } from "../../../drivers/encoder/incremental.ts";
import { GpioMotor } from "../../../drivers/motor/gpio.ts";
import { Report } from "../../../cli/build/report.ts";
import { construct } from "../../support/construct.ts";
import { until } from "../../support/until.ts";
import { bench } from "./bench.ts";
import { busChecks } from "./buses.ts";
import { edges, HELPER, sh, SIM } from "./simulated.ts";

const CHIP = "gpiochip0";
/** The requested rate and number of edges. An emulated processor reaches a lower rate. */
const EDGES_HZ = 10_000, EDGES = 20_000;

/** How long edges may take to arrive on an emulated processor. */
const LATE_MS = 20_000;

const host = new DenoHost();
const clock = new SystemClock();

function board(attributes: JsonObject = {}, name = "board1"): Promise<Board> {
  return construct(LinuxBoard, attributes, { host, clock, name });
}

/** Uses a board and closes it. */
async function on<T>(attributes: JsonObject, use: (board: Board) => Promise<T>): Promise<T> {
  const one = await board(attributes);
  try {
    return await use(one);
  } finally {
    await one.close();
  }
}

function same(found: unknown, wanted: unknown, what: string): void {
  const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what}: found ${a}, wanted ${b}`);
}

async function refusal(work: Promise<unknown>, ...words: string[]): Promise<string> {
  const text = await work.then(() => "nothing", chainOf);
  for (const word of words) {
    if (!text.includes(word)) throw new Error(`found "${text}", wanted "${word}" in it`);
  }
  return text;
}

async function level(line: number): Promise<number> {
  return Number((await Deno.readTextFile(`${SIM}/sim_gpio${line}/value`)).trim());
}

async function pull(line: number, up: boolean): Promise<void> {
  await Deno.writeTextFile(`${SIM}/sim_gpio${line}/pull`, up ? "pull-up" : "pull-down");
}

/** The share of the time for which the line is high. */
async function duty(line: number, ms = 2000): Promise<number> {
  return Number(await sh(`${HELPER} duty ${SIM}/sim_gpio${line}/value ${ms}`));
}

/** Runs the checks once for each back end. */
function levelChecks(gpio: string): [name: string, run: () => Promise<string | void>][] {
  return [
    [`${gpio}: writes and reads lines`, () =>
      on({ gpio, pins: { mine: `${CHIP}/5` } }, async (b) => {
        for (const high of [true, false, true]) {
          await b.setGpio("mine", high);
          same([await level(5), await b.getGpio(`${CHIP}/5`)], [high ? 1 : 0, high], "line 5");
        }
        for (const up of [true, false]) {
          await pull(6, up);
          same(await b.getGpio(`${CHIP}/6`), up, "line 6");
        }
        await b.setGpio(`${CHIP}/6`, true);
        same(await level(6), 1, "line 6, first read and then written");
      })],
    [`${gpio}: PWM by the thread`, () =>
      on({ gpio }, async (b) => {
        await b.setPwmFrequency(`${CHIP}/7`, 100);
        await b.setPwm(`${CHIP}/7`, 0.25);
        const found = await duty(7);
        if (Math.abs(found - 0.25) > 0.1) throw new Error(`found a duty of ${found}, wanted 0.25`);
        await b.setPwm(`${CHIP}/7`, 1);
        same(await level(7), 1, "full duty");
        await b.setPwm(`${CHIP}/7`, 0.5);
        await b.setGpio(`${CHIP}/7`, false);
        same(await duty(7, 200), 0, "a level ends the pulses");
        return `high for ${(100 * found).toFixed(1)} % of the time`;
      })],
    [`${gpio}: a line that somebody uses is refused by name`, async () => {
      const other = new Deno.Command("gpioset", { args: ["-m", "signal", CHIP, "8=1"] }).spawn();
      try {
        await until(async () => (await sh(`gpioinfo ${CHIP}`)).includes('"gpioset"'));
        const words = gpio === "sysfs" ? ["in use"] : ["line 8", '"gpioset"'];
        return await on({ gpio }, (b) => refusal(b.setGpio(`${CHIP}/8`, true), ...words));
      } finally {
        other.kill("SIGTERM");
        await other.status;
      }
    }],
  ];
}

const CHECKS: [name: string, run: () => Promise<string | void>][] = [
  ...levelChecks("character_device"),
  ...levelChecks("sysfs"),
  ["lines by their names, and unknown ones", () =>
    on({}, async (b) => {
      await b.setGpio("LAMP", true);
      same(await level(3), 1, "LAMP");
      await refusal(b.setGpio("LAMB", true), "did you mean LAMP?");
      await refusal(b.setGpio("11", true), "header are not known");
      return await refusal(b.setGpio(`${CHIP}/99`, true), "has 16 lines");
    })],
  [
    "pull resistors are set by the kernel",
    () =>
      on({ pull: { [`${CHIP}/9`]: "up", [`${CHIP}/10`]: "down" } }, async (b) => {
        same([await b.getGpio(`${CHIP}/9`), await b.getGpio(`${CHIP}/10`)], [true, false], "lines 9 and 10");
      }),
  ],
  [
    "status names the users of lines",
    () =>
      on({ digital_interrupts: [{ name: "i", pin: "BUTTON" }] }, async (b) => {
        const [chip] = (await b.getStatus()).chips as { lines: { line: number; used_by: string }[] }[];
        same(chip.lines[4].used_by, "svc board1", "line 4");
        same(chip.lines[5].used_by, "", "line 5");
      }),
  ],
  [`${EDGES} edges, at most ${EDGES_HZ} Hz: every tick, in order, while this thread is busy`, edgesAtRate],
  [
    "debounced by the kernel",
    () =>
      on({ digital_interrupts: [{ name: "i", pin: `${CHIP}/1`, debounce_us: 20_000 }] }, async (b) => {
        await edges(1000, 101, [1]);
        await until(async () => await b.getDigitalInterruptValue("i") > 0);
        await clock.sleep(200);
        const count = await b.getDigitalInterruptValue("i");
        if (count > 5) throw new Error(`found ${count} edges, wanted few`);
        await pull(1, false);
        return `${count} of 101 edges within 101 ms count`;
      }),
  ],
  [
    "sysfs: slow edges are heard",
    () =>
      on({ gpio: "sysfs", digital_interrupts: [{ name: "i", pin: `${CHIP}/1` }] }, async (b) => {
        await pull(1, false);
        const before = await b.getDigitalInterruptValue("i");
        await edges(4, 16, [1]);
        await until(async () => await b.getDigitalInterruptValue("i") - before >= 16);
      }),
  ],
  ["an encoder counts forwards and backwards", encoder],
  ["motor patterns on real lines", motorPatterns],
  ["killed with -9: its lines are free, its pulses end", killed],
  ["hardware PWM, and what a killed process leaves of it", hardwarePwm],
  ["a missing permission names the group and the udev rule", async () => {
    const output = await sh(`setpriv --reuid 65534 --regid 65534 --clear-groups ${Deno.execPath()} refused`);
    for (const word of ["usermod -aG gpio", "/etc/udev/rules.d", 'SUBSYSTEM=="gpio"']) {
      if (!output.includes(word)) throw new Error(`found "${output}", wanted "${word}" in it`);
    }
    return output.trim();
  }],
  ...busChecks(host, clock),
];

async function edgesAtRate(): Promise<string> {
  await pull(1, false);
  return await on({ digital_interrupts: [{ name: "i", pin: `${CHIP}/1` }] }, async (b) => {
    const ticks: Tick[] = [];
    const leaving = new AbortController();
    const stream = await b.streamTicks(["i"], { signal: leaving.signal });
    const reading = (async () => {
      for await (const tick of stream) ticks.push(tick);
    })();
    const made = edges(EDGES_HZ, EDGES, [1]);
    await until(() => ticks.length > 1000);
    // Longer than the kernel's buffer lasts at this rate.
    for (const end = clock.monotonicMs() + 300; clock.monotonicMs() < end;);
    await made;
    await until(() => ticks.length >= EDGES, { withinMs: LATE_MS }).catch(() => {});
    leaving.abort();
    await reading;
    const count = await b.getDigitalInterruptValue("i");
    same([ticks.length, count], [EDGES, EDGES], "ticks and count");
    ticks.forEach(({ high, timeNs }, index) => {
      if (high !== (index % 2 === 0) || index > 0 && timeNs < ticks[index - 1].timeNs) {
        throw new Error(`tick ${index} is out of order`);
      }
    });
    const seconds = Number(ticks[EDGES - 1].timeNs - ticks[0].timeNs) / 1e9;
    return `${((EDGES - 1) / seconds).toFixed(0)} edges a second came`;
  });
}

async function encoder(): Promise<string> {
  await pull(1, false);
  await pull(2, false);
  const interrupts = [{ name: "a", pin: `${CHIP}/1` }, { name: "b", pin: `${CHIP}/2` }];
  return await on({ digital_interrupts: interrupts }, async (b) => {
    const one = await construct(IncrementalEncoder, { board: "board1", pins: { a: "a", b: "b" } }, {
      dependencies: [b],
      host,
      clock,
    });
    const position = async () => (await one.getPosition()).value;
    const turn = (count: number) => edges(5000, count, [1, 2]);
    await turn(8000);
    await until(async () => Math.abs(await position()) >= 4000);
    const there = await position();
    await turn(-4000);
    await until(async () => Math.abs(await position()) <= 2000);
    const back = await position();
    await one.close();
    same([Math.abs(there), Math.abs(back)], [4000, 2000], "positions");
    return `${there} ticks, then ${back}`;
  });
}

async function motorPatterns(): Promise<string> {
  return await on({}, async (b) => {
    const pin = (line: number) => `${CHIP}/${line}`;
    const output: string[] = [];
    const motor = (pins: JsonObject) =>
      construct(GpioMotor, { board: "board1", pins, max_rpm: 100, pwm_freq: 100 }, {
        dependencies: [b],
        host,
        clock,
      });
    const near = (found: number, wanted: number, what: string) => {
      output.push(`${what} ${found.toFixed(2)}`);
      if (Math.abs(found - wanted) > 0.12) throw new Error(`${what}: found ${found}, wanted ${wanted}`);
    };
    const dirPwm = await motor({ dir: pin(11), pwm: pin(12) });
    await dirPwm.setPower(-0.4);
    same(await level(11), 0, "dir backwards");
    near(await duty(12), 0.4, "dir+pwm");
    await dirPwm.stop();
    same(await duty(12, 100), 0, "stopped");
    const ab = await motor({ a: pin(13), b: pin(14) });
    await ab.setPower(0.7);
    same(await level(13), 1, "a forwards");
    near(await duty(14), 0.3, "a+b");
    await ab.stop();
    same([await level(13), await level(14)], [0, 0], "a and b, stopped");
    const abPwm = await motor({ a: pin(13), b: pin(14), pwm: pin(15) });
    await abPwm.setPower(-0.6);
    same([await level(13), await level(14)], [0, 1], "a and b, backwards");
    near(await duty(15), 0.6, "a+b+pwm");
    await abPwm.goFor(100, 0.5);
    same([await level(13), await level(14), await duty(15, 100)], [0, 0, 0], "after GoFor");
    return output.join(", ");
  });
}

/** Starts this program again to do `work`, and kills it when it reports that it has begun. */
async function killWhile(work: string): Promise<void> {
  const child = new Deno.Command(Deno.execPath(), { args: [work], stdout: "piped" }).spawn();
  const reader = child.stdout.getReader();
  await reader.read();
  child.kill("SIGKILL");
  await child.status;
  await reader.cancel();
}

async function killed(): Promise<string> {
  await killWhile("pulses");
  const info = await sh(`gpioinfo ${CHIP}`);
  if (info.includes("svc")) throw new Error(`still used:\n${info}`);
  const share = await duty(7, 200);
  if (share !== 0 && share !== 1) throw new Error("the pulses go on");
  return `the line stays ${share === 1 ? "high" : "low"}`;
}

async function hardwarePwm(): Promise<string> {
  const chip = (await sh("ls /sys/class/pwm")).trim();
  const enabled = async () => {
    return (await Deno.readTextFile(`/sys/class/pwm/${chip}/pwm2/enable`).catch(() => "gone")).trim();
  };
  await killWhile("hardware");
  const left = await enabled();
  const found = await on({ hardware_pwm: { [`${CHIP}/0`]: `${chip}/2` } }, async (b) => {
    const after = await enabled();
    await b.setPwmFrequency(`${CHIP}/0`, 200);
    await b.setPwm(`${CHIP}/0`, 0.25);
    const read = async (name: string) => {
      return Number(await Deno.readTextFile(`/sys/class/pwm/${chip}/pwm2/${name}`));
    };
    same([await read("period"), await read("duty_cycle")], [5_000_000, 1_250_000], "period and time on");
    same(await enabled(), "1", "enabled");
    await b.setGpio(`${CHIP}/0`, false);
    same(await enabled(), "0", "after a level");
    return after;
  });
  same(
    [left, found, await enabled()],
    ["1", "gone", "gone"],
    "left by the killed process, after open, after close",
  );
  return "it goes on after the kill, and is off once the board is open again";
}

/** The work of a program that another instance has started. */
async function child(work: string): Promise<void> {
  if (work === "refused") {
    await board().catch((error) => console.log(chainOf(error)));
    return;
  }
  if (work === "pulses") {
    const b = await board();
    await b.setPwm(`${CHIP}/7`, 0.5);
  } else {
    const chip = (await sh("ls /sys/class/pwm")).trim();
    const b = await board({ hardware_pwm: { [`${CHIP}/0`]: `${chip}/2` } });
    await b.setPwm(`${CHIP}/0`, 0.5);
  }
  console.log("there");
  await clock.sleep(60_000);
}

if (import.meta.main) {
  const [work = "", only = ""] = Deno.args;
  if (work === "checks") {
    const report = new Report(host);
    for (const [name, run] of CHECKS) if (name.includes(only)) await report.check(name, run);
    Deno.exit(report.finish());
  } else if (work === "bench") await bench(host, clock);
  else await child(work);
  Deno.exit(0);
}
