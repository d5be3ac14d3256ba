/** Lines of progress, and how they look. */

import { assertEquals } from "@std/assert";
import { parseProgress, progressLine, sparkline, trainingLeftMs } from "./progress.ts";

Deno.test("parseProgress() reads only lines of training progress", () => {
  for (
    const [line, figures] of [
      ["epoch 12/60 loss 0.41 validation 0.44 mAP 0.71", [["loss", 0.41], ["validation", 0.44], [
        "mAP",
        0.71,
      ]]],
      ["epoch 1/1 loss 1e-7 mAP@0.5 .5 change -2", [["loss", 1e-7], ["mAP@0.5", 0.5], ["change", -2]]],
      ["epoch 2/9 loss 1 AP@0.5 red ball 0.9 AP@0.5 box 1", [["loss", 1], ["AP@0.5 red ball", 0.9], [
        "AP@0.5 box",
        1,
      ]]],
      ["  epoch 3/4  ", []],
      ["epoch 3", undefined],
      ["epoch 3/4 loss", undefined],
      ["epoch 3/4 loss NaN", undefined],
      ["after epoch 3/4 loss 1", undefined],
      ["", undefined],
    ] as const
  ) assertEquals(parseProgress(line)?.figures, figures as never, line);
  assertEquals(parseProgress("epoch 12/60 loss 1")?.epoch, 12);
});

Deno.test("sparkline() draws the lowest value as the lowest bar and the highest as the tallest", () => {
  assertEquals(sparkline([]), "");
  assertEquals(sparkline([5, 5, 5]), "▁▁▁");
  assertEquals(sparkline([8, 7, 6, 5, 4, 3, 2, 1]), "█▇▆▅▄▃▂▁");
  assertEquals(sparkline([1, NaN, 2, Infinity]), "▁█");
  // Each bar is the mean of two.
  assertEquals(sparkline([9, 7, 1, 1], 2), "█▁");
  assertEquals(sparkline(Array.from({ length: 1000 }, (_, at) => -at)).length, 24);
});

Deno.test("progressLine() shows the remaining time, and a full bar after an early stop", () => {
  const progress = parseProgress("epoch 3/12 loss 0.1")!;
  const form = { coloured: false, columns: 80 };
  const leftMs = trainingLeftMs({ epoch: 1, atMs: 5_000 }, { epoch: 3, atMs: 9_000 }, 12);
  assertEquals(
    progressLine(progress, [], { ...form, leftMs }),
    "█████░░░░░░░░░░░░░░░  epoch 3/12  18s left  loss 0.1",
  );
  assertEquals(
    progressLine(progress, [], { ...form, isOver: true }),
    "████████████████████  epoch 3/12  loss 0.1",
  );
  const unknown = [
    trainingLeftMs({ epoch: 3, atMs: 5 }, { epoch: 3, atMs: 5 }, 12),
    trainingLeftMs({ epoch: 1, atMs: 5 }, { epoch: 3, atMs: 5 }, 12),
    trainingLeftMs({ epoch: 1, atMs: 0 }, { epoch: 12, atMs: 5 }, 12),
  ];
  assertEquals(unknown, [undefined, undefined, undefined]);
});

Deno.test("progressLine() fits into its columns, with and without colours", () => {
  const progress = parseProgress("epoch 5/10 loss 0.123456 mAP 1")!;
  const plain = { coloured: false, columns: 80 };
  assertEquals(
    progressLine(progress, [0.5, 0.1], plain),
    "██████████░░░░░░░░░░  epoch 5/10  loss 0.123 █▁  mAP 1",
  );
  const coloured = progressLine(progress, [], { coloured: true, columns: 80 });
  // deno-lint-ignore no-control-regex
  assertEquals(coloured.replace(/\x1b\[\d+m/g, ""), "██████████░░░░░░░░░░  epoch 5/10  loss 0.123  mAP 1");
  assertEquals(coloured.includes("\x1b[32m"), true);
  assertEquals(progressLine({ epoch: 0, epochs: 0, figures: [] }, [], plain).includes("epoch 0/0"), true);
  const many = parseProgress(
    "epoch 5/10 loss 0.1 validation 0.2 mAP 0.3 AP one 0.4 AP two 0.5 AP three 0.6",
  )!;
  const losses = Array.from({ length: 100 }, (_, at) => 1 / at);
  for (let columns = 20; columns < 140; columns++) {
    const line = progressLine(many, losses, { coloured: false, columns });
    assertEquals(line.length <= columns, true, line);
  }
});
