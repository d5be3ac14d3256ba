import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { createHash } from "node:crypto";
import { assertRefused } from "../../../tests/support/refusals.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../error.ts";
import { FileError } from "../files/files.ts";
import { SystemFiles } from "../files/system_files.ts";
import { AttemptProgress, type DownloadErrors, HttpDownload, type WantedFile } from "./http_download.ts";

const BYTES = Uint8Array.from({ length: 200_000 }, (_, at) => (at * 13) % 253);
const SUM = createHash("sha256").update(BYTES).digest("hex");
const ADDRESS = "http://server/file";
const never = new AbortController().signal;

const ERRORS: DownloadErrors = {
  refused: ({ status, line, retryMs, file }) =>
    new SvcError("unavailable", `${file?.name ?? "JSON"}: ${status} ${line}`, { retryMs }),
  tooLong: (found, most) => new SvcError("data_loss", `${found} of ${most} bytes`),
  wrongContent: ({ sha256 }) => new SvcError("data_loss", `sum ${sha256}`),
  badJson: (_, most) => new SvcError("data_loss", most === undefined ? "no JSON" : `above ${most}`),
};

interface Bench {
  readonly folder: string;
  readonly files: SystemFiles;
  readonly wanted: WantedFile;
  /** The ranges of the requests; "" for the whole file. */
  readonly asked: string[];
  /** Fetches, and returns the content or the error. */
  readonly fetch: (more?: Partial<WantedFile>) => Promise<unknown>;
  readonly download: HttpDownload;
  answer: (request: Request) => Response | Promise<Response>;
}

async function withBench(test: (bench: Bench) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-" });
  const asked: string[] = [];
  const files = new SystemFiles();
  const download = new HttpDownload({
    files,
    clock: new FakeClock(),
    stallMs: 1000,
    errors: ERRORS,
    fetch: async (url, init) => {
      const request = new Request(url, init);
      asked.push(request.headers.get("range") ?? "");
      return await bench.answer(request);
    },
  });
  const wanted: WantedFile = { name: "one", part: `${folder}/one.part`, source: "one", sha256: SUM };
  const bench: Bench = {
    folder,
    files,
    wanted,
    asked,
    download,
    fetch: (more) => download.fetch(ADDRESS, { ...wanted, ...more }, () => {}, never),
    answer: (request) => answerFrom(request),
  };
  try {
    await test(bench);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** The whole file or the range that is asked for; `shift` moves where the range begins. */
function answerFrom(request: Request, fields: Record<string, string> = { etag: '"a"' }, shift = 0): Response {
  const asked = /bytes=(\d+)-/.exec(request.headers.get("range") ?? "")?.[1];
  if (asked === undefined) return new Response(BYTES, { headers: fields });
  const from = Number(asked) + shift;
  if (from >= BYTES.length) return new Response(null, { status: 416 });
  const range = { "content-range": `bytes ${from}-${BYTES.length - 1}/${BYTES.length}` };
  return new Response(BYTES.slice(from), { status: 206, headers: { ...fields, ...range } });
}

/** Half of the file, and then the connection breaks. */
function broken(): Response {
  let sent = 0;
  const body = new ReadableStream<Uint8Array>({
    pull: (stream) =>
      sent++ === 0 ? stream.enqueue(BYTES.slice(0, 100_000)) : stream.error(new TypeError("reset")),
  });
  return new Response(body, { headers: { etag: '"a"', "content-length": String(BYTES.length) } });
}

/** Leads from each address to the next; the last one has the file. */
function chain(...[first, ...others]: readonly string[]): (request: Request) => Response {
  const next = new Map<string, string>();
  let at = first!;
  for (const to of others) {
    next.set(at, to);
    at = new URL(to, at).href;
  }
  return (request) => {
    const location = next.get(request.url);
    return location === undefined
      ? answerFrom(request)
      : new Response("moved", { status: 302, headers: { location } });
  };
}

Deno.test("HttpDownload: a server leads to no file of this computer, and to no address of another kind", () =>
  withBench(async (bench) => {
    const { download, wanted, files } = bench;
    for (const to of ["file:///etc/shadow", "data:text/plain,x", "blob:null/1", "ftp://a/one"]) {
      for (const one of [wanted, { ...wanted, sha256: undefined }]) {
        bench.answer = chain("http://a/one", "http://a/two", to);
        const error = await assertRejects(
          () => download.fetch("http://a/one", one, () => {}, never),
          SvcError,
          "leads to an address that begins with",
        );
        assertEquals(error.code, "unavailable");
        assertEquals(await files.findFile(wanted.part), undefined);
      }
    }
  }));

Deno.test("HttpDownload: what no sum checks comes without TLS from no address with it", () =>
  withBench(async (bench) => {
    const { download, wanted, files } = bench;
    const unknown = { ...wanted, sha256: undefined };
    const fetchFrom = (ways: readonly string[], one: WantedFile) => {
      bench.answer = chain(...ways);
      return download.fetch(ways[0]!, one, () => {}, never);
    };
    const leaving = [
      ["https://a/one", "http://a/one"],
      ["https://a/one", "https://b/one", "http://c/one", "https://d/one"],
      ["http://a/one", "https://b/one", "http://b/one?key=s3cr3t"],
    ];
    for (const ways of leaving) {
      const error = await assertRejects(
        () => fetchFrom(ways, unknown),
        SvcError,
        "without TLS, wanted https",
      );
      assertEquals([error.code, error.message.includes("s3cr3t")], ["unavailable", false]);
      assertEquals(await files.findFile(wanted.part), undefined);
      assertEquals(await fetchFrom(ways, wanted), { sha256: SUM, sizeBytes: BYTES.length });
      await download.discard(wanted);
    }
    const keeping = [["https://a/one", "/two", "https://b/three"], [
      "http://a/one",
      "http://b/one",
      "https://c/one",
    ]];
    for (const ways of keeping) {
      await fetchFrom(ways, unknown);
      await download.discard(wanted);
    }
    const around = () => new Response("moved", { status: 307, headers: { location: "https://a/one" } });
    bench.answer = around;
    await assertRejects(
      () => download.fetch("https://a/one", wanted, () => {}, never),
      SvcError,
      "more than 20 times",
    );
  }));

Deno.test("HttpDownload: a partial file that is complete is checked, and not fetched again", () =>
  withBench(async (bench) => {
    const { wanted, asked, files } = bench;
    await Deno.writeFile(wanted.part, BYTES);
    assertEquals(await bench.fetch({ etag: '"a"' }), { sha256: SUM, sizeBytes: BYTES.length });
    assertEquals(asked, ["bytes=200000-"]);

    // As long, but other bytes: they are replaced in the same attempt.
    await Deno.writeFile(wanted.part, new Uint8Array(BYTES.length));
    await bench.fetch({ etag: '"a"' });
    assertEquals(asked.slice(1), ["bytes=200000-", ""]);
    assertEquals(await files.readFile(wanted.part), BYTES);
  }));

Deno.test("HttpDownload: without a note a partial file is continued by the known tag alone", () =>
  withBench(async ({ wanted, asked, fetch }) => {
    await Deno.writeFile(wanted.part, BYTES.slice(0, 50));
    await fetch({ etag: '"a"' });
    assertEquals(asked, ["bytes=50-"]);
    await Deno.remove(`${wanted.part}.json`);
    await Deno.writeFile(wanted.part, BYTES.slice(0, 50));
    await fetch();
    assertEquals(asked, ["bytes=50-", ""]);
  }));

Deno.test("HttpDownload: a partial file of another source is replaced", () =>
  withBench(async (bench) => {
    const { asked, fetch } = bench;
    bench.answer = broken;
    await assertRejects(() => fetch(), SvcError, "the connection broke");
    bench.answer = answerFrom;
    await fetch({ source: "two" });
    assertEquals(asked, ["", ""]);
  }));

Deno.test("HttpDownload: a range that begins elsewhere is refused, and the file stays as it is", () =>
  withBench(async (bench) => {
    const { wanted, files, fetch } = bench;
    await Deno.writeFile(wanted.part, BYTES.slice(0, 50));
    for (const shift of [1, -1]) {
      bench.answer = (request) => answerFrom(request, { etag: '"a"' }, shift);
      await assertRejects(() => fetch({ etag: '"a"' }), SvcError, "one: 206");
      assertEquals(await files.readFile(wanted.part), BYTES.slice(0, 50));
    }
  }));

Deno.test("HttpDownload: wrong bytes are removed with their note, whatever is wrong", () =>
  withBench(async (bench) => {
    const { folder, fetch } = bench;
    await Deno.writeFile(`${folder}/one.part`, new Uint8Array(50));
    const wrong: readonly [Partial<WantedFile>, RegExp][] = [
      [{ etag: '"a"' }, /^sum /],
      [{ sizeBytes: BYTES.length + 1 }, /^sum /],
      [{ sizeBytes: BYTES.length - 1 }, /^200000 of 199999 bytes/],
    ];
    for (const [more, problem] of wrong) {
      const error = await assertRejects(() => fetch(more), SvcError);
      assertEquals([error.code, problem.test(error.message)], ["data_loss", true], error.message);
      assertEquals([...Deno.readDirSync(folder)], []);
    }
    await fetch();
  }));

Deno.test("HttpDownload: a broken disk is no verdict on the file, and keeps what is there", () =>
  withBench(async (bench) => {
    const { files, fetch, asked } = bench;
    const open = files.open.bind(files);
    files.open = async (path, how, mode) => {
      const file = await open(path, how, mode);
      let writes = 0;
      const write = (bytes: Uint8Array) =>
        writes++ === 0
          ? file.write(bytes)
          : Promise.reject(new FileError("permission_denied", "the disk is read-only", path));
      return { ...file, write, sync: () => file.sync(), close: () => file.close() };
    };
    bench.answer = () => {
      const pieces = [BYTES.slice(0, 100), BYTES.slice(100)];
      return new Response(ReadableStream.from(pieces), { headers: { etag: '"a"' } });
    };
    await assertRefused("unavailable", "the disk is read-only", () => fetch());
    files.open = open;
    bench.answer = answerFrom;
    await fetch();
    assertEquals(asked, ["", "bytes=100-"]);
  }));

Deno.test("HttpDownload: a refusal comes with its first line and the pause that the server asks for", () =>
  withBench(async (bench) => {
    bench.answer = () =>
      new Response(`too busy\n${"x".repeat(1_000_000)}`, { status: 429, headers: { "retry-after": "7" } });
    const error = await assertRejects(() => bench.fetch(), SvcError, "one: 429 too busy");
    assertEquals(error.retryMs, 7000);
    const signature = await assertRejects(() => bench.download.json(ADDRESS, never), SvcError);
    assertEquals([signature.message, signature.retryMs], ["JSON: 429 too busy", 7000]);
    bench.answer = () => new Response("[", {});
    await assertRejects(() => bench.download.json(ADDRESS, never), SvcError, "no JSON");
  }));

Deno.test("HttpDownload: each server of one file keeps its own tag, and a date or nothing suffices with a sum", () =>
  withBench(async (bench) => {
    const { asked, fetch } = bench;
    const servers: readonly Record<string, string>[] = [{ etag: '"of a mirror"' }, { etag: 'W/"weak"' }, {}];
    for (const fields of servers) {
      bench.answer = () => {
        const { body } = broken();
        return new Response(body, { headers: fields });
      };
      await assertRejects(() => fetch({ etag: '"a"' }), SvcError, "the connection broke");
      bench.answer = (request) => {
        const condition = request.headers.get("if-range");
        assertMatch(condition ?? "none", /^("of a mirror"|none)$/);
        return answerFrom(request, fields);
      };
      await fetch({ etag: '"a"' });
      await bench.download.discard(bench.wanted);
    }
    assertEquals(asked, ["", "bytes=100000-", "", "bytes=100000-", "", "bytes=100000-"]);
  }));

Deno.test("AttemptProgress: what was there before the attempt does not count", () => {
  const attempt = new AttemptProgress();
  assertEquals(attempt.isWorthwhile, false);
  for (const doneBytes of [1_000_000, 1_000_000 + 16_383]) attempt.add({ doneBytes });
  assertEquals(attempt.isWorthwhile, false);
  attempt.add({ doneBytes: 1_000_000 + 16_384 });
  assertEquals(attempt.isWorthwhile, true);
});
