/**
 * A machine with its page, in this process: every published API has at least one resource, and some resources are
 * hostile.
 */

import { NavigationService } from "../../proto/gen/navigation_pb.ts";
import { PoseTrackerService } from "../../proto/gen/pose_tracker_pb.ts";
import { type Camera, CameraApi, type CameraProperties, type Images } from "../../lib/api/sensors/camera.ts";
import { APIS } from "../../lib/api/mod.ts";
import { PUBLISHED } from "../../lib/api/published.ts";
import { ForwardingResource } from "../../lib/api/shared/passthrough.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Logs } from "../../lib/base/log/log.ts";
import type { CheckNetwork } from "../../lib/machine/diagnostics/network_check.ts";
import { type JsonObject, object } from "../../lib/base/schema/schema.ts";
import { type Runtime, startRuntime } from "../../lib/machine/runtime.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";
import { type Api, model, Registry } from "../../lib/resource/registry.ts";
import { memoryChannel } from "../../lib/wire/rpc/memory.ts";
import { service, ServiceTable } from "../../lib/wire/rpc/service.ts";
import { builtPage } from "../../cli/built_page.ts";
import { MACHINE_PAGE } from "../../cli/page_path.ts";
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

/** A host, with a home of its own. */
function withHome(host: DenoHost, home: string): DenoHost {
  const env = host.env.bind(host);
  host.env = (name) => name === "SVC_HOME" ? home : env(name);
  return host;
}

export async function startPageMachine(
  config: JsonObject,
  { untrusted = false, createHost = () => new DenoHost() }: {
    readonly untrusted?: boolean;
    /** By default this computer. */
    readonly createHost?: () => DenoHost;
  } = {},
): Promise<PageMachine> {
  const home = await Deno.makeTempDir({ prefix: "svc-page-" });
  const path = `${home}/machine.json`;
  const logs = new Logs(clock, []);
  // A new address would reopen the port, so it stays as it is until the machine ends.
  let bind = "localhost:0";
  const write = (wanted: JsonObject) =>
    Deno.writeTextFile(path, JSON.stringify({ ...wanted, network: { bind_address: bind } }));
  const start = async () => {
    const { api, fake: gizmoModel } = gizmo();
    const registry = new Registry([...APIS, api], [...MODELS, ...testModels(), gizmoModel]);
    const host = withHome(createHost(), home);
    const parts = { registry, host, clock, logs, version: "1.0.0" };
    const runtime = await startRuntime({
      configPath: path,
      debug: false,
      noTls: true,
      showConfigDiffs: false,
      untrusted,
      page: builtPage(host, MACHINE_PAGE),
      diagnostics: { ftdc: true, webProfile: false, telemetry: false },
      network: UNREACHABLE,
      stop: () => {},
    }, parts);
    await runtime.ready;
    return runtime;
  };
  await write(config);
  let runtime = await start();
  const { port } = new URL(runtime.url);

  return {
    url: `http://localhost:${port}`,
    get runtime() {
      return runtime;
    },
    logs,
    configure: write,
    restart: async () => {
      await runtime.close();
      bind = `localhost:${port}`;
      await write(JSON.parse(await Deno.readTextFile(path)));
      runtime = await start();
    },
    close: async () => {
      await runtime.close();
      await Deno.remove(home, { recursive: true });
    },
  };
}

/** A network that answers nobody. */
const UNREACHABLE: CheckNetwork = {
  resolve: () => Promise.reject(new SvcError("not_found", "the name cannot be resolved")),
  tcp: () => Promise.reject(new SvcError("not_found", "the name cannot be resolved")),
  udp: () => Promise.reject(new SvcError("unavailable", "there is no socket")),
  gateway: () => Promise.reject(new SvcError("unavailable", "the system does not tell")),
  ping: () => Promise.reject(new SvcError("unavailable", "there is no ping")),
};

export const CLOUD_POINTS = 500_000;

/** Points on a wave, as a binary PCD file. */
function makeLargeCloud(): Uint8Array {
  const head = [
    ...["VERSION .7", "FIELDS x y z", "SIZE 4 4 4", "TYPE F F F", "COUNT 1 1 1"],
    ...[
      `WIDTH ${CLOUD_POINTS}`,
      "HEIGHT 1",
      "VIEWPOINT 0 0 0 1 0 0 0",
      `POINTS ${CLOUD_POINTS}`,
      "DATA binary",
      "",
    ],
  ].join("\n");
  const points = Float32Array.from({ length: 3 * CLOUD_POINTS }, (_, at) => {
    const point = Math.floor(at / 3);
    const [x, y] = [point % 1000 / 500 - 1, Math.floor(point / 1000) / 250 - 1];
    return [x, y, 2 + Math.sin(8 * x) / 10][at % 3];
  });
  const bytes = new Uint8Array(head.length + points.byteLength);
  bytes.set(new TextEncoder().encode(head));
  bytes.set(new Uint8Array(points.buffer), head.length);
  return bytes;
}

/** Made once: the page asks for it again and again. */
let largeCloud: Uint8Array | undefined;

/** What a camera that sends garbage sends, one after another. */
const GARBAGE: readonly (readonly [mimeType: string, image: Uint8Array<ArrayBuffer>])[] = [
  ["image/jpeg", new Uint8Array([0xff, 0xd8, 0xff, 0, 1, 2, 3])],
  ["image/vnd.viam.dep", new TextEncoder().encode(`DEPTHMAP${"\xff".repeat(8)}`)],
  ["image/vnd.viam.rgba", new Uint8Array(12).fill(0xff)],
  ["text/html", new TextEncoder().encode("<script>document.title='owned'</script>")],
  [
    "image/svg+xml",
    new TextEncoder().encode("<svg onload=\"document.title='owned'\" xmlns='http://www.w3.org/2000/svg'/>"),
  ],
  ["", new Uint8Array()],
];

const GARBAGE_CLOUD = "VERSION .7\nFIELDS x y z\nPOINTS 4000000000\nDATA binary\n\xff";

/** Models of the APIs that no built-in model implements, and hostile cameras. */
function testModels() {
  const api = (name: string) => PUBLISHED.find((one) => one.name === name) as Api<ForwardingResource>;
  const pose = { x: 100, y: 50, z: 0, oX: 0, oY: 0, oZ: 1, theta: 45 };
  const services = [
    [
      "rdk:component:pose_tracker",
      "pose_tracker",
      service(PoseTrackerService, {
        getPoses: () => ({ bodyPoses: { body: { referenceFrame: "world", pose } } }),
      }),
    ],
    [
      "rdk:service:navigation",
      "navigation",
      service(NavigationService, { getMode: () => ({ mode: 1 }), setMode: () => ({}) }),
    ],
  ] as const;
  const others = services.map(([name, short, implementation]) => {
    const { desc } = implementation;
    return model({
      api: api(name),
      name: `test:page:${short}`,
      doc: "answers for the page's tests",
      attributes: object({}),
      construct: ({ name: resource }) => {
        const table = new ServiceTable(clock);
        table.add(implementation);
        return new ForwardingResource(resource, memoryChannel(table), desc);
      },
    });
  });
  return [...others, hostileCamera("garbage"), hostileCamera("cloud")];
}

/** A camera that sends garbage, or very many points. */
function hostileCamera(kind: "garbage" | "cloud") {
  const isGarbage = kind === "garbage";
  let turn = 0;
  class HostileCamera extends BaseComponent implements Camera {
    getImages(): Promise<Images> {
      const [mimeType, image] = GARBAGE[turn++ % GARBAGE.length];
      const images = isGarbage ? [{ sourceName: HOSTILE_TEXT, mimeType, image }] : [];
      return Promise.resolve({ images, capturedAtMs: clock.nowMs() });
    }

    getPointCloud(): Promise<Uint8Array> {
      return Promise.resolve(
        isGarbage ? new TextEncoder().encode(GARBAGE_CLOUD) : largeCloud ??= makeLargeCloud(),
      );
    }

    getProperties(): Promise<CameraProperties> {
      return Promise.resolve({ supportsPcd: true, mimeTypes: ["image/jpeg"] });
    }
  }
  return model({
    api: CameraApi,
    name: `test:page:${kind}`,
    doc: "sends what a page has to survive",
    attributes: object({}),
    construct: ({ name }) => new HostileCamera(name),
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

/** Readings that a page may show wrongly: equal names, small and large numbers, writing from the right, no gaps. */
export const ODD_READINGS = {
  "a.b": 1,
  a: { b: 2 },
  tiny: 0.0000123456,
  huge: 1.5e300,
  negative: -0,
  "درجة الحرارة": "٢١",
  "\u202etxt.exe": "\u202eright",
  ["long".repeat(60)]: "x".repeat(400),
};

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
      component("sensor1", "sensor", {}, {
        service_configs: [{
          type: "data_manager",
          attributes: { capture_methods: [{ method: "Readings", capture_frequency_hz: 2 }] },
        }],
      }),
      component("servo1", "servo"),
      component("switch1", "switch", { position_count: 3, labels: ["off", "low", "high"] }),
      other("hostile1", "rdk:component:sensor", "settable", { readings: { [HOSTILE_TEXT]: HOSTILE_TEXT } }),
      other("odd1", "rdk:component:sensor", "settable", { readings: ODD_READINGS }),
      other("broken1", "rdk:component:motor", "gpio", {
        board: "missing",
        pins: { dir: "1", pwm: "2" },
        max_rpm: 1,
      }),
      other("garbage1", "rdk:component:camera", "test:page:garbage"),
      other("cloud1", "rdk:component:camera", "test:page:cloud"),
      other("microphone1", "rdk:component:audio_in", "fake"),
      other("speaker1", "rdk:component:audio_out", "fake"),
      other("tracker1", "rdk:component:pose_tracker", "test:page:pose_tracker"),
      other("gizmo1", "acme:component:gizmo", "acme:gizmo:fake"),
    ],
    services: [
      ...demo.services as JsonObject[],
      other("obstacles1", "rdk:service:vision", "obstacles_depth", { camera_name: "camera1" }),
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
