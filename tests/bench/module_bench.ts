/**
 * What modules cost: their start, their calls, their return after a crash, and their memory in svc-server. The module is
 * the thermometer of tests/modules, written with the published Python library.
 */

import { SensorApi } from "../../lib/api/sensors/sensor.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { ModuleStatus_State } from "../../proto/gen/robot_pb.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { pythonProgram, run } from "../interop/programs.ts";
import { type ModuleMachine, ROOT, withModules } from "../modules/sdk_bench.ts";
import { residentBytes } from "../support/server.ts";
import { until } from "../support/until.ts";
import { heading, median, rate, row } from "./figures.ts";

const CALLS = 2_000;
const AT_ONCE = 50;
const MANY = 50;

const COMPONENTS = [
  { name: "built-in", api: SensorApi.name, model: "fake" },
  { name: "modular", api: SensorApi.name, model: "acme:test:thermometer" },
];

export async function modules(): Promise<void> {
  heading("a module of the published Python library");
  const python = await pythonProgram();
  if ("missing" in python) return row("not measured", python.missing);
  const command = [python.found, `${ROOT}tests/modules/thermometer.py`];
  const imports = await median(async () => {
    const began = performance.now();
    await run([python.found, "-c", "import viam.module.module"]);
    return performance.now() - began;
  });
  row("Python and the library alone", `${imports.toFixed(0)} ms`);
  await withModules({ weather: command }, { modules: [], components: COMPONENTS }, async (machine) => {
    await starts(machine, imports);
    await calls(machine);
    await returns(machine, imports);
  });
  const names = Array.from({ length: MANY }, (_, index) => `weather-${index}`);
  const many = Object.fromEntries(names.map((name) => [name, command]));
  await withModules(many, { modules: [], components: COMPONENTS }, together);
}

/** From the saved configuration to the first reading; the file is looked at within a moment. */
async function starts(machine: ModuleMachine, imports: number): Promise<void> {
  const ms = await median(async () => {
    await machine.write({ modules: [], components: COMPONENTS });
    await until(async () => (await machine.robot.getMachineStatus({})).modules.length === 0);
    const began = performance.now();
    await machine.write({ components: COMPONENTS });
    await until(() => isThere(machine));
    return performance.now() - began;
  });
  row("configured to first reading", `${ms.toFixed(0)} ms`, `${(ms / imports).toFixed(1)} x Python alone`);
}

/** A call of a sensor that is built in, of one in the module, and of that one without svc-server between. */
async function calls(machine: ModuleMachine): Promise<void> {
  const builtIn = sensorOf(machine, "built-in"), modular = sensorOf(machine, "modular");
  const { pid } = await modular.getReadings();
  const command = (await Deno.readTextFile(`/proc/${pid}/cmdline`)).split("\0");
  const socket = command.find((word) => word.endsWith(".sock"));
  const channel = connectGrpc(`unix:${socket}`, { clock: new SystemClock() });
  const direct = sensorOf({ channel }, "modular");
  const alone = (sensor: Sensor) =>
    median(async () => {
      const began = performance.now();
      for (let call = 0; call < 100; call++) await sensor.getReadings();
      return (performance.now() - began) / 100;
    });
  const perSecond = async (sensor: Sensor) => {
    const began = performance.now();
    const lane = async () => {
      for (let call = 0; call < CALLS / AT_ONCE; call++) await sensor.getReadings();
    };
    await Promise.all(Array.from({ length: AT_ONCE }, lane));
    return CALLS / (performance.now() - began) * 1_000;
  };
  try {
    const [builtInMs, directMs, throughMs] = [
      await alone(builtIn),
      await alone(direct),
      await alone(modular),
    ];
    row("a call, built in", `${builtInMs.toFixed(2)} ms`);
    row("a call, the module alone", `${directMs.toFixed(2)} ms`);
    const ratios = `${(throughMs / builtInMs).toFixed(1)} x built in, ${
      (throughMs / directMs).toFixed(2)
    } x the module alone`;
    row("a call, through svc-server", `${throughMs.toFixed(2)} ms`, ratios);
    const [inside, straight, through] = [
      await perSecond(builtIn),
      await perSecond(direct),
      await perSecond(modular),
    ];
    row(`${AT_ONCE} at once, built in`, rate(inside));
    row(`${AT_ONCE} at once, the module alone`, rate(straight));
    row(
      `${AT_ONCE} at once, via svc-server`,
      rate(through),
      `${(straight / through).toFixed(2)} x slower`,
    );
  } finally {
    channel.close();
  }
}

/** From a kill to the first reading of the process that took its place. */
async function returns(machine: ModuleMachine, imports: number): Promise<void> {
  const sensor = sensorOf(machine, "modular");
  const ms = await median(async () => {
    // A restart on request comes without the pause of a module that fails again and again.
    await machine.robot.restartModule({ idOrName: { case: "moduleName", value: "weather" } });
    await until(() => isThere(machine));
    const { pid } = await sensor.getReadings();
    const began = performance.now();
    Deno.kill(Number(pid), "SIGKILL");
    await until(() => sensor.getReadings().then((now) => now.pid !== pid, () => false));
    return performance.now() - began;
  });
  row("killed to first reading", `${ms.toFixed(0)} ms`, `${(ms / imports).toFixed(1)} x Python alone`);
}

/** Many start together; what each of them takes. */
async function together(machine: ModuleMachine): Promise<void> {
  const { pid } = machine.server;
  await until(() => sensorOf(machine, "built-in").getReadings().then(() => true, () => false));
  const before = await residentBytes(pid);
  const began = performance.now();
  await machine.write({ components: COMPONENTS });
  await until(async () => {
    const { modules } = await machine.robot.getMachineStatus({});
    return modules.length === MANY && modules.every(({ state }) => state === ModuleStatus_State.READY);
  }, { withinMs: 300_000 });
  row(`${MANY} at once, all ready`, `${(performance.now() - began).toFixed(0)} ms`);
  await until(() => isThere(machine));
  const megabytes = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(1)} MB`;
  const after = await residentBytes(pid);
  const module = await residentBytes(Number((await sensorOf(machine, "modular").getReadings()).pid));
  row(
    "svc-server, a module",
    megabytes((after - before) / MANY),
    `one of ${MANY}, the code they share included`,
  );
  row("the module's own process", megabytes(module));
}

type Sensor = ReturnType<typeof sensorOf>;

function sensorOf({ channel }: Pick<ModuleMachine, "channel">, name: string) {
  return SensorApi.client(ResourceName.of(SensorApi.name, name), channel);
}

function isThere(machine: ModuleMachine): Promise<boolean> {
  return sensorOf(machine, "modular").getReadings().then(() => true, () => false);
}
