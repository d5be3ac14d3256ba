import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { createHash } from "node:crypto";
import type { Files } from "../../base/files/files.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import { Logs } from "../../base/log/log.ts";
import { type ChannelStatement, signChannel } from "../../base/release/channel.ts";
import type { Clock } from "../../base/clock.ts";
import { newReleaseKey, type ReleaseKey, signRelease } from "../../base/release/signature.ts";
import { Download } from "./download.ts";
import { fileNameOf, keyOf, type Release } from "./release.ts";
import { AcceptedKeys } from "../../base/release/accepted_keys.ts";
import { SystemFiles } from "../../base/files/system_files.ts";

const BYTES = Uint8Array.from({ length: 300_000 }, (_, at) => (at * 7) % 251);
const SUM = createHash("sha256").update(BYTES).digest("hex");

interface Bench {
  readonly base: string;
  readonly release: Release;
  /** The requests: method, path and range. */
  readonly asked: string[];
  readonly download: (
    more?: { files?: Files; keys?: AcceptedKeys; clock?: FakeClock; fetch?: typeof fetch },
  ) => Download;
  answer: (request: Request) => Response | Promise<Response>;
}

async function withServer(test: (bench: Bench) => Promise<void>): Promise<void> {
  const base = await Deno.makeTempDir({ prefix: "svc-" });
  await Deno.mkdir(`${base}/cache/part`, { recursive: true });
  const asked: string[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, (request) => {
    const range = request.headers.get("range");
    asked.push(`${request.method} ${new URL(request.url).pathname}${range ? ` ${range}` : ""}`);
    return bench.answer(request);
  });
  const url = `http://127.0.0.1:${server.addr.port}/releases/svc-server`;
  const logger = new Logs(new FakeClock(), []).logger("download");
  const bench: Bench = {
    base,
    asked,
    release: {
      name: "svc-server",
      version: "1.0.0",
      url,
      sha256: SUM,
      custom: false,
      key: keyOf("1.0.0", SUM),
    },
    download: ({ files = new SystemFiles(), clock = new FakeClock(), ...more } = {}) =>
      new Download({ base, files, clock, logger, platform: "linux/amd64", ...more }),
    answer: serve,
  };
  try {
    await test(bench);
  } finally {
    await server.shutdown();
    await Deno.remove(base, { recursive: true });
  }
}

/** The whole file or the range that is asked for. */
function serve(request: Request): Response {
  const from = Number(/bytes=(\d+)-/.exec(request.headers.get("range") ?? "")?.[1] ?? 0);
  const headers = { etag: '"one"', "content-length": String(BYTES.length - from) };
  if (from === 0 || request.headers.get("if-range") !== '"one"') return new Response(BYTES, { headers });
  const range = { "content-range": `bytes ${from}-${BYTES.length - 1}/${BYTES.length}` };
  return new Response(BYTES.slice(from), { status: 206, headers: { ...headers, ...range } });
}

/** The connection breaks in the middle of the file. */
async function breaking(url: string | URL | Request, init?: RequestInit): Promise<Response> {
  const answer = await fetch(url, init);
  const bytes = new Uint8Array(await answer.arrayBuffer());
  let sent = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(stream) {
      if (sent++ === 0) stream.enqueue(bytes.slice(0, bytes.length / 2));
      else stream.error(new TypeError("connection reset"));
    },
  });
  return new Response(body, { headers: answer.headers });
}

function keysOf(base: string, clock: Pick<Clock, "nowMs" | "monotonicMs"> = new FakeClock()): AcceptedKeys {
  const historyPath = `${base}/state/accepted.json`;
  return new AcceptedKeys(`${base}/etc/release_keys.json`, { files: new SystemFiles(), clock, historyPath });
}

/** A device with pinned keys, and a server that signs what the test makes of it. */
async function withPinned(
  test: (
    bench: Bench & {
      readonly fetched: (release: Partial<Release>) => Promise<string>;
      readonly signed: { version: string; signed_ms: number; size: number; word: Partial<ChannelStatement> };
      readonly device: { nowMs: number; upMs: number };
      readonly bench: Bench;
      readonly withheld: () => Promise<string | undefined>;
    },
  ) => Promise<void>,
): Promise<void> {
  await withServer(async (bench) => {
    const { base, release, download } = bench;
    const { key, privateKeyPem } = newReleaseKey(1);
    const device = { nowMs: NOW_MS, upMs: 0 };
    const clock = { nowMs: () => device.nowMs, monotonicMs: () => device.upMs };
    await Deno.mkdir(`${base}/etc`);
    await Deno.writeTextFile(`${base}/etc/release_keys.json`, JSON.stringify([key.public_key]));
    const word: Partial<ChannelStatement> = {};
    const signed = { version: "1.0.0", signed_ms: 10, size: BYTES.length, word };
    const content = { name: "svc-server", platform: "linux/amd64", sha256: SUM };
    bench.answer = (request) => {
      const { pathname, searchParams } = new URL(request.url);
      const { word, ...statement } = signed;
      if (pathname.endsWith("unsigned.sig")) return new Response(null, { status: 404 });
      if (pathname.endsWith(".sig")) {
        return Response.json(signRelease({ ...content, ...statement }, privateKeyPem));
      }
      if (!pathname.endsWith(".channel")) return serve(request);
      const wanted = searchParams.get("wanted")!;
      const current = { ...content, version: signed.version, wanted, ...word };
      return Response.json(signChannel(current, word.issued_ms ?? NOW_MS, privateKeyPem));
    };
    const fetched = async (more: Partial<Release>) => {
      for (const name of await names(`${base}/cache`)) {
        if (name !== "part") await Deno.remove(`${base}/cache/${name}`);
      }
      const one = { ...release, version: signed.version, ...more };
      return await download({ keys: keysOf(base, clock) }).fetch(one, () => {}, never)
        .then(() => "taken", (error) => `${SvcError.from(error).code}: ${chainOf(error)}`);
    };
    const keys = keysOf(base, clock);
    const withheld = () => download({ keys }).withheld({ ...release, wanted: "stable" }, never);
    await test({ ...bench, bench, fetched, signed, device, withheld });
  });
}

const NOW_MS = Date.UTC(2026, 5, 1);
const DAY_MS = 24 * 3600_000;

const never = new AbortController().signal;
const names = async (folder: string) =>
  (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name).sort();

Deno.test("Download: puts a complete executable into the cache under its version and sum", () =>
  withServer(async ({ base, release, download, asked }) => {
    const progress: number[] = [];
    const build = await download().fetch(release, ({ doneBytes }) => progress.push(doneBytes), never);
    const file = fileNameOf("svc-server", "1.0.0", SUM);
    assertEquals(build, { key: release.key, version: "1.0.0", file, sha256: SUM, sizeBytes: BYTES.length });
    assertEquals(await Deno.readFile(`${base}/cache/${file}`), BYTES);
    if (Deno.build.os !== "windows") {
      assertEquals((await Deno.stat(`${base}/cache/${file}`)).mode! & 0o111, 0o111);
    }
    assertEquals(await names(`${base}/cache/part`), []);
    // A cached release is not fetched again.
    await download().fetch(release, () => {}, never);
    assertEquals(asked, ["GET /releases/svc-server"]);
  }));

Deno.test("Download: resumes an interrupted download, in another process too", () =>
  withServer(async ({ release, download, asked }) => {
    const cut = () => download({ fetch: breaking }).fetch(release, () => {}, never);
    const error = await assertRejects(cut, SvcError, "the connection broke");
    assertEquals(error.code, "unavailable");
    const build = await download().fetch(release, () => {}, never);
    assertEquals(build.sha256, SUM);
    assertMatch(asked[1], /^GET \/releases\/svc-server bytes=[1-9]\d*-$/);
  }));

Deno.test("Download: starts over when the file changed or the rest belongs to another release", () =>
  withServer(async (bench) => {
    const { release, download, asked } = bench;
    const cut = (one: Release) =>
      assertRejects(() => download({ fetch: breaking }).fetch(one, () => {}, never), SvcError, "broke");
    await cut(release);
    bench.answer = (request) => {
      assertEquals(request.headers.get("if-range"), '"one"');
      return new Response(BYTES, { headers: { etag: '"two"' } });
    };
    assertEquals((await download().fetch(release, () => {}, never)).sha256, SUM);
    bench.answer = serve;
    const other = { ...release, version: "2.0.0", key: "2.0.0:x", sha256: "0".repeat(64) };
    await cut(other);
    const third = { ...release, version: "3.0.0", key: "3.0.0:x" };
    await download().fetch(third, () => {}, never);
    assertEquals(asked.at(-1), "GET /releases/svc-server");
  }));

Deno.test("Download: discards bytes with a wrong sum, and reports 404 and 500", () =>
  withServer(async (bench) => {
    const { base, release, download } = bench;
    bench.answer = () => new Response("something else");
    const wrong = await assertRejects(() => download().fetch(release, () => {}, never), SvcError, "wanted");
    assertEquals(wrong.code, "data_loss");
    assertEquals(await names(`${base}/cache/part`), []);
    for (const [status, code] of [[404, "not_found"], [500, "unavailable"]] as const) {
      bench.answer = () => new Response("no", { status });
      const error = await assertRejects(() => download().fetch(release, () => {}, never), SvcError);
      assertEquals(error.code, code);
      assertMatch(error.message, new RegExp(`releases/svc-server: the server answers ${status}`));
    }
    const gone = { ...release, url: "http://127.0.0.1:9/x" };
    assertEquals(
      (await assertRejects(() => download().fetch(gone, () => {}, never), SvcError)).code,
      "unavailable",
    );
  }));

Deno.test("Download: checks free space first, and a disk that fills up leaves no partial file", () =>
  withServer(async ({ base, release, download, asked }) => {
    const real = new SystemFiles();
    const small = new SystemFiles();
    small.freeBytes = () => Promise.resolve(32 * 1024 ** 2 + 200_000);
    const error = await assertRejects(
      () => download({ files: small }).fetch(release, () => {}, never),
      SvcError,
    );
    assertEquals(error.code, "resource_exhausted");
    assertMatch(error.message, /found 32 MB of space, wanted/);
    const full = new SystemFiles();
    full.open = async (path, how, mode) => {
      const file = await real.open(path, how, mode);
      if (!path.endsWith(".part")) return file;
      return {
        ...file,
        write: () => Promise.reject(new SvcError("resource_exhausted", "the disk is full")),
      };
    };
    await assertRejects(
      () => download({ files: full }).fetch(release, () => {}, never),
      SvcError,
      "the disk is full",
    );
    assertEquals(await names(`${base}/cache/part`), []);
    assertEquals(asked.length, 2);
  }));

Deno.test("Download: gives up on a silent server, and stops when it is aborted", () =>
  withServer(async (bench) => {
    const { release, download } = bench;
    const clock = new FakeClock();
    let streams = 0;
    bench.answer = () => {
      streams++;
      return new Response(new ReadableStream({ start: (stream) => stream.enqueue(new Uint8Array(10)) }));
    };
    const begun = Promise.withResolvers<void>();
    const fetching = download({ clock }).fetch(release, () => begun.resolve(), never);
    const stalled = assertRejects(() => fetching, SvcError, "the server sent nothing");
    await begun.promise;
    let given = false;
    void fetching.catch(() => {}).finally(() => given = true);
    // Received bytes may still be under way to the disk; the time limit begins anew after each.
    while (!given) await clock.advance(10_000);
    await stalled;
    const stop = new AbortController();
    const unwanted = assertRejects(() => download({ clock }).fetch(release, () => stop.abort(), stop.signal));
    await unwanted;
    assert(streams === 2);
  }));

Deno.test("copies a local file; detects a change at a custom URL by its time", () =>
  withServer(async (bench) => {
    const { base, download } = bench;
    await Deno.writeFile(`${base}/mine`, BYTES);
    const url = new URL(`file://${base}/mine`).href;
    const release: Release = {
      ...bench.release,
      url,
      sha256: undefined,
      custom: true,
      version: `customURL+${url}`,
    };
    const build = await download().fetch(release, () => {}, never);
    assertEquals(build.file, fileNameOf("svc-server", release.version, SUM));
    const before = await download().stamp(release, never);
    await Deno.utime(`${base}/mine`, new Date(), new Date(Date.now() + 10_000));
    assert(Number(await download().stamp(release, never)) > Number(before));
    const missing = { ...release, url: `file://${base}/none` };
    await assertRejects(() => download().fetch(missing, () => {}, never), SvcError, "there is no file");
    bench.answer = () =>
      new Response(null, { headers: { "last-modified": "Wed, 01 Jul 2026 00:00:00 GMT" } });
    const served = { ...release, url: bench.release.url };
    assertEquals(await download().stamp(served, never), String(Date.UTC(2026, 6, 1)));
    bench.answer = () => new Response(null);
    assertEquals(await download().stamp(served, never), undefined);
  }));

Deno.test("Download: blames the device's clock for a certificate that is not valid yet", async () => {
  const clock = new FakeClock(1_000);
  const refuse = () => Promise.reject(new TypeError("invalid peer certificate: NotValidYet"));
  const logger = new Logs(clock, []).logger("download");
  const base = await Deno.makeTempDir({ prefix: "svc-" });
  try {
    const download = new Download({
      base,
      files: new SystemFiles(),
      clock,
      logger,
      platform: "linux/amd64",
      fetch: refuse,
    });
    const release: Release = { name: "svc-agent", version: "1", url: "https://x/y", custom: false, key: "1" };
    const error = await assertRejects(() => download.fetch(release, () => {}, never), SvcError);
    assertEquals(error.code, "unavailable");
    assertMatch(
      error.message,
      /the clock of this device says 1970-01-01, which is wrong: the download repeats/,
    );
  } finally {
    await Deno.remove(base, { recursive: true });
  }
});

Deno.test("a signature without an end, and one that stops coming, are given up", () =>
  withServer(async (bench) => {
    const { base, release, download } = bench;
    const { key } = newReleaseKey(0);
    await Deno.mkdir(`${base}/etc`);
    await Deno.writeTextFile(`${base}/etc/release_keys.json`, JSON.stringify([key.public_key]));
    const keys = keysOf(base);
    const piece = new Uint8Array(256 * 1024).fill(0x20);
    const answering = (body: () => ReadableStream<Uint8Array>) => {
      bench.answer = (request) =>
        new URL(request.url).pathname.endsWith(".sig") ? new Response(body()) : serve(request);
    };
    answering(() => new ReadableStream({ pull: (stream) => stream.enqueue(piece) }));
    const endless = await assertRejects(() => download({ keys }).fetch(release, () => {}, never), SvcError);
    assertMatch(chainOf(endless), /\.sig sends more than 1048576 bytes, wanted a signature/);
    answering(() => new Blob(["not JSON"]).stream());
    await assertRejects(() => download({ keys }).fetch(release, () => {}, never), SvcError, "sends no JSON");
    const clock = new FakeClock();
    const begun = Promise.withResolvers<void>();
    const silentServer: typeof fetch = (url, init) => {
      if (!String(url).endsWith(".sig")) return fetch(url, init);
      return Promise.resolve(new Response(new ReadableStream({ pull: () => begun.resolve() })));
    };
    const fetching = download({ keys, clock, fetch: silentServer }).fetch(release, () => {}, never);
    const stalled = assertRejects(() => fetching, SvcError, "the server sent nothing for 60 s");
    await begun.promise;
    let given = false;
    void fetching.catch(() => {}).finally(() => given = true);
    while (!given) await clock.advance(10_000);
    await stalled;
  }));

Deno.test("Download: with pinned keys requires a signature, and adopts a successor key", () =>
  withServer(async (bench) => {
    const { base, release, download, asked } = bench;
    const first = newReleaseKey(1);
    const second = newReleaseKey(2, first.privateKeyPem);
    const stranger = newReleaseKey(3);
    const path = `${base}/etc/release_keys.json`;
    const pin = (...keys: ReleaseKey[]) =>
      Deno.mkdir(`${base}/etc`, { recursive: true }).then(() =>
        Deno.writeTextFile(path, JSON.stringify(keys.map(({ public_key }) => public_key)))
      );
    const keys = keysOf(base);
    const listed = { keys: [first.key, second.key] };
    let signer = first.privateKeyPem;
    let statement = {
      name: "svc-server",
      version: "1.0.0",
      platform: "linux/amd64",
      sha256: SUM,
      size: BYTES.length,
      signed_ms: 1,
    };
    bench.answer = (request) => {
      const { pathname } = new URL(request.url);
      if (pathname === "/releases/keys.json") return Response.json(listed);
      return pathname.endsWith(".sig") ? Response.json(signRelease(statement, signer)) : serve(request);
    };
    const fetched = async () => {
      await Deno.remove(`${base}/cache/${fileNameOf("svc-server", "1.0.0", SUM)}`).catch(() => {});
      return await download({ keys }).fetch(release, () => {}, never)
        .then(() => "taken", (error) => `${SvcError.from(error).code}: ${chainOf(error)}`);
    };
    // Without keys, no signature is required.
    assertEquals(await fetched(), "taken");
    assertEquals(asked.length, 1);
    await pin(first.key);
    assertEquals(await fetched(), "taken");
    statement = { ...statement, version: "0.9.0" };
    assertMatch(await fetched(), /^failed_precondition: .*found version 0.9.0, wanted 1.0.0/);
    statement = { ...statement, version: "1.0.0" };
    signer = stranger.privateKeyPem;
    assertMatch(await fetched(), /^failed_precondition: .*is of key/);
    assertEquals(JSON.parse(await Deno.readTextFile(path)), [first.key.public_key]);
    signer = second.privateKeyPem;
    assertEquals(await fetched(), "taken");
    assertEquals(JSON.parse(await Deno.readTextFile(path)), [second.key.public_key]);
    // The old key is no longer trusted.
    signer = first.privateKeyPem;
    assertMatch(await fetched(), /^failed_precondition/);
    await Deno.writeTextFile(path, "nothing");
    assertMatch(await fetched(), /^permission_denied: .*wanted a list of public keys/);
  }));

Deno.test("Download: with pinned keys the signature and the size count before the first byte", () =>
  withPinned(async ({ fetched, signed, asked, base }) => {
    signed.size = 1000;
    assertMatch(await fetched({ pinned: true }), /^data_loss: .*sends 300000 bytes, wanted at most 1000/);
    assertEquals(await names(`${base}/cache/part`), []);
    signed.size = BYTES.length;
    asked.length = 0;
    assertMatch(
      await fetched({ pinned: true, version: "2.0.0" }),
      /^failed_precondition: .*found version 1.0.0/,
    );
    assertEquals(asked, ["GET /releases/svc-server.sig"], "nothing else was asked for");
    // What lies in the cache from before is signed, too, or not taken.
    assertEquals(await fetched({ pinned: true }), "taken");
    asked.length = 0;
    // The sum comes from the signature where the cloud gives none.
    assertEquals(await fetched({ pinned: true, sha256: undefined }), "taken");
    assertEquals(asked, ["GET /releases/svc-server.sig", "GET /releases/svc-server"]);
  }));

Deno.test({
  name: "Download: with pinned keys an address of the configuration needs a signature, or a file of root",
  ignore: Deno.build.os === "windows" || Deno.uid() !== 0,
  fn: () =>
    withPinned(async ({ fetched, base, release }) => {
      const custom = { custom: true, pinned: true, sha256: undefined, version: `customURL+${release.url}` };
      assertEquals(await fetched(custom), "taken", "the keys have signed this file");
      await Deno.writeFile(`${base}/mine`, BYTES);
      const url = `file://${base}/mine`;
      const local = { ...custom, url, version: `customURL+${url}` };
      const elsewhere = { ...custom, url: release.url.replace("svc-server", "unsigned") };
      const refused = /^permission_denied: .*takes no unsigned program: .*allow_unsigned_urls of root/;
      const both = async () => [await fetched(local), await fetched(elsewhere)];
      for (const one of await both()) assertMatch(one, refused);
      const allowed = `${base}/etc/allow_unsigned_urls`;
      await Deno.writeTextFile(allowed, "");
      await Deno.chmod(allowed, 0o666);
      for (const one of await both()) assertMatch(one, refused);
      await Deno.chmod(allowed, 0o644);
      await Deno.chown(allowed, 65_534, 65_534);
      for (const one of await both()) assertMatch(one, refused);
      await Deno.chown(allowed, 0, 0);
      assertEquals(await both(), ["taken", "taken"]);
    }),
});

Deno.test("Download: a channel leads to nothing older, unless its version is higher; a named version may be older", () =>
  withPinned(async ({ fetched, signed }) => {
    const stable = { wanted: "stable" };
    Object.assign(signed, { version: "1.1.0", signed_ms: 20 });
    assertEquals(await fetched(stable), "taken");
    Object.assign(signed, { version: "1.0.0", signed_ms: 10 });
    assertMatch(
      await fetched(stable),
      /^aborted: .*1.0.0, which was published before 1.1.0.*name that very version/,
    );
    assertEquals(await fetched({ pinned: true }), "taken");
    assertMatch(await fetched(stable), /^aborted/, "naming a version forgets nothing");
    assertEquals(await fetched({ wanted: "1.0.x" }), "taken", "each channel and range for itself");
    Object.assign(signed, { version: "1.2.0", signed_ms: 15 });
    assertEquals(await fetched(stable), "taken", "a higher version comes into the channel late");
    Object.assign(signed, { version: "1.1.0", signed_ms: 20 });
    assertEquals(await fetched(stable), "taken");
    Object.assign(signed, { version: "1.2.0", signed_ms: 19 });
    assertEquals(await fetched(stable), "taken");
  }));

Deno.test("Download: a channel's word expires; a clock that was never set does not matter", () =>
  withPinned(async ({ fetched, signed, device }) => {
    const stable = { wanted: "stable" };
    signed.word = { issued_ms: NOW_MS - 20 * DAY_MS };
    assertMatch(
      await fetched(stable),
      /^aborted: .*expired on 2026-05-19, and the clock of this device says/,
    );
    assertEquals(await fetched({ pinned: true }), "taken");
    signed.word = {};
    assertEquals(await fetched(stable), "taken");
    for (const [wrong, logged] of [["wanted", "channel"], ["name", "name"], ["platform", "platform"]]) {
      signed.word = { [wrong]: "other" };
      assertMatch(await fetched(stable), new RegExp(`^failed_precondition: .*found ${logged} other`));
    }
    signed.word = { version: "0.9.0" };
    assertMatch(await fetched(stable), /^aborted: .*leads to 0.9.0, and not to 1.0.0/);
    // Ahead by years, then without any date.
    signed.word = { issued_ms: NOW_MS };
    device.nowMs += 900 * DAY_MS;
    assertMatch(await fetched(stable), /^aborted: .*or the clock is wrong; what is installed stays/);
    device.nowMs = 1000;
    assertEquals(await fetched(stable), "taken");
  }));

Deno.test("Download: of the installed version, a channel's word is asked for every six hours", () =>
  withPinned(async ({ signed, device, withheld, asked, base, bench }) => {
    assertEquals(await withheld(), undefined);
    signed.word = { issued_ms: NOW_MS - 20 * DAY_MS };
    assertEquals(await withheld(), undefined, "as it was a moment ago");
    device.upMs += DAY_MS;
    assertMatch(await withheld() ?? "", /expired on 2026-05-19/);
    assertMatch(await withheld() ?? "", /expired on 2026-05-19/);
    assertEquals(asked, Array(2).fill("GET /releases/svc-server.channel"));
    signed.word = {};
    device.upMs += DAY_MS;
    assertEquals(await withheld(), undefined);
    // An outage says nothing until it has lasted for a week.
    const { answer } = bench;
    bench.answer = () => new Response(null, { status: 503 });
    device.upMs += DAY_MS;
    assertEquals(await withheld(), undefined);
    device.upMs += 7 * DAY_MS;
    assertMatch(await withheld() ?? "", /does not say that "stable" leads to this version: .* answers 503/);
    bench.answer = answer;
    device.upMs += DAY_MS;
    assertEquals(await withheld(), undefined);
    await Deno.remove(`${base}/etc/release_keys.json`);
    assertEquals(await withheld(), undefined);
  }));

/** A server with one validator, which sends ranges without asking whether the file is the same. */
function servedWith(fields: Record<string, string>, bytes = BYTES) {
  return (request: Request): Response => {
    const from = Number(/bytes=(\d+)-/.exec(request.headers.get("range") ?? "")?.[1] ?? 0);
    const range = { "content-range": `bytes ${from}-${bytes.length - 1}/${bytes.length}` };
    const headers = { ...fields, "content-length": String(bytes.length - from), ...(from > 0 ? range : {}) };
    return new Response(bytes.slice(from), { status: from > 0 ? 206 : 200, headers });
  };
}

Deno.test("Download: resumes by a date, a weak tag or nothing if the sum is known, and by a strong tag alone if not", () =>
  withServer(async (bench) => {
    const DATE = { "last-modified": "Tue, 02 Jun 2026 10:00:00 GMT" };
    for (
      const [fields, now, known, resumes] of [
        [DATE, DATE, true, true],
        [{ etag: 'W/"1"' }, { etag: 'W/"1"' }, true, true],
        [{}, {}, true, true],
        [DATE, DATE, false, false],
        [{ etag: 'W/"1"' }, { etag: 'W/"1"' }, false, false],
        // The server tells with its answer that the file is another one by now.
        [{ etag: 'W/"1"' }, { etag: 'W/"2"' }, true, false],
        [DATE, { "last-modified": "Tue, 02 Jun 2026 11:00:00 GMT" }, true, false],
      ] as const
    ) {
      const release = { ...bench.release, ...(known ? {} : { sha256: undefined, custom: true }) };
      bench.answer = servedWith(fields);
      await assertRejects(() => bench.download({ fetch: breaking }).fetch(release, () => {}, never));
      bench.asked.length = 0;
      bench.answer = servedWith(now);
      const build = await bench.download().fetch(release, () => {}, never);
      assertEquals(build.sha256, SUM);
      const whole = bench.asked.filter((line) => !line.includes("bytes=")).length;
      assertEquals(whole === 0, resumes, JSON.stringify([fields, now, known, bench.asked]));
      await Deno.remove(`${bench.base}/cache/${build.file}`);
    }
  }));

Deno.test("Download: a compressed answer is decoded, and named if it cannot be", () =>
  withServer(async (bench) => {
    const packed = async (format: "gzip" | "deflate") => {
      const stream = new Blob([BYTES]).stream().pipeThrough(new CompressionStream(format));
      return new Uint8Array(await new Response(stream).arrayBuffer());
    };
    const gzip = await packed("gzip");
    const sent = (bytes: Uint8Array<ArrayBuffer>, encoding: string) => () =>
      new Response(bytes, {
        headers: { "content-encoding": encoding, "content-length": String(bytes.length), etag: '"x"' },
      });
    bench.answer = sent(gzip, "gzip");
    const build = await bench.download().fetch(bench.release, () => {}, never);
    assertEquals([build.sha256, build.sizeBytes], [SUM, BYTES.length]);
    await Deno.remove(`${bench.base}/cache/${build.file}`);
    // Other spellings, and words of servers and object stores for no encoding at all.
    const spellings = ["x-gzip", "gzip, identity", "aws-chunked,gzip"].map((one) => [gzip, one] as const);
    const plain = ["none", "utf-8", "aws-chunked", "identity, binary"].map((one) => [BYTES, one] as const);
    for (const [bytes, encoding] of [...spellings, ...plain]) {
      bench.answer = sent(bytes, encoding);
      const { sha256, file } = await bench.download().fetch(bench.release, () => {}, never);
      assertEquals([encoding, sha256], [encoding, SUM]);
      await Deno.remove(`${bench.base}/cache/${file}`);
    }
    for (const encoding of ["zstd", "compress", "gzip, zstd", "xz", "none, compress"]) {
      bench.answer = sent(BYTES, encoding);
      const error = await assertRejects(
        () => bench.download().fetch(bench.release, () => {}, never),
        SvcError,
      );
      assertEquals(error.code, "unavailable");
      assertStringIncludes(error.message, `compressed (${encoding.replace("none, ", "")})`);
    }
  }));

Deno.test("Download: Retry-After comes with the error, as seconds or a date, within a limit", () =>
  withServer(async (bench) => {
    const clock = new FakeClock();
    const sent = new Date(clock.nowMs() - 5_000);
    const asked = async (value: string, status = 503) => {
      // A date counts from the server's own.
      const headers = { "retry-after": value, date: sent.toUTCString() };
      bench.answer = () => new Response(null, { status, headers });
      const attempt = () => bench.download({ clock }).fetch(bench.release, () => {}, never);
      return (await assertRejects(attempt, SvcError)).retryMs;
    };
    assertEquals(await asked("120"), 120_000);
    assertEquals(await asked("30", 429), 30_000);
    assertEquals(await asked(new Date(sent.getTime() + 60_000).toUTCString()), 60_000);
    assertEquals(await asked("99999999999"), 24 * 3600_000);
    for (const value of ["soon", "-5", "0", "1e3x"]) assertEquals(await asked(value), undefined, value);
  }));
