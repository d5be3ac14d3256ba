import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { FakeFiles } from "../../tests/support/fake_files.ts";
import { agentUnit } from "../../lib/agent/system/service_unit.ts";
import { requireOwnFolder, requireOwnService, uninstalledPaths } from "./install.ts";

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

Deno.test("an uninstallation does not stop the service of an agent in another folder", async () => {
  const withService = (base: string) => {
    const { text } = agentUnit({ base, configPath: "/etc/svc.json", defaultsPath: "/etc/defaults.json" });
    return FakeFiles.with({
      "/etc/systemd/system/svc-agent.service": text,
      "/home/svc-agent/state/settings.json": "{}",
    });
  };
  // None of the wrong folders has to exist.
  for (const base of ["/opt/svc", "/opt/my agent", '/opt/100%/$HOME/a"b']) {
    const files = withService(base);
    await requireOwnService(files, base);
    await requireOwnService(files, `${base}/`);
    for (const dir of ["/opt/scv", "/home/svc-agent", `${base}2`]) {
      const error = await assertRejects(() => requireOwnService(files, dir), SvcError, "nothing was removed");
      assertEquals(error.message.includes(`works in ${base}, found --dir ${dir}`), true, error.message);
    }
  }
  await requireOwnService(FakeFiles.with({}), "/opt/svc");
  const older = "[Service]\nExecStart=/opt/svc/bin/svc-agent-loader\n";
  await requireOwnService(FakeFiles.with({ "/etc/systemd/system/svc-agent.service": older }), "/opt/svc");
});

Deno.test("an uninstallation with --purge leaves no secret and no trust, and one without it the device's own files", () => {
  const flags = { dir: "/opt/svc", config: "/etc/svc.json", defaults: "/etc/svc-defaults.json" };
  const kept = uninstalledPaths({ ...flags, purge: false }, "linux");
  const all = uninstalledPaths({ ...flags, purge: true }, "linux");
  const own = ["/etc/svc.json", "/etc/svc-defaults.json", "/etc/svc-ca.pem", "/etc/default/svc-agent"];
  assertEquals(kept.filter((path) => own.includes(path)), []);
  assertEquals(all, [...kept, ...own]);
  assertEquals(kept[0], "/opt/svc");
  assertEquals(uninstalledPaths({ ...flags, purge: true }, "windows"), ["/opt/svc", ...own.slice(0, 3)]);
});
