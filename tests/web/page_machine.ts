/**
 * A machine with its page, in this process: every published API has at least one resource, and some resources are
 * hostile.
 */

import { NavigationService } from "../../proto/gen/navigation_pb.ts";
import { PoseTrackerService } from "../../proto/gen/pose_tracker_pb.ts";
import { APIS } from "../../lib/api/mod.ts";
import { PUBLISHED } from "../../lib/api/published.ts";
import { ForwardingResource } from "../../lib/api/shared/passthrough.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Logs } from "../../lib/base/log/log.ts";
import { type JsonObject, object } from "../../lib/base/schema/schema.ts";
import { type Runtime, startRuntime } from "../../lib/machine/runtime.ts";
import { type Api, model, Registry } from "../../lib/resource/registry.ts";
import { memoryChannel } from "../../lib/wire/memory.ts";
import { service, ServiceTable } from "../../lib/wire/service.ts";
import { machinePage } from "../../cli/server/page.ts";
import { MODELS } from "../../drivers/mod.ts";
import { gizmo } from "../support/gizmo.ts";

const clock = new SystemClock();

export interface PageMachine {
  readonly url: string;
  readonly runtime: Runtime;
  readonly logs: Logs;
  /** Writes another configuration. */
  configure(config: JsonObject): Promise<void>;
  /** Ends the machine and starts it again at the same address. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

export async function startPageMachine(config: JsonObject): Promise<PageMachine> {
  const path = await Deno.makeTempFile({ prefix: "svc-", suffix: ".json" });
  const logs = new Logs(clock, []);
  let port = 0;
  const write = (wanted: JsonObject) =>
    Deno.writeTextFile(path, JSON.stringify({ ...wanted, network: { bind_address: `localhost:${port}` } }));
  const start = async () => {
    const { api, fake: gizmoModel } = gizmo();
    const registry = new Registry([...APIS, api], [...MODELS, ...unimplemented(), gizmoModel]);
    const host = new DenoHost();
    const parts = { registry, host, clock, logs, version: "1.0.0" };
    const runtime = await startRuntime({
      configPath: path,
      debug: false,
      noTls: true,
      showConfigDiffs: false,
      page: machinePage(host),
      diagnostics: { ftdc: false, webProfile: false, telemetry: false },
      stop: () => {},
    }, parts);
    await runtime.ready;
    return runtime;
  };
  await write(config);
  let runtime = await start();
  port = Number(new URL(runtime.url).port);
  await write(config);
  return {
    url: `http://localhost:${port}`,
    get runtime() {
      return runtime;
    },
    logs,
    configure: write,
    restart: async () => {
      await runtime.close();
      runtime = await start();
    },
    close: async () => {
      await runtime.close();
      await Deno.remove(path);
    },
  };
}

/** Models of the APIs that no built-in model implements. */
function unimplemented() {
  const api = (name: string) => PUBLISHED.find((one) => one.name === name) as Api<ForwardingResource>;
  const pose = { x: 100, y: 50, z: 0, oX: 0, oY: 0, oZ: 1, theta: 45 };
  const services = [
    [
      "rdk:component:pose_tracker",
      service(PoseTrackerService, {
        getPoses: () => ({ bodyPoses: { body: { referenceFrame: "world", pose } } }),
      }),
    ],
    [
      "rdk:service:navigation",
      service(NavigationService, { getMode: () => ({ mode: 1 }), setMode: () => ({}) }),
    ],
  ] as const;
  return services.map(([name, implementation]) => {
    const { desc } = implementation;
    return model({
      api: api(name),
      name: `test:page:${name.split(":").at(-1)}`,
      doc: "answers for the page's tests",
      attributes: object({}),
      construct: ({ name: resource }) => {
        const table = new ServiceTable(clock);
        table.add(implementation);
        return new ForwardingResource(resource, memoryChannel(table), desc);
      },
    });
  });
}

const component = (name: string, type: string, attributes: JsonObject = {}, more: JsonObject = {}) => ({
  name,
  api: `rdk:component:${type}`,
  model: "fake",
  attributes,
  ...more,
});
const other = (name: string, api: string, modelName: string, attributes: JsonObject = {}) => ({
  name,
  api,
  model: modelName,
  attributes,
});

/** Readings full of markup: they must be shown as they are. */
export const HOSTILE_TEXT =
  `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;

/** A resource of every published API. */
export function everyApi(demo: JsonObject): JsonObject {
  return {
    components: [
      ...demo.components as JsonObject[],
      component("left1", "motor"),
      component("right1", "motor"),
      other("base1", "rdk:component:base", "wheeled", {
        left: ["left1"],
        right: ["right1"],
        width_mm: 300,
        wheel_circumference_mm: 300,
      }),
      component("button1", "button"),
      component("gantry1", "gantry", { length_mm: 500 }),
      component("generic1", "generic"),
      component("gripper1", "gripper"),
      component("pad1", "input_controller"),
      component("gps1", "movement_sensor"),
      component("power1", "power_sensor"),
      component("sensor1", "sensor"),
      component("servo1", "servo"),
      component("switch1", "switch", { position_count: 3, labels: ["off", "low", "high"] }),
      other("hostile1", "rdk:component:sensor", "settable", { readings: { [HOSTILE_TEXT]: HOSTILE_TEXT } }),
      other("broken1", "rdk:component:motor", "gpio", {
        board: "missing",
        pins: { dir: "1", pwm: "2" },
        max_rpm: 1,
      }),
      other("microphone1", "rdk:component:audio_in", "fake"),
      other("speaker1", "rdk:component:audio_out", "fake"),
      other("tracker1", "rdk:component:pose_tracker", "test:page:pose_tracker"),
      other("gizmo1", "acme:component:gizmo", "acme:gizmo:fake"),
    ],
    services: [
      ...demo.services as JsonObject[],
      other("data1", "rdk:service:data_manager", "builtin"),
      other("discovery1", "rdk:service:discovery", "linux"),
      other("service1", "rdk:service:generic", "fake"),
      other("model1", "rdk:service:mlmodel", "fake"),
      other("remote1", "rdk:service:base_remote_control", "builtin", {
        base: "base1",
        input_controller: "pad1",
      }),
      other("shell1", "rdk:service:shell", "builtin"),
      other("slam1", "rdk:service:slam", "fake"),
      other("navigation1", "rdk:service:navigation", "test:page:navigation"),
      other("video1", "rdk:service:video", "fake"),
      other("world1", "rdk:service:world_state_store", "fake"),
    ],
  };
}
