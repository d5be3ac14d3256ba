import { assertEquals, assertThrows } from "@std/assert";
import { storeTest } from "../../../tests/cloud/stores.ts";
import { until } from "../../../tests/support/until.ts";
import { SvcError } from "../../base/error.ts";
import { NOTICE_BYTES_MAX } from "./notices.ts";
import { NoticeOpener, NoticeSealer } from "./postgres/sealed_notices.ts";

const KEYS = { valid: () => Promise.resolve(["a secret"]), warn: () => {} };

storeTest("Notices: each listener hears every notice, whole and in order", async (database) => {
  const [one, other] = database.kind === "postgres"
    ? [await database.open(), await database.open()]
    : Array(2).fill(await database.open());
  for (const store of [one, other]) store.notices.useKeys(KEYS);
  const heard: string[] = [];
  const stop = await other.notices.hear("signaling", (text: string) => void heard.push(text));
  const long = "äöü €😀".repeat(5_000);
  const logged = ["first", long, "", ...Array.from({ length: 20 }, (_, at) => `number ${at}`)];
  await Promise.all(logged.map((text) => one.notices.tell("signaling", text)));
  await until(() => heard.length === logged.length, { found: () => heard.length });
  assertEquals(heard, logged);
  await stop();
  await one.notices.tell("signaling", "to nobody");
  assertEquals(heard.length, logged.length);
});

Deno.test("notices are heard once, in time, and only from who has a key", () => {
  let nowMs = 1_000_000_000;
  const clock = { nowMs: () => nowMs };
  const sealer = new NoticeSealer(clock);
  const opener = new NoticeOpener("changes", clock);
  const open = (piece: string, secrets = ["new", "old"]) => opener.open(piece, secrets);
  const outcomes = (pieces: readonly string[]) => pieces.map((piece) => open(piece));

  const [short] = sealer.seal("changes", "part 1", "old");
  assertEquals(short.includes("part 1"), false);
  const [sender, number, atMs, place, sealed] = short.split(" ");
  const forged = [
    "",
    "part 1",
    `${sender} ${number} ${atMs} ${place} `,
    `${sender} ${number} ${atMs} ${place} ${sealed.slice(0, -4)}AAAA`,
    `${sender} ${Number(number) + 1} ${atMs} ${place} ${sealed}`,
    `${sender} ${number} ${Number(atMs) + 1} ${place} ${sealed}`,
    `${sender} ${number} ${atMs} 1/2 ${sealed}`,
    `${crypto.randomUUID()} ${number} ${atMs} ${place} ${sealed}`,
    ...new NoticeSealer(clock).seal("changes", "part 1", "a stranger's"),
    // For listeners of another topic.
    ...new NoticeSealer(clock).seal("signaling", "part 1", "new"),
  ];
  for (const piece of forged) assertEquals(open(piece), { refused: "unsealed" }, piece);
  assertEquals(open(short, []), { refused: "unsealed" });
  assertEquals(open(short), { text: "part 1" });
  assertEquals(open(short), { refused: "repeated" });

  const long = "äöü €😀".repeat(2_000);
  const pieces = sealer.seal("changes", long, "new");
  assertEquals(pieces.length, 6);
  assertEquals(pieces.every((piece) => piece.length < 8_000), true);
  assertEquals(outcomes(pieces), [...Array(5).fill({ more: true }), { text: long }]);
  // A lost piece takes its notice with it, and a late one is refused.
  const [first, lost, ...others] = sealer.seal("changes", long, "new");
  assertEquals(outcomes([first, ...others]), Array(5).fill({ more: true }));
  assertEquals(open(lost), { refused: "repeated" });
  assertEquals(outcomes(sealer.seal("changes", "", "new")), [{ text: "" }]);

  const held = sealer.seal("changes", "held back", "new");
  nowMs += 5 * 60_000 + 1;
  assertEquals(outcomes(held), [{ refused: "clock" }]);
  // Long after its sender was forgotten, and for a listener that has just come.
  nowMs += 60 * 60_000;
  assertEquals(outcomes(sealer.seal("changes", "later", "new")), [{ text: "later" }]);
  assertEquals(open(short), { refused: "clock" });
  assertEquals(new NoticeOpener("changes", clock).open(short, ["old"]), { refused: "clock" });
  assertThrows(
    () => sealer.seal("changes", "x".repeat(NOTICE_BYTES_MAX + 1), "new"),
    SvcError,
    "wanted at most",
  );
});
