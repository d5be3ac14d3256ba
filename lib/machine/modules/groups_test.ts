// Most test environments have no writable control groups, so these tests check what is written to the files.
import { assertEquals, assertRejects } from "@std/assert";
import { FakeHost } from "../../../tests/support/fake_host.ts";
import { SvcError } from "../../base/error.ts";
import { FileError } from "../../base/files/files.ts";
import { silentLogs } from "../../base/log/log.ts";
import { SystemClock } from "../../base/clock.ts";
import { DecodeContext } from "../../base/schema/schema.ts";
import { moduleField } from "../config/settings.ts";
import { ModuleGroups } from "./groups.ts";

const COMMAND = { command: "/m/run", args: ["/s/m.sock"] };
const ALL = "/sys/fs/cgroup/svc-modules";
const LIMITED = { memory_mb: 512, cpu_percent: 150, processes: 20 };

/** Control groups, as far as they matter here: a group without processes can be removed, with its files. */
class Kernel extends FakeHost {
  /** Groups whose processes take a while to end. */
  readonly slow = new Set<string>();
  readonly killed: string[] = [];

  constructor(pid: number, groups: readonly string[] = [], alive: readonly number[] = []) {
    super({ files: { "/sys/fs/cgroup/cgroup.subtree_control": "", [`/proc/${pid}/stat`]: "" } });
    for (const group of groups) this.put(`${ALL}/${group}/cgroup.kill`, "");
    for (const one of alive) this.put(`/proc/${one}/stat`, "");
    this.links = { "/proc/self": `${pid}`, "/proc/self/ns/pid": "pid:[77]" };
  }

  private readonly links: { readonly [path: string]: string };

  override readLink(path: string): Promise<string | undefined> {
    return Promise.resolve(this.links[path]);
  }

  override async makeFolder(path: string): Promise<void> {
    await super.makeFolder(path);
    if (path.startsWith(`${ALL}/`)) this.put(`${path}/cgroup.kill`, "");
  }

  override async remove(path: string): Promise<void> {
    if (this.paths.includes(path)) return await super.remove(path);
    const hasGroups = (await this.groups()).some((one) => `${ALL}/${one}`.startsWith(`${path}/`));
    if (hasGroups || this.slow.delete(path)) {
      throw new FileError("unavailable", "device or resource busy", path);
    }
    const kill = await this.readTextFile(`${path}/cgroup.kill`).catch(() => "");
    if (kill.startsWith("1")) this.killed.push(path.slice(ALL.length + 1));
    await this.removeTree(path);
  }

  /** Two levels of them. */
  async groups(): Promise<string[]> {
    const names: string[] = [];
    for (const one of await this.readFolder(ALL).catch(() => [])) {
      const inner = await this.readFolder(`${ALL}/${one}`).catch(() => []);
      for (const two of inner) {
        if ((await this.stat(`${ALL}/${one}/${two}`))?.kind === "folder") names.push(`${one}/${two}`);
      }
    }
    return names.sort();
  }
}

function groupsOf(host: FakeHost) {
  const clock = new SystemClock();
  return new ModuleGroups({ host, clock, logger: silentLogs(clock).logger("groups") });
}

function configOf(limits?: Record<string, number>) {
  return moduleField.required().decode({ name: "m", executable_path: "/m/run", limits }, new DecodeContext());
}

Deno.test("ModuleGroups: start a module with limits in a control group with the same limits", async () => {
  const host = new Kernel(12);
  const groups = groupsOf(host);
  const command = await groups.inLimits(COMMAND, configOf(LIMITED));
  const folder = `${ALL}/77-12/m`;
  assertEquals(command.command, "/bin/sh");
  assertEquals(command.args!.slice(2), [folder, "/m/run", "/s/m.sock"]);
  const texts = await Promise.all(
    ["memory.max", "cpu.max", "pids.max"].map((name) => host.readTextFile(`${folder}/${name}`)),
  );
  assertEquals(texts, ["536870912", "150000 100000", "20"]);
  assertEquals(await groups.inLimits(COMMAND, configOf()), COMMAND);
  await groups.close();
});

Deno.test("ModuleGroups: a module whose limits cannot be enforced does not start", async () => {
  const host = new FakeHost({ fault: () => ({ kind: "denied" }) });
  const groups = groupsOf(host);
  const refused = () => groups.inLimits(COMMAND, configOf({ memory_mb: 512 }));
  await assertRejects(refused, SvcError, 'cannot enforce the limits of module "m", they need root');
  await groups.close();
});

Deno.test("ModuleGroups: remove a module's group and its processes, and the folder on close", async () => {
  const host = new Kernel(12);
  const groups = groupsOf(host);
  const config = configOf(LIMITED);
  await groups.inLimits(COMMAND, config);
  await groups.kill(config);
  assertEquals(await host.readTextFile(`${ALL}/77-12/m/cgroup.kill`), "1");
  // The kernel says that it is busy as long as a killed process is there.
  host.slow.add(`${ALL}/77-12/m`);
  await groups.remove(config);
  assertEquals([await host.groups(), host.killed], [[], ["77-12/m"]]);
  await groups.inLimits(COMMAND, config);
  await groups.close();
  assertEquals([await host.groups(), await host.stat(`${ALL}/77-12`)], [[], undefined]);
  // Without limits there is nothing to remove.
  await groups.remove(configOf());
});

Deno.test("ModuleGroups: remove the groups of killed svc-servers and keep all others", async () => {
  const left = ["77-10/a", "77-10/b", "77-12/old", "77-13/alive", "78-10/of-a-container", "mine/x"];
  const host = new Kernel(12, left, [13]);
  const groups = groupsOf(host);
  // A module without limits is enough: the next configuration may have none.
  await groups.inLimits(COMMAND, configOf());
  await groups.close();
  assertEquals(host.killed.filter((one) => one.includes("/")), ["77-12/old", "77-10/a", "77-10/b"]);
  assertEquals(await host.groups(), ["77-13/alive", "78-10/of-a-container", "mine/x"]);
});
