/**
 * Nothing that a module has started is left, whatever ends: the module, or svc-server without a chance to say so.
 */

import { assertEquals } from "@std/assert";
import { startServer } from "../support/server.ts";
import { until, untilGone, within } from "../support/until.ts";

/** Starts processes in its own group and in groups of their own, and never serves. */
const FORKING = `#!/bin/sh
sleep MARK &
setsid sleep MARK &
(setsid sh -c 'sleep MARK & sleep MARK' &)
echo has forked
exec sleep MARK
`;

for (const how of ["SIGKILL", "SIGTERM"] as const) {
  Deno.test({
    name: `a module's processes in all process groups end with svc-server after ${how}`,
    ignore: Deno.build.os !== "linux",
    fn: async () => {
      const home = await Deno.makeTempDir({ prefix: "svc-orphans-" });
      // A duration that no other process sleeps.
      const mark = `${700_000_000 + Math.floor(Math.random() * 10_000_000)}`;
      const program = `${home}/forking.sh`;
      await Deno.writeTextFile(program, FORKING.replaceAll("MARK", mark), { mode: 0o755 });
      const config = {
        network: { bind_address: "localhost:0" },
        modules: [{ name: "forking", executable_path: program }],
      };
      await Deno.writeTextFile(`${home}/machine.json`, JSON.stringify(config));
      const server = await startServer(`${home}/machine.json`, { env: { SVC_HOME: home } });
      await server.wrote("has forked");
      await until(async () => await count(mark) === 5);
      Deno.kill(server.pid, how);
      await server.ended;
      await untilGone(mark);
      await Deno.remove(home, { recursive: true });
      assertEquals(await count(mark), 0);
    },
  });
}

/** Processes that sleep as long. */
async function count(mark: string): Promise<number> {
  const { stdout } = await new Deno.Command("pgrep", { args: ["-xfc", `sleep ${mark}`] }).output();
  return Number(new TextDecoder().decode(stdout));
}

Deno.test({
  name: "the next start removes the sockets of a killed svc-server, and no others",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const home = await Deno.makeTempDir({ prefix: "svc-left-" });
    const temporary = `${home}/tmp`;
    await Deno.mkdir(`${temporary}/viam-module-another`, { recursive: true });
    await Deno.writeTextFile(`${temporary}/viam-module-another/parent.sock`, "");
    const program = `${home}/waiting.sh`;
    await Deno.writeTextFile(program, "#!/bin/sh\necho has begun\nexec sleep 600\n", { mode: 0o755 });
    const modules = [{ name: "waiting", executable_path: program }];
    const config = JSON.stringify({ network: { bind_address: "localhost:0" }, modules });
    await Deno.writeTextFile(`${home}/machine.json`, config);
    const start = async () => {
      const env = { SVC_HOME: home, TMPDIR: temporary };
      const server = await startServer(`${home}/machine.json`, { env });
      await within("the module", server.wrote("has begun"));
      return server;
    };
    const folders = () =>
      [...Deno.readDirSync(temporary)].map(({ name }) => name).filter((name) => /^viam-module-/.test(name));
    const killed = await start();
    const running = await start();
    await until(() => folders().length === 3);
    Deno.kill(killed.pid, "SIGKILL");
    await killed.ended;
    const next = await start();
    // The folders of the two that run, and the one that was never ours.
    await until(() => folders().length === 3);
    assertEquals(folders().includes("viam-module-another"), true);
    await Promise.all([running.stop(), next.stop()]);
    assertEquals(folders(), ["viam-module-another"]);
    await Deno.remove(home, { recursive: true });
  },
});
