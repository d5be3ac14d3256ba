import { assertEquals, assertRejects } from "@std/assert";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { askRollback, askStatus, askStop, openControl, socketOf } from "./control.ts";
import type { AgentStatus } from "./status.ts";
import { SystemFiles } from "../../base/files/system_files.ts";

const clock = new SystemClock();

Deno.test("openControl: serves status, rollback and stop on a 0600 socket, once per folder", async () => {
  const base = await Deno.makeTempDir();
  const path = socketOf(base, "linux");
  assertEquals((await assertRejects(() => askStatus(path, clock), SvcError)).code, "not_found");
  const backs: string[] = [];
  const controlled = {
    status: { version: "1.2.3" } as AgentStatus,
    rollback: (name: string) => {
      if (backs.push(name) > 1) {
        return Promise.reject(new SvcError("failed_precondition", "only one is there"));
      }
      return Promise.resolve();
    },
    stop: () => void backs.push("stop"),
  };
  const control = await openControl(new SystemFiles(), path, controlled, clock);
  assertEquals(await askStatus(path, clock), controlled.status);
  await askRollback(path, "svc-server", clock);
  const refused = await assertRejects(() => askRollback(path, "svc-agent", clock), SvcError);
  assertEquals([refused.message, backs], ["only one is there", ["svc-server", "svc-agent"]]);
  await askStop(path, clock);
  assertEquals(backs.at(-1), "stop");
  assertEquals((await Deno.stat(path)).mode! & 0o777, 0o600);
  const second = await assertRejects(() => openControl(new SystemFiles(), path, controlled, clock), SvcError);
  assertEquals(second.code, "already_exists");
  await control.close();
  // A socket that a killed agent left behind hinders no one.
  await Deno.writeTextFile(path, "");
  await (await openControl(new SystemFiles(), path, controlled, clock)).close();
  await Deno.remove(base, { recursive: true });
});

Deno.test({
  name: "who may not ask the agent is told so, and not that none works",
  // Root may open everything; Windows has other permissions.
  ignore: Deno.build.os === "windows" || Deno.uid() === 0,
  fn: async () => {
    const base = await Deno.makeTempDir();
    const path = socketOf(base, "linux");
    const controlled = { status: {} as AgentStatus, rollback: () => Promise.resolve(), stop: () => {} };
    const control = await openControl(new SystemFiles(), path, controlled, clock);
    await Deno.chmod(path, 0);
    const { code, message } = await assertRejects(() => askStatus(path, clock), SvcError);
    assertEquals([code, message.endsWith("use sudo")], ["permission_denied", true]);
    await control.close();
    await Deno.remove(base, { recursive: true });
  },
});
