/** Figures of pins in the virtual machine, beside libgpiod's own tools. */

import type { DenoHost } from "../../../lib/base/host_deno.ts";
import type { Clock } from "../../../lib/base/clock.ts";
import type { Board } from "../../../lib/api/board.ts";
import type { JsonObject } from "../../../lib/base/schema/schema.ts";
import { LinuxBoard } from "../../../drivers/board/linux.ts";
import { construct } from "../../support/construct.ts";
import { HELPER, sh, SIM } from "./simulated.ts";

const CHIP = "gpiochip0";
const PULL = `${SIM}/sim_gpio1/pull`;
const INTERRUPT = { digital_interrupts: [{ name: "i", pin: `${CHIP}/1` }] };

/** Prints the figures, one line each. */
export async function bench(host: DenoHost, clock: Clock): Promise<void> {
  const board = (attributes: JsonObject) => construct(LinuxBoard, attributes, { host, clock });
  await latency(await board(INTERRUPT), clock);
  await rate(board);
  await levels(await board({}), clock);
  await jitter(await board({}), clock);
}

async function latency(board: Board, clock: Clock): Promise<void> {
  const libc = Deno.dlopen("libc.so.6", { clock_gettime: { parameters: ["i32", "buffer"], result: "i32" } });
  const time = new BigUint64Array(2);
  const nowNs = () => {
    libc.symbols.clock_gettime(1, new Uint8Array(time.buffer));
    return time[0] * 1_000_000_000n + time[1];
  };
  const leaving = new AbortController();
  const late: number[] = [];
  const stream = await board.streamTicks(["i"], { signal: leaving.signal });
  const reading = (async () => {
    for await (const { timeNs } of stream) late.push(Number(nowNs() - timeNs));
  })();
  await sh(`${HELPER} edges 200 1000 ${PULL}`);
  await clock.sleep(500);
  leaving.abort();
  await reading;
  await board.close();
  libc.close();
  console.log(`edge to tick, ours:    ${shown(late)}`);
  const edges = "sleep 2; $0 edges 200 1000 $1";
  const said = await sh(
    `sh -c '${edges}' ${HELPER} ${PULL} & timeout 20 gpiomon -n 1000 -F %s.%n -b ${CHIP} 1 | ${HELPER} stamp 1000; wait`,
  );
  console.log(`edge to line, gpiomon: ${shown(said.split("\n").filter((line) => line !== "").map(Number))}`);
}

function shown(ns: readonly number[]): string {
  const sorted = ns.toSorted((a, b) => a - b);
  const at = (share: number) => (sorted[Math.floor(share * (sorted.length - 1))] / 1000).toFixed(0);
  return `p50 ${at(0.5)} us, p99 ${at(0.99)} us (${sorted.length} edges)`;
}

/** Edges at higher and higher rates: how many of them arrive. */
async function rate(board: (attributes: JsonObject) => Promise<Board>): Promise<void> {
  const edges = 20_000;
  for (const hz of [5_000, 10_000, 20_000, 40_000, 0]) {
    const one = await board(INTERRUPT);
    const leaving = new AbortController();
    let ticks = 0;
    const stream = await one.streamTicks(["i"], { signal: leaving.signal });
    const reading = (async () => {
      for await (const _ of stream) ticks++;
    })();
    const begin = performance.now();
    await sh(`${HELPER} edges ${hz} ${edges} ${PULL}`);
    const tookMs = performance.now() - begin;
    for (let last = -1; last !== ticks;) {
      last = ticks;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    leaving.abort();
    await reading;
    const count = await one.getDigitalInterruptValue("i");
    await one.close();
    const gpiomon = await sh(
      `gpiomon -F %o -b ${CHIP} 1 > /tmp/heard & m=$!; sleep 2; ${HELPER} edges ${hz} ${edges} ${PULL}; sleep 1; ` +
        "kill $m; wait $m; wc -l < /tmp/heard",
    );
    const reached = (edges / tookMs * 1000).toFixed(0);
    console.log(
      `${
        hz || "all"
      } Hz wanted, about ${reached} Hz made: ${ticks} ticks, count ${count} of ${edges}; gpiomon ${gpiomon.trim()}`,
    );
  }
}

async function levels(board: Board, clock: Clock): Promise<void> {
  const times = 20_000;
  const begin = clock.monotonicMs();
  for (let time = 0; time < times; time++) await board.setGpio(`${CHIP}/5`, time % 2 === 0);
  const ours = times / (clock.monotonicMs() - begin) * 1000;
  await board.close();
  const again = clock.monotonicMs();
  await sh(`i=0; while [ $i -lt 100 ]; do gpioset ${CHIP} 5=1; i=$((i + 1)); done`);
  const theirs = 100 / (clock.monotonicMs() - again) * 1000;
  console.log(`SetGPIO: ${ours.toFixed(0)} a second; gpioset, a process each: ${theirs.toFixed(0)} a second`);
}

async function jitter(board: Board, clock: Clock): Promise<void> {
  await board.setPwmFrequency(`${CHIP}/7`, 800);
  await board.setPwm(`${CHIP}/7`, 0.3);
  await clock.sleep(5000);
  const { software_pwm } = await board.getStatus() as { software_pwm: JsonObject };
  await board.close();
  const { switches, late_us_p50, late_us_p99, late_us_max } = software_pwm;
  console.log(
    `software PWM at 800 Hz: late by p50 ${late_us_p50} us, p99 ${late_us_p99} us, at most ${late_us_max} us (${switches} switches)`,
  );
}
