import { assertEquals, assertThrows } from "@std/assert";
import { storeTest } from "../../../tests/cloud/stores.ts";
import { until } from "../../../tests/support/until.ts";
import { SvcError } from "../../base/error.ts";
import { NOTICE_BYTES_MAX, PieceReader, piecesOf } from "./notices.ts";

storeTest("Notices: each listener hears every notice, whole and in order", async (database) => {
  const [one, other] = database.kind === "postgres"
    ? [await database.open(), await database.open()]
    : Array(2).fill(await database.open());
  const heard: string[] = [];
  const stop = await other.notices.hear("signaling", (text: string) => void heard.push(text));
  const long = "äöü €😀".repeat(5_000);
  const told = ["first", long, "", ...Array.from({ length: 20 }, (_, at) => `number ${at}`)];
  await Promise.all(told.map((text) => one.notices.tell("signaling", text)));
  await until(() => heard.length === told.length, { found: () => heard.length });
  assertEquals(heard, told);
  await stop();
  await one.notices.tell("signaling", "to nobody");
  assertEquals(heard.length, told.length);
});

Deno.test("PieceReader: lost, mixed or invalid pieces give no notice", () => {
  const pieces = piecesOf("x".repeat(20_000));
  assertEquals(pieces.length, 4);
  const reader = new PieceReader();
  for (const piece of ["", "a", "a 1/x b", pieces[0], pieces[2], pieces[3], pieces[1]]) {
    assertEquals(reader.add(piece), undefined);
  }
  const texts = pieces.map((piece) => reader.add(piece));
  assertEquals(texts.at(-1)?.length, 20_000);
  assertThrows(() => piecesOf("x".repeat(NOTICE_BYTES_MAX + 1)), SvcError, "wanted at most");
});
