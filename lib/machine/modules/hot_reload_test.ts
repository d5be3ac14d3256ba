import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { HotReload } from "./hot_reload.ts";

async function withHotReload(
  files: Record<string, string>,
  use: (
    bench: { host: FakeHost; later: () => Promise<void>; restarted: string[]; logged: () => string[] },
  ) => Promise<void>,
) {
  const host = new FakeHost({ files });
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const restarted: string[] = [];
  const hot = new HotReload({
    folder: "/src",
    files: host,
    programs:
      () => [{ name: "mine", program: "/src/run.sh" }, { name: "other", program: "/elsewhere/run.sh" }],
    restart: (name) => {
      restarted.push(name);
      return name === "mine" ? Promise.resolve() : Promise.reject(new Error("it crashed"));
    },
    clock,
    logger: new Logs(clock, [memorySink(records)]).logger("hot"),
  });
  const later = async () => {
    for (let looks = 0; looks < 4; looks++) await clock.advance(400);
  };
  await later();
  await use({ host, later, restarted, logged: () => records.splice(0).map(({ message }) => message) });
  await hot.close();
}

Deno.test("HotReload: starts only the modules of its folder again, once for several changed files", async () => {
  await withHotReload(
    { "/src/run.sh": "#!/bin/sh", "/src/lib/a.py": "1" },
    async ({ host, later, restarted, logged }) => {
      assertEquals(restarted, []);
      host.put("/src/lib/a.py", "22");
      host.put("/src/b.py", "new");
      await later();
      assertEquals(restarted, ["mine"]);
      assertEquals(logged(), ['module "mine" starts again: b.py and 1 more files changed']);
      await later();
      assertEquals(restarted, ["mine"]);
      await host.remove("/src/b.py");
      await later();
      assertEquals(restarted, ["mine", "mine"]);
    },
  );
});

Deno.test("HotReload: what tools and programs write changes nothing", async () => {
  await withHotReload({ "/src/run.sh": "#!/bin/sh" }, async ({ host, later, restarted }) => {
    for (
      const path of [
        "venv/lib/x.py",
        ".git/index",
        "__pycache__/a.pyc",
        "out.log",
        "node_modules/a/b.js",
        "a.py~",
      ]
    ) {
      host.put(`/src/${path}`, "written");
    }
    await later();
    assertEquals(restarted, []);
  });
});

Deno.test("HotReload: says so if there is nothing to watch, or no module in the folder", async () => {
  await withHotReload({}, async ({ host, later, logged, restarted }) => {
    assertEquals(logged(), ["hot reload: there are no files in /src"]);
    host.put("/src/a.py", "1");
    await later();
    assertEquals(restarted, ["mine"]);
  });
});
