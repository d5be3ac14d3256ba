import { assertEquals } from "@std/assert";
import { bareDevice } from "../../tests/support/bare_device.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { assertRefused } from "../../tests/support/refusals.ts";
import { SvcError } from "../base/error.ts";
import { SerialTerminal } from "./terminal.ts";

/** The terminal's end of a program that reads as many bytes at a time as `taken` says. */
function terminalTaking(taken: (bytes: Uint8Array) => number) {
  const diary: string[] = [];
  const device = bareDevice("/dev/ptmx", {
    control: (request: number, data: Uint8Array) => {
      if (request === 0x80045430) data[0] = 5;
      if (request === 0x5414) diary.push(`size ${data.join(" ")}`);
    },
    write: (bytes: Uint8Array) => {
      const count = taken(bytes);
      if (count > 0) diary.push(new TextDecoder().decode(bytes.subarray(0, count)));
      return count;
    },
    close: () => void diary.push("close"),
  });
  return { diary, terminal: SerialTerminal.open({ openDevice: () => device }) };
}

Deno.test("SerialTerminal: programs open the end with the number that the kernel gave", () => {
  assertEquals(terminalTaking(() => 0).terminal.path, "/dev/pts/5");
});

Deno.test("SerialTerminal.write: what a program does not take at once follows", async () => {
  const clock = new FakeClock();
  const counts = [3, 0, 2];
  const { diary, terminal } = terminalTaking(() => counts.shift()!);
  const written = terminal.write(new TextEncoder().encode("hello"), clock);
  await clock.advance(10);
  await written;
  assertEquals(diary, ["hel", "lo"]);
});

Deno.test("SerialTerminal.write: a full terminal is waited for, and given up after 30 s", async () => {
  const clock = new FakeClock();
  const { diary, terminal } = terminalTaking(() => {
    throw new SvcError("aborted", "try again");
  });
  const refused = assertRefused(
    "unavailable",
    "no program read its input within 30 s",
    () => terminal.write(Uint8Array.of(65), clock),
  );
  await clock.advance(30_020);
  await refused;
  assertEquals(diary, []);
});

Deno.test("SerialTerminal.resize: rows, then columns, within what the kernel can tell; none once it is closed", async () => {
  const { diary, terminal } = terminalTaking(() => 0);
  terminal.resize(80, 24.7);
  terminal.resize(0, 1e6);
  await terminal.close();
  await terminal.close();
  terminal.resize(80, 25);
  assertEquals(diary, ["size 24 0 80 0 0 0 0 0", "size 255 255 1 0 0 0 0 0", "close"]);
});
