/**
 * The agent: its costs on a device, how soon it starts and restarts the runtime, how long an update interrupts it.
 *
 * The runtime runs from source. An executable of the agent is measured if dist/ has one. Times come from the lines of
 * the log.
 */

import { TestDevice } from "../agent/device.ts";
import { canBuild } from "../agent/test_release.ts";
import { heading, row } from "./figures.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const IDLE_MS = 30_000;
const REPEATS = 5;
/** Patience for what takes an agent a minute and a poll. */
const LINE_MS = 180_000;
const LOOK_MS = 20;
/** Of the system's clock that counts the time of processes. */
const TICKS_PER_SECOND = 100;
const STARTED = "svc-server is started\t";
const READY = "svc-server is ready";
const ENDED = "svc-server ended by itself";

export async function agent(): Promise<void> {
  heading("svc-agent (runtime from source)");
  if (!await canBuild()) return row("not measured", "needs Linux and a C compiler");
  const device = await TestDevice.make();
  try {
    device.executable = await findExecutable();
    row("agent", device.executable?.slice(ROOT.length) ?? "from source");
    await device.release("1.0.0", "serves");
    device.start();
    await device.runsWell("1.0.0");
    await device.stop();
    await starts(device);
    await idle(device);
    await detection(device);
    await update(device);
  } finally {
    await device.close();
  }
}

/** From the start of the agent's process, with a version there and no waiting for anything. */
async function starts(device: TestDevice): Promise<void> {
  const [started, ready]: number[][] = [[], []];
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    const before = (await device.log()).length;
    const beganMs = Date.now();
    device.start(1);
    started.push(await moment(device, STARTED, before) - beganMs);
    ready.push(await moment(device, READY, before) - beganMs);
    await device.stop();
  }
  const [startedMs, readyMs] = [middle(started), middle(ready)];
  row("start to runtime started", `${startedMs.toFixed(0)} ms`);
  row("start to runtime ready", `${readyMs.toFixed(0)} ms`, `${(readyMs / startedMs).toFixed(1)} x started`);
}

async function idle(device: TestDevice): Promise<void> {
  device.start(1);
  const { runtime } = await device.runsWell("1.0.0");
  const before = [await cpuMs(device.pid), await cpuMs(runtime.pid!)];
  await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
  const share = async (pid: number, beforeMs: number) => 100 * (await cpuMs(pid) - beforeMs) / IDLE_MS;
  const [agentMb, serverMb] = [await residentMb(device.pid), await residentMb(runtime.pid!)];
  const ratio = `${(agentMb / serverMb).toFixed(2)} x svc-server's`;
  row("resident memory", `${agentMb.toFixed(0)} MB`, ratio);
  const [agentShare, serverShare] = [
    await share(device.pid, before[0]),
    await share(runtime.pid!, before[1]),
  ];
  row("processor when idle", `${agentShare.toFixed(2)} %`, `svc-server ${serverShare.toFixed(2)} %`);
}

/** From the death of the runtime's process to the start of the next, which comes after a pause. */
async function detection(device: TestDevice): Promise<void> {
  const { runtime } = await device.runsWell("1.0.0");
  const before = (await device.log()).length;
  const beganMs = Date.now();
  Deno.kill(runtime.pid!, "SIGKILL");
  const noticedMs = await moment(device, ENDED, before) - beganMs;
  const startedMs = await moment(device, STARTED, before) - beganMs;
  const readyMs = await moment(device, READY, before) - beganMs;
  row("killed runtime, noticed", `${noticedMs.toFixed(0)} ms`);
  row("killed runtime, started again", `${startedMs.toFixed(0)} ms`, `ready after ${readyMs.toFixed(0)} ms`);
}

async function update(device: TestDevice): Promise<void> {
  const before = (await device.log()).length;
  await device.release("2.0.0", "serves");
  await device.configure({ version_control: { "svc-server": "2.0.0" } });
  const stoppedMs = await moment(device, "svc-server is stopped: another version", before);
  const after = (await device.log()).lastIndexOf("svc-server is stopped: another version");
  const startedMs = await moment(device, STARTED, after);
  const readyMs = await moment(device, READY, after);
  const downMs = readyMs - stoppedMs;
  const ratio = (downMs / (readyMs - startedMs)).toFixed(2);
  row("downtime of an update", `${downMs.toFixed(0)} ms`, `${ratio} x the runtime's start`);
}

/** Waits for a line with this text after the given position of the log; returns its time. */
async function moment(device: TestDevice, text: string, after: number): Promise<number> {
  for (const endMs = performance.now() + LINE_MS; performance.now() < endMs;) {
    const log = (await device.log()).slice(after);
    const at = log.indexOf(text);
    if (at >= 0 && log.includes("\n", at)) {
      return Date.parse(log.slice(0, at).split("\n").at(-1)!.split("\t")[0]);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  throw new Error(`"${text}" was not logged:\n${(await device.log()).slice(after)}`);
}

async function cpuMs(pid: number): Promise<number> {
  const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 1000 / TICKS_PER_SECOND;
}

async function residentMb(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return Number(/VmRSS:\s+(\d+)/.exec(status)![1]) / 1000;
}

function middle(figures: number[]): number {
  return figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)];
}

async function findExecutable(): Promise<string | undefined> {
  const target = `linux-${Deno.build.arch === "x86_64" ? "x64" : "arm64"}`;
  for (const folder of ["dist", "dist/check"]) {
    const path = `${ROOT}${folder}/${target}/svc-agent`;
    if (await Deno.stat(path).then(() => true, () => false)) return path;
  }
  return undefined;
}
