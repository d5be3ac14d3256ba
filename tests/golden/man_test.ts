/**
 * The manual page in `docs/man` is what `svc-ml man` prints. `deno task golden` rewrites it.
 */

import { assertEquals } from "@std/assert";
import { main } from "../../cli/ml/main.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";

Deno.test("svc-ml man is as in docs/man/svc-ml.1", async () => {
  const page = new URL("../../docs/man/svc-ml.1", import.meta.url);
  const host = new DenoHost();
  let written = "";
  host.write = (text) => void (written += text);
  host.env = () => undefined;
  assertEquals(await main(["man"], host), 0);
  if (Deno.args.includes("--update")) await Deno.writeTextFile(page, written);
  assertEquals(
    written,
    await Deno.readTextFile(page),
    "svc-ml.1 differs; if that is right, run: deno task golden",
  );
});
