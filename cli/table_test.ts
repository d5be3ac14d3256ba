import { assertEquals } from "@std/assert";
import { type Column, fittedTable, hintLines, isoTimes, lacksNames, timeText, withNames } from "./table.ts";

Deno.test("a time that no calendar has is shown as none", () => {
  const shown = [1_700_000_000n, 8_640_000_000_001n, 2n ** 63n - 1n, -(2n ** 63n)]
    .map((seconds) => timeText({ seconds, nanos: 0 }));
  assertEquals([...shown, timeText(undefined)], ["2023-11-14 22:13:20", "-", "-", "-", "-"]);
});

const COLUMNS: readonly Column[] = [
  { heading: "NAME", cutTo: 8 },
  { heading: "ID", cutTo: 8, rank: 1 },
  { heading: "STATE", isState: true },
  { heading: "PLATFORM", rank: 2 },
];
const ROWS = [
  ["the rover of the north field", "11111111-2222-3333-4444-555555555555", "online", "linux/arm64"],
  ["r2", "22222222-2222-3333-4444-555555555555", "offline", "linux/amd64"],
];

Deno.test("fittedTable: cuts, then leaves out columns, so that rows fit the terminal", () => {
  for (const columns of [140, 80, 60, 40, 24]) {
    const lines = fittedTable(COLUMNS, ROWS, { columns });
    assertEquals(lines.filter((line) => line.length > columns), [], String(columns));
    assertEquals(lines.length, 3);
  }
  assertEquals(fittedTable(COLUMNS, ROWS, {})[2].includes(ROWS[1][1]), true, "whole without a terminal");
  assertEquals(fittedTable(COLUMNS, ROWS, { columns: 80 }), [
    "NAME                          ID                            STATE    PLATFORM",
    "the rover of the north field  11111111-2222-3333-4444-555…  online   linux/arm64",
    "r2                            22222222-2222-3333-4444-555…  offline  linux/amd64",
  ]);
  assertEquals(fittedTable(COLUMNS, ROWS, { columns: 24 }), [
    "NAME             STATE",
    "the rover of t…  online",
    "r2               offline",
  ]);
});

Deno.test("fittedTable: names stay whole while other columns can be left out, those without values first", () => {
  const columns: readonly Column[] = [
    { heading: "MACHINE", cutTo: 8 },
    { heading: "VERSION", rank: 1 },
    { heading: "REFUSED", rank: 2 },
    { heading: "UPTIME", rank: 3 },
  ];
  const rows = [["rover-of-the-north-field", "1.2.3", "-", "3h"], ["r2", "1.2.3", "-", "4h"]];
  assertEquals(fittedTable(columns, rows, { columns: 45 })[1], "rover-of-the-north-field  1.2.3    3h");
  assertEquals(fittedTable(columns, rows, { columns: 40 })[1], "rover-of-the-north-field  1.2.3");
  // Where leaving out the others would not do, they stay, and the name is cut.
  assertEquals(fittedTable(columns, rows, { columns: 20 })[1], "rover-of-t…  1.2.3");
});

Deno.test("hintLines: remarks fit the terminal, and a command in them stays in one line", () => {
  const hint = "there is no training job yet: svc-ml submit --model-type TYPE begins one";
  assertEquals(hintLines(hint, 80), [hint]);
  assertEquals(hintLines(hint, 60), [
    "there is no training job yet:",
    "  svc-ml submit --model-type TYPE begins one",
  ]);
  assertEquals(hintLines("no entry: svc-cloud org create NAME makes one, and more words follow", 40), [
    "no entry: svc-cloud org create NAME",
    "  makes one, and more words follow",
  ]);
  assertEquals(hintLines("train with: svc-ml submit --model-type object-detection --dataset 44236ca4", 40), [
    "train with:",
    "  svc-ml submit --model-type object-detection --dataset 44236ca4",
  ]);
  assertEquals(hintLines("what has lines\nof its own stays as it is, however wide", 20).length, 1);
});

Deno.test("fittedTable: states have colours, and text from elsewhere moves no cursor", () => {
  const lines = fittedTable(COLUMNS, [["a\x1b[2J", "1", "offline", "x"]], { coloured: true });
  assertEquals(lines[1], "a\\u001b[2J  1   \x1b[31moffline\x1b[0m  x");
  assertEquals(fittedTable(COLUMNS, ROWS, {}).join("").includes("\x1b"), false);
});

Deno.test("fittedTable: names that differ at their ends stay different, and wide letters keep columns straight", () => {
  const rows = ["1", "2", "10"].map((at) => [`warehouse-forklift-${at}`, `${at}-id`, "online", "any"]);
  assertEquals(
    fittedTable(COLUMNS, rows, { columns: 24 }).slice(1),
    [
      "ware…ft-1  1-id   online",
      "ware…ft-2  2-id   online",
      "ware…t-10  10-id  online",
    ],
  );
  const wide = [["倉庫ロボット一号機", "1", "online", "x"], ["r2", "2", "offline", "x"]];
  assertEquals(fittedTable(COLUMNS, wide, { columns: 24 }).slice(1), [
    "倉庫ロボッ…  1   online",
    "r2           2   offline",
  ]);
});

Deno.test("isoTimes: instants become ISO times, lengths of time stay numbers", () => {
  const at = Date.UTC(2024, 0, 2);
  const iso = "2024-01-02T00:00:00.000Z";
  assertEquals(
    isoTimes({ usedMs: at, timeMs: at, doneMs: at, uptimeMs: 5_000, seenMs: null, list: [{ atMs: at }] }),
    {
      ...{ used: iso, time: iso, done: iso, uptimeMs: 5_000, seen: null },
      list: [{ at: iso }],
    },
  );
});

Deno.test("withNames: each id of something known gets a name beside it, but not the user's own words", () => {
  const names = new Map([["p1", "rover"], ["o1", "farm"]]);
  assertEquals(withNames({ partId: "p1", list: [{ organizationId: "o1", robotId: "r1" }] }, names), {
    partId: "p1",
    partName: "rover",
    list: [{ organizationId: "o1", organizationName: "farm", robotId: "r1" }],
  });
  const unchanged = [
    { partId: "p1", partName: "its own" },
    { partId: "p1", part: { name: "rover" } },
    { partId: 1, id: "p1" },
    { config: { partId: "p1" } },
    null,
    "p1",
  ];
  assertEquals(withNames(unchanged, names), unchanged);
});

Deno.test("lacksNames: whether any id could get one", () => {
  assertEquals(lacksNames([{ list: [{ partId: "p1" }] }]), true);
  assertEquals(lacksNames({ name: "rover", partId: "p1" }), true);
  for (
    const whole of [{ partId: "p1", partName: "rover" }, { partId: null }, { metadata: { partId: "p1" } }, 1]
  ) {
    assertEquals(lacksNames(whole), false, JSON.stringify(whole));
  }
});
