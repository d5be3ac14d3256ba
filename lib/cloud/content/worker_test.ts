import { assertEquals } from "@std/assert";
import { ContentFrameReader, headBytes } from "../sandbox/content/frames.ts";
import { serveContent } from "./worker.ts";

/** How many answers a content process gives to these requests, whose bytes are no picture. */
async function answersTo(...asks: readonly string[]): Promise<number> {
  const requests = async function* () {
    for (const ask of asks) {
      yield headBytes({ ask, image: 3, bytes: 3 });
      yield Uint8Array.of(1, 2, 3);
    }
  };
  const written: Uint8Array[] = [];
  await serveContent(requests(), (bytes) => Promise.resolve(void written.push(bytes)));
  const reader = new ContentFrameReader(ReadableStream.from(written));
  let count = 0;
  for (let head; (head = await reader.next(1000)); count++) await reader.body.take(head.bytes);
  return count;
}

Deno.test("serveContent: answers one picture after the other, and ends after a model", async () => {
  assertEquals(await answersTo("picture", "picture", "picture"), 3);
  assertEquals(await answersTo("picture", "inference", "picture"), 2);
});
