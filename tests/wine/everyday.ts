/**
 * What programs meet on Windows every day: files at odd places that change, modules, a control plane and its jobs.
 */

import { assert, assertEquals, assertGreater, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { DiscoveryService } from "../../proto/gen/discovery_pb.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { SensorService } from "../../proto/gen/sensor_pb.ts";
import { checkCompiler } from "../../cli/build/check_compiler.ts";
import { choose, compile, TARGETS } from "../../cli/build/compiler.ts";
import { type CloudProcess, serveCloud } from "../cloud/program.ts";
import { type ServerProcess, startServer } from "../support/server.ts";
import { until } from "../support/until.ts";
import { withFront } from "./front.ts";
import type { Check, World } from "./world.ts";

const clock = new SystemClock();
const WITHIN_MS = 60_000;
const TRAINED_MS = 500_000;
/** A folder with spaces and letters of other scripts. */
const ODD = "C:\\Program Files\\Möbel & Söhne\\机器人 робот";
/** A path of more than 260 characters, the limit of older Windows and of its own tools. */
const LONG = `${ODD}\\${"very long name ".repeat(16)}end`;

/** Runs `use` with svc-server on the configuration at `path`, a Windows path. */
async function withServer(
  { computer, pathOf }: World,
  path: string,
  use: (server: ServerProcess, channel: Channel) => Promise<string | void>,
  args: readonly string[] = [],
): Promise<string | void> {
  const command = [...computer.runner, pathOf("svc-server")];
  const server = await startServer(path, { command, args: [...args], env: { SVC_HOME: `${LONG}\\home` } });
  const channel = connectGrpc(new URL(server.url).host, { clock });
  try {
    return await use(server, channel);
  } catch (cause) {
    throw new Error(`it said: ${server.output().slice(-3000)}`, { cause });
  } finally {
    channel.close();
    assertEquals(await server.stop(), 0, server.output().slice(-3000));
  }
}

function config(components: readonly object[], more: object = {}): string {
  return JSON.stringify({ network: { bind_address: "127.0.0.1:0", no_tls: true }, components, ...more });
}

const motor = (name: string) => ({ name, api: "rdk:component:motor", model: "fake", attributes: {} });

async function hasMotors(channel: Channel, ...names: string[]): Promise<boolean> {
  const { resources } = await client(RobotService, channel).resourceNames({});
  const found = resources.filter(({ subtype }) => subtype === "motor").map(({ name }) => name);
  return found.toSorted().join() === names.join();
}

async function followsFile(world: World): Promise<void> {
  const { computer } = world;
  await Deno.mkdir(computer.path(ODD), { recursive: true });
  const write = (name: string, text: string) => Deno.writeTextFile(computer.path(`${ODD}\\${name}`), text);
  await write("machine.json", config([motor("a")]));
  await withServer(world, `${ODD}\\machine.json`, async (_, channel) => {
    const becomes = (...names: string[]) =>
      until(() => hasMotors(channel, ...names), { withinMs: WITHIN_MS, found: () => names.join() });
    // Windows moves nothing over a file that the server reads just then.
    const moveOver = () =>
      until(async () => {
        const args = ["/c", "move", "/y", `${ODD}\\next.json`, `${ODD}\\machine.json`];
        return (await computer.run("cmd", args)).code === 0;
      }, { withinMs: WITHIN_MS, found: () => "the file cannot be moved" });
    await becomes("a");
    await write("next.json", config([motor("a"), motor("b")]));
    await computer.succeed("cmd", ["/c", "copy", "/y", `${ODD}\\next.json`, `${ODD}\\machine.json`]);
    await becomes("a", "b");
    await moveOver();
    await write("next.json", config([motor("c")]));
    await moveOver();
    await becomes("c");
    const text = config([motor("d")]);
    await write("machine.json", text.slice(0, 60));
    await write("machine.json", text);
    await becomes("d");
  });
  await Deno.mkdir(computer.path(LONG), { recursive: true });
  await Deno.writeTextFile(computer.path(`${LONG}\\machine.json`), config([motor("e")]));
  await withServer(world, `${LONG}\\machine.json`, async (_, channel) => {
    await until(() => hasMotors(channel, "e"), { withinMs: WITHIN_MS });
    await Deno.writeTextFile(computer.path(`${LONG}\\machine.json`), config([motor("f")]));
    await until(() => hasMotors(channel, "f"), { withinMs: WITHIN_MS });
  });
}

async function refusesNames({ computer, pathOf }: World): Promise<void> {
  const server = pathOf("svc-server");
  for (const path of [`${LONG}\\nothing.json`, "D:\\machine.json", "C:/no folder/machine.json"]) {
    assertStringIncludes(await computer.succeed(server, ["-config", path], { code: 1 }), path);
  }
  for (const name of ["C:\\CON.json", "C:\\logs\\aux", "C:\\file:stream.json", "C:\\ends with a dot."]) {
    const logged = await computer.succeed(server, ["-dump-resources", name], { code: 1 });
    assertStringIncludes(logged, name.slice(name.lastIndexOf("\\") + 1));
  }
}

async function runsModule(world: World): Promise<void> {
  const { computer } = world;
  const [target] = choose("target", TARGETS, ["windows-x64"]);
  const executable = { name: "thermometer", entry: "tests/wine/thermometer_module.ts" };
  const folder = "dist/wine/programs/modules";
  const { path } = await compile(await checkCompiler(target), executable, target, folder);
  const there = "C:\\Program Files\\modules\\a thermometer.exe";
  await Deno.mkdir(computer.path("C:\\Program Files\\modules"), { recursive: true });
  await Deno.copyFile(path, computer.path(there));
  const modules = [{ name: "thermometers", type: "local", executable_path: there }];
  const sensor = {
    name: "air",
    api: "rdk:component:sensor",
    model: "test:wine:thermometer",
  };
  const file = "C:\\module.json";
  await Deno.writeTextFile(computer.path(file), config([sensor], { modules }));
  await withServer(world, file, async (_, channel) => {
    const reads = () => client(SensorService, channel).getReadings({ name: "air" });
    const answers = () => reads().then(({ readings }) => Object.keys(readings).length > 0, () => false);
    await until(answers, { withinMs: WITHIN_MS });
    assertEquals(computer.kill("a thermometer.exe"), 1);
    await until(async () => !await answers() || computer.processes("a thermometer.exe").length === 1);
    await until(answers, { withinMs: WITHIN_MS });
  });
  await until(() => computer.processes("a thermometer.exe").length === 0);
}

async function discovers(world: World): Promise<void> {
  const file = "C:\\discovery.json";
  const services = [{ name: "cameras", api: "rdk:service:discovery", model: "webcam" }];
  await Deno.writeTextFile(world.computer.path(file), config([], { services }));
  await withServer(world, file, async (_, channel) => {
    const { discoverResources } = client(DiscoveryService, channel);
    const logged = () => discoverResources({ name: "cameras" }).then(() => "found", (error) => String(error));
    await until(async () => (await logged()).includes("on windows, wanted Linux"), { withinMs: WITHIN_MS });
  });
}

/** From a key to a trained model, with Windows programs only, except for the front, which serves HTTP/1.1. */
async function trains(world: World): Promise<string> {
  const { computer, pathOf } = world;
  const command = [...computer.runner, pathOf("svc-cloud")];
  const data = ["--data", `${ODD}\\cloud`];
  const serve = (flags: readonly string[], listen?: string) =>
    serveCloud([...data, "--uploads-without-sandbox", ...flags], { listen, command });
  let cloud: CloudProcess = await serve(["--demo"]);
  try {
    const [, id, key] = /owner's key\s+id (\S+)\s+key (\S+)/.exec(cloud.output()) ?? [];
    const machine = JSON.parse(/^\{\n[^]*?^\}$/m.exec(cloud.output())?.[0] ?? "{}");
    assert(key && machine.cloud, cloud.output());
    const { host } = new URL(cloud.url);
    return await withFront(() => `http://${host}`, async (front) => {
      assertEquals(await cloud.stop(), 0);
      cloud = await serve(["--public-url", front], host);
      const file = "C:\\managed.json";
      machine.cloud.app_address = cloud.url;
      await Deno.writeTextFile(
        computer.path(file),
        JSON.stringify({ ...machine, network: { no_tls: true } }),
      );
      const online = async () => {
        const logged = await computer.succeed(pathOf("svc-cloud"), ["fleet", "--json", ...data]);
        return JSON.parse(logged).machines[0].state === "online";
      };
      await withServer(world, file, async () => {
        await until(online, { withinMs: WITHIN_MS });
      }, ["-allow-insecure-creds"]);
      return await learn(world, { url: cloud.url, id, key });
    });
  } finally {
    assertEquals(await cloud.stop(), 0);
  }
}

async function learn(
  { computer, pathOf }: World,
  { url, id, key }: { readonly url: string; readonly id: string; readonly key: string },
): Promise<string> {
  const env = { SVC_API_KEY: key };
  const ml = (args: readonly string[], withinMs = WITHIN_MS) =>
    computer.succeed(pathOf("svc-ml"), args, { env, withinMs });
  await ml(["login", "--base-url", url, "--api-key-id", id]);
  await ml(
    [..."submit --model-type object-detection --dataset things --epochs 2 --follow".split(" ")],
    TRAINED_MS,
  );
  const out = `${ODD}\\model`;
  await ml(["models", "download", "things", "--extract", "--destination", out]);
  const folder = [...Deno.readDirSync(computer.path(out))].find((one) => one.isDirectory)!.name;
  const files = [...Deno.readDirSync(computer.path(`${out}\\${folder}`))].map(({ name }) => name);
  const model = files.find((name) => name.endsWith(".onnx"));
  assert(model, files.join());
  assertGreater((await Deno.stat(computer.path(`${out}\\${folder}\\${model}`))).size, 1000);
  return files.toSorted().join(", ");
}

function check(name: string, run: (world: World) => Promise<string | void>, group = "everyday"): Check {
  return { name, group, run };
}

export const everydayChecks: readonly Check[] = [
  check("svc-server follows a file at an odd path that is copied, moved or written in halves", followsFile),
  check("missing files and device names are refused with their names", refusesNames),
  check("a killed module is started again, and none is left at the end", runsModule),
  check("webcam discovery fails because it needs Linux", discovers),
  check("svc-ml logs in to svc-cloud, trains a model and downloads it", trains, "cloud"),
];
