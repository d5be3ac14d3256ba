/** The agent's profiles, and its way back from a bad one, by a real NetworkManager in a network namespace of its own. */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type Needed, needingTest } from "../support/needing.ts";
import { run } from "../interop/programs.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

async function namespaces(): Promise<Needed<true>> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) {
    return { missing: "network namespaces need root on Linux" };
  }
  for (
    const command of [["NetworkManager", "--version"], ["dbus-daemon", "--version"], [
      "unshare",
      "-mn",
      "ip",
      "link",
    ]]
  ) {
    const { code } = await run(command).catch(() => ({ code: -1 }));
    if (code !== 0) return { missing: `${command.join(" ")} does not run here` };
  }
  return { found: true };
}

needingTest(
  "svc-agent adds, uses, restores and removes its profiles in a real NetworkManager",
  await namespaces(),
  async () => {
    const folder = await Deno.makeTempDir();
    try {
      const program = [Deno.execPath(), "run", "-A", "--no-check", `${ROOT}tests/agent/real_network.ts`];
      const script = `${ROOT}tests/agent/real_network.sh`;
      const { code, stdout, stderr } = await run([
        "unshare",
        "--mount",
        "--net",
        "bash",
        script,
        folder,
        ...program,
      ]);
      assertEquals(code, 0, stderr);
      const saw = JSON.parse(stdout.trim().split("\n").at(-1)!);
      assertStringIncludes(saw.addresses, "192.168.44.5/24");
      assertStringIncludes(saw.addresses, "default via 192.168.44.1 proto static metric 321");
      assertEquals(saw.lab.map(({ name, id, priority }: Record<string, unknown>) => [name, id, priority]), [
        ["lab", "wired@eth9", 7],
      ]);
      assertStringIncludes(saw.usual, "default via 192.168.44.1 proto static metric 100");
      assertEquals(saw.gone, [[], ""]);
      assert(saw.same);
      assertEquals(saw.profiles.sort(), [
        [`chosen:open`, "open", 100, false],
        [`chosen:shop ü"<'\\`, `shop ü"<'\\`, 999, false],
        ["chosen:three", "three", 999, false],
        ["hotspot:svc-setup-rover", "svc-setup-rover", 0, true],
        ["lab", null, 7, false],
        ["phone:AA:BB:CC:00:11:22", null, 0, false],
      ]);
      const [before, joinsAlone, waits] = saw.kept;
      for (
        const line of ["psk=12345678", "autoconnect=false", "address1=192.168.45.5/24", "route-metric=50"]
      ) {
        assertStringIncludes(before, line);
      }
      assertEquals(joinsAlone, [true, true, before.replace("autoconnect=false\n", "")]);
      assertEquals(waits, [false, true, before]);
      assertEquals(saw.renamed, [true, true, true], "with its password");
      assertEquals([saw.missing, saw.left], ["there is no network device eth7", []]);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
