import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { FakeFiles } from "../../tests/support/fake_files.ts";
import { requireOwnFolder } from "./install.ts";

Deno.test("only a folder of an agent is removed, whatever --dir says", async () => {
  const files = FakeFiles.with({
    "/opt/svc/bin/svc-agent-loader": "#!/bin/sh",
    "/home/svc-agent/state/settings.json": "{}",
    "/opt/other/tool": "a program",
  });
  for (const dir of ["/opt/svc", "/home/svc-agent", "/opt/none"]) await requireOwnFolder(files, dir);
  for (const dir of ["/", "/opt", "/opt/other"]) {
    const { code } = await assertRejects(() => requireOwnFolder(files, dir), SvcError, "nothing was removed");
    assertEquals(code, "failed_precondition");
  }
});
