import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { dirname } from "node:path";
import { SystemFiles } from "../../base/files/system_files.ts";
import { FakeFiles } from "../../../tests/support/fake_files.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { staticRoutes } from "./static_files.ts";
import type { RouteAnswer } from "./route.ts";

type Ask = (path: string, options?: { method?: string; fields?: HeaderFields }) => Promise<RouteAnswer>;

/** The pages of a folder `site` on a real disk, with a file beside the folder that it must not serve. */
async function withSite(files: { [path: string]: string }, use: (ask: Ask, folder: string) => Promise<void>) {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${folder}/site`);
    await Deno.writeTextFile(`${folder}/secret.txt`, "secret");
    for (const [path, text] of Object.entries(files)) {
      await Deno.mkdir(dirname(`${folder}/site/${path}`), { recursive: true });
      await Deno.writeTextFile(`${folder}/site/${path}`, text);
    }
    const route = (await staticRoutes(`${folder}/site`, new SystemFiles())).get("/static/*")!;
    await use(async (path, { method = "GET", fields = [] } = {}) => {
      const query = new URLSearchParams();
      const peer = { kind: "grpc", remoteAddress: "192.0.2.7" } as const;
      const nothing = (async function* () {})();
      return await route({
        method,
        path,
        query,
        fields,
        peer,
        body: nothing,
        signal: new AbortController().signal,
      });
    }, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function bodyOf({ body }: RouteAnswer): Promise<string> {
  if (typeof body === "string" || body instanceof Uint8Array) return Buffer.from(body).toString();
  return Buffer.concat(await Array.fromAsync(body)).toString();
}

const marked = (answer: RouteAnswer) => new Map(answer.fields).get("etag")!;

Deno.test("static files: the files of a folder, with types, ranges and entity tags", async () => {
  await withSite(
    { "hello.TXT": "hello", "app/x.js": "let x", "dä ta": "?", "empty.css": "" },
    async (ask) => {
      const hello = await ask("/static/hello.TXT");
      assertEquals([hello.status, hello.contentType, hello.bytes], [200, "text/plain; charset=utf-8", 5]);
      assertEquals(await bodyOf(hello), "hello");
      assertEquals((await ask("/static/app/x.js")).contentType, "text/javascript; charset=utf-8");
      assertEquals((await ask("/static/d%C3%A4%20ta")).contentType, "application/octet-stream");
      assertEquals(await bodyOf(await ask("/static/empty.css")), "");

      const part = await ask("/static/hello.TXT", { fields: [["range", "bytes=1-2"]] });
      assertEquals([part.status, await bodyOf(part)], [206, "el"]);
      assertEquals((await ask("/static/hello.TXT", { fields: [["range", "bytes=9-"]] })).status, 416);
      assertMatch(marked(hello), /^"5-[0-9a-f]+"$/);
      const known = await ask("/static/hello.TXT", { fields: [["if-none-match", marked(hello)]] });
      assertEquals([known.status, await bodyOf(known)], [304, ""]);
      const refused = await ask("/static/hello.TXT", { method: "POST" });
      assertEquals([refused.status, refused.body], [405, "/static/hello.TXT answers GET, not POST\n"]);
    },
  );
});

Deno.test("static files: a folder serves its index.html and redirects to its trailing slash", async () => {
  await withSite({ "index.html": "<p>home", "a/index.html": "<p>a", "b/c.txt": "c" }, async (ask) => {
    assertEquals(await bodyOf(await ask("/static/")), "<p>home");
    const moved = await ask("/static/a");
    assertEquals([moved.status, new Map(moved.fields).get("location")], [301, "/static/a/"]);
    assertEquals(await bodyOf(await ask("/static/a/")), "<p>a");
    assertEquals((await ask("/static/b/")).status, 404);
  });
});

Deno.test("static files: a subfolder static is the root where it exists, as published", async () => {
  await withSite({ "static/a.txt": "a", "templates/b.html": "b" }, async (ask) => {
    assertEquals(await bodyOf(await ask("/static/a.txt")), "a");
    assertEquals((await ask("/static/templates/b.html")).status, 404);
    assertEquals((await ask("/static/../templates/b.html")).status, 404);
  });
});

const OUTSIDE = [
  "/static/../secret.txt",
  "/static/%2e%2e/secret.txt",
  "/static/..%2fsecret.txt",
  "/static/a/../../secret.txt",
  "/static//../secret.txt",
  "/static/..\\secret.txt",
  "/static/%5c..%5csecret.txt",
  "/static/out.txt",
  "/static/out/secret.txt",
  "/static/out",
  "/static/C:/secret.txt",
  "/static/secret.txt%00.css",
  "/static/%",
  "/static/%ff",
  "/static/.env",
  "/static/.git/config",
  "/static/pipe",
  `/static/${"a/".repeat(5000)}`,
  `/static/${"a".repeat(5000)}`,
];

Deno.test("static files: paths outside the folder, hidden files and special files give 404", async () => {
  await withSite({ "in.txt": "in", ".env": "secret", ".git/config": "secret" }, async (ask, folder) => {
    await Deno.symlink(`${folder}/secret.txt`, `${folder}/site/out.txt`);
    await Deno.symlink(folder, `${folder}/site/out`);
    await Deno.symlink(`${folder}/site/in.txt`, `${folder}/site/again.txt`);
    const { success } = await new Deno.Command("mkfifo", { args: [`${folder}/site/pipe`] }).output();
    assertEquals(success, true);
    for (const path of OUTSIDE) {
      const answer = await ask(path);
      assertEquals([path, answer.status], [path, 404]);
    }
    assertEquals(await bodyOf(await ask("/static/again.txt")), "in", "a link within the folder");
  });
});

Deno.test("static files: a missing folder is an error that names it", async () => {
  const error = await assertRejects(() => staticRoutes("/no/such", new FakeFiles()));
  assertStringIncludes(String(error), 'there is no folder "/no/such" with static web assets');
});
