import { assertEquals } from "@std/assert";
import { describeDevice } from "./device.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";

function describe(files: Record<string, string>, arch = "arm64") {
  return describeDevice(new FakeHost({ arch, files }));
}

Deno.test("describeDevice: recognizes a Raspberry Pi with Debian, and a computer without these files", async () => {
  const files = {
    "/etc/os-release":
      'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\nID_LIKE=x\n',
    "/proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.5\0",
  };
  const pi = { platform: "linux/arm64", distro: "debian:12", tags: ["rpi", "rpi4"] };
  assertEquals(await describe(files), pi);
  assertEquals(await describe({}, "x64"), { platform: "linux/amd64", distro: "", tags: [] });
});
