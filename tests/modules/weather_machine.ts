/**
 * A svc-server with one module, which is written with the published Python library, and a sensor that is built in.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { SensorApi } from "../../lib/api/sensors/sensor.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { type ServerProcess, startServer } from "../support/server.ts";
import { until, within } from "../support/until.ts";

const THERMOMETER = new URL("thermometer.py", import.meta.url).pathname;

/** svc-server with a sensor that is built in, and the module. */
export class WeatherMachine implements AsyncDisposable {
  readonly robot;

  private constructor(
    readonly server: ServerProcess,
    private readonly path: string,
    readonly home: string,
    private readonly program: string,
    readonly channel: Channel,
  ) {
    this.robot = client(RobotService, channel);
  }

  static async start(python: string, script = THERMOMETER): Promise<WeatherMachine> {
    const home = await Deno.makeTempDir({ prefix: "svc-modules-" });
    const program = `${home}/weather.sh`;
    await Deno.writeTextFile(program, `#!/bin/sh\nexec ${python} ${script} "$@"\n`, { mode: 0o755 });
    const path = `${home}/machine.json`;
    await Deno.writeTextFile(path, JSON.stringify({ network: { bind_address: "localhost:0" } }));
    const server = await startServer(path, { env: { SVC_HOME: home } });
    const channel = connectGrpc(new URL(server.url).host, { clock: new SystemClock() });
    return new WeatherMachine(server, path, home, program, channel);
  }

  /** Configures these thermometers, by name. */
  async write(thermometers: Record<string, JsonObject>, hasModule = true): Promise<void> {
    const sensors = Object.entries(thermometers).map(([name, attributes]) => {
      return { name, api: "rdk:component:sensor", model: "acme:test:thermometer", attributes };
    });
    await this.configure(sensors, [], hasModule);
  }

  async configure(
    components: readonly JsonObject[],
    services: readonly JsonObject[],
    hasModule = true,
  ): Promise<void> {
    const module = { name: "weather", executable_path: this.program, env: { OWN: "is set" } };
    await Deno.writeTextFile(
      this.path,
      JSON.stringify({
        network: { bind_address: "localhost:0" },
        modules: hasModule ? [module] : [],
        components: [{ name: "built-in", api: "rdk:component:sensor", model: "fake" }, ...components],
        services,
      }),
    );
  }

  sensor(name: string) {
    return SensorApi.client(ResourceName.of(SensorApi.name, name), this.channel);
  }

  /** Kills the module's process, if there is one. */
  async killModule(): Promise<void> {
    const { stdout } = await new Deno.Command("pgrep", { args: ["-f", `${THERMOMETER} .*/weather-`] })
      .output();
    for (const pid of new TextDecoder().decode(stdout).split("\n").filter((line) => line !== "")) {
      const env = await Deno.readTextFile(`/proc/${pid}/environ`).catch(() => "");
      // Not that of another test that runs at the same time.
      if (env.includes(`VIAM_HOME=${this.home}\0`)) await kill(Number(pid));
    }
  }

  /** Nothing while the sensor is not there. */
  readings(name: string): Promise<JsonObject | undefined> {
    return this.sensor(name).getReadings().then((readings) => readings as JsonObject, () => undefined);
  }

  async wrote(text: string): Promise<void> {
    await within(`the line "${text}"`, this.server.wrote(text));
  }

  /** Why a resource is unhealthy, if it is. */
  async error(name: string): Promise<string | undefined> {
    const { resources } = await this.robot.getMachineStatus({});
    return resources.find((one) => one.name?.name === name)?.error || undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.channel.close();
    const code = await this.server.stop();
    await Deno.remove(this.home, { recursive: true });
    assertEquals(code, 0);
    assertStringIncludes(this.server.output(), "shutting down");
  }
}

/** It may have ended a moment ago. */
async function kill(pid: number): Promise<void> {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  await until(() => Deno.stat(`/proc/${pid}`).then(() => false, () => true));
}
