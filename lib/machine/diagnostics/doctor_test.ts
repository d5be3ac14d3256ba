import { assertEquals, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";
import { FakeProcesses } from "../../../tests/support/fake_processes.ts";
import { SvcError } from "../../base/error.ts";
import { findHolder } from "../serve/port/port_holder.ts";
import { type Examination, examine, formatExaminations } from "./doctor.ts";

const NOW = new Date("2026-05-04T12:00:00Z");

/** What a program answers on this device, by its command line. */
type Answers = (line: string) => { readonly code: number; readonly text?: string };

async function examined(
  files: { readonly [path: string]: string },
  answers: Answers,
  { now = NOW, taken, os }: { readonly now?: Date; readonly taken?: SvcError; readonly os?: string } = {},
): Promise<Map<string, Examination>> {
  const processes = new FakeProcesses((process) => {
    const { command, args = [] } = process.command;
    const { code, text } = answers([command, ...args].join(" "));
    if (text) process.stdout.write(text);
    process.exit(code);
  });
  const host = new FakeHost({ files, processes, os });
  const findings = await examine({
    host,
    clock: new FakeClock(now.getTime()),
    listen: { host: "localhost", port: 8080 },
    tryListen: () => Promise.resolve(taken),
    folder: "/",
  });
  return new Map(findings.map((one) => [one.subject, one]));
}

Deno.test("examine: a board whose devices the user may use has no problem", async () => {
  const files = {
    "/proc/device-tree/model": "Raspberry Pi 5\0",
    "/etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12"\n',
    "/dev/gpiochip0": "",
    "/dev/i2c-1": "",
    "/dev/ttyUSB0": "",
  };
  const found = await examined(
    files,
    (line) => ({ code: 0, text: line.startsWith("timedatectl") ? "yes" : "" }),
  );
  assertEquals([...found.values()].filter(({ outcome }) => outcome === "problem"), []);
  assertStringIncludes(found.get("system")!.found, "Raspberry Pi 5, Debian GNU/Linux 12");
  assertEquals(found.get("pins"), { subject: "pins", outcome: "ok", found: "/dev/gpiochip0" });
  assertEquals(found.get("SPI")!.outcome, "note");
  assertStringIncludes(found.get("SPI")!.remedy!, "raspi-config");
});

for (
  const [path, subject, group] of [
    ["/dev/ttyACM0", "serial lines", "dialout"],
    ["/dev/gpiochip4", "pins", "gpio"],
    ["/dev/video0", "cameras", "video"],
    ["/dev/i2c-7", "I2C", "i2c"],
  ]
) {
  Deno.test(`examine: without the right to use ${path} the group is named`, async () => {
    const found = await examined({ [path]: "" }, (line) => ({ code: line.includes(path) ? 1 : 0 }));
    const { outcome, found: text, remedy } = found.get(subject)!;
    assertEquals(outcome, "problem");
    assertStringIncludes(text, path);
    assertStringIncludes(remedy!, `usermod -aG ${group} USER`);
    assertStringIncludes(
      formatExaminations([...found.values()]).join("\n"),
      `-> add its user to the group ${group}`,
    );
  });
}

Deno.test("examine: a clock in the past, a taken port and another system are told", async () => {
  const past = await examined({}, () => ({ code: -1 }), { now: new Date("1970-01-01T00:05:00Z") });
  assertEquals(past.get("clock")!.outcome, "problem");
  const unset = await examined({}, () => ({ code: 0, text: "no" }));
  assertEquals(unset.get("clock")!.outcome, "note");
  assertStringIncludes(unset.get("clock")!.remedy!, "set-ntp");
  const taken = new SvcError("already_exists", "Address already in use");
  const tcp = "  sl  local rem st\n   0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 777 1\n";
  const busy = await examined({ "/proc/net/tcp": tcp }, () => ({ code: 0 }), { taken });
  assertStringIncludes(busy.get("port")!.found, "port 8080 is in use by a program of another user");
  const windows = await examined({}, () => ({ code: 0 }), { os: "windows" });
  assertStringIncludes(windows.get("devices")!.found, "windows");
});

Deno.test("holderOf: names the program that has a port, and nobody if it is free", async () => {
  const tcp = "  sl  local rem st\n   0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 777 1\n";
  const host = new FakeHost({ files: { "/proc/net/tcp": tcp, "/proc/42/comm": "node-red\n" } });
  await host.turnLink("/proc/42/fd/9", "socket:[777]");
  assertEquals(await findHolder(8080, host), "node-red (pid 42)");
  assertEquals(await findHolder(8081, host), undefined);
});
