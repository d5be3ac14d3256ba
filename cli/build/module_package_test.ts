/** How the build gets the packages of its tools. */

import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { installPackages } from "./module_package.ts";

Deno.test("installPackages() says in one line that no registry answers, after two tries for each package", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-build-" });
  const asked = new Map<string, number>();
  await using registry = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, ({ url }) => {
    const { pathname } = new URL(url);
    asked.set(pathname, (asked.get(pathname) ?? 0) + 1);
    return new Response("the registry is away", { status: 503 });
  });
  const env = {
    npm_config_registry: `http://127.0.0.1:${registry.addr.port}`,
    npm_config_cache: `${folder}/cache`,
    npm_config_update_notifier: "false",
  };
  try {
    const { code, message } = await assertRejects(
      () => installPackages(folder, ["one@1.0.0"], env),
      SvcError,
    );
    assertEquals([code, message.split("\n").length], ["unavailable", 1]);
    assertMatch(message, /^Cannot install one@1.0.0 with npm: 503 .*; connect to npm's registry$/);
    assertEquals([...asked], [["/one", 2]]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
