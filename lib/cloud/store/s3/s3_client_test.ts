import { assert, assertEquals, assertRejects } from "@std/assert";
import { createHash } from "node:crypto";
import { FakeClock, passing } from "../../../../tests/support/fake_clock.ts";
import { SvcError } from "../../../base/error.ts";
import { S3Client } from "./s3_client.ts";
import { S3Files } from "./s3_files.ts";

const LIMIT_MS = 3600_000;
const TEXT = "one byte after another";
const CONTENT = new TextEncoder().encode(TEXT);
const SHA256 = createHash("sha256").update(CONTENT).digest("hex");
const EMPTY_LIST = new TextEncoder().encode("<ListBucketResult></ListBucketResult>");

/** An answer whose body has these bytes, then goes silent or ends. */
function answer(
  bytes: Uint8Array<ArrayBuffer>,
  end: "silent" | "complete",
  init: ResponseInit = {},
): Response {
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      controller.enqueue(bytes);
      if (end === "complete") controller.close();
    },
  });
  return new Response(body, init);
}

function clientOf(
  clock: FakeClock,
  answerTo: (request: Request, signal: AbortSignal) => Response | Promise<Response>,
): S3Client {
  return new S3Client({
    address: { bucket: "robots", prefix: "", region: "eu", endpoint: "http://127.0.0.1:1" },
    credentials: { accessKeyId: "a", secretAccessKey: "b" },
    clock,
    fetch: async (request, init) => await answerTo(request as Request, init!.signal!),
  });
}

async function read(pieces: AsyncIterable<Uint8Array>): Promise<string> {
  let text = "";
  for await (const piece of pieces) text += new TextDecoder().decode(piece);
  return text;
}

Deno.test("an object whose bytes stop coming is not taken for a complete one", async () => {
  const clock = new FakeClock();
  const client = clientOf(clock, () => answer(CONTENT, "silent"));
  const { pieces } = (await client.get("one", 0))!;
  const error = await assertRejects(() => passing(clock, LIMIT_MS, read(pieces)), SvcError);
  assertEquals(error.code, "unavailable");
  assertEquals(error.message, "the object store cannot be reached: it sent nothing for 30 s");
});

Deno.test("a list whose text stops coming is not taken for a short one", async () => {
  const clock = new FakeClock();
  const client = clientOf(clock, () => answer(EMPTY_LIST, "silent"));
  const listed = Array.fromAsync(client.list(""));
  const error = await assertRejects(() => passing(clock, LIMIT_MS, listed), SvcError);
  assertEquals(error.code, "unavailable");
});

Deno.test("a content is read on after each silence, as long as bytes come", async () => {
  const clock = new FakeClock();
  const client = clientOf(clock, (request) => {
    const from = Number(/bytes=(\d+)-/.exec(request.headers.get("range") ?? "")?.[1] ?? 0);
    if (!request.url.includes(SHA256)) return answer(EMPTY_LIST, "complete");
    const headers: Record<string, string> = from === 0
      ? { "content-length": `${CONTENT.length}` }
      : { "content-range": `bytes ${from}-${CONTENT.length - 1}/${CONTENT.length}` };
    // One byte at a time.
    return answer(CONTENT.subarray(from, from + 1), "silent", { status: from === 0 ? 200 : 206, headers });
  });
  const files = await passing(clock, LIMIT_MS, S3Files.open(client, { prefix: "", olderThanMs: 0 }));
  assertEquals(await passing(clock, LIMIT_MS, read(files.read(SHA256))), TEXT);
});

Deno.test("a store that refuses the key or has no such bucket differs from one that is not up yet", async () => {
  const cases: readonly [number, string, string, string][] = [
    [403, "InvalidAccessKeyId", "failed_precondition", "check the credentials"],
    [403, "RequestTimeTooSkewed", "unavailable", "this computer's clock"],
    [404, "NoSuchBucket", "failed_precondition", "create the bucket"],
    [400, "AuthorizationHeaderMalformed", "failed_precondition", "check the endpoint and the region"],
    [301, "PermanentRedirect", "failed_precondition", "check the endpoint and the region"],
    [503, "XMinioServerNotInitialized", "unavailable", "XMinioServerNotInitialized"],
    [500, "InternalError", "unavailable", "InternalError"],
  ];
  for (const [status, code, wanted, remedy] of cases) {
    const clock = new FakeClock();
    const text = new TextEncoder().encode(`<Error><Code>${code}</Code></Error>`);
    const client = clientOf(clock, () => answer(text, "complete", { status }));
    const opened = S3Files.open(client, { prefix: "", olderThanMs: 0 });
    const error = await assertRejects(() => passing(clock, LIMIT_MS, opened), SvcError, remedy);
    assertEquals(error.code, wanted, code);
  }
});

Deno.test("the store's words are shown without the escapes of XML", async () => {
  const words = "the region &#34;eu&#34; is wrong &amp; not &lt;b&gt;, don&#39;t &amp;lt; &other;";
  const text = new TextEncoder().encode(`<Error><Code>Wrong</Code><Message>${words}</Message></Error>`);
  const client = clientOf(new FakeClock(), () => answer(text, "complete", { status: 400 }));
  const wanted = 'Wrong: the region "eu" is wrong & not <b>, don\'t &lt; &other;';
  await assertRejects(() => client.put("a", new Uint8Array(1)), SvcError, wanted);
});

Deno.test("a store that accepts a request and says nothing is given up after two answers' time", async () => {
  let asked = 0;
  const clock = new FakeClock();
  const client = clientOf(clock, async (_request, signal) => {
    asked++;
    await clock.sleep(LIMIT_MS, signal);
    return answer(EMPTY_LIST, "complete");
  });
  const requests: readonly (() => Promise<unknown>)[] = [
    () => client.size("one"),
    () => client.list("").next(),
    () => client.remove("one"),
  ];
  for (const request of requests) {
    asked = 0;
    const error = await assertRejects(() => passing(clock, LIMIT_MS, request()), SvcError, "no answer");
    assertEquals(error.code, "unavailable");
    assert(asked <= 2, `asked ${asked} times`);
  }
});

Deno.test("a large part may take long on a slow line, and a copy within the store, too", async () => {
  const clock = new FakeClock();
  const client = clientOf(clock, async (_request, signal) => {
    await clock.sleep(50_000, signal);
    const copied = new TextEncoder().encode("<CopyObjectResult></CopyObjectResult>");
    return answer(copied, "complete", { headers: { etag: "one" } });
  });
  const part = client.putPart("one", "upload", 1, new Uint8Array(8 * 1024 * 1024));
  assertEquals(await passing(clock, LIMIT_MS, part), { number: 1, etag: "one" });
  assertEquals(await passing(clock, LIMIT_MS, client.copy("one", "two")), true);
  await assertRejects(() => passing(clock, LIMIT_MS, client.size("one")), SvcError, "no answer");
});

const text = (words: string, init: ResponseInit = {}) =>
  answer(new TextEncoder().encode(words), "complete", init);
const refused = (code: string, status: number, headers: Record<string, string> = {}) =>
  text(`<Error><Code>${code}</Code></Error>`, { status, headers });
const listOf = (inner: string) => `<?xml version="1.0"?>\n<ListBucketResult>${inner}</ListBucketResult>`;
const DONE = "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>";
const COPIED = "<CopyObjectResult></CopyObjectResult>";

Deno.test("S3: an error in an answer that began well is an error, and is tried again", async () => {
  const broken = new Error("the connection was cut");
  const cut = () => new Response(new ReadableStream({ start: (controller) => controller.error(broken) }));
  const failures: readonly [() => Response, number][] = [
    [() => text('<?xml version="1.0"?>\n\n<Error><Code>InternalError</Code></Error>'), 4],
    [() => text("     <Error><Code>SlowDown</Code></Error>"), 6],
    [() => text("   "), 4],
    [() => text("<html><body>Sign in to the network</body></html>"), 4],
    [cut, 4],
  ];
  for (const [fail, tries] of failures) {
    for (const failed of [1, 100]) {
      const clock = new FakeClock();
      let asked = 0;
      const client = clientOf(clock, ({ url }) => {
        if (url.includes("uploads=")) return text(listOf(""));
        if (asked++ < failed) return fail();
        return text(url.includes("uploadId") ? DONE : COPIED);
      });
      const requests: readonly (() => Promise<unknown>)[] = [
        () => client.finishUpload("a", "u", []),
        () => client.copy("a", "b"),
      ];
      for (const request of requests) {
        asked = 0;
        const done = passing(clock, LIMIT_MS, request());
        if (failed === 1) await done;
        else assertEquals((await assertRejects(() => done, SvcError)).code, "unavailable");
        assertEquals(asked, failed === 1 ? 2 : tries);
      }
    }
  }
});

Deno.test("S3: what is no list is not an empty list, and a part of a list is not all of it", async () => {
  const cases: readonly [string, string][] = [
    ["<html></html>", "not one of an object store"],
    ["", "not one of an object store"],
    [listOf("<IsTruncated>true</IsTruncated>"), "no way to the rest"],
    [
      listOf("<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"),
      "no way to the",
    ],
    [listOf("<Contents><Size>1</Size></Contents>"), "an entry without a key"],
  ];
  for (const [page, wanted] of cases) {
    const clock = new FakeClock();
    const client = clientOf(clock, () => text(page));
    await assertRejects(() => passing(clock, LIMIT_MS, Array.fromAsync(client.list("a/"))), SvcError, wanted);
  }
  const page = listOf("<Contents><Key>b/1</Key></Contents><Contents><Key>a/ &amp;+</Key></Contents>");
  const client = clientOf(new FakeClock(), () => text(page));
  assertEquals((await Array.fromAsync(client.list("a/"))).map(({ key }) => key), ["a/ &+"]);
  await assertRejects(() => Array.fromAsync(client.uploads("a/")), SvcError, "it has no list of uploads");
});

Deno.test("S3: what others than svc-cloud have put beside its uploads stays", async () => {
  const removed: string[] = [];
  const upload = "uploads/8f7e6d5c-0000-4000-8000-00000000000a";
  const keys = [upload, "uploads/notes.txt", "uploads/8f7e6d5c-0000-4000-8000-00000000000a/more"];
  const entries = keys.map((key) =>
    `<Contents><Key>${key}</Key><LastModified>2020-01-01T00:00:00Z</LastModified></Contents>`
  );
  const client = clientOf(new FakeClock(), ({ method, url }) => {
    if (method === "DELETE") removed.push(new URL(url).pathname);
    return text(listOf(url.includes("aside") ? "" : entries.join("")));
  });
  await S3Files.open(client, { prefix: "", olderThanMs: Date.UTC(2021, 0) });
  assertEquals(removed, [`/robots/${upload}`]);
});

Deno.test("S3: with a wrong clock, requests have the store's time, and lists that of this computer", async () => {
  for (const aheadMs of [20 * 60_000, -3 * 24 * 3600_000]) {
    for (const method of ["GET", "HEAD"]) {
      const clock = new FakeClock();
      const storeMs = () => Math.floor((clock.nowMs() + aheadMs) / 1000) * 1000;
      const dates: string[] = [];
      const client = clientOf(clock, (request) => {
        const date = request.headers.get("x-amz-date")!;
        dates.push(date);
        const [, y, mo, d, h, mi, s] = /^(....)(..)(..)T(..)(..)(..)Z$/.exec(date)!;
        const sentMs = Date.parse(`${y}-${mo}-${d}T${h}:${mi}:${s}Z`);
        const headers = { date: new Date(storeMs()).toUTCString(), "content-length": "0" };
        if (Math.abs(sentMs - storeMs()) > 15 * 60_000) {
          return request.method === "HEAD"
            ? new Response(null, { status: 403, headers })
            : refused("RequestTimeTooSkewed", 403, headers);
        }
        const modified = new Date(storeMs()).toISOString();
        return text(
          listOf(`<Contents><Key>a</Key><LastModified>${modified}</LastModified></Contents>`),
          { headers },
        );
      });
      if (method === "HEAD") await client.size("a");
      const [{ modifiedMs }] = await Array.fromAsync(client.list(""));
      assert(Math.abs(modifiedMs - clock.nowMs()) <= 2_000, `${modifiedMs} at ${clock.nowMs()}`);
      assertEquals(dates.length, method === "HEAD" ? 3 : 2);
    }
  }
});

Deno.test("S3: a store whose own clock jumps with each answer is given up with a clear error", async () => {
  const clock = new FakeClock();
  let asked = 0;
  const client = clientOf(clock, () => {
    const date = new Date(clock.nowMs() + ++asked * 3600_000).toUTCString();
    return refused("RequestTimeTooSkewed", 403, { date });
  });
  const error = await assertRejects(
    () => passing(clock, LIMIT_MS, client.put("a", new Uint8Array())),
    SvcError,
  );
  assertEquals([error.code, asked], ["unavailable", 4]);
  assert(error.message.includes("this computer's clock"), error.message);
});

Deno.test("S3: a bucket in another region is asked there, and other redirects are named and not followed", async () => {
  const signedFor = (request: Request) =>
    /Credential=a\/\d+\/([\w-]+)\/s3/.exec(request.headers.get("authorization") ?? "")?.[1];
  const hints: readonly (() => Response)[] = [
    () => refused("PermanentRedirect", 301, { "x-amz-bucket-region": "eu-west-3" }),
    () => new Response(null, { status: 301, headers: { "x-amz-bucket-region": "eu-west-3" } }),
    () => refused("TemporaryRedirect", 307, { "x-amz-bucket-region": "eu-west-3" }),
    () =>
      text("<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region></Error>", {
        status: 400,
      }),
  ];
  for (const hint of hints) {
    const clock = new FakeClock();
    const regions: (string | undefined)[] = [];
    const client = clientOf(clock, (request) => {
      const region = signedFor(request);
      regions.push(region);
      return region === "eu-west-3" ? text(listOf("")) : hint();
    });
    for (const _ of [1, 2]) assertEquals(await Array.fromAsync(client.list("")), []);
    assertEquals(regions, ["eu", "eu-west-3", "eu-west-3"]);
  }

  let asked = 0;
  const elsewhere = clientOf(new FakeClock(), ({ url }) => {
    asked++;
    assert(url.startsWith("http://127.0.0.1:1/"), url);
    return refused("TemporaryRedirect", 307, { location: "http://169.254.169.254/latest?token=x" });
  });
  const error = await assertRejects(() => elsewhere.put("a", new Uint8Array()), SvcError);
  assertEquals(asked, 1);
  assert(
    error.message.includes("it sends requests to http://169.254.169.254, which are not sent"),
    error.message,
  );
});

Deno.test("S3: a store that wants fewer requests is asked less often, and after the time that it names", async () => {
  const cases: readonly [() => Response, number, number][] = [
    [() => refused("SlowDown", 503), 6, 4_000],
    [() => refused("TooManyRequests", 429, { "retry-after": "5" }), 6, 25_000],
    [() => refused("ServiceUnavailable", 503, { "retry-after": "3600" }), 1, 0],
    [() => refused("RequestTimeout", 400), 4, 500],
    [() => refused("OperationAborted", 409), 4, 500],
    [() => refused("AccessDenied", 403), 1, 0],
  ];
  for (const [fail, wanted, leastMs] of cases) {
    const clock = new FakeClock();
    let asked = 0;
    const client = clientOf(clock, () => (asked++, fail()));
    const startMs = clock.monotonicMs();
    await assertRejects(() => passing(clock, LIMIT_MS, client.remove("a")), SvcError);
    assert(clock.monotonicMs() - startMs >= leastMs, `${wanted}: ${clock.monotonicMs() - startMs} ms`);
    assertEquals(asked, wanted);
  }
});

Deno.test("S3: credentials that were replaced in their file are used, and expired ones are named", async () => {
  const clock = new FakeClock();
  let [current, read] = [1, 0];
  const tokens: (string | null)[] = [];
  const credentialsOf = (number: number) => ({
    ...{ accessKeyId: "a", secretAccessKey: "b" },
    sessionToken: `token${number}`,
  });
  const client = new S3Client({
    address: { bucket: "robots", prefix: "", region: "eu", endpoint: "http://127.0.0.1:1" },
    credentials: credentialsOf(1),
    clock,
    findCredentials: () => {
      read++;
      // A file that is being written.
      return current === 0
        ? Promise.reject(new Error("no section"))
        : Promise.resolve(credentialsOf(current));
    },
    fetch: (request) => {
      const token = (request as Request).headers.get("x-amz-security-token");
      tokens.push(token);
      const isGood = token === `token${current}` && current !== 3;
      return Promise.resolve(isGood ? text("", { headers: { etag: "e" } }) : refused("ExpiredToken", 400));
    },
  });
  const put = () => client.put("a", new Uint8Array());
  await put();
  assertEquals([tokens, read], [["token1"], 0]);

  current = 2;
  await Promise.all([put(), put()]);
  assertEquals([new Set(tokens), tokens.at(-1)], [new Set(["token1", "token2"]), "token2"]);
  for (const state of [0, 3]) {
    current = state;
    await assertRejects(put, SvcError, "the credentials have expired: write new ones into the file");
  }
});

Deno.test("S3: keys with signs of addresses, and buckets with dots, are asked for under their own names", async () => {
  const asked: Request[] = [];
  const clientIn = (bucket: string, region: string) =>
    new S3Client({
      address: { bucket, prefix: "", region, endpoint: undefined },
      credentials: { accessKeyId: "a", secretAccessKey: "b" },
      clock: new FakeClock(),
      fetch: (request) => {
        asked.push(request as Request);
        return Promise.resolve(text(COPIED, { headers: { etag: "e" } }));
      },
    });
  const keys: readonly [string, string][] = [
    ["a b+c%41", "a%20b%2Bc%2541"],
    ["ä/日本?x=1#y", "%C3%A4/%E6%97%A5%E6%9C%AC%3Fx%3D1%23y"],
    ["it's(1)!*&~//z", "it%27s%281%29%21%2A%26~//z"],
  ];
  for (const [key, wanted] of keys) {
    await clientIn("robots", "eu-west-1").put(key, new Uint8Array());
    assertEquals(asked.at(-1)!.url, `https://robots.s3.eu-west-1.amazonaws.com/${wanted}`);
    await clientIn("robots", "eu-west-1").copy(key, "to");
    assertEquals(asked.at(-1)!.headers.get("x-amz-copy-source"), `/robots/${wanted}`);
  }
  await clientIn("my.robots.example", "us-east-1").put("a", new Uint8Array());
  assertEquals(asked.at(-1)!.url, "https://s3.us-east-1.amazonaws.com/my.robots.example/a");
  await clientIn("robots", "cn-north-1").put("a", new Uint8Array());
  assertEquals(asked.at(-1)!.url, "https://robots.s3.cn-north-1.amazonaws.com.cn/a");
  for (const key of ["../other/a", "a/./b"]) {
    await assertRejects(() => clientIn("robots", "eu").remove(key), SvcError, "between slashes");
  }
});

Deno.test("S3: sizes, sums of parts and ranges that are missing or others are not guessed", async () => {
  const answers: readonly [(client: S3Client) => Promise<unknown>, ResponseInit, string][] = [
    [(client) => client.size("a"), {}, "it gave no Content-Length"],
    [(client) => client.put("a", new Uint8Array()), {}, "it gave no ETag"],
    [(client) => client.putPart("a", "u", 1, new Uint8Array()), {}, "it gave no ETag"],
    [(client) => client.get("a", 5), {}, "it ignores ranges"],
    [
      (client) => client.get("a", 5),
      { status: 206, headers: { "content-range": "bytes 0-21/22" } },
      "it ignores ranges",
    ],
  ];
  for (const [request, init, wanted] of answers) {
    const client = clientOf(new FakeClock(), () => answer(CONTENT, "complete", init));
    await assertRejects(() => request(client), SvcError, wanted);
  }
});

Deno.test("S3: an object is missing if the store says so, and not if there is no bucket or another server", async () => {
  const missing = [() => refused("NoSuchKey", 404), () => new Response(null, { status: 404 })];
  for (const fail of missing) {
    assertEquals(await clientOf(new FakeClock(), fail).get("a", 0), undefined);
    assertEquals(await clientOf(new FakeClock(), fail).copy("a", "b"), false);
  }
  const others = [() => refused("NoSuchBucket", 404), () => text("<html>not here</html>", { status: 404 })];
  for (const fail of others) {
    await assertRejects(() => clientOf(new FakeClock(), fail).get("a", 0), SvcError, "create the bucket");
  }
});

Deno.test("S3: a content that is shorter than its size, or has other bytes, is damaged", async () => {
  const other = CONTENT.slice();
  other[3] ^= 1;
  for (
    const [bytes, wanted] of [[CONTENT.subarray(0, 10), "it ends after 10 of 22 bytes"], [
      other,
      "sum",
    ]] as const
  ) {
    const clock = new FakeClock();
    const client = clientOf(clock, (request) => {
      if (!request.url.includes(SHA256)) return text(listOf(""));
      assertEquals(request.headers.get("accept-encoding"), "identity");
      const from = Number(/bytes=(\d+)-/.exec(request.headers.get("range") ?? "")?.[1] ?? 0);
      const headers: Record<string, string> = from === 0
        ? { "content-length": `${CONTENT.length}` }
        : { "content-range": `bytes ${from}-${CONTENT.length - 1}/${CONTENT.length}` };
      return answer(bytes.subarray(from), "complete", { status: from === 0 ? 200 : 206, headers });
    });
    const files = await passing(clock, LIMIT_MS, S3Files.open(client, { prefix: "", olderThanMs: 0 }));
    const error = await assertRejects(
      () => passing(clock, LIMIT_MS, read(files.read(SHA256))),
      SvcError,
      wanted,
    );
    assertEquals(error.code, "data_loss");
  }
});
