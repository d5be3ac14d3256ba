/** Figures of pins in the virtual machine, beside libgpiod's own tools. */

import type { DenoHost } from "../../../lib/base/host_deno.ts";
import type { Clock } from "../../../lib/base/clock.ts";
import { chainOf } from "../../../lib/base/error.ts";
import { type Board, BoardApi } from "../../../lib/api/actuators/board.ts";
import type { JsonObject } from "../../../lib/base/schema/schema.ts";
import { CharacterGpio } from "../../../lib/device/character_gpio.ts";
import { ResourceName } from "../../../lib/resource/name.ts";
import { connectGrpc } from "../../../lib/wire/grpc/grpc_channel.ts";
import { openPort } from "../../../lib/wire/port/port.ts";
import { ServiceTable } from "../../../lib/wire/rpc/service.ts";
import { LinuxBoard } from "../../../drivers/board/linux.ts";
import { construct } from "../../support/construct.ts";
import { edges, HELPER, sh, SIM } from "./simulated.ts";

const CHIP = "gpiochip0";
const PULL = `${SIM}/sim_gpio1/pull`;
const LATENCY_HZ = 50, LATENCY_EDGES = 500;
const INTERRUPT = { digital_interrupts: [{ name: "i", pin: `${CHIP}/1` }] };

/** Prints the figures, one line each. */
export async function bench(host: DenoHost, clock: Clock): Promise<void> {
  const board = (attributes: JsonObject) => construct(LinuxBoard, attributes, { host, clock });
  await latency(host, board, clock);
  await rate(board, clock);
  await levels(await board({}), clock);
  await jitter(await board({}), clock);
}

/**
 * The delay of an edge at each station between the kernel and a client. The processors are emulated, so only the
 * difference to the station before counts. A minimal C program and gpiomon are measured beside it.
 */
async function latency(host: DenoHost, board: (attributes: JsonObject) => Promise<Board>, clock: Clock) {
  const pulled = () => edges(LATENCY_HZ, LATENCY_EDGES, [1]);
  const beside = (command: string, user: string) =>
    sh(
      `sh -c '${command}' & sleep 3; for p in $(pgrep '^irq/.*${user}'); do taskset -pc 0 $p > /dev/null; done; ` +
        `${HELPER} edges ${LATENCY_HZ} ${LATENCY_EDGES} ${PULL}; wait`,
    );
  const lines = (text: string) => text.split("\n").filter((line) => /^\d+$/.test(line)).map(Number);
  tell(
    "read by a thread in C",
    lines(await beside(`${HELPER} follow /dev/${CHIP} 1 ${LATENCY_EDGES}`, "helper")),
  );
  const gpiomon =
    `timeout 60 gpiomon -n ${LATENCY_EDGES} -F %s.%n -b ${CHIP} 1 | ${HELPER} stamp ${LATENCY_EDGES}`;
  tell("printed by gpiomon", lines(await beside(gpiomon, "gpiomon")));

  const { nowNs, close } = monotonic();
  const gpio = new CharacterGpio(host, "svc bench");
  const heard: number[] = [];
  const watch = await gpio.watch(CHIP, [{ offset: 1 }], {
    heard: (found) => found.forEach(({ timeNs }) => heard.push(Number(nowNs() - timeNs))),
    failed: (error) => console.log(chainOf(error)),
  });
  await pulled();
  await arrival(() => heard.length, LATENCY_EDGES, clock);
  await watch.close();
  gpio.close();
  tell("on the main thread", heard);

  const one = await board(INTERRUPT);
  const table = new ServiceTable(clock);
  table.add(BoardApi.serve(() => one));
  const port = await openPort({ table, bind: { host: "127.0.0.1", port: 0 }, clock });
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  const far = BoardApi.client(ResourceName.of(BoardApi.name, "b"), channel);
  for (const [name, listening] of [["a tick of the board", one], ["a tick over gRPC", far]] as const) {
    const late: number[] = [];
    const leaving = new AbortController();
    const stream = await listening.streamTicks(["i"], { signal: leaving.signal });
    const reading = (async () => {
      for await (const { timeNs } of stream) late.push(Number(nowNs() - timeNs));
    })();
    await pulled();
    await arrival(() => late.length, LATENCY_EDGES, clock);
    leaving.abort();
    await reading;
    tell(name, late);
  }
  channel.close();
  await port.close(0);
  await one.close();
  close();
}

/** The clock of the kernel's edges. */
function monotonic() {
  const libc = Deno.dlopen("libc.so.6", { clock_gettime: { parameters: ["i32", "buffer"], result: "i32" } });
  const time = new BigUint64Array(2);
  const nowNs = () => {
    libc.symbols.clock_gettime(1, new Uint8Array(time.buffer));
    return time[0] * 1_000_000_000n + time[1];
  };
  return { nowNs, close: () => libc.close() };
}

/** Waits until all have arrived, or nothing has arrived for 10 s. */
async function arrival(come: () => number, wanted: number, clock: Clock): Promise<void> {
  let [last, still] = [-1, 0];
  while (come() < wanted && still < 100) {
    still = come() === last ? still + 1 : 0;
    last = come();
    await clock.sleep(100);
  }
}

function tell(station: string, late: readonly number[]): void {
  console.log(`edge, until it is ${station}: ${shown(late)}`);
}

function shown(ns: readonly number[]): string {
  const sorted = ns.toSorted((a, b) => a - b);
  const at = (share: number) => (sorted[Math.floor(share * (sorted.length - 1))] / 1000).toFixed(0);
  return `p50 ${at(0.5)} us, p99 ${at(0.99)} us (${sorted.length} edges)`;
}

/** Sends edges at rising rates and counts those that arrive. */
async function rate(board: (attributes: JsonObject) => Promise<Board>, clock: Clock): Promise<void> {
  const count = 20_000;
  for (const hz of [5_000, 10_000, 20_000, 40_000, 0]) {
    const one = await board(INTERRUPT);
    const leaving = new AbortController();
    let ticks = 0;
    const stream = await one.streamTicks(["i"], { signal: leaving.signal });
    const reading = (async () => {
      for await (const _ of stream) ticks++;
    })();
    const begin = performance.now();
    await edges(hz, count, [1]);
    const tookMs = performance.now() - begin;
    await arrival(() => ticks, count, clock);
    leaving.abort();
    await reading;
    const counted = await one.getDigitalInterruptValue("i");
    await one.close();
    const gpiomon = await sh(
      `gpiomon -F %o -b ${CHIP} 1 > /tmp/heard & m=$!; sleep 2; ` +
        "for p in $(pgrep '^irq/.*gpiomon'); do taskset -pc 0 $p > /dev/null; done; " +
        `${HELPER} edges ${hz} ${count} ${PULL}; sleep 3; ` +
        "kill $m; wait $m; wc -l < /tmp/heard",
    );
    const reached = (count / tookMs * 1000).toFixed(0);
    console.log(
      `${
        hz || "all"
      } Hz wanted, about ${reached} Hz made: ${ticks} ticks, count ${counted} of ${count}; gpiomon ${gpiomon.trim()}`,
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
