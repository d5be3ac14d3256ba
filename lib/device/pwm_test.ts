import { assertEquals } from "@std/assert";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { assertRefused } from "../../tests/support/refusals.ts";
import { SvcError } from "../base/error.ts";
import { findPwmChip, PwmChannel } from "./pwm.ts";

const CHIP = "/sys/class/pwm/pwmchip0";

/** /sys/class/pwm with one chip of two channels: what was written, in order, and which writes fail. */
class FakePwm {
  readonly written: string[] = [];
  openFiles = 0;
  isExported = false;
  polarity?: string;
  /** Failures of the next writes to a path. */
  readonly refusals = new Map<string, SvcError[]>();

  stat = (path: string) =>
    Promise.resolve(path === `${CHIP}/pwm1/enable` && this.isExported ? FOUND : undefined);
  readFolder = () => Promise.resolve(["pwmchip0"]);
  realPath = () => Promise.resolve("/sys/devices/platform/soc/fe20c000.pwm");
  readTextFile = (path: string) => {
    if (path === `${CHIP}/npwm`) return Promise.resolve("2\n");
    if (path === `${CHIP}/pwm1/polarity` && this.polarity) return Promise.resolve(`${this.polarity}\n`);
    return Promise.reject(new SvcError("not_found", `there is no ${path}`));
  };

  open = (path: string) => {
    const refusal = this.refusals.get(path)?.shift();
    if (refusal) return Promise.reject(refusal);
    this.openFiles++;
    return Promise.resolve({
      write: (bytes: Uint8Array) => {
        const text = new TextDecoder().decode(bytes);
        this.written.push(`${path.slice(CHIP.length + 1)} ${text}`);
        if (path === `${CHIP}/export`) this.isExported = true;
        return Promise.resolve();
      },
      sync: () => Promise.resolve(),
      close: () => void this.openFiles--,
    });
  };

  /** What was written since the last call. */
  taken(): string[] {
    return this.written.splice(0);
  }
}

const FOUND = {
  kind: "file",
  sizeBytes: 2,
  diskBytes: 0,
  modifiedMs: 0,
  mode: 0o644,
  uid: 0,
  gid: 0,
} as const;

Deno.test("PwmChannel: exports its channel, turns it off, and gives it back", async () => {
  const files = new FakePwm();
  const pwm = await PwmChannel.open(files, new FakeClock(), "pwmchip0", 1);
  assertEquals(files.taken(), ["export 1", "pwm1/enable 0"]);
  await pwm.set(1_000_000.4, 250_000.6);
  assertEquals(files.taken(), [
    "pwm1/duty_cycle 0",
    "pwm1/period 1000000",
    "pwm1/duty_cycle 250001",
    "pwm1/enable 1",
  ]);
  await pwm.set(1_000_000, 500_000);
  assertEquals(files.taken(), ["pwm1/duty_cycle 500000"], "the same period, and it runs already");
  await pwm.close();
  assertEquals(files.taken(), ["pwm1/duty_cycle 0", "pwm1/enable 0", "unexport 1"]);
  assertEquals(files.openFiles, 0, "files left open");
});

Deno.test("PwmChannel: takes over an exported channel, and off does nothing to a channel that is off", async () => {
  const files = new FakePwm();
  files.isExported = true;
  const pwm = await PwmChannel.open(files, new FakeClock(), "pwmchip0", 1);
  assertEquals(files.taken(), ["pwm1/enable 0"]);
  await pwm.off();
  assertEquals(files.taken(), []);
});

Deno.test("PwmChannel: an inverted channel is made normal before it is turned on, or refused", async () => {
  const files = new FakePwm();
  files.polarity = "inversed";
  const pwm = await PwmChannel.open(files, new FakeClock(), "pwmchip0", 1);
  files.taken();
  files.refusals.set(`${CHIP}/pwm1/polarity`, [new SvcError("invalid_argument", "Invalid argument")]);
  await assertRefused("invalid_argument", "cannot write normal", () => pwm.set(1_000_000, 100_000));
  assertEquals(files.taken(), ["pwm1/duty_cycle 0", "pwm1/period 1000000", "pwm1/duty_cycle 100000"]);
  await pwm.set(1_000_000, 100_000);
  assertEquals(files.taken(), ["pwm1/duty_cycle 100000", "pwm1/polarity normal", "pwm1/enable 1"]);
  files.polarity = "normal";
  await pwm.off();
  await pwm.set(1_000_000, 100_000);
  assertEquals(files.taken().slice(2), ["pwm1/duty_cycle 100000", "pwm1/enable 1"]);
});

Deno.test("PwmChannel.open: waits for udev after the export, for at most a second", async () => {
  const forbidden = new SvcError("permission_denied", "Permission denied");
  const files = new FakePwm();
  files.refusals.set(`${CHIP}/pwm1/enable`, [forbidden, forbidden]);
  const clock = new FakeClock();
  const opening = PwmChannel.open(files, clock, "pwmchip0", 1);
  await clock.advance(40);
  await opening;
  assertEquals(files.taken(), ["export 1", "pwm1/enable 0"]);

  const never = new FakePwm();
  never.refusals.set(`${CHIP}/pwm1/enable`, Array(1_000).fill(forbidden));
  const refused = assertRefused(
    "permission_denied",
    "cannot write 0",
    () => PwmChannel.open(never, clock, "pwmchip0", 1),
  );
  await clock.advance(1_100);
  await refused;
});

Deno.test("PwmChannel.open: a driver that refuses to turn a channel off has none running", async () => {
  const files = new FakePwm();
  files.refusals.set(`${CHIP}/pwm1/enable`, [new SvcError("invalid_argument", "Invalid argument")]);
  await PwmChannel.open(files, new FakeClock(), "pwmchip0", 1);
  assertEquals(files.taken(), ["export 1"]);
});

Deno.test("PwmChannel.open: a channel beyond the chip's, and a chip that is not there, are refused by name", async () => {
  const open = (chip: string, channel: number) =>
    PwmChannel.open(new FakePwm(), new FakeClock(), chip, channel);
  await assertRefused("not_found", "2 channels, wanted channel 2", () => open("pwmchip0", 2));
  await assertRefused("not_found", "/sys/class/pwm/pwmchip9/npwm", () => open("pwmchip9", 0));
});

Deno.test("pwmChipOf: finds the chip of a device, and says how a missing one is turned on", async () => {
  assertEquals(await findPwmChip(new FakePwm(), "fe20c000.pwm"), "pwmchip0");
  await assertRefused("not_found", "dtoverlay=pwm", () => findPwmChip(new FakePwm(), "20c000.pwm"));
});
