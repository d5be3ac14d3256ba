import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { settle } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import type { FileFacts } from "../../base/files/files.ts";
import type { ConfigDraft } from "./source.ts";
import { FileSource } from "./file_source.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";

const PATH = "m.json";

/** Counts reads and watchers. */
class WatchedHost extends FakeHost {
  reads = 0;
  watchers = 0;
  /** The system tells of changes. */
  tells = true;
  piped = false;

  override async stat(path: string, options?: { readonly links?: boolean }): Promise<FileFacts | undefined> {
    const found = await super.stat(path, options);
    return found && this.piped ? { ...found, kind: "other" } : found;
  }

  override readFile(path: string): Promise<Uint8Array<ArrayBuffer>> {
    this.reads++;
    return super.readFile(path);
  }

  override watchFile(path: string, changed: () => void): () => void {
    const stop = super.watchFile(path, () => this.tells && changed());
    this.watchers++;
    return () => {
      this.watchers--;
      stop();
    };
  }
}

/** A source over a file in memory, and everything that is heard of it. */
async function follow(content: string | undefined, { piped = false } = {}) {
  const clock = new FakeClock();
  const host = new WatchedHost({
    env: { SPEED: "fast" },
    files: content === undefined ? {} : { [PATH]: content },
  });
  host.piped = piped;
  const source = new FileSource({ path: PATH, host, clock });
  const first = await source.first();
  const heard: (ConfigDraft | SvcError)[] = [];
  const end = source.follow((news) => heard.push(news));
  await clock.advance(1_000);
  return {
    clock,
    host,
    first,
    end,
    /** Changes the file and says so. */
    write(content: string | undefined) {
      if (content === undefined) host.removeFile(PATH);
      else host.put(PATH, content);
    },
    took: () => heard.splice(0).map((news) => news instanceof SvcError ? news.message : news.json),
  };
}

Deno.test("reads the file at first, with variables; the revision identifies its content", async () => {
  const { first, end } = await follow('{"a": "${SPEED}"}');
  assertEquals(first.json, { a: "fast" });
  assert(/^[0-9a-f]{12}$/.test(first.revision));
  await end();
});

Deno.test("reports a change when the file is complete and has been still for a moment", async () => {
  const { clock, write, took, end } = await follow("{}");
  write('{"a": 1}');
  await clock.advance(39);
  assertEquals(took(), []);
  await clock.advance(1);
  assertEquals(took(), [{ a: 1 }]);
  // Half-written, then whole: nothing is heard of the half.
  write('{"a":');
  await clock.advance(400);
  write('{"a": 2}');
  await clock.advance(39);
  assertEquals(took(), []);
  await clock.advance(1);
  assertEquals(took(), [{ a: 2 }]);
  await end();
});

Deno.test("FileSource: reports a missing or incomplete file after half a second without a change", async () => {
  const { clock, write, took, end } = await follow("{}");
  for (const content of ["", '{"a": {}', undefined]) {
    write(content);
    await clock.advance(499);
    assertEquals(took(), []);
  }
  await clock.advance(1);
  assertEquals(took(), ['cannot read "m.json": it does not exist']);
  await end();
});

Deno.test("FileSource: reports each save of an editor once, without intermediate states", async () => {
  const { clock, write, took, end } = await follow('{"long": "text that was there before"}');
  const saves: (string | undefined)[][] = [
    // Emptied, then written in pieces.
    ["", '{"n', '{"n": 1', '{"n": 1}'],
    // Moved away as a backup, then created again.
    [undefined, "", '{"n": 2}'],
    // Overwritten in place, then truncated.
    ['{"n": 3}xt that was there before"}', '{"n": 3}'],
    // The same text, then with an end of line.
    ['{"n": 4}', '{"n": 4}\n'],
  ];
  for (const [index, save] of saves.entries()) {
    for (const content of save) {
      write(content);
      await clock.advance(20);
    }
    await clock.advance(1_000);
    assertEquals(took(), [{ n: index + 1 }]);
  }
  await end();
});

Deno.test("FileSource: reads a file that changes without a pause", async () => {
  const { clock, write, took, end } = await follow("{}");
  for (let n = 0; n < 80; n++) {
    write(`{"n": ${n}}`);
    await clock.advance(30);
  }
  assertEquals(took(), [{ n: 66 }]);
  await clock.advance(1_000);
  assertEquals(took(), [{ n: 79 }]);
  for (let n = 0; n < 8; n++) {
    write(`{"n": ${n}`);
    await clock.advance(300);
  }
  const [broken, ...more] = took();
  assertEquals(more, []);
  assertStringIncludes(String(broken), "m.json:1:");
  await end();
});

Deno.test("FileSource: does not report a rewrite with identical bytes", async () => {
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

Deno.test("FileSource: reports an error once, and the return of the earlier content as a change", async () => {
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

Deno.test("FileSource: finds a change by polling when the system sends no watch event", async () => {
  const { clock, host, write, took, end } = await follow("{}");
  host.tells = false;
  write('{"a": 1}');
  await clock.advance(6_000);
  assertEquals(took(), [{ a: 1 }]);
  await end();
});

Deno.test("a pipe is read at the start, and never again", async () => {
  const { clock, host, write, took, first, end } = await follow('{"a": 1}', { piped: true });
  assertEquals(first.json, { a: 1 });
  write("");
  await clock.advance(60_000);
  assertEquals([took(), host.reads, host.watchers], [[], 1, 0]);
  await end();
});

Deno.test("a pipe in the place of the file is told and not read, because that might never end", async () => {
  const { clock, host, write, took, end } = await follow('{"a": 1}');
  const { reads } = host;
  host.piped = true;
  write('{"a": 2}');
  await clock.advance(10_000);
  assertEquals([took(), host.reads], [["m.json: found a pipe or a device, wanted a file"], reads]);
  host.piped = false;
  write('{"a": 3}');
  await clock.advance(10_000);
  assertEquals(took(), [{ a: 3 }]);
  await end();
});

Deno.test("FileSource: holds a single watcher while it follows, and no watcher or timer afterwards", async () => {
  const { clock, host, write, end } = await follow("{}");
  for (let n = 0; n < 5; n++) {
    write(`{"n": ${n}}`);
    await clock.advance(1_000);
    assertEquals(host.watchers, 1);
  }
  write('{"late": true}');
  await end();
  assertEquals([host.watchers, clock.pending], [0, 0]);
  const { reads } = host;
  await settle();
  assertEquals(host.reads, reads);
});

Deno.test("FileSource: first rejects when the file is missing or cannot be parsed", async () => {
  await assertRejects(() => follow("nonsense"), SvcError, "m.json:1:1");
  await assertRejects(() => follow(undefined), SvcError, "it does not exist");
});
