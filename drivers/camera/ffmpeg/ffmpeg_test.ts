import { assert, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../../lib/base/error.ts";
import type { LogRecord } from "../../../lib/base/log/log.ts";
import type { ProcessCommand } from "../../../lib/base/process.ts";
import type { JsonObject } from "../../../lib/base/schema/schema.ts";
import { imageSize } from "../../../lib/geometry/image/image.ts";
import { construct, problemsOf } from "../../../tests/support/construct.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeFfmpeg } from "../../../tests/support/fake_ffmpeg.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";
import { FfmpegCamera } from "./ffmpeg.ts";
import { JpegStream } from "./jpeg_stream.ts";

async function bench(attributes: JsonObject = {}) {
  const clock = new FakeClock();
  const started: FakeFfmpeg[] = [];
  const host = Object.assign(new FakeHost(), {
    pipe: (command: ProcessCommand) => {
      const process = new FakeFfmpeg(command);
      if (!command.args?.includes("-version")) started.push(process);
      return process;
    },
  });
  const logged: LogRecord[] = [];
  const camera = await construct(FfmpegCamera, { video_path: "rtsp://eye/1", ...attributes }, {
    host,
    clock,
    logged,
  });
  return { clock, camera, started, logged };
}

Deno.test("JpegStream cuts files, however the bytes arrive, and leaves other bytes out", () => {
  const files = [FakeFfmpeg.picture(8, 8), FakeFfmpeg.picture(16, 8)];
  const bytes = new Uint8Array([1, 0xff, 2, ...files[0], ...files[1], 0xff, 0xd8]);
  for (const size of [1, 2, 7, 1000, bytes.length]) {
    const stream = new JpegStream();
    const found: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; at += size) found.push(...stream.push(bytes.subarray(at, at + size)));
    assertEquals(found, files, `${size} at once`);
  }
});

Deno.test("ffmpeg camera: the attributes are its command line", async () => {
  const { camera, started } = await bench({
    input_kw_args: { format: "v4l2", framerate: 10 },
    filters: [{ name: "scale", args: ["640", "-1"] }, { name: "drawtext", kw_args: { text: "a:b" } }, {
      name: "hflip",
    }],
    output_kw_args: { r: 5, an: null },
  });
  const args = started[0].command.args!;
  assertEquals(args.slice(4), [
    ...["-f", "v4l2", "-framerate", "10", "-i", "rtsp://eye/1"],
    ...["-vf", "scale=640:-1,drawtext=text=a\\:b,hflip", "-c:v", "mjpeg"],
    ...["-r", "5", "-an", "-update", "1", "-f", "image2", "pipe:1"],
  ]);
  await camera.close();
});

Deno.test("ffmpeg camera: the newest picture counts; without one the call fails with what ffmpeg said", async () => {
  const { clock, camera, started } = await bench();
  const waiting = camera.getImages();
  started[0].output.push(FakeFfmpeg.picture(8, 8));
  assertEquals(imageSize((await waiting).images[0].image).width, 8);
  started[0].output.push(FakeFfmpeg.picture(16, 8));
  await clock.advance(0);
  assertEquals(imageSize((await camera.getImages()).images[0].image).width, 16);
  started[0].stderr.push("rtsp://eye/1: Connection refused");
  started[0].end(1);
  await clock.advance(10);
  const late = assertRejects(() => camera.getImages(), SvcError, "Connection refused");
  await clock.advance(10_000);
  await late;
  assertEquals(started.length, 2, "it was started again");
  await camera.close();
  assertEquals([started[1].signals[0], clock.pending], ["SIGTERM", 0]);
});

Deno.test("ffmpeg camera: a stream that stands still is read anew, and its last picture is no present one", async () => {
  const { clock, camera, started, logged } = await bench();
  for (let second = 0; second < 60; second += 20) {
    started[0].output.push(FakeFfmpeg.picture());
    await clock.advance(20_000);
  }
  await camera.getImages();
  assertEquals(started.length, 1, "a slow one does not stand still");

  await clock.advance(10_500);
  assertEquals(started[0].signals[0], "SIGTERM");
  assert(logged.some(({ message }) => message.includes("it gave no picture for 30 s")));
  const late = assertRejects(() => camera.getImages(), SvcError, "it gave no picture for 30 s");
  await clock.advance(10_000);
  await late;
  assertEquals(started.length, 2);
  started[1].output.push(FakeFfmpeg.picture(16, 8));
  await clock.advance(0);
  assertEquals(imageSize((await camera.getImages()).images[0].image).width, 16);
  await camera.close();
  assertEquals(clock.pending, 0);
});

Deno.test("ffmpeg camera: stall_ms 0 waits for the next picture for ever", async () => {
  const { clock, camera, started } = await bench({ stall_ms: 0 });
  started[0].output.push(FakeFfmpeg.picture());
  await clock.advance(3_600_000);
  await camera.getImages();
  assertEquals([started.length, started[0].signals], [1, []]);
  await camera.close();
});

Deno.test("ffmpeg camera: without the program it says what to install; options must be options", async () => {
  const error = await assertRejects(
    () => construct(FfmpegCamera, { video_path: "x" }, { host: new FakeHost() }),
    SvcError,
    "install it",
  );
  assertEquals(error.code, "failed_precondition");
  const problems = problemsOf(FfmpegCamera, {
    video_path: "x",
    input_kw_args: { "a b": 1, c: {} },
    filters: [{ name: "a=b" }],
  });
  assert(problems.length === 3, problems.join("; "));
});

Deno.test("ffmpeg camera: neither callers nor the log are told the password of an address", async () => {
  for (
    const [password, output] of [
      ["hidden%21", "rtsp://me:hidden%21@eye/1: 401 Unauthorized"],
      ["hidden%21", "Did you mean file:rtsp://me:hidden@eye/1"],
      ["it's hidden", "Input #0, rtsp, from 'rtsp://me:it's hidden@eye/1':"],
      ['a"<hidden>`', 'rtsp://me:a"<hidden>`@eye/1: Invalid data'],
      ["p@ss#hidden", "rtsp://me:p@ss#hidden@eye/1: 401 Unauthorized"],
    ] as const
  ) {
    const { clock, camera, started, logged } = await bench({
      video_path: `rtsp://me:${password}@eye/1`,
      debug: true,
      input_kw_args: { headers: "Authorization: Basic hidden", passphrase: "hidden" },
    });
    started[0].stderr.push(output);
    started[0].end(1);
    await clock.advance(10);
    const late = assertRejects(() => camera.getImages(), SvcError);
    await clock.advance(10_000);
    const { message } = await late;
    assert(message.includes("eye/1") && !message.includes("hidden"), message);
    assertEquals(logged.filter((one) => JSON.stringify(one).includes("hidden")), []);
    await camera.close();
  }
});
