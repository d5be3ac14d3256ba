/**
 * The video of a camera that stalls, fails or is replaced while somebody watches.
 */

import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import type { Images } from "../../api/sensors/camera.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { encodeImage, MIME } from "../../geometry/image/image.ts";
import type { VideoTrack } from "../../wire/webrtc/addon.ts";
import { CameraVideo, nearestSize, videoPicture, videoSizes } from "./camera_video.ts";

const RGBA = { kind: "color", image: { width: 2, height: 2, rgba: new Uint8Array(16) } } as const;
const PICTURE: Images = {
  images: [{ sourceName: "color", mimeType: MIME.rgba, image: encodeImage(RGBA, MIME.rgba) }],
  capturedAtMs: 0,
};

type Pictures = (signal: AbortSignal) => Promise<Images>;

const PICTURES: Pictures = () => Promise.resolve(PICTURE);
const STALLED: Pictures = () => new Promise(() => {});

/** A video that somebody watches; `camera.images` may be replaced. */
function bench(first = PICTURES) {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logger = new Logs(clock, [memorySink(records)]).logger("video");
  const camera = { images: first };
  const encoder = {
    encode: () => Promise.resolve({ frame: Uint8Array.of(1), width: 2, height: 2 }),
    close: () => {},
  };
  const images = (signal: AbortSignal) => camera.images(signal);
  const video = new CameraVideo({ name: "eye", images, encoder, clock, logger });
  let sent = 0;
  const track: VideoTrack = { isOpen: true, send: () => void sent++, close: () => {} };
  video.watch(track, 1);
  const taken = () => {
    const all = sent;
    sent = 0;
    return all;
  };
  const logged = () => records.splice(0).map(({ level, message }) => `${level} ${message}`);
  return { clock, camera, video, taken, logged };
}

Deno.test("CameraVideo: a camera that stalls is given up after 15 s, and the one that replaces it is shown", async () => {
  const { clock, camera, video, taken, logged } = bench();
  await clock.advance(200);
  assertEquals(taken() > 0, true);

  let givenUp = 0;
  camera.images = (signal) => {
    signal.addEventListener("abort", () => givenUp++);
    return STALLED(signal);
  };
  await clock.advance(66);
  taken();
  camera.images = PICTURES;
  await clock.advance(14_000);
  assertEquals([taken(), givenUp, logged()], [0, 0, []]);

  await clock.advance(3_000);
  assertEquals([taken() > 0, givenUp], [true, 1]);
  assertEquals(logged(), ["warn the video of camera eye is interrupted: no picture within 15 s"]);
  await video.close();
  assertEquals(clock.pending, 0);
});

Deno.test("CameraVideo: the first picture of a camera that stalls from the beginning fails", async () => {
  const { clock, camera, video, taken } = bench(STALLED);
  const first = assertRejects(() => video.first, SvcError, "no picture within 15 s");
  await clock.advance(15_000);
  await first;
  camera.images = PICTURES;
  await clock.advance(2_000);
  assertEquals(taken() > 0, true, "who still watches sees the camera when it works");
  await video.close();
  assertEquals(clock.pending, 0);
});

Deno.test("CameraVideo: closes at once while its camera stalls", async () => {
  const { clock, camera, video, logged } = bench();
  await clock.advance(100);
  camera.images = STALLED;
  await clock.advance(200);
  await video.close();
  assertEquals([clock.pending, logged()], [0, []]);
});

Deno.test("CameraVideo: the pace is 66 ms a picture; a slow camera rests for half of its time, a failing one 1 s", async () => {
  const paces: [tookMs: number, paceMs: number][] = [[0, 66], [40, 66], [44, 66], [60, 90], [200, 300]];
  for (const [tookMs, paceMs] of paces) {
    for (const isGood of [true, false]) {
      const { clock, camera, video } = bench(STALLED);
      const begunMs: number[] = [];
      camera.images = async (signal) => {
        begunMs.push(clock.monotonicMs());
        await clock.sleep(tookMs, signal);
        if (!isGood) throw new SvcError("unavailable", "no light");
        return PICTURE;
      };
      video.first.catch(() => {});
      await clock.advance(20_000);
      const [first = 0, second = 0, third = 0] = begunMs;
      const wantedMs = isGood ? paceMs : tookMs + 1_000;
      assertEquals([second - first, third - second], [wantedMs, wantedMs], `${tookMs} ms, ${isGood}`);
      await video.close();
      assertEquals(clock.pending, 0);
    }
  }
});

Deno.test("videoSizes: even sides, halved while the shorter one has 32 pixels", () => {
  const sizes = (width: number, height: number) => {
    const image = { width, height, rgba: new Uint8Array(4 * width * height) };
    const picture = encodeImage({ kind: "color", image }, MIME.rgba);
    return videoSizes(picture).map((size) => `${size.width}x${size.height}`);
  };
  assertEquals(sizes(640, 480), ["640x480", "320x240", "160x120", "80x60"]);
  assertEquals(sizes(101, 150), ["100x150", "50x74"]);
  assertEquals(sizes(128, 64), ["128x64", "64x32"]);
  assertEquals(sizes(20, 11), ["20x10"], "its own size is always offered");
});

Deno.test("nearestSize: the closest number of pixels, in shares", () => {
  const sizes = [[640, 360], [320, 180], [160, 90]].map(([width, height]) => ({ width, height }));
  const nearest = (width: number, height: number) => nearestSize(sizes, { width, height });
  assertEquals([nearest(1920, 1080), nearest(640, 480), nearest(480, 360)], [0, 0, 0]);
  assertEquals([nearest(320, 240), nearest(240, 180), nearest(160, 120), nearest(1, 1)], [1, 1, 2, 2]);
});

Deno.test("videoPicture: the first with colours; without any the error says what the camera lacks", () => {
  const [color] = PICTURE.images;
  const depth = { ...color, mimeType: MIME.depth };
  const of = (...images: Images["images"][number][]) => videoPicture({ images, capturedAtMs: 0 }, "eye");
  assertEquals(of(depth, color), color.image);
  const codeOf = (images: Images["images"][number][], text: string) =>
    assertThrows(() => of(...images), SvcError, text).code;
  assertEquals(codeOf([], "camera eye has no picture"), "unavailable");
  assertEquals(codeOf([depth], "camera eye gives no colour picture"), "unimplemented");
});
