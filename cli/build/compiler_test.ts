/** The build's own parts: names on its command line, and how checks are counted. */

import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { main } from "./compile.ts";
import { choose, EXECUTABLES, foreignPaths, TARGETS } from "./compiler.ts";
import { CLOUD_V8_FLAGS, V8_FLAGS } from "../v8_flags.ts";
import { Report } from "./report.ts";
import { makeOnce } from "./page.ts";

/** A terminal that records its output. */
function recorder() {
  const found = { output: "", errors: "" };
  const terminal = {
    env: () => undefined,
    write: (text: string) => void (found.output += text),
    writeError: (text: string) => void (found.errors += text),
  };
  return { found, terminal };
}

Deno.test("choose() returns all rows, those named, or an error with the likely name", () => {
  assertEquals(choose("target", TARGETS, []), [...TARGETS]);
  const chosen = choose("program", EXECUTABLES, ["svc-ml", "svc-server"]);
  assertEquals(chosen.map((row) => row.name), ["svc-server", "svc-ml"]);
  assertThrows(() => choose("target", TARGETS, ["linux-x46"]), Error, "did you mean linux-x64?");
});

Deno.test("foreignPaths() lists the native code of all systems except the target", () => {
  const imports = { "onnxruntime-node": "npm:onnxruntime-node@1.30.0" };
  const [linux, , windows] = TARGETS;
  const paths = foreignPaths(imports, linux);
  const onnx = "onnxruntime-node/1.30.0/bin/napi-v6";
  assertEquals(
    ["linux/x64", "linux/arm64", "win32/x64", "win32/arm64", "darwin"].filter((one) =>
      !paths.includes(`${onnx}/${one}`)
    ),
    ["linux/x64"],
  );
  assertEquals(foreignPaths(imports, windows).includes(`${onnx}/win32/x64/DirectML.dll`), true);
  // Executables have the library itself packed.
  assertEquals(paths.includes(`${onnx}/linux/x64/libonnxruntime.so.1`), true);
  assertEquals(paths.includes(`${onnx}/linux/x64/onnxruntime_binding.node`), false);
  assertEquals(foreignPaths({}, linux), []);
});

Deno.test("svc-server, svc-micro-server and the demo start with V8_FLAGS", async () => {
  const lean = EXECUTABLES.filter(({ runtime }) => runtime?.includes(V8_FLAGS)).map(({ name }) => name);
  assertEquals(lean, ["svc-server", "svc-micro-server"]);
  const { tasks } = JSON.parse(await Deno.readTextFile(new URL("../../deno.json", import.meta.url)));
  assertStringIncludes(tasks.demo, V8_FLAGS);
});

Deno.test("svc-cloud starts with CLOUD_V8_FLAGS", () => {
  const patient = EXECUTABLES.filter(({ runtime }) => runtime?.includes(CLOUD_V8_FLAGS)).map(({ name }) =>
    name
  );
  assertEquals(patient, ["svc-cloud"]);
});

Deno.test("V8_FLAGS keep the space of new objects at 6 MiB", async () => {
  // V8 counts it into the limit of the heap: the pages that it holds at one time depend on the collector's threads.
  const limit = `
    const { getHeapStatistics } = await import("node:v8");
    console.log(getHeapStatistics().heap_size_limit / 1024 ** 2);`;
  const options = [V8_FLAGS, `${V8_FLAGS},--max-semi-space-size=8`];
  const limits = await Promise.all(options.map(async (flags) => {
    const args = ["eval", `${flags},--max-old-space-size=100`, limit];
    const { stdout } = await new Deno.Command(Deno.execPath(), { args }).output();
    return Number(new TextDecoder().decode(stdout));
  }));
  assertEquals(limits, [106, 124]);
});

Deno.test("V8_FLAGS end the matching of a log pattern that backtracks without end", async () => {
  const log = new URL("../../lib/base/log/log.ts", import.meta.url);
  const search = `
    const { logPattern } = await import("${log}");
    const name = "rdk.resource_manager.rdk:component:motor/left_wheel_motor_front_of_the_rover";
    const patterns = ["rdk\\\\.(\\\\w+[.:/]?)+-x", "(.+)+x", "((r|rd|k|.)*)*-"];
    console.log(patterns.filter((one) => logPattern(one).test(name)).length);`;
  const child = new Deno.Command(Deno.execPath(), { args: ["eval", V8_FLAGS, search], stdout: "piped" })
    .spawn();
  // It would hear no other signal.
  const endless = setTimeout(() => child.kill("SIGKILL"), 30_000);
  const { success, stdout } = await child.output();
  clearTimeout(endless);
  assertEquals([success, new TextDecoder().decode(stdout)], [true, "0\n"]);
});

Deno.test("compile refuses an unknown target, program or option, on one line", async () => {
  const refused: [args: string[], error: string][] = [
    [["--target", "plan9"], "Unknown target plan9, wanted one of linux-x64, linux-arm64, windows-x64"],
    [
      ["svc-server", "svc-mll"],
      "Unknown program svc-mll, wanted one of svc-server, svc-micro-server, svc-agent, svc-ml, svc-cloud; " +
      "did you mean svc-ml?",
    ],
    [["--program", "svc-ml"], "Unknown flag --program; see --help"],
  ];
  for (const [args, error] of refused) {
    const { found, terminal } = recorder();
    assertEquals(await main(args, terminal), 2);
    assertEquals(found, { output: "", errors: `deno task compile: ${error}\n` });
  }
});

Deno.test("Report prints a line for each check and counts passed and failed checks", async () => {
  const { found, terminal } = recorder();
  const report = new Report(terminal);
  await report.check("one", () => Promise.resolve());
  await report.check("two", () => Promise.resolve("2 of them"));
  await report.check("three", () => Promise.reject(new Error("found 2,\nwanted 3")));
  report.include("note: ok\nok four\nFAILED five: no\n1 passed, 1 failed\n");
  assertEquals(report.finish(), 1);
  assertEquals(
    found.output,
    "ok one\nok two: 2 of them\nFAILED three: found 2,\n  wanted 3\n3 passed, 2 failed\n",
  );
  assertEquals(new Report(terminal).finish(), 1, "nothing checked is no success");
});

Deno.test("makeOnce() takes what an earlier build kept, and makes it anew if it is damaged", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-made-" });
  try {
    let made = 0;
    const make = (text: string) => () => {
      made++;
      return new TextEncoder().encode(text);
    };
    const text = async (name: string, says: string) =>
      new TextDecoder().decode(await makeOnce(name, make(says), folder));
    assertEquals(await text("one", "first"), "first");
    assertEquals([await text("one", "other"), made], ["first", 1]);
    assertEquals([await text("two", ""), await text("two", "more"), made], ["", "", 2]);

    const kept = await Deno.readFile(`${folder}/one`);
    const changed = kept.with(-1, 0);
    for (const damaged of [changed, kept.slice(0, -1), kept.slice(0, 20), new Uint8Array()]) {
      await Deno.writeFile(`${folder}/one`, damaged);
      assertEquals(await text("one", "first"), "first");
    }
    assertEquals([await Deno.readFile(`${folder}/one`), made], [kept, 6]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("makeOnce() keeps the newest", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-made-" });
  try {
    for (let number = 0; number < 45; number++) {
      await makeOnce(`${number}`, () => new Uint8Array(), folder);
      await Deno.utime(`${folder}/${number}`, number + 1, number + 1);
    }
    const names = Array.from(Deno.readDirSync(folder), ({ name }) => Number(name)).sort((a, b) => a - b);
    assertEquals([names.length, names[0]], [40, 5]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
