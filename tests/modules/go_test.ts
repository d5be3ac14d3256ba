/**
 * A module in Go that does towards its machine what modules of the published Go library do, over a socket and over
 * TCP: it dials the machine before it says that it is ready, looks for each dependency among the machine's resources,
 * and names the frame system as if that were one.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { SensorApi } from "../../lib/api/sensors/sensor.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { describeService } from "../../lib/wire/grpc/reflection_client.ts";
import { goProgram } from "../interop/programs.ts";
import { needingTest } from "../support/needing.ts";
import { until, within } from "../support/until.ts";
import { type ModuleMachine, programOf, withModules } from "./sdk_bench.ts";

const SENSOR = SensorApi.name;
const BUILT_IN = { name: "built-in", api: SENSOR, model: "fake" };
const ECHO = { name: "e", api: "acme:component:echo", model: "acme:go:echo" };
const BESIDE = { name: "beside", api: SENSOR, model: "acme:go:gauge" };

const gauge = (attributes: JsonObject): JsonObject => ({
  name: "g",
  api: SENSOR,
  model: "acme:go:gauge",
  attributes,
});
const program = await goProgram(new URL("go_module", import.meta.url).pathname);

for (const tcpMode of [false, true]) {
  const how = tcpMode ? "over TCP" : "over a socket";
  needingTest(
    `a module in Go, ${how}, builds, changes and closes its resources`,
    program,
    async (path, t) => {
      await withModules({}, {}, async (machine) => {
        const module = await programOf(machine.folder, "go", [path]);
        const entry = { name: "go", executable_path: module, tcp_mode: tcpMode, log_level: "debug" };
        const configure = (components: JsonObject[]) => machine.write({ modules: [entry], components });
        await live(machine, configure, tcpMode, t);
        await machine.write({ modules: [] });
        await within("the end of the module", machine.server.wrote("has shut down"));
      });
    },
  );
}

async function live(
  machine: ModuleMachine,
  configure: (components: JsonObject[]) => Promise<void>,
  tcpMode: boolean,
  t: Deno.TestContext,
): Promise<void> {
  const sensor = (name: string) => SensorApi.client(ResourceName.of(SENSOR, name), machine.channel);
  const readings = async (name = "g") => await sensor(name).getReadings() as JsonObject;
  const changed = (step: number) => until(() => readings().then((found) => found.step === step, () => false));

  await t.step("the module validates, then builds with a built-in dependency", async () => {
    await configure([BUILT_IN, gauge({ uses: "built-in", step: 1 })]);
    await machine.ready();
    const { diary, machine_a } = await readings();
    const flags = tcpMode ? "--log-level=debug --tcp-mode" : "--log-level=debug";
    assertEquals(diary, [`arguments ${flags}`, "ready", "validate g", `add g ${SENSOR}/built-in`]);
    assertEquals(machine_a, 1);
  });

  await t.step("a log line of the module keeps its level, caller and fields", async () => {
    const { server } = machine;
    await within("its line", server.wrote("built g"));
    assertMatch(server.output(), /WARN\tgo\.gauge\tgauge\/gauge\.go:12\tbuilt g\t\{"steps":3\}/);
  });

  await t.step("a change removes the resource and adds it again; a refused one is reported", async () => {
    const before = (await readings()).diary as string[];
    await configure([BUILT_IN, gauge({ uses: "built-in", step: 2 })]);
    await changed(2);
    assertEquals((await readings()).diary, [
      ...before,
      "validate g",
      `remove ${SENSOR}/g`,
      `add g ${SENSOR}/built-in`,
    ]);
    await configure([BUILT_IN, gauge({ refuse: "too steep" })]);
    await until(async () => (await machine.sick()).g?.includes("error validating resource: too steep"));
    await configure([BUILT_IN, gauge({ step: 3 })]);
    await changed(3);
  });

  await t.step(
    "a changed resource and its dependent are removed and added in order",
    async () => {
      await configure([BESIDE, gauge({ uses: "beside", step: 4 })]);
      await changed(4);
      await configure([{ ...BESIDE, attributes: { step: 9 } }, gauge({ uses: "beside", step: 4 })]);
      await until(() => readings().then((found) => found.machine_step === 9, () => false));
      const names = (await readings()).diary as string[];
      assertEquals(names.slice(-4).map((line) => line.split(" ").slice(0, 2).join(" ")), [
        `remove ${SENSOR}/g`,
        `remove ${SENSOR}/beside`,
        "add beside",
        "add g",
      ]);
    },
  );

  await t.step("the module's own API is called through the machine", async () => {
    await configure([ECHO, BESIDE]);
    await until(async () => {
      const { resources } = await machine.robot.resourceNames({});
      return resources.some(({ name }) => name === ECHO.name);
    });
    await echo(machine);
  });

  await t.step("a killed module restarts with its resources", async () => {
    const { pid } = await readings("beside");
    Deno.kill(pid as number, "SIGKILL");
    const isNew = (found: JsonObject) => found.pid !== pid;
    await until(() => readings("beside").then(isNew, () => false));
    await until(() => echo(machine).then(() => true, () => false));
  });
}

async function echo({ channel }: ModuleMachine): Promise<void> {
  const service = "proto.rpc.examples.echoresource.v1.EchoResourceService";
  type Printed = { name: string; message: string };
  const methods = client(await describeService(channel, service, {}), channel) as {
    readonly [method: string]: (
      request: Printed | AsyncIterable<Printed>,
    ) => Promise<Printed> & AsyncIterable<Printed>;
  };
  const output = async (answers: AsyncIterable<Printed>) =>
    (await Array.fromAsync(answers)).map(({ message }) => message);
  const requests = async function* () {
    for (const message of ["one", "two"]) yield await Promise.resolve({ name: "e", message });
  };
  assertEquals((await methods.echoResource({ name: "e", message: "hello" })).message, "e says hello");
  assertEquals(await output(methods.echoResourceMultiple({ name: "e", message: "abc" })), ["a", "b", "c"]);
  assertEquals(await output(methods.echoResourceBiDi(requests())), ["one", "two"]);
}
