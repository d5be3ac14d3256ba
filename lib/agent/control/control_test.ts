import { createServer } from "node:net";
import { assert, assertEquals, assertMatch, assertNotEquals, assertRejects } from "@std/assert";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { askRollback, askStatus, askStop, openControl, socketOf } from "./control.ts";
import type { AgentStatus } from "./status.ts";
import { SystemFiles } from "../../base/files/system_files.ts";

const clock = new SystemClock();
const files = new SystemFiles();

Deno.test("openControl: serves status, rollback and stop on a 0600 socket, once per folder", async () => {
  const base = await Deno.makeTempDir();
  const path = socketOf(base, "linux");
  assertEquals((await assertRejects(() => askStatus(files, path, clock), SvcError)).code, "not_found");
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
  const control = await openControl(files, path, controlled, clock);
  assertEquals(await askStatus(files, path, clock), controlled.status);
  await askRollback(files, path, "svc-server", clock);
  const refused = await assertRejects(() => askRollback(files, path, "svc-agent", clock), SvcError);
  assertEquals([refused.message, backs], ["only one is there", ["svc-server", "svc-agent"]]);
  await askStop(files, path, clock);
  assertEquals(backs.at(-1), "stop");
  assertEquals((await Deno.stat(path)).mode! & 0o777, 0o600);
  const second = await assertRejects(() => openControl(files, path, controlled, clock), SvcError);
  assertEquals(second.code, "already_exists");
  await control.close();
  // A socket that a killed agent left behind hinders no one.
  await Deno.writeTextFile(path, "");
  await (await openControl(files, path, controlled, clock)).close();
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
    const control = await openControl(files, path, controlled, clock);
    await Deno.chmod(path, 0);
    const { code, message } = await assertRejects(() => askStatus(files, path, clock), SvcError);
    assertEquals([code, message.endsWith("use sudo")], ["permission_denied", true]);
    await control.close();
    await Deno.remove(base, { recursive: true });
  },
});

Deno.test("openControl: on Windows the name of the pipe is new at each start, and in a file of the agent's folder", async () => {
  const base = await Deno.makeTempDir();
  const path = socketOf(base, "windows");
  const controlled = {
    status: { version: "1.2.3" } as AgentStatus,
    rollback: () => Promise.resolve(),
    stop: () => {},
  };
  const pipes: string[] = [];
  const open = async () => {
    const control = await openControl(files, path, controlled, clock);
    pipes.push(await Deno.readTextFile(path));
    return control;
  };
  assertEquals((await assertRejects(() => askStatus(files, path, clock), SvcError)).code, "not_found");
  const control = await open();
  assertMatch(pipes[0], /^\\\\\.\\pipe\\svc-agent-[0-9a-f-]{36}$/);
  assertEquals(await askStatus(files, path, clock), controlled.status);
  assertEquals((await assertRejects(open, SvcError)).code, "already_exists");
  await control.close();
  assertEquals((await assertRejects(() => askStatus(files, path, clock), SvcError)).code, "not_found");

  // Another user's program answers at the pipe of an agent that was killed.
  await Deno.writeTextFile(path, pipes[0]);
  const squatter = createServer((socket) => void socket.end('{"value": "a lie"}\n'));
  await new Promise<void>((resolve) => squatter.listen(pipes[0], resolve));
  const next = await open();
  assertNotEquals(pipes[1], pipes[0]);
  assertEquals(await askStatus(files, path, clock), controlled.status);
  await next.close();
  await new Promise((resolve) => squatter.close(resolve));
  // Where there are no pipes, these are sockets in the working folder.
  for (const pipe of pipes) await files.remove(pipe);
  await Deno.remove(base, { recursive: true });
});

Deno.test("who may not read the name of the agent's pipe is told which terminal may", async () => {
  const closed = Object.assign(new SystemFiles(), {
    readTextFile: () => Promise.reject(new SvcError("permission_denied", "access is denied")),
  });
  const ask = () => askStatus(closed, socketOf("C:\\svc", "windows"), clock);
  const { code, message } = await assertRejects(ask, SvcError);
  assertEquals([code, message.endsWith("use an administrator's terminal")], ["permission_denied", true]);
});

const CONTROLLED = {
  status: { version: "1.2.3" } as AgentStatus,
  rollback: () => Promise.resolve(),
  stop: () => {},
};

Deno.test({
  name: "openControl: works at paths of any length, and holds one agent for each real folder",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const base = await Deno.makeTempDir();
    const long = `${base}/${"a long name ".repeat(8)}/${"ü".repeat(60)}`;
    const path = socketOf(long, "linux");
    const control = await openControl(files, path, CONTROLLED, clock);
    assertEquals([control.problem, await askStatus(files, path, clock)], [undefined, CONTROLLED.status]);
    await Deno.symlink(long, `${base}/link`);
    const other = socketOf(`${base}/link`, "linux");
    assertEquals(await askStatus(files, other, clock), CONTROLLED.status);
    const second = await assertRejects(() => openControl(files, other, CONTROLLED, clock), SvcError);
    assertEquals(second.code, "already_exists");
    await control.close();
    await (await openControl(files, other, CONTROLLED, clock)).close();
    await Deno.remove(base, { recursive: true });
  },
});

Deno.test({
  name: "openControl: where no socket can be made, the lock still keeps other agents away",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const base = await Deno.makeTempDir();
    const path = socketOf(base, "linux");
    // A folder that nobody can replace stands in the place of the socket.
    await Deno.mkdir(`${path}/in the way`, { recursive: true });
    const control = await openControl(files, path, CONTROLLED, clock);
    assert(control.problem);
    const second = await assertRejects(() => openControl(files, path, CONTROLLED, clock), SvcError);
    assertEquals(second.code, "already_exists");
    await control.close();
    await (await openControl(files, path, CONTROLLED, clock)).close();
    await Deno.remove(base, { recursive: true });
  },
});
