/**
 * Every built-in model keeps the promises of its API, used directly and through a client and a server.
 *
 * The models run in one machine, described by machine.json; a model without an entry there fails the test.
 */

import { assertEquals } from "@std/assert";
import { MODELS } from "../../drivers/mod.ts";
import { APIS } from "../../lib/api/mod.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { FakeI2c, FakePins } from "../support/fake_pins.ts";
import { FakeRpLidar } from "../support/fake_rplidar.ts";
import { FakeVideo, FakeVideos } from "../support/fake_video.ts";
import { SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { decodeConfig } from "../../lib/machine/config/config.ts";
import { Machine } from "../../lib/machine/graph/machine.ts";
import type { CaptureMethods } from "../../lib/resource/facets.ts";
import { type AnyApi, Registry } from "../../lib/resource/registry.ts";
import type { Resource } from "../../lib/resource/resource.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { openPort } from "../../lib/wire/port/port.ts";
import { ServiceTable } from "../../lib/wire/service.ts";
import machineJson from "./machine.json" with { type: "json" };
import type { Contract } from "./contract.ts";
import { CONTRACTS } from "./mod.ts";

const registry = new Registry(APIS, MODELS);

const LIDAR_PATH = "/dev/rplidar";

/** This machine, with devices that it may not have, and a shell that reads no files of its user. */
class HostWithDevices extends DenoHost {
  readonly videos = new FakeVideos();
  readonly pins = new FakePins();
  lidar?: FakeRpLidar;

  constructor() {
    super();
    const chip = this.pins.chip("gpiochip0", "pins of the tests", 64);
    // A trigger on line 20 makes an echo of one metre on line 21.
    chip.onDriven = (offset, high) => {
      if (offset !== 20 || high) return;
      chip.pull(21, true, 1_000_000n);
      chip.pull(21, false, 6_882_353n);
    };
    this.pins.spi.set("/dev/spidev0.0", () => new Uint8Array(3));
    this.pins.i2c.set("/dev/i2c-1 64", new FakeI2c());
    const imu = new FakeI2c();
    imu.bytes[0x75] = 0x68;
    this.pins.i2c.set("/dev/i2c-1 104", imu);
    const sentences = [
      "$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47",
      "$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A",
    ];
    this.pins.serial.set("/dev/ttyS9", () => `${sentences.join("\r\n")}\r\n`);
  }

  override env(name: string) {
    return name === "SHELL" ? "/bin/sh" : super.env(name);
  }

  override platform() {
    return { ...super.platform(), os: "linux" };
  }

  override openDevice(path: string) {
    if (path.startsWith("/dev/video")) return this.videos.openDevice(path);
    if (this.pins.has(path)) return this.pins.openDevice(path);
    // The lidar is behind a pseudo-terminal, which has another path in each run.
    return super.openDevice(path === LIDAR_PATH ? this.lidar!.path : path);
  }

  override openPulses() {
    return this.pins.openPulses();
  }

  override async readFolder(path: string) {
    if (!path.startsWith("/dev")) return await super.readFolder(path);
    return [...await this.videos.readFolder(path), ...await this.pins.readFolder(path)];
  }

  override realPath(path: string) {
    return path.startsWith("/dev") ? this.videos.realPath(path) : super.realPath(path);
  }

  /** Takes pictures until it is told to stop. */
  film(clock: SystemClock): () => void {
    const camera = this.videos.plug("/dev/video0", new FakeVideo(clock));
    let stop = () => {};
    const take = () => {
      camera.take();
      stop = clock.after(50, take);
    };
    take();
    return () => stop();
  }
}

Deno.test("every model has an entry in machine.json, and every API with models a contract", () => {
  const key = ({ api, model }: { api: string; model: string }) => `${api} ${model}`;
  const entries = [...machineJson.components, ...machineJson.services] as { api: string; model: string }[];
  const configured = new Set(
    entries.map(({ api, model }) =>
      key({ api, model: model.includes(":") ? model : `rdk:builtin:${model}` })
    ),
  );
  const models = registry.models.map((model) => ({ api: model.api.name, model: model.name }));
  assertEquals(models.map(key).filter((one) => !configured.has(one)), []);
  const contracts = new Set(CONTRACTS.map(({ api }) => api.name));
  assertEquals([...new Set(models.map(({ api }) => api))].filter((api) => !contracts.has(api)), []);
});

Deno.test("models keep their contracts", async (t) => {
  const clock = new SystemClock();
  const host = new HostWithDevices();
  const stopFilming = host.film(clock);
  host.lidar = new FakeRpLidar(new DenoHost(), clock);
  const surroundings = { env: (name: string) => host.env(name), packages: () => "" };
  const { config, problems } = decodeConfig(machineJson, registry, surroundings);
  assertEquals(problems, []);
  const machine = new Machine({ registry, logs: silentLogs(clock), clock, host });
  await machine.apply(config);
  const sick = [...machine.nodes].filter((node) => node.state !== "ready");
  assertEquals(sick.map((node) => `${node.name}: ${node.error}`), []);

  const table = new ServiceTable(clock);
  for (const api of registry.apis) table.add(api.serve((name) => machine.find(api.name, name)));
  const port = await openPort({ table, bind: { host: "127.0.0.1", port: 0 }, clock });
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });

  for (const { name, instance } of [...machine.nodes]) {
    const contract = CONTRACTS.find(({ api }) => api.name === name.api);
    if (!contract) continue;
    await t.step(`${name} directly`, (step) => keep(contract, instance!, step));
    await t.step(
      `${name} through a client`,
      (step) => keep(contract, contract.api.client(name, channel), step),
    );
  }
  await t.step("what the types declare can be captured, directly and through a client alike", async () => {
    for (const { name, instance } of [...machine.nodes]) {
      const api = registry.api(name.api)!;
      const near = await capturedShapes(api, instance!);
      assertEquals(await capturedShapes(api, api.client(name, channel)), near, `${name}`);
    }
  });
  channel.close();
  await port.close(0);
  await machine.close();
  await host.lidar.close();
  stopFilming();
});

/** By method: the keys of a reading, the kinds of files, or that the model cannot do it. */
async function capturedShapes({ captured }: AnyApi, resource: Resource): Promise<Record<string, unknown>> {
  const methods: CaptureMethods = captured === "none" ? {} : captured;
  const shapes: Record<string, unknown> = {};
  const parameters = { reader_name: "analog", pin_name: "1", camera_name: "" };
  for (const [method, capture] of Object.entries(methods)) {
    try {
      const taken = await capture(resource, parameters, {});
      shapes[method] = "reading" in taken
        ? Object.keys(taken.reading).sort()
        : taken.files.map(({ mimeType }) => mimeType);
    } catch (error) {
      shapes[method] = SvcError.from(error).code;
    }
  }
  return shapes;
}

async function keep(contract: Contract<Resource>, resource: Resource, t: Deno.TestContext): Promise<void> {
  for (const [promise, check] of Object.entries(contract.cases)) await t.step(promise, () => check(resource));
}
