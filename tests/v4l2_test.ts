/**
 * The path to a camera without a camera: real foreign calls, to a library that answers by the kernel's header. Without
 * a C compiler the test is ignored.
 */

import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DenoDevice } from "../lib/base/native/device.ts";
import { SvcError } from "../lib/base/error.ts";
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

Deno.test("VideoDevice refuses a device that is not a camera", linux, () => {
  const host = { openDevice: (path: string) => new DenoDevice(path) };
  const error = assertThrows(() => VideoDevice.open(host, "/dev/null"), SvcError, 'the device "/dev/null"');
  assertEquals(error.code, "unimplemented");
  const device = new DenoDevice("/dev/null");
  device.close();
  device.close();
  assertThrows(() => device.control(0, new Uint8Array(0)), SvcError, "is closed");
});
