/**
 * The video of a camera that stalls, fails or is replaced while somebody watches.
 */

import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import type { Images } from "../../api/sensors/camera.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { encodeImage, MIME } from "../../geometry/image/image.ts";
import type { VideoTrack } from "../../wire/webrtc/addon.ts";
import { CameraVideo } from "./camera_video.ts";

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
