/**
 * The published calls against the rules and the table of unserved calls; `docs/published_calls.md` against both. `deno
 * task golden` rewrites the page.
 */

import { assertEquals } from "@std/assert";
import { UNSERVED } from "../../lib/cloud/access/unserved.ts";
import { pageOf, publishedCalls } from "../spec/published.ts";

const PAGE = new URL("../../docs/published_calls.md", import.meta.url);

Deno.test("every published call is served and tested, or has a reason in UNSERVED", async () => {
  const calls = await publishedCalls();
  const paths = (wrong: typeof calls) => wrong.map(({ path }) => path);
  assertEquals(
    paths(calls.filter(({ served, reason }) => !served && !reason)),
    [],
    "neither served nor in the table",
  );
  assertEquals(paths(calls.filter(({ served, reason }) => served && reason)), [], "served, and in the table");
  assertEquals(
    paths(calls.filter(({ served, madeIn }) => served && madeIn.length === 0)),
    [],
    "made by no test",
  );
});

Deno.test("UNSERVED has published calls only", async () => {
  const published = new Set((await publishedCalls()).map(({ path }) => path));
  assertEquals([...UNSERVED.keys()].filter((path) => !published.has(path)), []);
});

Deno.test("docs/published_calls.md equals the page made of the access rules and UNSERVED", async () => {
  const page = pageOf(await publishedCalls());
  if (Deno.args.includes("--update")) await Deno.writeTextFile(PAGE, page);
  assertEquals(page, await Deno.readTextFile(PAGE), "run: deno task golden");
});
