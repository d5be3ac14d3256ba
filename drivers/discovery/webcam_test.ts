import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { FakeVideo, FakeVideos } from "../../tests/support/fake_video.ts";
import { construct } from "../../tests/support/construct.ts";
import { WebcamDiscoveryModel } from "./webcam.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";

function hostOf(devices: FakeVideos, os: string): FakeHost {
  return new FakeHost({ devices, os });
}

Deno.test("webcam discovery: finds every usable camera once, by its stable path", async () => {
  const clock = new FakeClock();
  const videos = new FakeVideos();
  const stablePath = "/dev/v4l/by-id/usb-Good_Cam-video-index0";
  videos.plug("/dev/video0", new FakeVideo(clock, { card: "Good Cam (C920)", stablePath, rates: [30, 60] }));
  videos.plug("/dev/video1", new FakeVideo(clock, { card: "Good Cam (C920)", metadata: true }));
  videos.plug("/dev/video10", new FakeVideo(clock, { card: "Good Cam (C920)", rates: [] }));
  videos.plug("/dev/video2", new FakeVideo(clock, { card: "Other", formats: { H264: [[640, 480]] } }));
  videos.plug(
    "/dev/video3",
    new FakeVideo(clock, { card: "***", formats: { MJPG: [[320, 240], [1280, 720]] } }),
  );
  const discovery = await construct(WebcamDiscoveryModel, {}, { host: hostOf(videos, "linux") });
  const camera = { api: "rdk:component:camera", model: "rdk:builtin:webcam" };
  assertEquals(await discovery.discoverResources(), [
    {
      ...camera,
      name: "good-cam-c920",
      attributes: { video_path: stablePath, width_px: 640, height_px: 480, frame_rate: 60 },
    },
    {
      ...camera,
      name: "webcam",
      attributes: { video_path: "/dev/video3", width_px: 320, height_px: 240, frame_rate: 30 },
    },
    {
      ...camera,
      name: "good-cam-c920-2",
      attributes: { video_path: "/dev/video10", width_px: 640, height_px: 480 },
    },
  ]);
  assertEquals(videos.open, 0, "what was looked at is closed");
});

Deno.test("webcam discovery: on other systems than Linux the error says so", async () => {
  const discovery = await construct(WebcamDiscoveryModel, {}, { host: hostOf(new FakeVideos(), "darwin") });
  await assertRejects(() => discovery.discoverResources(), SvcError, "on darwin, wanted Linux");
});
