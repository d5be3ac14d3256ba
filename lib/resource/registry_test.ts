import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FakeGeneric } from "../../drivers/generic/fake.ts";
import { FakeMotor } from "../../drivers/motor/fake.ts";
import { GenericApi } from "../api/actuators/generic.ts";
import { type Motor, MotorApi } from "../api/actuators/motor.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";
import { SvcError } from "../base/error.ts";
import { silentLogs } from "../base/log/log.ts";
import { ResourceName } from "./name.ts";
import type { Resource } from "./resource.ts";
import { type AnyModel, Dependencies, modelEntries, Registry, withoutPrograms } from "./registry.ts";

const MOTOR = { api: MotorApi.name, model: FakeMotor.name };
const GENERIC = { api: GenericApi.name, model: FakeGeneric.name };

/** A registry of two models; `loads` are the words of those whose code was asked for. */
function registryOf({ motor = () => Promise.resolve(FakeMotor) }: { motor?: () => Promise<AnyModel> } = {}) {
  const loads: string[] = [];
  const logged = (word: string, load: () => Promise<AnyModel>) => () => {
    loads.push(word);
    return load();
  };
  const registry = new Registry([GenericApi, MotorApi], [
    ...modelEntries(MotorApi, { fake: logged("motor", motor) }),
    ...modelEntries(GenericApi, { fake: logged("generic", () => Promise.resolve(FakeGeneric)) }),
  ]);
  return { registry, loads };
}

Deno.test("Registry.load: loads the named models once, however many ask at a time", async () => {
  const { registry, loads } = registryOf();
  assertEquals(registry.names, [GENERIC, MOTOR]);
  assertEquals(loads, []);
  await Promise.all([
    registry.load([MOTOR, MOTOR, { api: MotorApi.name, model: "rdk:builtin:unknown" }]),
    registry.load([MOTOR]),
  ]);
  await registry.load([MOTOR]);
  assertEquals(loads, ["motor"]);
  assertEquals(registry.model(MOTOR.api, MOTOR.model), FakeMotor);
  assertEquals((await registry.all()).map(({ api }) => api.name), [GENERIC.api, MOTOR.api]);
  assertEquals(loads, ["motor", "generic"]);
});

Deno.test("Registry.model: a model before its code is a bug", () => {
  const { registry } = registryOf();
  assertEquals(registry.has(MOTOR.api, MOTOR.model), true);
  const error = assertThrows(
    () => registry.model(MOTOR.api, MOTOR.model),
    SvcError,
    "before its code is loaded",
  );
  assertEquals(error.code, "internal");
});

Deno.test("Registry.model: a model that nobody knows is not found", () => {
  const { registry } = registryOf();
  const error = assertThrows(
    () => registry.model(MOTOR.api, "rdk:builtin:unknown"),
    SvcError,
    `no model rdk:builtin:unknown is registered for API ${MOTOR.api}`,
  );
  assertEquals(error.code, "not_found");
});

Deno.test("Registry.load: code that cannot be loaded is the model's error until it can", async () => {
  let broken = true;
  const cause = new TypeError("Module not found");
  const motor = () => broken ? Promise.reject(cause) : Promise.resolve(FakeMotor);
  const { registry } = registryOf({ motor });
  await registry.load([MOTOR, GENERIC]);
  assertEquals(registry.model(GENERIC.api, GENERIC.model), FakeGeneric);
  const error = assertThrows(() => registry.model(MOTOR.api, MOTOR.model), SvcError);
  assertEquals([error.code, error.message], [
    "unavailable",
    "the code of model rdk:builtin:fake of API rdk:component:motor cannot be loaded: Module not found",
  ]);
  await assertRejects(() => registry.all(), SvcError, "Module not found");
  await assertRejects(() => registry.dump(), SvcError, "Module not found");

  broken = false;
  await registry.load([MOTOR]);
  assertEquals(registry.model(MOTOR.api, MOTOR.model), FakeMotor);
});

Deno.test("Registry.load: a file with another model than its line says is not taken", async () => {
  const { registry } = registryOf({ motor: () => Promise.resolve(FakeGeneric) });
  await registry.load([MOTOR]);
  assertThrows(
    () => registry.model(MOTOR.api, MOTOR.model),
    SvcError,
    "cannot be loaded: Bug: the file has model rdk:builtin:fake of rdk:component:generic",
  );
});

Deno.test("withoutPrograms: refuses to build a model that runs programs, also one that is loaded later", async () => {
  const runs = { ...FakeMotor, runsPrograms: true };
  const clock = new FakeClock();
  const name = ResourceName.of(MotorApi.name, "it");
  const from = {
    name,
    attributes: undefined,
    dependencies: new Dependencies(name, []),
    logger: silentLogs(clock).logger("test"),
    clock,
    host: new FakeHost(),
    signal: new AbortController().signal,
  };
  for (const listed of [[runs], modelEntries(MotorApi, { fake: () => Promise.resolve(runs) })]) {
    const registry = new Registry([MotorApi], withoutPrograms(listed));
    const [model] = await registry.all();
    const error = assertThrows(() => model.construct(from), SvcError, "would run programs");
    assertEquals(error.code, "permission_denied");
  }
});

Deno.test("Dependencies.lookUp: a request's name is a local resource's before that of a remote's dependency", () => {
  const motor = (short: string) => ({ name: ResourceName.of(MotorApi.name, short) }) as Motor;
  const [near, far, alone] = ["m", "far:m", "far:n"].map(motor);
  const view = (local: Resource | undefined) => ({
    api: () => undefined,
    find: (_: string, name: string) => {
      if (local && name === "m") return local;
      throw new SvcError("unknown", `resource ${name} not available`);
    },
    clientName: ({ short, simple }: ResourceName) => simple === "m" ? short : simple,
    weak: [],
    serviceConfigs: () => [],
  });
  const dependencies = (local?: Resource) => {
    return new Dependencies(ResourceName.of("rdk:service:motion", "it"), [far, alone], view(local));
  };
  const found = (name: string) => dependencies(near).lookUp(MotorApi, name).name.short;
  assertEquals(["m", `${MotorApi.name}/m`].map(found), ["m", "m"]);
  assertEquals(["far:m", `${MotorApi.name}/far:m`, "n", "far:n"].map(found), [
    ...["far:m", "far:m", "far:n", "far:n"],
  ]);
  // Not the remote's in place of a local one that does not work.
  assertThrows(() => dependencies().lookUp(MotorApi, "m"), SvcError, "resource m not available");
});
