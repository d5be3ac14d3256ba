/**
 * A recording of a robot, mapped by our mapper and by others on the same processor: Cartographer, for example, by a
 * program `map_recording` that does with it what `map_recording.ts` does with ours.
 */

import { gunzipSync } from "node:zlib";
import { readRelations, scoreRelations, type TimedPose } from "../../../lib/slam/evaluation/relations.ts";
import { outputOf } from "../../support/needing.ts";
import { RECORDINGS } from "../../support/recordings.ts";
import { clock, type Command, type Figures } from "./contestant.ts";

const RECORDING = "mit-csail";
const LOOK_MS = 50;
/** Of the counts in /proc/PID/stat. */
const TICKS_A_SECOND = 100;

/** What is known of a process that has not ended yet. */
interface Usage {
  processorS: number;
  peakMb: number;
}

export async function mapping(command: Command): Promise<Figures> {
  const log = unpacked(`${RECORDING}.clf.gz`);
  const relations = readRelations(new TextDecoder().decode(unpacked(`${RECORDING}.relations.gz`)));
  const canPin = await outputOf("taskset", "-c", "0", "true") !== undefined;
  const [program, ...args] = canPin ? ["taskset", "-c", "0", ...command] : command;
  const beganMs = performance.now();
  const child = new Deno.Command(program!, { args, stdin: "piped", stdout: "piped", stderr: "null" }).spawn();

  const usage: Usage = { processorS: 0, peakMb: 0 };
  const ended = new AbortController();
  const watching = watch(child.pid, usage, ended.signal);
  const feeding = feed(child.stdin, log);
  const { stdout, success } = await child.output();
  ended.abort();
  await Promise.all([watching, feeding]);
  const tookS = (performance.now() - beganMs) / 1000;
  if (!success) throw new Error(`${command.join(" ")} ended with a failure`);

  const poses = posesIn(new TextDecoder().decode(stdout));
  const [first, last] = [poses[0], poses.at(-1)];
  if (!first || !last) throw new Error(`${command.join(" ")} printed no places`);
  const { translationM } = scoreRelations(poses, relations);
  return {
    [`mapping ${RECORDING}, times real time`]: (last.timeS - first.timeS) / tookS,
    [`mapping ${RECORDING}: processor time, s`]: usage.processorS,
    [`mapping ${RECORDING}: peak memory, MB`]: usage.peakMb,
    [`mapping ${RECORDING}: mean error of relations, cm`]: translationM.mean * 100,
  };
}

function unpacked(name: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(gunzipSync(Deno.readFileSync(new URL(name, RECORDINGS))));
}

async function feed(input: WritableStream<Uint8Array>, log: Uint8Array): Promise<void> {
  const writer = input.getWriter();
  try {
    await writer.write(log);
    await writer.close();
  } catch {
    // The mapper has ended; its end says why.
  }
}

/** Looks again and again, because the system forgets a process when it has ended. */
async function watch(pid: number, usage: Usage, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    const status = await Deno.readTextFile(`/proc/${pid}/status`).catch(() => "");
    const peakKb = Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0);
    usage.peakMb = Math.max(usage.peakMb, peakKb * 1024 / 1e6);

    const stat = await Deno.readTextFile(`/proc/${pid}/stat`).catch(() => "");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const ticks = Number(fields[11] ?? 0) + Number(fields[12] ?? 0);
    usage.processorS = Math.max(usage.processorS, ticks / TICKS_A_SECOND);
    await clock.sleep(LOOK_MS, ended).catch(() => {});
  }
}

function posesIn(text: string): TimedPose[] {
  return text.split("\n").filter((line) => line !== "").map((line) => {
    const [timeS, x, y, yaw] = line.split(" ").map(Number);
    return { timeS: timeS!, pose: { x: x!, y: y!, yaw: yaw! } };
  });
}
