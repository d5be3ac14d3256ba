// The kernel's side is not there in most test environments: here is what it is told.
import { assertEquals, assertRejects } from "@std/assert";
import { FakeHost } from "../../../tests/support/fake_host.ts";
import { SvcError } from "../../base/error.ts";
import { Place } from "../../base/schema/schema.ts";
import { moduleRow } from "../config/settings.ts";
import { inLimits } from "./module_limits.ts";

const COMMAND = { command: "/m/run", args: ["/s/m.sock"] };

function configOf(limits?: Record<string, number>) {
  return moduleRow.required().decode({ name: "m", executable_path: "/m/run", limits }, new Place());
}

Deno.test("a module with limits starts in a control group that has them", async () => {
  const host = new FakeHost({ files: { "/sys/fs/cgroup/cgroup.subtree_control": "" } });
  const command = await inLimits(
    COMMAND,
    configOf({ memory_mb: 512, cpu_percent: 150, processes: 20 }),
    host,
  );
  const folder = "/sys/fs/cgroup/svc-modules/m";
  assertEquals(command.command, "/bin/sh");
  assertEquals(command.args!.slice(2), [folder, "/m/run", "/s/m.sock"]);
  const texts = await Promise.all(
    ["memory.max", "cpu.max", "pids.max"].map((name) => host.readTextFile(`${folder}/${name}`)),
  );
  assertEquals(texts, ["536870912", "150000 100000", "20"]);
  assertEquals(await inLimits(COMMAND, configOf(), host), COMMAND);
});

Deno.test("a module whose limits cannot be held does not start", async () => {
  const host = new FakeHost({ fault: () => ({ kind: "denied" }) });
  const refused = () => inLimits(COMMAND, configOf({ memory_mb: 512 }), host);
  await assertRejects(refused, SvcError, 'cannot enforce the limits of module "m", they need root');
});
