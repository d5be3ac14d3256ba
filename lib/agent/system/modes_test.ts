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
