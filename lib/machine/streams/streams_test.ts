/**
 * Videos of cameras: who may watch, the offered formats, and that a video without watchers leaves nothing behind.
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { StreamService } from "../../../proto/gen/stream_pb.ts";
import { FakeRtc } from "../../../tests/support/fake_rtc.ts";
import { until } from "../../../tests/support/until.ts";
import type { Camera, Images } from "../../api/sensors/camera.ts";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { Logs } from "../../base/log/log.ts";
import { encodeImage, MIME } from "../../geometry/image/image.ts";
import { ResourceName } from "../../resource/name.ts";
import { BaseComponent } from "../../resource/resource.ts";
import { type Channel, client } from "../../wire/rpc/channel.ts";
import { Metadata } from "../../wire/rpc/metadata.ts";
import { memoryChannel } from "../../wire/rpc/memory.ts";
import { ServiceTable } from "../../wire/rpc/service.ts";
import { Answerer } from "../../wire/signaling/answerer.ts";
import { CallQueue } from "../../wire/signaling/call_queue.ts";
import { dialWebRtc } from "../../wire/signaling/dialer.ts";
import { signalingService } from "../../wire/signaling/service.ts";
import { Streams } from "./streams.ts";
import type { VideoEncoder } from "./video_encoder.ts";
import type { VideoRequest } from "./video_worker.ts";

const clock = new SystemClock();
const NAME = ResourceName.of("rdk:component:camera", "left:eye");
const NAMES = [
  NAME,
  ...Array.from({ length: 8 }, (_, at) => ResourceName.of("rdk:component:camera", `c${at}`)),
];

class TestCamera extends BaseComponent implements Camera {
  fails = false;
  width = 128;
  height = 96;
  /** Its first picture is one of depths. */
  hasDepth = false;
  /** A picture takes until this is there. */
  light: Promise<void> | undefined;

  async getImages() {
    await this.light;
    if (this.fails) throw new SvcError("unavailable", "it is dark");
    const { width, height } = this;
    const rgba = new Uint8Array(4 * width * height);
    const image = encodeImage({ kind: "color", image: { width, height, rgba } }, MIME.rgba);
    const images: Images["images"][number][] = [{ sourceName: "color", mimeType: MIME.rgba, image }];
    if (this.hasDepth) {
      const map = { width: 512, height: 64, data: new Uint16Array(512 * 64) };
      const depth = encodeImage({ kind: "depth", map }, MIME.depth);
      images.unshift({ sourceName: "depth", mimeType: MIME.depth, image: depth });
    }

    return { images, capturedAtMs: 0 };
  }

  getPointCloud(): Promise<Uint8Array> {
    throw new SvcError("unimplemented", "no cloud");
  }

  getProperties() {
    return Promise.resolve({ supportsPcd: false, mimeTypes: [] });
  }
}

/** Answers each picture with a few bytes; records its requests. */
class TestEncoder implements VideoEncoder {
  readonly asked: VideoRequest[] = [];
  closed = false;

  encode(request: VideoRequest) {
    this.asked.push(request);
    const { width = 128, height = 96 } = request;
    return Promise.resolve({ frame: Uint8Array.of(1, 2, 3), width, height });
  }

  close(): void {
    this.closed = true;
  }
}

interface Bench {
  readonly camera: TestCamera;
  readonly encoders: TestEncoder[];
  readonly rtc: FakeRtc;
  readonly direct: Channel;
  dial(): Promise<Channel>;
}

async function withStreams(test: (bench: Bench) => Promise<void>, names = [NAME]): Promise<void> {
  const camera = new TestCamera(NAME);
  const encoders: TestEncoder[] = [];
  const logger = new Logs(clock, []).logger("test");
  const machine = {
    names,
    find: (_api: string, short: string) => {
      if (!names.some((name) => name.short === short)) throw new SvcError("not_found", `no camera ${short}`);
      return camera;
    },
  };
  const encoder = () => {
    const made = new TestEncoder();
    encoders.push(made);
    return made;
  };
  const streams = new Streams({ machine, clock, logger, encoder });
  const rtc = new FakeRtc();
  const table = new ServiceTable(clock, [(ctx) => void (ctx.entity = ctx.requestHeader.get("who"))]);
  const queue = new CallQueue({ clock });
  const joined = streams.joined.bind(streams);
  const answerer = new Answerer({ table, clock, logger, rtc, joined });
  for (const one of [streams.service, signalingService({ queue, clock, hostOf: () => "" })]) table.add(one);
  const direct = memoryChannel(table);
  const dialed: Channel[] = [];
  const dial = async () => {
    const answered = queue.take([""], new AbortController().signal).then((call) => answerer.answer(call));
    const channel = await dialWebRtc({ signaling: direct, host: "", clock, rtc });
    await answered;
    dialed.push(channel);
    return channel;
  };
  try {
    await test({ camera, encoders, rtc, direct, dial });
  } finally {
    for (const channel of dialed) channel.close();
    await answerer.close();
    await streams.close();
    direct.close();
  }
}

Deno.test("Streams: several viewers share an encoder, which closes with the last viewer", () =>
  withStreams(async ({ dial, encoders, rtc }) => {
    const [one, two] = [client(StreamService, await dial()), client(StreamService, await dial())];
    assertEquals((await one.listStreams({})).names, ["left+eye"]);
    await one.addStream({ name: "left+eye" });
    await two.addStream({ name: "left+eye" });
    const tracks = rtc.peers.flatMap((peer) => peer.tracks);
    assertEquals(tracks.map(({ options }) => options.streamId), ["left+eye", "left+eye"]);
    await until(() => tracks.every(({ packets }) => packets.length > 1));
    assertEquals([encoders.length, encoders[0].asked[0].key], [1, true]);
    await one.removeStream({ name: "left+eye" });
    assertEquals([tracks[0].isOpen, encoders[0].closed], [false, false]);
    await two.removeStream({ name: "left+eye" });
    assertEquals([tracks[1].isOpen, encoders[0].closed], [false, true]);
  }));

Deno.test("Streams: a disconnected viewer stops watching", () =>
  withStreams(async ({ dial, encoders }) => {
    const channel = await dial();
    await client(StreamService, channel).addStream({ name: "left+eye" });
    channel.close();
    await until(() => encoders[0].closed);
  }));

Deno.test("Streams: a viewer's picture loss report produces a key frame", () =>
  withStreams(async ({ dial, encoders, rtc }) => {
    await client(StreamService, await dial()).addStream({ name: "left+eye" });
    const [track] = rtc.peers.flatMap((peer) => peer.tracks);
    const keys = () => encoders[0].asked.filter(({ key }) => key).length;
    await until(() => encoders[0].asked.length > keys());
    const before = keys();
    track.listener.feedback(Uint8Array.of(0x81, 206, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0));
    await until(() => keys() > before);
  }));

Deno.test("SetStreamOptions: accepts the offered sizes, and refuses sides of 0 or less", () =>
  withStreams(async ({ dial, encoders, direct }) => {
    const calls = client(StreamService, direct);
    const { resolutions } = await calls.getStreamOptions({ name: "left+eye" });
    assertEquals(resolutions.map(({ width, height }) => [width, height]), [[128, 96], [64, 48]]);
    await client(StreamService, await dial()).addStream({ name: "left+eye" });
    await calls.setStreamOptions({ name: "left+eye", resolution: { width: 64, height: 48 } });
    await until(() => encoders[0].asked.at(-1)!.width === 64);
    await calls.setStreamOptions({ name: "left+eye" });
    await until(() => encoders[0].asked.at(-1)!.width === undefined);
    for (
      const resolution of [{ width: 1_000_000, height: -1 }, { width: 0, height: 0 }, { width: 0, height: 9 }]
    ) {
      const resizing = () => calls.setStreamOptions({ name: "left+eye", resolution });
      const error = await assertRejects(resizing, SvcError, "wanted a width and a height above 0");
      assertEquals(error.code, "invalid_argument");
    }
  }));

Deno.test("SetStreamOptions: a size that the camera does not offer gives the closest one of its own shape", () =>
  withStreams(async ({ dial, encoders, direct }) => {
    const calls = client(StreamService, direct);
    await client(StreamService, await dial()).addStream({ name: "left+eye" });
    for (
      const [width, height, shown] of [[80, 45, 64], [100, 80, undefined], [1, 1, 64], [
        1920,
        1080,
        undefined,
      ]] as const
    ) {
      await calls.setStreamOptions({ name: "left+eye", resolution: { width, height } });
      await until(() => encoders[0].asked.at(-1)!.width === shown);
    }
  }));

Deno.test("SetStreamOptions: a camera that is not there has no size to go back to", () =>
  withStreams(async ({ direct }) => {
    const resetting = () => client(StreamService, direct).setStreamOptions({ name: "right+eye" });
    await assertRejects(resetting, SvcError, "right:eye");
  }));

Deno.test("SetStreamOptions: the share of the size holds when a camera of another size takes the place", () =>
  withStreams(async ({ camera, dial, encoders, direct }) => {
    const calls = client(StreamService, direct);
    await client(StreamService, await dial()).addStream({ name: "left+eye" });
    await client(StreamService, await dial()).addStream({ name: "left+eye" });
    await calls.setStreamOptions({ name: "left+eye", resolution: { width: 64, height: 48 } });
    const shown = (width: number, height?: number) =>
      until(() => {
        const asked = encoders[0].asked.at(-1)!;
        return asked.width === width && asked.height === height;
      });
    await shown(64, 48);
    [camera.width, camera.height] = [96, 256];
    await shown(48, 128);
    // Too small to be halved.
    [camera.width, camera.height] = [40, 50];
    await shown(40, 50);
    [camera.width, camera.height] = [128, 96];
    await shown(64, 48);
    assertEquals(encoders.length, 1);
  }));

Deno.test("GetStreamOptions: the sizes are those of the colour picture, which the video shows", () =>
  withStreams(async ({ camera, direct }) => {
    camera.hasDepth = true;
    const { resolutions } = await client(StreamService, direct).getStreamOptions({ name: "left+eye" });
    assertEquals(resolutions.map(({ width, height }) => [width, height]), [[128, 96], [64, 48]]);
  }));

Deno.test("AddStream: fails without WebRTC, for an unknown or failing camera, and a second time", () =>
  withStreams(async ({ dial, direct, camera, encoders }) => {
    const code = (asked: Promise<unknown>) => asked.then(() => "ok", (error: SvcError) => error.code);
    const calls = client(StreamService, await dial());
    assertEquals(
      await code(client(StreamService, direct).addStream({ name: "left+eye" })),
      "failed_precondition",
    );
    assertEquals(await code(calls.addStream({ name: "other" })), "not_found");
    assertEquals(await code(calls.removeStream({ name: "left+eye" })), "not_found");
    camera.fails = true;
    assertEquals(await code(calls.addStream({ name: "left+eye" })), "unavailable");
    camera.fails = false;
    assert(encoders.every(({ closed }) => closed));
    assertEquals(await code(calls.addStream({ name: "left+eye" })), "ok");
    assertEquals(await code(calls.addStream({ name: "left+eye" })), "already_exists");
  }));

Deno.test("AddStream: the viewer gets its track while the camera takes its first picture, and loses it without one", () =>
  withStreams(async ({ dial, camera, rtc }) => {
    const calls = client(StreamService, await dial());
    const tracks = () => rtc.peers.flatMap((peer) => peer.tracks);
    for (const fails of [false, true]) {
      const light = Promise.withResolvers<void>();
      camera.light = light.promise;
      const before = tracks().length;
      const added = calls.addStream({ name: "left+eye" });
      await until(() => tracks().length > before);
      camera.fails = fails;
      light.resolve();
      if (fails) await assertRejects(() => added, SvcError, "it is dark");
      else await added;
      assertEquals(tracks().at(-1)!.isOpen, !fails);
      if (!fails) await calls.removeStream({ name: "left+eye" });
    }
  }));

Deno.test("AddStream: the caller with the most videos gives way to another caller", () =>
  withStreams(async ({ dial, encoders, rtc }) => {
    const [busy, other] = [client(StreamService, await dial()), client(StreamService, await dial())];
    const as = (who: string) => ({ header: Metadata.from([["who", who]]) });
    for (const { short } of NAMES.slice(0, 8)) {
      await busy.addStream({ name: short.replaceAll(":", "+") }, as("busy"));
    }
    const [{ tracks }] = rtc.peers.filter((peer) => peer.tracks.length === 8);
    const refused = await assertRejects(() => busy.addStream({ name: "c7" }, as("busy")), SvcError);
    assertEquals(refused.code, "resource_exhausted");
    await other.addStream({ name: "c7" }, as("other"));
    assertEquals([encoders.length, encoders.map(({ closed }) => closed).indexOf(true)], [9, 0]);
    assertEquals(tracks.map(({ isOpen }) => isOpen).indexOf(false), 0);
    await busy.removeStream({ name: "c0" }, as("busy"));
  }, NAMES));
