/**
 * The tours of the published client libraries: a program drives the example machine and reports its observations, which
 * are judged here.
 */

import {
  assert,
  assertEquals,
  assertGreater,
  assertLess,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import type { ServerProcess } from "../support/server.ts";
import { run } from "./programs.ts";

/** A tour's observations; see tour.mjs and python_tour.py. */
export interface Seen {
  /** The tour went over WebRTC. */
  webrtc?: boolean;
  /** Sizes of a camera's video: its own, the offered ones, and the second of those after it was requested. */
  video?: { id: string; own: number[]; offered: number[][]; small: number[] };
  resources: string[];
  version: { platform: string; version: string; apiVersion: string };
  machine: { state: number; unhealthy: number };
  joints: { wanted: number[]; found: number[] };
  armErrorMm: number;
  motion: { moved: boolean; errorMm: number };
  encoder: { before: number; after: number };
  power: { on: boolean; pct: number };
  gpio: boolean;
  ticks: { high: boolean; time: string }[];
  images: { sourceName: string; mimeType: string; bytes: number }[];
  capturedAt: boolean;
  pointCloudBytes: number;
  detections: number;
  stopped: boolean;
  missing?: { code: number; message: string };
  /** The error of a stream of ticks of a pin that is not there. */
  missingPin?: string;
  again: number;
}

/** Makes a client library drive a machine that serves the example, and judges its observations. */
export async function tour(server: ServerProcess, command: string[]): Promise<void> {
  const { code, stdout, stderr } = await run(command);
  assertEquals(
    code,
    0,
    `${command.join(" ")} failed:\n${stderr}\nthe server wrote:\n${server.output()}`,
  );
  judge(JSON.parse(stdout.trim().split("\n").at(-1)!));
}

/** Whether a tour's observations match the example machine. */
export function judge(seen: Seen): void {
  const wanted = [
    "arm/arm1",
    "board/board1",
    "camera/camera1",
    "encoder/encoder1",
    "motion/builtin",
    "motor/motor1",
    "vision/vision1",
  ];
  assertEquals(wanted.filter((name) => !seen.resources.includes(name)), []);
  assertEquals(seen.version.platform, "rdk");
  assertMatch(seen.version.version, /^v?\d+\.\d+\.\d+$/);
  assertMatch(seen.version.apiVersion, /^v\d+\.\d+\.\d+$/);
  assertEquals(seen.machine, { state: 2, unhealthy: 0 });
  assertEquals(seen.joints.found, seen.joints.wanted);
  assertLess(seen.armErrorMm, 0.1);
  assertEquals(seen.motion.moved, true);
  assertLess(seen.motion.errorMm, 0.1);
  assertGreater(seen.encoder.after, seen.encoder.before);
  assertEquals(seen.power, { on: true, pct: 0.5 });
  assertEquals(seen.gpio, true);
  assertEquals(seen.ticks.length, 3);
  assert(seen.ticks.every(({ time }) => BigInt(time) > 0n));
  assertGreater(seen.images.length, 0);
  assert(
    seen.images.every(({ bytes, mimeType }) => bytes > 0 && mimeType.startsWith("image/")),
  );
  assertEquals(seen.capturedAt, true);
  assertGreater(seen.pointCloudBytes, 0);
  assertGreater(seen.detections, 0);
  assertEquals(seen.stopped, true);
  assertEquals(seen.missing?.code ?? 2, 2);
  assertStringIncludes(seen.missingPin ?? "nowhere", "nowhere");
  assertEquals(seen.again, seen.resources.length);
}
