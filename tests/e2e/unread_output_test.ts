/** Standard output that nobody reads: a terminal after Ctrl-S, a pager, a journal that stalls. */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { until } from "../support/until.ts";

const WRITER = new URL("log_writer.ts", import.meta.url).pathname;
const LINES = 3_000;

Deno.test({
  name: "log lines that nobody reads block a program for half a second only, and are counted later",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-" });
    const args = ["run", "-A", WRITER, String(LINES), `${folder}/done`, `${folder}/go`];
    const child = new Deno.Command(Deno.execPath(), { args, stdout: "piped", stderr: "inherit" }).spawn();
    try {
      // Nobody reads, and yet it comes to its end: the pipe has room for a part of the lines only.
      await until(() => Deno.stat(`${folder}/done`).then(() => true, () => false));
      const pieces = child.stdout.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]();
      let output = (await pieces.next()).value ?? "";
      await Deno.writeTextFile(`${folder}/go`, "");
      for (let piece = await pieces.next(); !piece.done; piece = await pieces.next()) output += piece.value;
      assertEquals((await child.status).code, 0);
      const whole = output.match(/line \d+ x+$/gm)!.length;
      const lost = Number(/… (\d+) lines are lost here/.exec(output)?.[1]);
      assertEquals(whole + lost, LINES + 1);
      assert(lost > 0);
      assertStringIncludes(output, `line ${LINES} `, "what comes after the stall is written");
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test({
  name: "every log line arrives at a reader that is slow but reads, also long ones",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const args = ["run", "-A", WRITER, "200", "-", "-", "20000"];
    const child = new Deno.Command(Deno.execPath(), { args, stdout: "piped", stderr: "inherit" }).spawn();
    const output = await new Response(child.stdout).text();
    assertEquals((await child.status).code, 0);
    assertEquals(output.match(/line \d+ x{20000}$/gm)?.length, 201);
    assertEquals(output.includes("are lost"), false);
  },
});
