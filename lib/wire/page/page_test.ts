import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { openPort } from "../port/port.ts";
import { ServiceTable } from "../rpc/service.ts";
import { packAssets, type PageAsset, unpackAssets } from "./archive.ts";
import { pageRoutes } from "./page.ts";

const clock = new SystemClock();
const INDEX = "<!doctype html><title>machine</title>";
const OTHER = "<!doctype html><title>other</title>";
const SCRIPT = "console.log('one');\n".repeat(100);

function asset(path: string, text: string, contentType: string): PageAsset {
  const bytes = new TextEncoder().encode(text);
  const contents = {
    br: new Uint8Array(brotliCompressSync(bytes)),
    gzip: new Uint8Array(gzipSync(bytes)),
  };
  return { path, contentType, sum: `sum${text.length}`, contents };
}

const ASSETS = [
  asset("index.html", INDEX, "text/html; charset=utf-8"),
  asset("other.html", OTHER, "text/html; charset=utf-8"),
  asset("assets/app-1a2b.js", SCRIPT, "text/javascript; charset=utf-8"),
];

Deno.test("packAssets and unpackAssets: every asset returns in every encoding", () => {
  const unpacked = unpackAssets(packAssets(ASSETS));
  assertEquals([...unpacked.values()], ASSETS);
});

Deno.test("unpackAssets: refuses what is cut off or something else", () => {
  const packed = packAssets(ASSETS);
  for (const bytes of [packed.slice(0, 5), packed.slice(0, 60), packed.slice(0, -1), new Uint8Array(500)]) {
    const error = assertThrows(() => unpackAssets(bytes), SvcError);
    assertEquals(error.code, "data_loss");
  }
});

Deno.test("page: the port answers with the page, its policy, its encodings and its validators", async (t) => {
  let bytes: Uint8Array<ArrayBuffer> | undefined = packAssets(ASSETS);
  const source = { load: () => Promise.resolve(bytes), remedy: "build it." };
  const routes = pageRoutes(source, { greeting: "This is a test.", documents: ["other"] });
  const bind = { host: "127.0.0.1", port: 0 };
  const port = await openPort({ table: new ServiceTable(clock), clock, bind, http: { routes } });
  const get = (path: string, init: RequestInit = {}) => fetch(`${port.url}${path}`, init);

  await t.step("a further document by its name, asked for again each time", async () => {
    const answer = await get("/other");
    assertEquals([answer.status, await answer.text()], [200, OTHER]);
    assertEquals(answer.headers.get("cache-control"), "no-cache");
    const missing = await get("/other.html");
    assertEquals(missing.status, 404);
    await missing.body?.cancel();
  });
  await t.step("the index, whose policy lets in nothing from elsewhere", async () => {
    const answer = await get("/", { headers: { "accept-encoding": "gzip" } });
    assertEquals([answer.status, await answer.text()], [200, INDEX]);
    const policy = answer.headers.get("content-security-policy") ?? "";
    for (
      const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"]
    ) {
      assertStringIncludes(policy, part);
    }
    assert(!/unsafe|\*|https?:/.test(policy), policy);
    const fields = [
      "referrer-policy",
      "x-content-type-options",
      "cross-origin-resource-policy",
      "cache-control",
    ];
    assertEquals(fields.map((name) => answer.headers.get(name)), [
      "no-referrer",
      "nosniff",
      "same-origin",
      "no-cache",
    ]);
    assertEquals(answer.headers.get("access-control-allow-origin"), null);
  });

  await t.step("an asset in the encoding that the client takes, for ever", async () => {
    for (
      const [accepted, sent] of [["gzip, deflate, br", "br"], ["br;q=0, gzip", "gzip"], [
        "identity",
        null,
      ]] as const
    ) {
      const answer = await get("/assets/app-1a2b.js", { headers: { "accept-encoding": accepted } });
      assertEquals(answer.status, 200);
      // The client of this test removes the field of an encoding that it has undone.
      assertEquals(await answer.text(), SCRIPT, accepted);
      const tag = answer.headers.get("etag") ?? "";
      assertStringIncludes(tag, sent ?? "identity");
      assertStringIncludes(answer.headers.get("cache-control") ?? "", "immutable");
      const again = await get("/assets/app-1a2b.js", {
        headers: { "accept-encoding": accepted, "if-none-match": tag },
      });
      assertEquals([again.status, await again.text()], [304, ""]);
    }
  });

  await t.step("HEAD has no body, other methods are refused, other assets are not there", async () => {
    const head = await get("/", { method: "HEAD" });
    assertEquals([head.status, await head.text()], [200, ""]);
    for (const method of ["POST", "PUT", "DELETE"]) {
      const answer = await get("/", { method });
      assertEquals([answer.status, await answer.text()], [405, `/ answers GET, not ${method}\n`]);
    }
    for (const path of ["/assets/other.js", "/assets/", "/assets/%2e%2e/index.html", "/index.html"]) {
      const answer = await get(path);
      assertEquals(answer.status, 404, path);
      await answer.body?.cancel();
    }
  });

  await t.step("without a built page, one line says how to build it", async () => {
    bytes = undefined;
    const answer = await get("/");
    assertEquals(answer.status, 200);
    assertStringIncludes(await answer.text(), "It has no page: build it.\n");
  });
  await port.close(0);
});
