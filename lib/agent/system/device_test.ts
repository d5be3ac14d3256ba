import { assertEquals, assertStringIncludes } from "@std/assert";
import { describeDevice, forgets } from "./device.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";

function describe(files: Record<string, string>, arch = "arm64") {
  return describeDevice(new FakeHost({ arch, files }), "/opt/svc");
}

Deno.test("describeDevice: recognizes a Raspberry Pi with Debian, and a computer without these files", async () => {
  const files = {
    "/etc/os-release":
      'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\nID_LIKE=x\n',
    "/proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.5\0",
  };
  const pi = { platform: "linux/arm64", distro: "debian:12", tags: ["rpi", "rpi4"], problems: [] };
  assertEquals(await describe(files), pi);
  assertEquals(await describe({}, "x64"), { platform: "linux/amd64", distro: "", tags: [], problems: [] });
});

Deno.test("a device whose disk is laid over by memory says so; containers and other disks are no such", async () => {
  const overlay = "overlay / overlay rw,lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work 0 0\n";
  const card = "/dev/mmcblk0p2 / ext4 rw,noatime 0 0\nproc /proc proc rw 0 0\n";
  const pi = "console=tty1 root=PARTUUID=1-02 boot=overlay rootwait\n";
  const ubuntu = "root=LABEL=writable overlayroot=tmpfs:recurse=0 quiet\n";
  const cases: readonly (readonly [mounts: string, cmdline: string, wanted: boolean])[] = [
    [overlay, pi, true],
    [overlay, ubuntu, true],
    [overlay, "overlayroot=disabled", false],
    // A container: its layers are on a disk.
    [overlay, "root=/dev/sda1", false],
    [card, pi, false],
    [`${card}tmpfs /opt tmpfs rw 0 0\n`, "", true],
    [`${card}tmpfs /opt/svcs tmpfs rw 0 0\ntmpfs /run tmpfs rw 0 0\n`, "", false],
    // A disk of its own for the agent.
    [`${overlay}/dev/mmcblk0p3 /opt/svc ext4 rw 0 0\n`, pi, false],
    [`rootfs / rootfs rw 0 0\n${card}`, "", false],
    ["", "", false],
    ["\0\n / \n", pi, false],
  ];
  for (const [mounts, cmdline, wanted] of cases) {
    assertEquals(forgets("/opt/svc", mounts, cmdline), wanted, `${mounts} ${cmdline}`);
  }
  const { problems: [problem = "none"] } = await describe({ "/proc/mounts": overlay, "/proc/cmdline": pi });
  assertStringIncludes(problem, "/opt/svc is in memory");
});
