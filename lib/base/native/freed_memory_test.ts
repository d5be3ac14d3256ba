import { assertGreater, assertLess } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { giveBackFreed } from "./freed_memory.ts";
import { C_LIBRARY } from "./reader_worker.ts";

const FUNCTIONS = {
  malloc: { parameters: ["usize"], result: "pointer" },
  memset: { parameters: ["pointer", "i32", "usize"], result: "pointer" },
  free: { parameters: ["pointer"], result: "void" },
} as const satisfies Deno.ForeignLibraryInterface;

const PIECES = 1000, PIECE_BYTES = 64 * 1024;

Deno.test({
  name: "giveBackFreed: returns freed memory to the system within a second",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const clock = new FakeClock();
    const library = Deno.dlopen(C_LIBRARY, FUNCTIONS);
    const { malloc, memset, free } = library.symbols;
    const pieces = Array.from({ length: PIECES }, () => malloc(BigInt(PIECE_BYTES)));
    for (const piece of pieces) memset(piece, 1, BigInt(PIECE_BYTES));
    // A piece in use at the end keeps the library from giving the rest back by itself.
    const last = pieces.pop()!;
    for (const piece of pieces) free(piece);
    const kept = Deno.memoryUsage().rss;
    {
      await using _giving = giveBackFreed(clock);
      await clock.advance(1000);
    }
    const left = Deno.memoryUsage().rss;
    free(last);
    library.close();
    assertGreater(kept, PIECES * PIECE_BYTES);
    assertLess(left, kept - PIECES * PIECE_BYTES / 2);
  },
});
