import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { PackageFormat } from "../../../proto/gen/agent_pb.ts";
import { settle } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeProcesses } from "../../../tests/support/fake_processes.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { computeSha256 } from "../../base/download/http_download.ts";
import { answerInPlace, notAProgram } from "../../base/release/program_head.ts";
import { type BinaryName, binaryNameIn, fileNameOf, releaseOf, versionIn } from "./release.ts";
import { ReleaseCheck } from "./release_check.ts";
import { SystemFiles } from "../../base/files/system_files.ts";

const info = (more: object) => ({
  version: "1.2.3",
  url: "https://cloud/svc-agent",
  sha256: new Uint8Array(32).fill(0xab),
  format: PackageFormat.EXECUTABLE,
  ...more,
});

Deno.test("identifies a release by version and checksum, a custom release by its URL", () => {
  const release = releaseOf("svc-agent", info({}))!;
  assertEquals([release.version, release.custom, release.pinned], ["1.2.3", false, false]);
  assertEquals(releaseOf("svc-agent", info({ pinned: true }))?.pinned, true);
  assertEquals(release.key, `1.2.3:${"ab".repeat(32)}`);
  const custom = releaseOf(
    "svc-server",
    info({ version: "customURL", url: "file:///a", sha256: new Uint8Array() }),
  )!;
  assertEquals([custom.version, custom.key, custom.custom, custom.pinned], [
    "customURL+file:///a",
    "customURL+file:///a",
    true,
    true,
  ]);
  assertEquals(releaseOf("svc-agent", undefined), undefined);
  assertEquals(releaseOf("svc-agent", info({ version: "", url: "" })), undefined);
});

Deno.test("refuses an impossible release", () => {
  const bad = [
    { version: " " },
    { url: "ftp://x/y" },
    { url: "nothing" },
    { sha256: new Uint8Array(5) },
    { format: PackageFormat.XZ },
  ];
  for (const more of bad) assertThrows(() => releaseOf("svc-agent", info(more)), SvcError, "wanted");
});

Deno.test("fileNameOf: contains the version and part of the sum, and never leads out of the folder", () => {
  const sum = "0123456789abcdef".repeat(4);
  const file = fileNameOf("svc-agent", "1.2.3-rc.1+b", sum);
  assertEquals(file, "svc-agent-1.2.3-rc.1+b-0123456789ab");
  assertEquals(versionIn("svc-agent", file), "1.2.3-rc.1+b");
  assertEquals(fileNameOf("svc-agent", "../../etc", sum), "svc-agent-.._.._etc-0123456789ab");
  assertEquals(fileNameOf("svc-agent", "customURL+https://x/y", sum), "svc-agent-custom-0123456789ab");
});

function elf(machine: number, bits = 2): Uint8Array {
  const head = new Uint8Array(64);
  head.set([0x7f, 0x45, 0x4c, 0x46, bits]);
  head[18] = machine;
  return head;
}

function pe(machine: number): Uint8Array {
  const head = new Uint8Array(256);
  head.set([0x4d, 0x5a]);
  const view = new DataView(head.buffer);
  view.setUint32(0x3c, 0x80, true);
  view.setUint32(0x80, 0x4550, true);
  view.setUint16(0x84, machine, true);
  return head;
}

Deno.test("a program must fit this system and this processor", () => {
  const linux = { os: "linux", arch: "x64" };
  const text = (content: string) => new TextEncoder().encode(content);
  assertEquals(notAProgram(elf(0x3e), linux), undefined);
  assertEquals(notAProgram(elf(0xb7), { os: "linux", arch: "arm64" }), undefined);
  assertEquals(notAProgram(pe(0x8664), { os: "windows", arch: "x64" }), undefined);
  assertMatch(notAProgram(elf(0xb7), linux)!, /another processor/);
  assertMatch(notAProgram(elf(0x3e, 1), linux)!, /another processor/);
  assertMatch(notAProgram(pe(0x8664), linux)!, /found a program for Windows/);
  assertMatch(notAProgram(pe(0xaa64), { os: "windows", arch: "x64" })!, /another processor/);
  assertMatch(notAProgram(elf(0x3e), { os: "windows", arch: "x64" })!, /found a program for Linux/);
  assertMatch(notAProgram(text("<!DOCTYPE html>"), linux)!, /found a web page/);
  assertMatch(notAProgram(text("#!/bin/sh\n"), linux)!, /found a script/);
  assertMatch(notAProgram(text(""), linux)!, /found an empty file/);
});

Deno.test("binaryNameIn: reads the program's name from text or JSON", () => {
  assertEquals(binaryNameIn("svc-agent 0.1.0 (built from source)\n"), "svc-agent");
  assertEquals(binaryNameIn('{"binary_name": "svc-agent", "version": "1"}'), "svc-agent");
  assertEquals(binaryNameIn("{"), undefined);
  assertEquals(binaryNameIn(""), undefined);
});

/** The result of checking a file that prints `output` for `--version`. */
async function checked(
  {
    name = "svc-agent" as BinaryName,
    bytes = elf(0x3e),
    output = "svc-agent 1.0",
    code = 0,
    damaged = false,
    killed = undefined as string | undefined,
    refusal = undefined as SvcError | undefined,
  },
): Promise<string> {
  const path = await Deno.makeTempFile({ prefix: "svc-" });
  const files = new SystemFiles();
  const clock = new FakeClock();
  const processes = new FakeProcesses((process) => {
    assertEquals(process.command.args, ["--version"]);
    if (refusal) throw refusal;
    process.stdout.write(output);
    process.exit(code, killed);
  });
  try {
    await Deno.writeFile(path, bytes);
    const sha256 = damaged ? "00" : await computeSha256(files, path);
    const build = { key: "k", version: "1", file: "f", sha256, sizeBytes: bytes.length };
    const check = new ReleaseCheck({ name, platform: { os: "linux", arch: "x64" }, files, processes, clock });
    await check.check(path, build, new AbortController().signal);
    await settle();
    return "passes";
  } catch (error) {
    return `${SvcError.from(error).code}: ${messageOf(error).replaceAll(path, "FILE")}`;
  } finally {
    await Deno.remove(path);
  }
}

Deno.test("ReleaseCheck: accepts an intact program that runs and has the wanted name", async () => {
  assertEquals(await checked({}), "passes");
  assertEquals(await checked({ name: "svc-server", output: "my-own-runtime 7" }), "passes");
  assertMatch(
    await checked({ damaged: true }),
    /^data_loss: FILE: read back 64 bytes, wanted 64 bytes with sum 00/,
  );
  // What a Wi-Fi's sign-in gives is tried again.
  assertMatch(
    await checked({ bytes: new TextEncoder().encode("<!DOCTYPE html><title>Welcome</title>") }),
    /^data_loss: FILE: found a web page, wanted a program/,
  );
  assertMatch(
    await checked({ bytes: pe(0x8664) }),
    /^failed_precondition: FILE: found a program for Windows/,
  );
  assertMatch(
    await checked({ code: 127, output: "no such library" }),
    /fails with 127 and says: no such library/,
  );
  // Devices were lost to this one.
  assertMatch(
    await checked({ output: "svc-server 1.0" }),
    /it calls itself "svc-server", wanted "svc-agent"/,
  );
  assertMatch(await checked({ name: "svc-server" }), /it calls itself "svc-agent", wanted "svc-server"/);
});

Deno.test("ReleaseCheck: what the device forbids or lacks does not speak against a version", async () => {
  const refusals = {
    permission_denied: new SvcError("permission_denied", "Permission denied (os error 13)"),
    unavailable: new SvcError("unknown", "Text file busy (os error 26)"),
    failed_precondition: new SvcError("not_found", "No such file or directory: its interpreter"),
  };
  for (const [code, refusal] of Object.entries(refusals)) {
    assertMatch(await checked({ refusal }), new RegExp(`^${code}: FILE (may not|cannot) be run`));
  }
  assertMatch(await checked({ refusal: refusals.permission_denied }), /noexec, .* SELinux or AppArmor/);
  assertMatch(await checked({ code: 137, killed: "SIGKILL" }), /^unavailable: FILE --version was killed/);
  assertMatch(await checked({ code: 132, killed: "SIGILL" }), /^failed_precondition: .* fails with 132/);
});

Deno.test("what a server gives in place of a download for a while is recognized; programs and scripts are not", () => {
  const text = (words: string) => new TextEncoder().encode(words);
  for (
    const [head, wanted] of [
      [text(""), "an empty file"],
      [text('{"error": "not yet"}'), "JSON"],
      [text("\n[1, 2]"), "JSON"],
      [text("Service Unavailable"), "a text"],
      [text("<html>"), "a web page"],
      [Uint8Array.of(0x1f, 0x8b, 8, 0), "a gzip file"],
      [text("PK\x03\x04..."), "a zip file"],
      [text("#!/bin/sh\n"), undefined],
      [text("\x7fELF\x02\x01\x01\x00"), undefined],
      [text("MZ\x90\x00\x03"), undefined],
    ] as const
  ) assertEquals(answerInPlace(head), wanted);
});
