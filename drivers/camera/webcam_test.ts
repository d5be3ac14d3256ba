import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { settle } from "../../lib/base/clock.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { FakeVideo, type FakeVideoOptions, FakeVideos } from "../../tests/support/fake_video.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { decodeImage, encodeImage, MIME } from "../../lib/geometry/image/image.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { pixelsOf, standaloneJpeg } from "./raw_pixels.ts";
import { WebcamCamera } from "./webcam.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";

const PATH = "/dev/video0";

function hostOf(devices: FakeVideos, os = "linux"): FakeHost {
  return new FakeHost({ devices, os });
}

/** A plugged-in camera and its surroundings. */
function world(options: FakeVideoOptions = {}) {
  const clock = new FakeClock();
  const videos = new FakeVideos();
  const camera = videos.plug(PATH, new FakeVideo(clock, options));
  const logged: LogRecord[] = [];
  const host = hostOf(videos);
  const open = (attributes: JsonObject = {}) => construct(WebcamCamera, attributes, { host, clock, logged });
  return { clock, videos, camera, logged, open };
}

/** Closes the camera while time advances, because its wait for the device has to end. */
async function ended(closing: Promise<void>, clock: FakeClock): Promise<void> {
  await clock.advance(1_000);
  await closing;
}

async function colorOf(camera: Awaited<ReturnType<ReturnType<typeof world>["open"]>>): Promise<number[]> {
  const { images: [{ image, mimeType, sourceName }] } = await camera.getImages();
  assertEquals([mimeType, sourceName], [MIME.jpeg, "test"]);
  const decoded = decodeImage(image);
  assert(decoded.kind === "color");
  return [decoded.image.width, decoded.image.height, ...decoded.image.rgba.subarray(0, 3)];
}

Deno.test("webcam: getImages returns the newest picture as JPEG with its capture time", async () => {
  let shade = 50;
  const { clock, videos, camera, open } = world({
    picture: (_, width, height) => new Uint8Array(width * height * 2).map((_, at) => at % 2 ? 128 : shade),
  });
  const webcam = await open();
  const first = colorOf(webcam);
  await settle();
  camera.take();
  assertEquals(await first, [640, 480, 40, 40, 40], "a request before the first picture waits for it");
  const { capturedAtMs } = await webcam.getImages();
  shade = 150;
  await clock.advance(40);
  camera.take();
  await settle();
  assertEquals((await colorOf(webcam))[2], 156);
  assertEquals((await webcam.getImages()).capturedAtMs, capturedAtMs + 40);
  assert(
    (await webcam.getImages()).images[0].image === (await webcam.getImages()).images[0].image,
    "encoded once",
  );
  assertEquals((await webcam.getProperties()).frameRate, 30);
  await assertRejects(() => webcam.getPointCloud(), SvcError, "its pictures have no depth");
  await assertRejects(() => webcam.getImages(["depth"]), SvcError, 'no image source "depth", it has: "test"');
  await ended(webcam.close(), clock);
  await ended(webcam.close(), clock);
  assertEquals([videos.open, clock.pending], [0, 0], "nothing is left open");
  await assertRejects(() => webcam.getImages(), SvcError, "has no picture: it is closed");
});

Deno.test("webcam: a JPEG of the camera is sent unchanged", async () => {
  const image = { width: 8, height: 8, rgba: new Uint8Array(256).fill(200) };
  const jpeg = encodeImage({ kind: "color", image }, MIME.jpeg);
  const { clock, camera, open } = world({
    formats: { YUYV: [[640, 480]], MJPG: [[640, 480]] },
    picture: () => jpeg,
  });
  const webcam = await open();
  camera.take();
  assertEquals((await webcam.getImages()).images[0].image, jpeg);
  await ended(webcam.close(), clock);
});

/** Pictures of a camera that gives motion JPEG, one after the other. */
function motionJpeg(...pictures: Uint8Array[]) {
  let next = 0;
  const { open, ...rest } = world({ formats: { MJPG: [[640, 480]] }, picture: () => pictures[next++]! });
  return { ...rest, open };
}

function grey(shade: number): Uint8Array {
  const rgba = new Uint8Array(64 * 64 * 4).map((_, at) => shade + at % 3);
  return encodeImage({ kind: "color", image: { width: 64, height: 64, rgba } }, MIME.jpeg);
}

Deno.test("webcam: a damaged picture is left out for the next one", async () => {
  const good = grey(100), end = good.length - 2;
  const cases = [
    good.subarray(0, end - 200),
    good.subarray(0, end),
    Uint8Array.of(0xa8, 0x0a, ...good),
    good.subarray(0, 30),
  ];
  for (const [index, damaged] of cases.entries()) {
    const { clock, camera, open } = motionJpeg(damaged, good);
    const webcam = await open();
    camera.take();
    await settle();
    const asked = webcam.getImages();
    await settle();
    camera.take();
    assertEquals((await asked).images[0].image, good, `case ${index}`);
    await ended(webcam.close(), clock);
  }
});

Deno.test("webcam: pictures of a camera that ends none, and bytes after the end, are given as they are", async () => {
  const bare = grey(100).slice(0, -2), padded = Uint8Array.of(...grey(90), ...new Uint8Array(500));
  const { clock, camera, open } = motionJpeg(bare, bare, bare, bare, padded);
  const webcam = await open();
  const asked = webcam.getImages();
  for (let picture = 0; picture < 3; picture++) {
    camera.take();
    await settle();
  }
  assertEquals((await asked).images[0].image, bare);
  for (const wanted of [bare, padded]) {
    camera.take();
    await settle();
    assertEquals((await webcam.getImages()).images[0].image, wanted, "at once");
  }
  await ended(webcam.close(), clock);
});

Deno.test("webcam: a camera that gives nothing but damaged pictures fails the call with the reason", async () => {
  const broken = Uint8Array.of(1, 2, 3);
  const { clock, camera, open } = motionJpeg(broken, broken, broken);
  const webcam = await open();
  const failed = assertRejects(() => webcam.getImages(), SvcError, "does not begin as a JPEG");
  for (let picture = 0; picture < 3; picture++) {
    camera.take();
    await settle();
  }
  await failed;
  await ended(webcam.close(), clock);
});

Deno.test("webcam: an unplugged camera fails its calls until it is plugged in again", async () => {
  const { clock, videos, camera, logged, open } = world();
  const webcam = await open();
  camera.take();
  await webcam.getImages();
  videos.unplug(PATH);
  await settle();
  const error = await assertRejects(
    () => webcam.getImages(),
    SvcError,
    "No such device; looking for it every 1 s",
  );
  assertEquals(error.code, "unavailable");
  await clock.advance(3_500);
  await assertRejects(() => webcam.getImages(), SvcError, "found no camera: there is no /dev/video*");
  assertEquals(videos.open, 0, "what is gone is let go of");
  const again = videos.plug("/dev/video2", new FakeVideo(clock));
  await clock.advance(1_000);
  again.take();
  assertEquals((await webcam.getImages()).images.length, 1);
  assertEquals(logged.map(({ level, message }) => [level, message.split(":")[0]]), [
    ["warn", "the camera is gone; looking for it"],
    ["info", "the camera is back"],
  ]);
  await ended(webcam.close(), clock);
  assertEquals([videos.open, clock.pending], [0, 0]);
});

const RETURNS: readonly (readonly [how: string, path: string, options: FakeVideoOptions, early: boolean])[] =
  [
    ["at its place", PATH, { bus: "usb-1" }, false],
    ["at another place", "/dev/video4", { bus: "usb-3" }, false],
    ["as another model, in exchange", "/dev/video4", { card: "New", bus: "usb-1" }, false],
    ["at its place before its loss is noticed", "/dev/video4", { bus: "usb-1" }, true],
  ];
for (const [how, path, options, early] of RETURNS) {
  Deno.test(`webcam: without video_path, a lost camera is not replaced by the one beside it, and comes back ${how}`, async () => {
    const { clock, videos, camera, logged, open } = world({ bus: "usb-1" });
    const beside = videos.plug("/dev/video2", new FakeVideo(clock, { bus: "usb-2" }));
    const webcam = await open();
    camera.take();
    await webcam.getImages();
    if (early) videos.plug(path, new FakeVideo(clock, options));
    videos.unplug(PATH);
    await settle();
    if (!early) {
      await clock.advance(3_500);
      const wanted = "found no camera: /dev/video2: it is another camera (Fake Camera)";
      await assertRejects(() => webcam.getImages(), SvcError, wanted);
      videos.plug(path, new FakeVideo(clock, options));
    }
    await clock.advance(1_000);
    for (const one of [beside, videos.cameras.get(path)!]) one.take();
    await webcam.getImages();
    assertEquals(logged.at(-1)?.message, `the camera is back: ${path}`);
    await ended(webcam.close(), clock);
    assertEquals([videos.open, clock.pending], [0, 0]);
  });
}

Deno.test("webcam: a camera without a picture for 5 s is opened again", async () => {
  const { clock, camera, logged, open } = world();
  const webcam = await open();
  camera.take();
  await webcam.getImages();
  await clock.advance(7_000);
  assert(logged.some(({ message }) => message.includes("has given no picture for 5 s")));
  camera.take();
  assertEquals((await webcam.getImages()).images.length, 1);
  await ended(webcam.close(), clock);
});

Deno.test("webcam: a request for a picture ends by abort or after a time limit", async () => {
  const { clock, open } = world();
  const webcam = await open();
  const abort = new AbortController();
  const asked = webcam.getImages([], { signal: abort.signal });
  await settle();
  abort.abort(new SvcError("canceled", "enough"));
  await assertRejects(() => asked, SvcError, "enough");
  const patient = assertRejects(() => webcam.getImages(), SvcError, "has no picture");
  await clock.advance(6_000);
  await patient;
  await ended(webcam.close(), clock);
  assertEquals(clock.pending, 0);
});

Deno.test("webcam: size, format and rate are used if available, or replaced or refused", async () => {
  const formats = {
    MJPG: [[1920, 1080], [800, 600]],
    YUYV: [[640, 480], [320, 240]],
    H264: [[640, 480]],
  } as const;
  const { clock, videos, logged, open } = world({ formats, rates: [30, 15] });
  const modes: [JsonObject, number | undefined][] = [
    [{ width_px: 320 }, 30],
    [{ format: "mjpeg", frame_rate: 15 }, 15],
    [{ video_path: "video0", height_px: 600, frame_rate: 7 }, 15],
  ];
  for (const [attributes, rate] of modes) {
    const webcam = await open(attributes);
    assertEquals((await webcam.getProperties()).frameRate, rate);
    await ended(webcam.close(), clock);
  }
  assertEquals(logged.map(({ message }) => message), [
    "frame_rate 7 is not available: the camera gives 15.0",
  ]);
  await assertRejects(
    () => open({ video_path: PATH, width_px: 100 }),
    SvcError,
    "cannot use /dev/video0: the camera offers MJPG 1920x1080, MJPG 800x600, YUYV 640x480, YUYV 320x240, " +
      "H264 640x480, wanted MJPG or YUYV or UYVY or NV12 or NV21 or YU12 of 100 x any height",
  );
  await assertRejects(() => open({ format: "NV12" }), SvcError, "wanted NV12 of any size");
  await assertRejects(() => open({ video_path: "/dev/video9" }), SvcError, "No such file or directory");
  videos.plug("/dev/video1", new FakeVideo(clock, { metadata: true }));
  await assertRejects(() => open({ video_path: "/dev/video1" }), SvcError, "it gives no pictures");
  for (const folder of ["by-id", "by-path"]) {
    videos.plug(`/dev/v4l/${folder}/usb-cam-${folder}-index0`, new FakeVideo(clock, { formats }));
    const webcam = await open({ video_path: `usb-cam-${folder}-index0`, width_px: 320 });
    assertEquals((await webcam.getProperties()).frameRate !== undefined, true);
    await ended(webcam.close(), clock);
  }
  await assertRejects(() => open({ video_path: "usb-none" }), SvcError, "cannot use /dev/usb-none");
  assertEquals(videos.open, 0);
  assertEquals(problemsOf(WebcamCamera, { width_px: -1, format: "PNG" }), [
    "width_px: found -1, wanted an integer from 0 to 16384",
    'format: found "PNG", wanted one of "MJPEG", "MJPG", "YUYV", "YUY2", "UYVY", "NV12", "NV21", "I420"',
  ]);
});

Deno.test("webcam: on other systems than Linux the construction fails with advice", async () => {
  const host = hostOf(new FakeVideos(), "windows");
  const error = await assertRejects(() => construct(WebcamCamera, {}, { host }), SvcError, "works on Linux");
  assertEquals(error.code, "unimplemented");
});

Deno.test("pixelsOf() converts pictures of every format to the right colours", () => {
  // Of 4 x 2 pixels the left half is red and the right half blue; in BT.601 these are (81, 90, 240) and (41,
  // 240, 110).
  const luma = [81, 81, 41, 41], [u, v] = [[90, 240], [240, 110]];
  const rows = (row: readonly number[]) => [...row, ...row];
  const bytes: { [format: string]: number[] } = {
    YUYV: rows([81, u[0], 81, v[0], 41, u[1], 41, v[1]]),
    UYVY: rows([u[0], 81, v[0], 81, u[1], 41, v[1], 41]),
    NV12: [...rows(luma), u[0], v[0], u[1], v[1]],
    NV21: [...rows(luma), v[0], u[0], v[1], u[1]],
    YU12: [...rows(luma), ...u, ...v],
  };
  for (const [format, content] of Object.entries(bytes)) {
    const picture = { width: 4, height: 2, rowBytes: 0, bytes: Uint8Array.from(content) };
    const { rgba } = pixelsOf(format as "YUYV", picture);
    const colors = Array.from({ length: 8 }, (_, pixel) => [...rgba.subarray(pixel * 4, pixel * 4 + 4)]);
    for (const [at, [red, green, blue, alpha]] of colors.entries()) {
      const wanted = at % 4 < 2 ? [255, 0, 0] : [0, 0, 255];
      const near = [red, green, blue].every((value, channel) => Math.abs(value - wanted[channel]) <= 2);
      assert(near && alpha === 255, `${format} pixel ${at}: ${red}, ${green}, ${blue}`);
    }
    const cut = { ...picture, bytes: picture.bytes.subarray(1) };
    assertThrows(() => pixelsOf(format as "YUYV", cut), SvcError, "part of a picture");
  }
  const padded = { width: 2, height: 2, rowBytes: 8, bytes: new Uint8Array(16).fill(128) };
  assertEquals(
    pixelsOf("YUYV", padded).rgba.subarray(8, 12),
    Uint8Array.of(130, 130, 130, 255),
    "rows with a gap",
  );
});

Deno.test("standaloneJpeg() adds the missing Huffman tables to a motion JPEG", () => {
  const image = { width: 16, height: 8, rgba: new Uint8Array(512).map((_, at) => at % 251) };
  const jpeg = encodeImage({ kind: "color", image }, MIME.jpeg);
  const at = jpeg.findIndex((byte, index) => byte === 0xff && jpeg[index + 1] === 0xc4);
  const length = 2 + (jpeg[at + 2] << 8 | jpeg[at + 3]);
  const bare = Uint8Array.from([...jpeg.subarray(0, at), ...jpeg.subarray(at + length)]);
  assertEquals(decodeImage(standaloneJpeg(bare)), decodeImage(jpeg));
  assert(standaloneJpeg(jpeg) === jpeg, "a whole one is left as it is");
  // Two bytes of a picture's data that look like the marker of tables.
  const chance = Uint8Array.fromHex("ffd8" + "ffda0002" + "ffc40002" + "ffd9");
  assertEquals(standaloneJpeg(chance).length, chance.length + length);
  assertThrows(() => standaloneJpeg(Uint8Array.of(1, 2)), SvcError, "does not begin");
  assertThrows(() => standaloneJpeg(jpeg.subarray(0, 30)), SvcError, "ends before");
});
