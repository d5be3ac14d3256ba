/**
 * The path to a camera without a camera: real foreign calls, to a library that answers by the kernel's header. Without
 * a C compiler the test is ignored.
 */

import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DenoDevice } from "../lib/base/native/device.ts";
import { SvcError } from "../lib/base/error.ts";
import { bareDevice } from "./support/bare_device.ts";
import { type Needed, needingTest, outputOf } from "./support/needing.ts";
import { VideoDevice } from "../lib/device/v4l2.ts";

const SOURCE = new URL("data/v4l2/camera.c", import.meta.url).pathname;

async function compilerProgram(): Promise<Needed<string>> {
  if (Deno.build.os !== "linux") return { missing: "this is not Linux" };
  const isThere = await outputOf("cc", "--version") !== undefined;
  return isThere ? { found: "cc" } : { missing: "there is no C compiler (cc) here" };
}

async function compiled(compiler: string, folder: string): Promise<string> {
  const library = `${folder}/camera.so`;
  const args = ["-shared", "-fPIC", "-o", library, SOURCE];
  const { success, stderr } = await new Deno.Command(compiler, { args, stderr: "piped" }).output();
  assert(success, new TextDecoder().decode(stderr));
  return library;
}

const linux = { ignore: Deno.build.os !== "linux" };

needingTest(
  "VideoDevice reads pictures through ioctl and shared memory until the camera is unplugged",
  await compilerProgram(),
  async (compiler) => {
    const folder = await Deno.makeTempDir({ prefix: "svc_v4l2_" });
    try {
      const library = await compiled(compiler, folder);
      const host = { openDevice: (path: string) => new DenoDevice(path, library) };
      const camera = VideoDevice.open(host, "/dev/video7");
      assertEquals(camera.identity(), { card: "Camera of the tests", bus: "usb-test", captures: true });
      const [mode, ...others] = camera.modes();
      assertEquals([mode, others], [{ format: "YUYV", width: 64, height: 48, rates: [30, 7.5] }, []]);
      const streaming = { format: "YUYV", width: 64, height: 48, rowBytes: 128, framesPerSecond: 30 };
      assertEquals(camera.start(mode, undefined), streaming);
      for (let picture = 1; picture <= 6; picture++) {
        assertEquals(await camera.next(100), true);
        const bytes = camera.newest();
        assertEquals([bytes.length, bytes[0], bytes[1]], [64 * 48 * 2, picture, 128]);
      }
      const error = await assertRejects(() => camera.next(100), SvcError, "No such device");
      assertEquals(error.code, "unavailable");
      camera.close();
      assertThrows(() => camera.newest(), SvcError);
      assertThrows(() => VideoDevice.open(host, "/dev/video8"), SvcError, "No such file or directory");
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

/** Answers as a camera whose sizes and rates may be anything between two bounds (v4l2_frmsizeenum, v4l2_frmivalenum). */
function answerStepwise(request: number, data: Uint8Array): void {
  const view = new DataView(data.buffer);
  const set = (at: number, ...values: number[]) =>
    values.forEach((value, index) => view.setUint32(at + 4 * index, value, true));
  const number = request & 0xff;
  if (number !== 0 && view.getUint32(0, true) > 0) throw new SvcError("invalid_argument", "no more");
  if (number === 2) data.set(new TextEncoder().encode("YUYV"), 44);
  // The type, then width and height, each as the least, the most and the step.
  if (number === 0x4a) set(8, 3, 160, 1920, 8, 120, 1080, 4);
  // The type, then the shortest and the longest interval and the step, as fractions of a second.
  if (number === 0x4b) set(16, 3, 1, 30, 1, 5, 1, 30);
}

Deno.test("VideoDevice: a camera with freely choosable sizes offers the smallest and the largest", () => {
  const openDevice = (path: string) => bareDevice(path, { control: answerStepwise });
  const camera = VideoDevice.open({ openDevice }, "/dev/video7");
  assertEquals(camera.modes(), [
    { format: "YUYV", width: 160, height: 120, rates: [30] },
    { format: "YUYV", width: 1920, height: 1080, rates: [30] },
  ]);
});

Deno.test("VideoDevice refuses a device that is not a camera", linux, () => {
  const host = { openDevice: (path: string) => new DenoDevice(path) };
  const error = assertThrows(() => VideoDevice.open(host, "/dev/null"), SvcError, 'the device "/dev/null"');
  assertEquals(error.code, "unimplemented");
  const device = new DenoDevice("/dev/null");
  device.close();
  device.close();
  assertThrows(() => device.control(0, new Uint8Array(0)), SvcError, "is closed");
});
