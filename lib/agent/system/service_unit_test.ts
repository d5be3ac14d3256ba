import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { silentLogs } from "../../base/log/log.ts";
import { FakeCommands } from "../../../tests/support/fake_commands.ts";
import { decideSettings } from "../settings/settings.ts";
import { Needrestart, NEEDRESTART_FILE } from "./needrestart.ts";
import { installRuntime, PROGRAM, removeRuntime, runtimeUnit } from "./runtime_service.ts";
import { AGENT, agentUnit } from "./service_unit.ts";
import { installService, removeService, type ServiceParts } from "./systemd.ts";
import { SystemFiles } from "../../base/files/system_files.ts";

const OPTIONS = { base: "/opt/svc", configPath: "/etc/svc.json", defaultsPath: "/etc/svc-defaults.json" };
const UNIT = agentUnit(OPTIONS);
const LOCAL = "/usr/local/lib/systemd/system";
const ETC = "/etc/systemd/system";

interface Scene {
  readonly parts: ServiceParts;
  readonly commands: FakeCommands;
  readonly unit: (folder: string) => Promise<string | undefined>;
  /** The link of the services that start with the system. */
  readonly enabled: () => Promise<string | undefined>;
}

async function scene(known: string, work: (scene: Scene) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir();
  const commands = new FakeCommands({ "systemd-path": { output: known } });
  const logger = silentLogs(new SystemClock()).logger("test");
  const unit = (folder: string) =>
    Deno.readTextFile(`${root}${folder}/svc-agent.service`).catch(() => undefined);
  const link = `${root}${ETC}/multi-user.target.wants/svc-agent.service`;
  const enabled = () => Deno.readLink(link).catch(() => undefined);
  try {
    await work({ parts: { files: new SystemFiles(), commands, logger, root }, commands, unit, enabled });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("agentUnit: restarts the loader always and leaves the runtime running", () => {
  const { text } = agentUnit({ ...OPTIONS, base: "/opt/my svc", configPath: "/etc/100%$.json" });
  assertMatch(text, /^ExecStart="\/opt\/my svc\/bin\/svc-agent-loader" --dir "\/opt\/my svc" --config /m);
  assert(text.includes(" --config /etc/100%%$$.json "), "what systemd would replace is not replaced");
  assertMatch(text, /^ExecStartPre=-\/bin\/sh -c "\[ -x .*sleep 5" "\/opt\/my svc\/bin\/svc-agent-loader"$/m);
  const lines = text.split("\n");
  const wanted = [
    ...["Restart=always", "RestartSec=0", "KillMode=process", "StartLimitIntervalSec=0"],
    "OOMPolicy=continue",
  ];
  const kept = ["RuntimeDirectoryPreserve=yes", "WatchdogSec=180", "NotifyAccess=all", "TimeoutStopSec=240"];
  for (const line of [...wanted, ...kept]) assert(lines.includes(line), line);
});

Deno.test("installService: writes and enables a new unit, and a second run changes nothing", async () => {
  await scene(`${ETC}:${LOCAL}:/usr/lib/systemd/system`, async ({ parts, commands, unit, enabled }) => {
    await installService(UNIT, parts);
    assertEquals(await unit(LOCAL), UNIT.text);
    assertEquals(commands.ran.slice(2), ["systemctl daemon-reload"]);
    assertEquals(await enabled(), `${LOCAL}/svc-agent.service`);
    commands.ran.length = 0;
    await installService(UNIT, parts);
    assertEquals(commands.ran, ["systemctl --version", "systemd-path systemd-search-system-unit"]);
  });
});

Deno.test("installService: updates a changed unit and keeps a disabled service disabled", async () => {
  await scene(LOCAL, async ({ parts, commands, unit, enabled }) => {
    await installService(UNIT, parts);
    commands.ran.length = 0;
    await Deno.remove(`${parts.root}${ETC}/multi-user.target.wants/svc-agent.service`);
    await installService(agentUnit({ ...OPTIONS, configPath: "/etc/other.json" }), parts);
    assertMatch((await unit(LOCAL))!, /--config \/etc\/other.json/);
    assertEquals(await enabled(), undefined);
    assertEquals(commands.ran.slice(2), ["systemctl daemon-reload"]);
  });
});

Deno.test("installService: moves a unit from /etc to /usr/local/lib if systemd reads it there", async () => {
  await scene(ETC, async ({ parts, commands, unit }) => {
    await installService(UNIT, parts);
    assertEquals([await unit(ETC) !== undefined, await unit(LOCAL)], [true, undefined]);
    commands.answers["systemd-path"] = { output: `${LOCAL}:${ETC}` };
    commands.ran.length = 0;
    await installService(UNIT, parts);
    assertEquals([await unit(ETC), await unit(LOCAL)], [undefined, UNIT.text]);
  });
});

Deno.test("removeService: stops and removes the unit, and a missing unit is no error", async () => {
  await scene(LOCAL, async ({ parts, commands, unit }) => {
    await installService(UNIT, parts);
    commands.ran.length = 0;
    await removeService(AGENT, parts);
    assertEquals(await unit(LOCAL), undefined);
    const reset = "systemctl reset-failed svc-agent";
    assertEquals(commands.ran.slice(1), [
      "systemctl disable --now svc-agent",
      "systemctl daemon-reload",
      reset,
    ]);
    commands.ran.length = 0;
    await removeService(AGENT, parts);
    assertEquals(commands.ran, ["systemctl --version"]);
  });
});

Deno.test("needrestart leaves the services of the machine alone, wherever it is installed", async () => {
  await scene(LOCAL, async ({ parts }) => {
    const rules = () => Deno.readTextFile(`${parts.root}${NEEDRESTART_FILE}`).catch(() => "none");
    const ours = "$nrconf{override_rc}{qr(^svc-(agent|server)\\.service$)} = 0;\n";
    const settings = decideSettings({}).settings;
    const kept = { ...settings, advanced: { ...settings.advanced, disableSystemConfiguration: true } };
    const needrestart = new Needrestart(parts);
    await needrestart.apply(settings);
    assertEquals(await rules(), "none", "it is not installed");
    await Deno.mkdir(`${parts.root}/etc/needrestart`, { recursive: true });
    await needrestart.apply(kept);
    assertEquals(await rules(), "none");
    await needrestart.apply(settings);
    assertStringIncludes(await rules(), ours);

    await Deno.remove(`${parts.root}/etc/needrestart/conf.d`, { recursive: true });
    await Deno.writeTextFile(`${parts.root}/download`, "version 1");
    await installRuntime(`${parts.root}/download`, "/etc/svc.json", parts);
    assertStringIncludes(await rules(), ours);
    await removeRuntime(parts);
    assertEquals(await rules(), "none");
  });
});

Deno.test("svc-server is its own service until an agent replaces it", async () => {
  await scene(LOCAL, async ({ parts, commands, unit }) => {
    const download = `${parts.root}/download`;
    const installed = () => Deno.readTextFile(`${parts.root}${PROGRAM}`).catch(() => undefined);
    const runtime = () =>
      Deno.readTextFile(`${parts.root}${LOCAL}/svc-server.service`).catch(() => undefined);
    await Deno.writeTextFile(download, "version 1");
    await installRuntime(download, "/etc/my machine.json", parts);
    assertEquals(await installed(), "version 1");
    assertEquals(
      commands.ran[0],
      `restorecon -R ${parts.root}${PROGRAM}`,
      "or SELinux forbids systemd to run it",
    );
    assertEquals((await Deno.stat(`${parts.root}${PROGRAM}`)).mode! & 0o777, 0o755);
    assertEquals(await runtime(), runtimeUnit("/etc/my machine.json").text);
    assertMatch((await runtime())!, /^OOMPolicy=continue$/m);
    assertMatch((await runtime())!, /^NotifyAccess=main$/m, "or its watchdog gets no signs of life");
    assertMatch(
      (await runtime())!,
      /^ExecStart=\/usr\/local\/bin\/svc-server -config "\/etc\/my machine.json"$/m,
    );
    const link = `${parts.root}${ETC}/multi-user.target.wants/svc-server.service`;
    assertEquals(await Deno.readLink(link), `${LOCAL}/svc-server.service`);

    await Deno.writeTextFile(download, "version 2");
    await installRuntime(download, "/etc/my machine.json", parts);
    assertEquals(await installed(), "version 2");

    await installService(UNIT, parts);
    commands.ran.length = 0;
    await removeRuntime(parts);
    assertEquals(commands.ran.slice(1, 3), ["systemctl disable --now svc-server", "systemctl daemon-reload"]);
    assertEquals([await runtime(), await installed()], [undefined, undefined]);
    commands.ran.length = 0;
    await removeRuntime(parts);
    assertEquals(commands.ran, []);

    const refused = () => installRuntime(download, "/etc/svc.json", parts);
    const { code } = await assertRejects(refused, SvcError, "agent.version_control");
    assertEquals([code, await installed()], ["failed_precondition", undefined]);
    assertEquals(await unit(LOCAL), UNIT.text);
  });
});

Deno.test("installService: without systemd fails with an alternative and writes nothing", async () => {
  await scene("", async ({ parts, commands, unit }) => {
    commands.answers["systemctl"] = new SvcError("not_found", "there is no systemctl");
    const error = await assertRejects(() => installService(UNIT, parts), SvcError, "wanted systemd");
    assertEquals([error.code, await unit(ETC)], ["failed_precondition", undefined]);
  });
});

Deno.test({
  name: "installService: everybody may read the unit, whatever the umask of the installer's shell",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const root = await Deno.makeTempDir({ prefix: "svc-umask-" });
    const commands = new FakeCommands();
    const logger = silentLogs(new SystemClock()).logger("agent");
    const before = Deno.umask(0o077);
    try {
      await installService({ name: "svc-test", text: "[Unit]\n" }, {
        ...{ files: new SystemFiles(), commands, logger, root },
      });
    } finally {
      Deno.umask(before);
    }
    const { mode } = await Deno.stat(`${root}/etc/systemd/system/svc-test.service`);
    assertEquals((mode ?? 0) & 0o777, 0o644);
    await Deno.remove(root, { recursive: true });
  },
});
