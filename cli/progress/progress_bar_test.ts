/** Bars of long work, on a terminal and without one. */

import { assertEquals } from "@std/assert";
import { ProgressBar } from "./progress_bar.ts";

/** A place that remembers, with a time of its own. */
function placeAt(isLive: boolean, columns = 80) {
  const shown: string[] = [];
  const time = { ms: 1_000 };
  const note = (text: string) => void shown.push(text.replace("\r\x1b[2K", ""));
  const host = { draw: note };
  return { shown, time, place: { host, note, isLive, columns, clock: { monotonicMs: () => time.ms } } };
}

Deno.test("a bar on a terminal shows the share at once, and the remaining time once it is no guess", () => {
  const { shown, time, place } = placeAt(true);
  const bar = new ProgressBar(place, { what: "images added" });
  bar.show(0, 4);
  time.ms += 50;
  bar.show(1, 4);
  time.ms += 3_000;
  bar.show(2, 4);
  bar.end();
  assertEquals(shown, [
    "░░░░░░░░░░░░░░░░░░░░  0 of 4 images added",
    "█████░░░░░░░░░░░░░░░  1 of 4 images added",
    "██████████░░░░░░░░░░  2 of 4 images added, 4s left",
    "",
  ]);
});

Deno.test("what an earlier run has done counts for the share and not for the speed", () => {
  const { shown, time, place } = placeAt(true);
  const bar = new ProgressBar(place, { what: "of shapes.tar.gz", inBytes: true });
  bar.show(8_000_000, 10_000_000);
  time.ms += 10_000;
  bar.show(9_000_000, 10_000_000);
  assertEquals(shown.at(-1), "██████████████████░░  9.0 MB of 10.0 MB of shapes.tar.gz, 10s left");
});

Deno.test("without a terminal, quick work says nothing and long work a line now and then", () => {
  const { shown, time, place } = placeAt(false);
  const bar = new ProgressBar(place, { what: "contents copied" });
  for (let done = 0; done < 16; done++) {
    bar.show(done, 30);
    time.ms += 1_000;
  }
  bar.end();
  assertEquals(shown, [
    "2 of 30 contents copied, 28s left",
    "12 of 30 contents copied, 18s left",
  ]);
});

Deno.test("a bar fits its terminal, and one without a total shows the count", () => {
  const { shown, place } = placeAt(true, 20);
  new ProgressBar(place, { what: "readings written to a file" }).show(12);
  assertEquals(shown, ["12 readings written"]);
});

Deno.test("a name from elsewhere moves no cursor", () => {
  for (const isLive of [true, false]) {
    const { shown, time, place } = placeAt(isLive);
    const bar = new ProgressBar(place, { what: "of a\x1b[2J\n.tar.gz", inBytes: true });
    time.ms += 5_000;
    bar.show(1, 2);
    // deno-lint-ignore no-control-regex
    assertEquals(shown.join("").match(/[\x1b\n]/), null);
  }
});
