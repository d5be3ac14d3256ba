/**
 * An agent as on a device: a process with a control plane, programs that it installs, and faults.
 *
 * `deno task vm:agent` does the same on a whole system, with power cuts.
 */

import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { type Needed, needingTest } from "../support/needing.ts";
import { TestDevice } from "./device.ts";
import { canBuild } from "./test_release.ts";

const ready: Needed<true> = await canBuild()
  ? { found: true }
  : { missing: "it makes programs for Linux, and there is no C compiler (cc)" };

function deviceTest(name: string, work: (device: TestDevice) => Promise<void>): void {
  needingTest(name, ready, async () => {
    const device = await TestDevice.make();
    try {
      await work(device);
    } catch (error) {
      console.log(await device.log());
      throw error;
    } finally {
      await device.close();
    }
  });
}

/** The output of a svc-agent command. */
async function command(device: TestDevice, ...words: string[]): Promise<{ code: number; text: string }> {
  const [program, ...args] = [...device.command, ...words];
  const { code, stdout, stderr } = await new Deno.Command(program, { args }).output();
  return { code, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

deviceTest("the agent installs, updates, refuses and rolls back versions", async (device) => {
  await device.release("1.0.0", "serves");
  device.start();
  await device.runsWell("1.0.0");
  const { runtime: first } = await device.status();
  await device.release("2.0.0", "serves");
  const { runtime: unchanged } = await device.until("ready for the next start: 2.0.0", ({ versions }) => {
    return versions["svc-server"].waiting?.startsWith("2.0.0 is ready for the next start") === true;
  });
  assertEquals([unchanged.pid, unchanged.phase], [first.pid, "running"], "what works goes on");
  await device.stop();
  device.start();
  const { versions: { "svc-server": updated } } = await device.runsWell("2.0.0");
  assertEquals(updated.previous?.version, "1.0.0");

  // Who names a version wants it now.
  await device.release("3.0.0", "ends");
  await device.configure({ version_control: { "svc-server": "3.0.0" } });
  await device.until("refused: 3.0.0", ({ versions }) => versions["svc-server"].refused?.version === "3.0.0");
  const { versions: { "svc-server": kept } } = await device.runsWell("2.0.0");
  const why = /did not start 3 times in a row; the last time it ended .* code \d+: this version is broken$/;
  assertMatch(kept.refused!.reason, why);
  assertMatch(await device.log(), /this version is broken/);

  const { code, text } = await command(device, "status");
  assertEquals(code, 0);
  assertMatch(text, /svc-server {2}running, pid \d+, https?:\/\/localhost:\d+/);
  assertMatch(text, /svc-server {2}refused 3\.0\.0: it did not start/);

  assertEquals((await command(device, "rollback", "svc-server")).code, 0);
  const { versions: { "svc-server": back } } = await device.runsWell("1.0.0");
  assertEquals(back.refused?.version, "3.0.0", "what the cloud still wants is not tried again");
  const { machines: fleet } = JSON.parse(await device.svcCloud("fleet", "--json"));
  assertEquals([fleet[0].state, fleet[0].agent.platform], ["online", "linux/amd64"]);
  assertEquals(await device.stop(), 0);
});

deviceTest("a version that never gets ready is dropped", async (device) => {
  await device.release("1.0.0", "serves");
  device.start();
  await device.runsWell("1.0.0");
  await device.release("2.0.0", "hangs");
  await device.configure({
    version_control: { "svc-server": "2.0.0" },
    advanced_settings: { viam_server_start_timeout_minutes: 1 },
  });
  await device.until("refused: 2.0.0", ({ versions }) => versions["svc-server"].refused?.version === "2.0.0");
  await device.configure({});
  await device.runsWell("1.0.0");
  assertMatch(await device.log(), /was not ready within 1 minutes and is killed/);
});

deviceTest("the runtime outlives its agent, and follows the settings", async (device) => {
  await device.release("1.0.0", "serves");
  device.start();
  const { runtime: first } = await device.runsWell("1.0.0");
  const second = await command(device);
  assertEquals(second.code, 1);
  assertMatch(second.text, /another svc-agent works in this folder already/);

  await device.stop("SIGKILL");
  Deno.kill(first.pid!, 0 as unknown as Deno.Signal);
  device.start();
  const { runtime: found } = await device.runsWell("1.0.0");
  assertEquals(found.pid, first.pid, "it is taken over as it is");

  await device.configure({ advanced_settings: { viam_server_env: { COLOUR: "blue" } } });
  const { runtime: changed } = await device.until("started again", ({ runtime }) => {
    return runtime.phase === "running" && runtime.pid !== first.pid;
  });
  assertMatch(await Deno.readTextFile(`/proc/${changed.pid}/environ`), /\0COLOUR=blue\0/);
  await device.configure({ advanced_settings: { disable_viam_server: true } });
  await device.until("stopped", ({ runtime }) => runtime.phase === "stopped" && runtime.pid === undefined);
  await device.configure({});
  const { runtime: again } = await device.runsWell("1.0.0");
  assertNotEquals(again.pid, changed.pid);

  await device.stop();
  assert(!(await device.log()).includes("the record of"), "records are read as they were written");
  for (const { name } of Deno.readDirSync(`${device.base}/state`)) {
    if (name.endsWith(".json")) await Deno.writeTextFile(`${device.base}/state/${name}`, "\0\0{");
  }
  device.start();
  await device.runsWell("1.0.0");
  assert((await device.log()).includes("the record of svc-server"));
});

deviceTest(
  "an agent without credentials says so, keeps another one away, and works when they come",
  async (device) => {
    const [credentials, aside] = ["machine.json", "later.json"].map((name) => `${device.folder}/${name}`);
    await Deno.rename(credentials, aside);
    device.start();
    let logged = "";
    // Before it has looked for credentials, it says that it starts.
    while (!logged.includes("no credentials")) ({ text: logged } = await command(device, "status"));
    assertMatch(logged, /does not work yet: no credentials: there is no .*machine\.json/);
    const second = await command(device);
    assertEquals(second.code, 1);
    assertMatch(second.text, /another svc-agent works in this folder already/);
    await Deno.rename(aside, credentials);
    await device.until("at work", ({ online }) => online);
    assertEquals(await device.stop(), 0);
  },
);

deviceTest(
  "a rotated key is used when it is in the file, by the agent and by the runtime",
  async (device) => {
    await device.release("1.0.0", "serves");
    device.start();
    const { runtime: first } = await device.runsWell("1.0.0");
    const path = `${device.folder}/machine.json`;
    const { cloud } = JSON.parse(await Deno.readTextFile(path));
    const { id, key } = JSON.parse(await device.svcCloud("key", "rotate", cloud.api_key.id, "--json"));
    await device.until("refused", ({ online }) => !online);
    await Deno.writeTextFile(path, JSON.stringify({ cloud: { ...cloud, api_key: { id, key } } }));
    const { runtime } = await device.until("online again", ({ online, runtime }) => {
      return online && runtime.phase === "running";
    });
    assertNotEquals(runtime.pid, first.pid);
  },
);

deviceTest("no environment variable makes svc-agent's clock run faster", async (device) => {
  const beganMs = performance.now();
  device.start(1, { SVC_AGENT_HASTE: "600", SVC_TEST_HASTE: "600" });
  const { uptimeMs } = await device.until("at work", () => true);
  assert(uptimeMs <= performance.now() - beganMs);
});
