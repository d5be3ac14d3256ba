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
    return answer(EMPTY_LIST, "complete", { headers: { etag: "one" } });
  });
  const part = client.putPart("one", "upload", 1, new Uint8Array(8 * 1024 * 1024));
  assertEquals(await passing(clock, LIMIT_MS, part), { number: 1, etag: "one" });
  assertEquals(await passing(clock, LIMIT_MS, client.copy("one", "two")), true);
  await assertRejects(() => passing(clock, LIMIT_MS, client.size("one")), SvcError, "no answer");
});
