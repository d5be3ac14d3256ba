import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SystemFiles } from "../../base/files/system_files.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { repairModes } from "./modes.ts";

Deno.test({
  name: "repairModes: secrets of an older or restored installation are closed, programs run, and links stay",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const base = await Deno.makeTempDir();
    const records: LogRecord[] = [];
    const logger = new Logs(new FakeClock(), [memorySink(records)]).logger("svc-agent");
    for (const folder of ["bin", "cache/part", "state/cloud_logs/p", "etc"]) {
      await Deno.mkdir(`${base}/${folder}`, { recursive: true, mode: 0o777 });
    }
    const made: [path: string, before: number, after: number][] = [
      ["svc.json", 0o644, 0o600],
      ["state/credentials.json", 0o666, 0o600],
      ["state/cloud_logs/p/1.log", 0o644, 0o600],
      ["bin/svc-agent-loader", 0o644, 0o755],
      ["cache/svc-server-1.0.0-abc", 0o600, 0o755],
      // A download under way is no program yet.
      ["cache/svc-server-1.0.1-abc.tmp", 0o600, 0o600],
      ["etc/release_keys.json", 0o666, 0o644],
      ["outside", 0o640, 0o640],
    ];
    for (const [path, before] of made) {
      await Deno.writeTextFile(`${base}/${path}`, "");
      await Deno.chmod(`${base}/${path}`, before);
    }
    // What a link leads to is not the agent's.
    await Deno.symlink(`${base}/outside`, `${base}/state/link`);
    const repair = () => repairModes(new SystemFiles(), base, [`${base}/svc.json`, `${base}/none`], logger);
    await repair();
    const modeOf = async (path: string) => (await Deno.stat(`${base}/${path}`)).mode! & 0o777;
    for (const [path, , after] of made) assertEquals([path, await modeOf(path)], [path, after]);
    assertEquals([await modeOf("state"), await modeOf("bin"), await modeOf("cache")], [0o700, 0o755, 0o755]);
    assertEquals(records.length, 1);
    await repair();
    assertEquals(records.length, 1, "nothing is left to repair");
    await Deno.remove(base, { recursive: true });
  },
});

Deno.test({
  name:
    "repairModes: files that a restore gave to another user are root's again, the operator's credentials stay",
  ignore: Deno.build.os === "windows" || Deno.uid() !== 0,
  fn: async () => {
    const base = await Deno.makeTempDir();
    const records: LogRecord[] = [];
    const logger = new Logs(new FakeClock(), [memorySink(records)]).logger("svc-agent");
    const STRANGER = 12_345;
    const paths = ["bin", "cache", "state", "etc", "bin/loader", "cache/svc-agent-1", "state/versions.json"];
    for (const path of [...paths, "etc/release_keys.json", "svc.json", "outside"]) {
      if (path.includes("/") || path.includes(".") || path === "outside") {
        await Deno.writeTextFile(`${base}/${path}`, "");
      } else await Deno.mkdir(`${base}/${path}`);
      await Deno.chown(`${base}/${path}`, STRANGER, STRANGER);
    }
    await Deno.symlink(`${base}/outside`, `${base}/state/link`);
    // A program that runs as its owner is none of the agent's.
    await Deno.chmod(`${base}/cache/svc-agent-1`, 0o4755);
    const repair = (isRoot: boolean) =>
      repairModes(new SystemFiles(), base, [`${base}/svc.json`], logger, isRoot);
    const owners = async () => {
      const found = paths.map(async (path) => (await Deno.stat(`${base}/${path}`)).uid);
      return [...new Set(await Promise.all(found))];
    };
    await repair(false);
    assertEquals(await owners(), [STRANGER], "an agent of another user changes no owner");
    await repair(true);
    assertEquals(await owners(), [0]);
    assertEquals((await Deno.stat(`${base}/cache/svc-agent-1`)).mode! & 0o7777, 0o755);
    for (const path of ["svc.json", "outside"]) {
      assertEquals((await Deno.stat(`${base}/${path}`)).uid, STRANGER, path);
    }
    const { length } = records;
    await repair(true);
    assertEquals(records.length, length, "nothing is left to repair");
    await Deno.remove(base, { recursive: true });
  },
});
