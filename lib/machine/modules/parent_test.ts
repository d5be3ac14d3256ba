import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { assertEquals } from "@std/assert";
import { SystemFiles } from "../../base/files/system_files.ts";
import { Logs } from "../../base/log/log.ts";
import { ServiceTable } from "../../wire/rpc/service.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { ModuleParent } from "./parent.ts";

Deno.test({
  name: "a folder of a stranger whose server says nothing does not hold up the end",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const temporary = await Deno.makeTempDir({ prefix: "svc-" });
    const stranger = `${temporary}/viam-module-stranger`;
    await Deno.mkdir(stranger);
    await Deno.writeTextFile(`${stranger}/svc-server`, "");
    const sockets: Socket[] = [];
    const server = createServer((socket) => void sockets.push(socket)).listen(`${stranger}/parent.sock`);
    await once(server, "listening");
    const asked = once(server, "connection");
    const files = new SystemFiles();
    const host = {
      temporaryFolder: async (prefix: string) => {
        const folder = `${temporary}/${prefix}own`;
        await Deno.mkdir(folder, { mode: 0o700 });
        return folder;
      },
      createFile: (...given: Parameters<SystemFiles["createFile"]>) => files.createFile(...given),
      removeTree: (...given: Parameters<SystemFiles["removeTree"]>) => files.removeTree(...given),
      readFolder: (...given: Parameters<SystemFiles["readFolder"]>) => files.readFolder(...given),
      checkLoopback: () => Promise.resolve(),
      stat: (...given: Parameters<SystemFiles["stat"]>) => files.stat(...given),
    };
    // Nobody moves this clock: what waits for a time limit waits for ever.
    const clock = new FakeClock();
    const logger = new Logs(clock, []).logger("rdk.modman");
    const parent = new ModuleParent({ table: () => new ServiceTable(clock), host, clock, logger });
    try {
      await parent.addresses("one", false);
      await asked;
      await parent.close();
      assertEquals((await files.stat(stranger))?.kind, "folder");
    } finally {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
      await Deno.remove(temporary, { recursive: true });
    }
  },
});
