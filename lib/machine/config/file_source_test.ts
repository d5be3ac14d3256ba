import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { settle } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import type { Draft } from "./config_source.ts";
import { FileSource } from "./file_source.ts";

/** A source over a file in memory, and everything that is heard of it. */
async function follow(content: string) {
  const clock = new FakeClock();
  const file: { content?: string; watchers: Set<() => void>; reads: number } = {
    content,
    watchers: new Set(),
    reads: 0,
  };
  const host = {
    env: (name: string) => name === "SPEED" ? "fast" : undefined,
    fileSize: () => Promise.resolve(file.content?.length),
    readFile: (path: string) => {
      file.reads++;
      if (file.content !== undefined) return Promise.resolve(new TextEncoder().encode(file.content));
      return Promise.reject(new SvcError("not_found", `cannot read "${path}": it does not exist`));
    },
    watchFile: (_path: string, changed: () => void) => {
      file.watchers.add(changed);
      return () => void file.watchers.delete(changed);
    },
  };
  const source = new FileSource({ path: "m.json", host, clock });
  const first = await source.first();
  const heard: (Draft | SvcError)[] = [];
  const end = source.follow((news) => heard.push(news));
  await clock.advance(1_000);
  return {
    clock,
    file,
    first,
    end,
    /** Changes the file and says so. */
    write(content: string | undefined) {
      file.content = content;
      for (const changed of file.watchers) changed();
    },
    took: () => heard.splice(0).map((news) => news instanceof SvcError ? news.message : news.json),
  };
}

Deno.test("a file is read first, with variables; its revision tells its content", async () => {
  const { first, end } = await follow('{"a": "${SPEED}"}');
  assertEquals(first.json, { a: "fast" });
  assert(/^[0-9a-f]{12}$/.test(first.revision));
  await end();
});

Deno.test("a change is heard of once the file has been quiet for half a second", async () => {
  const { clock, write, took, end } = await follow("{}");
  write('{"a":');
  await clock.advance(400);
  write('{"a": 1}');
  await clock.advance(499);
  assertEquals(took(), []);
  await clock.advance(1);
  assertEquals(took(), [{ a: 1 }]);
  await end();
});

Deno.test("a file that is never quiet is read all the same", async () => {
  const { clock, write, took, end } = await follow("{}");
  for (let n = 0; n < 8; n++) {
    write(`{"n": ${n}}`);
    await clock.advance(300);
  }
  assertEquals(took(), [{ n: 6 }]);
  await end();
});

Deno.test("identical bytes are no news", async () => {
  const { clock, write, took, end } = await follow('{"a": 1}');
  write('{"a": 1}');
  await clock.advance(60_000);
  assertEquals(took(), []);
  write(undefined);
  await clock.advance(100);
  write('{"a": 1}');
  await clock.advance(60_000);
  assertEquals(took(), []);
  await end();
});

Deno.test("what is wrong is told once, and the way back is news", async () => {
  const { clock, write, took, end } = await follow('{"a": 1}');
  write('{"a": ');
  await clock.advance(60_000);
  write('{"a": ');
  await clock.advance(60_000);
  const [broken, ...more] = took();
  assertStringIncludes(String(broken), "m.json:1:7: ");
  assertEquals(more, []);
  write(undefined);
  await clock.advance(60_000);
  assertEquals(took(), ['cannot read "m.json": it does not exist']);
  write('{"a": 1}');
  await clock.advance(60_000);
  assertEquals(took(), [{ a: 1 }]);
  await end();
});

Deno.test("a change that the system does not tell of is found by looking", async () => {
  const { clock, file, took, end } = await follow("{}");
  file.content = '{"a": 1}';
  await clock.advance(6_000);
  assertEquals(took(), [{ a: 1 }]);
  await end();
});

Deno.test("one watch at a time, none after the end, and no timer", async () => {
  const { clock, file, write, end } = await follow("{}");
  for (let n = 0; n < 5; n++) {
    write(`{"n": ${n}}`);
    await clock.advance(1_000);
    assertEquals(file.watchers.size, 1);
  }
  write('{"late": true}');
  await end();
  assertEquals([file.watchers.size, clock.pending], [0, 0]);
  const { reads } = file;
  await settle();
  assertEquals(file.reads, reads);
});

Deno.test("a file that cannot be read or parsed at the start is an error", async () => {
  await assertRejects(() => follow("nonsense"), SvcError, "m.json:1:1");
  await assertRejects(() => follow(undefined as unknown as string), SvcError, "it does not exist");
});
