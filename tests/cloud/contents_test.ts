/**
 * Contents in a folder and in an object store: the same promises, and the way from one to the other.
 */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import type { FileStore } from "../../lib/cloud/store/files.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import { findS3Credentials, parseS3Address } from "../../lib/cloud/store/s3/s3_address.ts";
import { S3Client } from "../../lib/cloud/store/s3/s3_client.ts";
import { S3Files } from "../../lib/cloud/store/s3/s3_files.ts";
import { withS3 } from "../support/s3_server.ts";
import { svcCloud } from "./program.ts";

const PREFIX = "machines/one/";
const MISSING = "0".repeat(64);
const LATER_MS = 60_000;

const settings = { prefix: PREFIX, olderThanMs: 0 };

async function* pieces(count: number, bytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < count; at++) yield new Uint8Array(bytes).fill(at);
}

async function lengthOf(content: AsyncIterable<Uint8Array>): Promise<number> {
  let bytes = 0;
  for await (const piece of content) bytes += piece.length;
  return bytes;
}

const listed = (files: FileStore) =>
  Array.fromAsync(files.list({ olderThanMs: Date.now() + LATER_MS })).then((all) => all.sort());

/** What both kinds of stores promise. */
async function checkPromises(files: FileStore): Promise<void> {
  const small = await files.put(pieces(2, 3));
  const empty = await files.put(pieces(0, 0));
  // More than two parts, with an end in the midst of one.
  const large = await files.receive(pieces(250, 70_001));
  const { sha256, bytes } = large.file;
  assertEquals([small.bytes, empty.bytes, bytes], [6, 0, 250 * 70_001]);
  await large.keep();

  assertEquals(await lengthOf(files.read(sha256)), bytes);
  assertEquals(await lengthOf(files.read(sha256, bytes - 10)), 10);
  assertEquals(await lengthOf(files.read(sha256, bytes)), 0);
  assertEquals(await lengthOf(files.read(empty.sha256)), 0);
  assertEquals(await files.size(small.sha256), 6);
  assertEquals(await listed(files), [small.sha256, empty.sha256, sha256].sort());
  assertEquals(await Array.fromAsync(files.list({ olderThanMs: 0 })), []);

  for (const count of [3, 40]) {
    const error = await assertRejects(
      () => files.put(pieces(count, 1_000_000), count * 1_000_000 - 1),
      SvcError,
    );
    assertEquals(error.code, "resource_exhausted");
  }
  assertEquals((await assertRejects(() => files.size(MISSING), SvcError)).code, "not_found");
  assertEquals((await assertRejects(() => lengthOf(files.read(MISSING)), SvcError)).code, "not_found");
  await assertRejects(() => files.size("../../etc/passwd"), SvcError, "is no SHA-256");

  // A content that somebody refers to in the midst of its removal stays.
  await files.removeUnless(sha256, async () => {
    await assertRejects(() => files.size(sha256), SvcError);
    return true;
  });
  assertEquals(await lengthOf(files.read(sha256)), bytes);
  await assertRejects(
    () => files.removeUnless(sha256, () => Promise.reject(new Error("no database"))),
    Error,
    "no database",
  );
  assertEquals(await files.size(sha256), bytes);

  // An uploader keeps a content that another removes before the reference stands.
  for (const again of [pieces(2, 3), pieces(250, 70_001)]) {
    const upload = await files.receive(again);
    await files.removeUnless(upload.file.sha256, () => Promise.resolve(false));
    await assertRejects(() => files.size(upload.file.sha256), SvcError);
    await upload.keep();
    assertEquals(await files.size(upload.file.sha256), upload.file.bytes);
  }
  await files.removeUnless(sha256, () => Promise.resolve(false));
  await files.removeUnless(sha256, () => Promise.reject(new Error("not asked")));
  for (const one of [small, empty]) await files.remove(one.sha256);
  assertEquals(await listed(files), []);
}

Deno.test("a folder keeps the promises of contents", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-files-" });
  try {
    await checkPromises(await FolderFiles.open(new SystemFiles(), folder, settings));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("an object store keeps the promises of contents, survives breaks, and notices damage", (test) =>
  withS3(async (server) => {
    const client = server.client();
    const files = await S3Files.open(client, settings);
    const allKeys = () => Array.fromAsync(client.list("")).then((all) => all.map(({ key }) => key));

    await test.step("promises", async () => {
      await checkPromises(files);
      const keys = await allKeys();
      assert(keys.every((key) => key.startsWith(`${PREFIX}contents/`)), `left behind: ${keys.join(", ")}`);
    });

    const { sha256, bytes } = await files.put(pieces(20, 50_000));
    await test.step("a connection that breaks is taken up where it broke, and a busy server is asked again", async () => {
      let breaks = 0;
      const breaking: typeof fetch = async (request, init) => {
        if (breaks === 0 && (request as Request).method === "HEAD") {
          breaks++;
          return new Response(null, { status: 503 });
        }
        const answer = await fetch(request, init);
        if ((request as Request).method !== "GET" || breaks > 3) return answer;
        breaks++;
        return new Response(cutOff(answer.body!, 300_000), answer);
      };
      const shaky = await S3Files.open(clientOf(server.address, breaking), settings);
      assertEquals(await lengthOf(shaky.read(sha256)), bytes);
      assert(breaks > 2);
    });

    await test.step("a content that has lost a part is whole again after an upload", async () => {
      const small = await files.put(pieces(1, 1_000));
      for (const [one, count, size] of [[small, 1, 1_000], [{ sha256, bytes }, 20, 50_000]] as const) {
        const key = `${PREFIX}contents/${one.sha256}`;
        await client.put(key, new Uint8Array(one.bytes - 1));
        await files.put(pieces(count, size));
        assertEquals(await client.size(key), one.bytes);
        assertEquals(await lengthOf(files.read(one.sha256)), one.bytes);
      }
      await files.remove(small.sha256);
    });
    await test.step("a changed content is not handed out whole", async () => {
      await client.put(`${PREFIX}contents/${sha256}`, new Uint8Array(bytes));
      let handedOut = 0;
      const error = await assertRejects(async () => {
        for await (const piece of files.read(sha256)) handedOut += piece.length;
      }, SvcError);
      assertEquals(error.code, "data_loss");
      assert(handedOut < bytes);
      await files.remove(sha256);
    });

    await test.step("what a killed process left behind: uploads go, contents that were being removed come back", async () => {
      await client.put(`${PREFIX}uploads/${crypto.randomUUID()}`, new Uint8Array(3));
      await client.put(`${PREFIX}uploads/notes.txt`, new Uint8Array(3));
      await client.put(`${PREFIX}aside/${sha256}/1`, new Uint8Array(3));
      await client.put(`${PREFIX}aside/other/1`, new Uint8Array(3));
      await S3Files.open(client, { ...settings, olderThanMs: Date.now() + LATER_MS });
      const keys = await allKeys();
      const foreign = [`${PREFIX}aside/other/1`, `${PREFIX}uploads/notes.txt`];
      assertEquals(keys.filter((key) => !key.includes("/contents/")).sort(), foreign, "not ours to remove");
      assert(keys.includes(`${PREFIX}contents/${sha256}`));
      for (const key of foreign) await client.remove(key);
      await files.remove(sha256);
    });

    await test.step("wrong credentials and wrong addresses are told", async () => {
      const bad = new S3Client({
        address: parseS3Address(server.address, () => undefined),
        credentials: { accessKeyId: "nobody", secretAccessKey: "wrong" },
        clock: new SystemClock(),
      });
      const error = await assertRejects(() => S3Files.open(bad, settings), SvcError);
      assertStringIncludes(error.message, "the object store refused GET");
      const elsewhere = clientOf("s3://other-bucket?endpoint=" + server.address.split("endpoint=")[1]);
      await assertRejects(() => S3Files.open(elsewhere, settings), SvcError, "NoSuchBucket");
    });

    await test.step("svc-cloud files move copies contents there and back, and goes on after a break", async () => {
      const data = await Deno.makeTempDir({ prefix: "svc-cloud-" });
      const before = Object.keys(server.env).map((name) => [name, Deno.env.get(name)] as const);
      for (const [name, value] of Object.entries(server.env)) Deno.env.set(name, value);
      try {
        await svcCloud("init", "--data", data, "--json");
        const folder = await FolderFiles.open(new SystemFiles(), `${data}/files`, settings);
        const kept = await Promise.all([3, 9_000_000].map((size) => folder.put(pieces(1, size))));
        const move = (place: string, ...more: string[]) =>
          svcCloud("files", "move", place, "--data", data, "--json", ...more).then((text) =>
            JSON.parse(text)
          );
        const held = (await listed(folder)).length;
        assertEquals((await move(server.address)).copied, held);
        await files.remove(kept[0].sha256);
        assertEquals(await move(server.address), { copied: 1, bytes: 3, present: held - 1 });
        assertEquals(await listed(files), await listed(folder));

        const back = `${data}/back`;
        assertEquals((await move(back, "--files", server.address)).copied, held);
        assertEquals(
          await listed(await FolderFiles.open(new SystemFiles(), back, settings)),
          await listed(folder),
        );
      } finally {
        for (const [name, value] of before) {
          if (value === undefined) Deno.env.delete(name);
          else Deno.env.set(name, value);
        }
        await Deno.remove(data, { recursive: true });
      }
    });
  }));

/** An empty prefix of another store, such as one that `versitygw` serves; its credentials come from the environment. */
const OTHER_STORE = Deno.env.get("SVC_TEST_S3");

Deno.test({
  name:
    "the object store that SVC_TEST_S3 names keeps the promises, lists pages, and forgets unfinished uploads",
  ignore: OTHER_STORE === undefined,
  fn: async () => {
    const address = parseS3Address(OTHER_STORE!, (name) => Deno.env.get(name));
    const credentials = await findS3Credentials((name) => Deno.env.get(name), new SystemFiles());
    const client = new S3Client({ address, credentials, clock: new SystemClock() });
    const { prefix } = address;
    const files = await S3Files.open(client, { prefix, olderThanMs: 0 });
    await checkPromises(files);

    const many = Array.from({ length: 1_203 }, (_, at) => at.toString(16).padStart(64, "0"));
    for (const sha256 of many) await client.put(`${prefix}contents/${sha256}`, new Uint8Array(1));
    assertEquals(await listed(files), many);
    for (const sha256 of many) await files.remove(sha256);

    const uploads = () => Array.fromAsync(client.uploads(prefix));
    const key = `${prefix}uploads/${crypto.randomUUID()}`;
    await client.putPart(key, await client.beginUpload(key), 1, new Uint8Array(6_000_000));
    assertEquals((await uploads()).length, 1);
    await S3Files.open(client, { prefix, olderThanMs: Date.now() + LATER_MS });
    assertEquals(await uploads(), []);
  },
});

function clientOf(address: string, fetcher?: typeof fetch): S3Client {
  return new S3Client({
    address: parseS3Address(address, () => undefined),
    credentials: { accessKeyId: "S3RVER", secretAccessKey: "S3RVER" },
    clock: new SystemClock(),
    fetch: fetcher,
  });
}

/** The beginning of a body, and then an error. */
function cutOff(body: ReadableStream<Uint8Array>, bytesMax: number): ReadableStream<Uint8Array> {
  let bytes = 0;
  return body.pipeThrough(
    new TransformStream({
      transform(piece, controller) {
        bytes += piece.length;
        if (bytes > bytesMax) controller.error(new Error("connection reset"));
        else controller.enqueue(piece);
      },
    }),
  );
}
