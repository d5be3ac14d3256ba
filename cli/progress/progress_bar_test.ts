/** Bars of long work, on a terminal and without one. */

import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";
import { heardPieces, ItemsProgress } from "./items_progress.ts";
import { ProgressBar, withBar } from "./progress_bar.ts";

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

Deno.test("a bar of nothing is empty, and one of a single item is full at its end", () => {
  const { shown, time, place } = placeAt(true);
  const bar = new ProgressBar(place, { what: "parts" });
  bar.show(0, 0);
  time.ms += 1_000;
  bar.show(1, 1);
  assertEquals(shown, [
    "░░░░░░░░░░░░░░░░░░░░  0 of 0 parts",
    "████████████████████  1 of 1 parts",
  ]);
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

Deno.test("work that counts nothing shows each second that it goes on, without a terminal now and then", () => {
  for (const isLive of [true, false]) {
    const { shown, time, place } = placeAt(isLive);
    const bar = new ProgressBar(place, { what: "rows copied" });
    bar.phase("checking the copy");
    for (let second = 0; second < 13; second++) {
      time.ms += 1_000;
      bar.tick();
    }
    const lines = isLive ? [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13] : [2, 12];
    const first = isLive ? ["checking the copy …"] : [];
    assertEquals(shown, [...first, ...lines.map((second) => `checking the copy, ${second}s so far`)]);
    bar.show(1, 4);
    time.ms += 27_000;
    bar.tick();
    assertEquals(shown.at(-1)?.replace(/[█░]+ {2}/, ""), "1 of 4 rows copied");
  }
});

Deno.test("a bar ends with its work, also with work that fails", async () => {
  const clock = new FakeClock();
  const host = new FakeHost();
  const failing = withBar({ host, clock }, { what: "rows copied" }, async (bar) => {
    bar.phase("opening the target");
    await clock.advance(3_000);
    throw new Error("the power is gone");
  });
  await assertRejects(() => failing, Error, "the power is gone");
  assertEquals(host.errors, "opening the target, 2s so far\n");
  await clock.advance(60_000);
  assertEquals(host.errors, "opening the target, 2s so far\n");
});

Deno.test("a large item moves the bar, and counts once it is done", async () => {
  const shown: string[] = [];
  const time = { ms: 0 };
  const place = { host: { draw: (text: string) => void shown.push(text.slice(5)) }, note() {}, isLive: true };
  const bar = new ProgressBar({ ...place, clock: { monotonicMs: () => time.ms } }, {
    what: "contents copied",
  });
  const items = new ItemsProgress(bar, 3);
  async function* pieces() {
    for (let at = 0; at < 3; at++) {
      time.ms += 3_000;
      yield new Uint8Array(at === 0 ? 10 : 45);
    }
  }
  for (let at = 0; at < 3; at++) {
    await items.item(async (heard) => void await Array.fromAsync(heardPieces(pieces(), 100, heard)));
  }
  assertEquals(
    shown.map((line) => line.replace(/░* {2}/, " ")),
    [
      "█ 0 of 3 contents copied",
      "████ 0 of 3 contents copied, 33s left",
      "███████ 1 of 3 contents copied, 20s left",
      "███████ 1 of 3 contents copied, 23s left",
      "██████████ 1 of 3 contents copied, 15s left",
      "█████████████ 2 of 3 contents copied, 10s left",
      "██████████████ 2 of 3 contents copied, 10s left",
      "█████████████████ 2 of 3 contents copied, 5s left",
      "████████████████████ 3 of 3 contents copied",
    ],
  );
});
