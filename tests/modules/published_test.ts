/**
 * Unchanged modules written with the published Python library, run by svc-server.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { ModuleStatus_State } from "../../proto/gen/robot_pb.ts";
import { CameraApi } from "../../lib/api/sensors/camera.ts";
import { GenericServiceApi } from "../../lib/api/services/generic_service.ts";
import { MotorApi } from "../../lib/api/actuators/motor.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { describeService } from "../../lib/wire/grpc/reflection_client.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { pythonProgram } from "../interop/programs.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { WeatherMachine } from "./weather_machine.ts";

const PARTS = new URL("parts.py", import.meta.url).pathname;

needingTest(
  "a module of the published Python library lives from its start to its removal",
  await pythonProgram(),
  async (python, t) => {
    await using machine = await WeatherMachine.start(python);
    await machine.write({ t1: { degrees: 25 } });

    await t.step("the module's resource answers, and the module is ready", async () => {
      const { degrees } = await until(() => machine.readings("t1"));
      assertEquals(degrees, 25);
      const { modules } = await machine.robot.getMachineStatus({});
      const states = modules.map((
        { moduleName, state, error },
      ) => [moduleName, ModuleStatus_State[state], error]);
      assertEquals(states, [["weather", "READY", ""]]);
    });

    await t.step("it gets the variables and arguments of the protocol", async () => {
      const names = [
        "VIAM_MODULE_NAME",
        "SVC_MODULE_NAME",
        "VIAM_MODULE_DATA",
        "VIAM_HOME",
        "VIAM_MODULE_ADDRESS",
        "OWN",
      ];
      const { environment } = await machine.sensor("t1").doCommand({ environment: names });
      const found = environment as Record<string, string>;
      assertEquals([found.VIAM_MODULE_NAME, found.SVC_MODULE_NAME, found.OWN], [
        "weather",
        "weather",
        "is set",
      ]);
      assertEquals(found.VIAM_MODULE_DATA, `${machine.home}/module-data/local/weather`);
      assertMatch(found.VIAM_MODULE_ADDRESS, /\/viam-module-[^/]*\/weather-[a-z]{5}\.sock$/);
      assertEquals((await Deno.stat(found.VIAM_MODULE_DATA)).isDirectory, true);
    });

    await t.step("its output and its log lines are in the log", async () => {
      await machine.sensor("t1").doCommand({ print: "a line of its own" });
      await machine.wrote("rdk.modmanager.weather.StdOut\ta line of its own");
      await machine.wrote("rdk.modmanager.weather.StdErr\ta line of its own");
      await machine.wrote("built t1");
    });

    await t.step("a change of its configuration rebuilds the resource in the same process", async () => {
      const { pid } = await machine.readings("t1") as JsonObject;
      await machine.write({ t1: { degrees: 30 } });
      await until(async () => (await machine.readings("t1"))?.degrees === 30);
      assertEquals((await machine.readings("t1"))!.pid, pid);
    });

    await t.step(
      "a resource gets a dependency of its own module and a built-in dependency",
      async () => {
        await machine.write({ t1: { degrees: 30 }, t2: { uses: ["t1", "built-in"] } });
        const found = await until(() => machine.readings("t2"));
        assertEquals([(found.t1 as JsonObject).degrees, (found["built-in"] as JsonObject).a], [30, 1]);
      },
    );

    await t.step(
      "a refused configuration makes the resource unhealthy with the module's reason",
      async () => {
        await machine.write({ t1: { degrees: 30 }, t2: { refuse: "too cold" } });
        const error = await until(() => machine.error("t2"));
        assertMatch(error, /modular resource config validation error: .*refused: too cold/);
      },
    );

    await t.step("a killed module restarts with its resources", async () => {
      const { pid } = await machine.readings("t1") as JsonObject;
      Deno.kill(pid as number, "SIGKILL");
      const after = await until(async () => {
        const found = await machine.readings("t1");
        return found && found.pid !== pid ? found : undefined;
      });
      assertEquals(after.degrees, 30);
    });

    await t.step("RestartModule restarts the module and keeps its models", async () => {
      const { pid } = await machine.readings("t1") as JsonObject;
      await machine.robot.restartModule({ idOrName: { case: "moduleName", value: "weather" } });
      const after = await until(() => machine.readings("t1"));
      assertEquals(after.pid === pid, false);
      const { models } = await machine.robot.getModelsFromModules({});
      assertEquals(models.map(({ moduleName, model, api }) => [moduleName, model, api]), [
        ["weather", "acme:test:thermometer", "rdk:component:sensor"],
      ]);
    });

    await t.step(
      "a removed resource is closed in the module, and a removed module's process ends",
      async () => {
        const { pid } = await machine.readings("t1") as JsonObject;
        await machine.write({});
        await machine.wrote("closed t1");
        await machine.write({}, false);
        await until(() => Deno.stat(`/proc/${pid}`).then(() => false, () => true));
        await until(async () => (await machine.robot.getMachineStatus({})).modules.length === 0);
      },
    );
  },
);

needingTest(
  "a module of the published Python library: a motor, a camera, a service, its own API",
  await pythonProgram(),
  async (python, t) => {
    await using machine = await WeatherMachine.start(python, PARTS);
    const { channel } = machine;
    const named = (api: string, name: string) => ResourceName.of(api, name);
    await machine.configure([
      { name: "m", api: MotorApi.name, model: "acme:test:motor" },
      { name: "built-in-motor", api: MotorApi.name, model: "fake" },
      { name: "cam", api: CameraApi.name, model: "acme:test:camera" },
      { name: "c", api: "acme:component:counter", model: "acme:test:counter", attributes: { step: 10 } },
    ], [{
      name: "turner",
      api: GenericServiceApi.name,
      model: "acme:test:turner",
      attributes: { motor: "built-in-motor" },
    }]);
    const isReady = async () => {
      const { resources } = await machine.robot.resourceNames({});
      return ["m", "cam", "c", "turner"].every((wanted) => resources.some(({ name }) => name === wanted));
    };
    await until(isReady);

    await t.step("the module's motor turns, and StopAll stops it", async () => {
      const motor = MotorApi.client(named(MotorApi.name, "m"), channel);
      await motor.setPower(0.5);
      assertEquals(await motor.isPowered(), { isOn: true, powerPct: 0.5 });
      await machine.robot.stopAll({});
      assertEquals((await motor.isPowered()).isOn, false);
    });

    await t.step("the module's camera returns its image", async () => {
      const { images } = await CameraApi.client(named(CameraApi.name, "cam"), channel).getImages();
      assertEquals(images.map(({ sourceName, mimeType }) => [sourceName, mimeType]), [[
        "left",
        "image/jpeg",
      ]]);
    });

    await t.step("the module's service turns a built-in motor", async () => {
      const turner = GenericServiceApi.client(named(GenericServiceApi.name, "turner"), channel);
      assertEquals(await turner.doCommand({ power: 0.25 }), { on: true, power: 0.25 });
      assertEquals(
        (await MotorApi.client(named(MotorApi.name, "built-in-motor"), channel).isPowered()).powerPct,
        0.25,
      );
    });

    await t.step("the module's own API answers all four kinds of calls", async () => {
      const desc = await describeService(channel, "acme.counter.v1.CounterService", {});
      type Count = { name: string; count: number };
      const methods = client(desc, channel) as {
        readonly [method: string]: (
          request: Count | AsyncIterable<Count>,
        ) => Promise<Count> & AsyncIterable<Count>;
      };
      const each = async function* (...counts: number[]) {
        for (const count of counts) yield await Promise.resolve({ name: "c", count });
      };
      const countsOf = async (answers: AsyncIterable<Count>) =>
        (await Array.fromAsync(answers)).map(({ count }) => count);
      const request = { name: "c", count: 1 };
      assertEquals((await methods.one(request)).count, 11);
      assertEquals(await countsOf(methods.out(request)), [11, 11]);
      assertEquals((await methods.in(each(1, 2))).count, 23);
      assertEquals(await countsOf(methods.both(each(1, 2))), [11, 12]);
    });
  },
);
