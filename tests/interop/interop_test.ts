/**
 * The published client libraries drive the example machine, each in a process and runtime of its own.
 *
 * The libraries come from their registries; where one cannot be installed its test says so and is skipped.
 */

import { assert, assertEquals, assertGreater, assertLess, assertMatch } from "@std/assert";
import { type ServerProcess, startServer, writeConfig } from "../server.ts";

const HERE = new URL("./", import.meta.url).pathname;
const ROOT = new URL("../../", import.meta.url).pathname;

/** What a tour prints; see sdk_tour.mjs and python_tour.py. */
interface Seen {
  resources: string[];
  version: { platform: string; version: string; apiVersion: string };
  machine: { state: number; unhealthy: number };
  joints: { wanted: number[]; found: number[] };
  armErrorMm: number;
  encoder: { before: number; after: number };
  power: { on: boolean; pct: number };
  gpio: boolean;
  ticks: { high: boolean; time: string }[];
  images: { sourceName: string; mimeType: string; bytes: number }[];
  capturedAt: boolean;
  pointCloudBytes: number;
  detections: number;
  stopped: boolean;
  missing?: { code: number; message: string };
  again: number;
}

Deno.test("the published TypeScript SDK in Node, over gRPC", async () => {
  const folder = await nodeFolder();
  await withServer((server) => tour(server, ["node", `${folder}/sdk_tour.mjs`, server.url, "grpc"]));
});

Deno.test("the published TypeScript SDK in Node, over gRPC-web", async () => {
  const folder = await nodeFolder();
  await withServer((server) => tour(server, ["node", `${folder}/sdk_tour.mjs`, server.url, "grpc-web"]));
});

Deno.test("the published TypeScript SDK in Deno, over gRPC", async () => {
  await withServer((server) => tour(server, denoTour(server.url, "grpc")));
});

Deno.test("the published TypeScript SDK in Deno, over gRPC-web", async () => {
  await withServer((server) => tour(server, denoTour(server.url, "grpc-web")));
});

Deno.test("the published Python SDK, over gRPC", async () => {
  const python = await pythonProgram();
  if (python === undefined) return;
  await withServer((server) => tour(server, [python, `${HERE}python_tour.py`, new URL(server.url).host]));
});

function denoTour(url: string, transport: string): string[] {
  const options = ["-A", "--no-lock", "--config", `${HERE}packages.json`];
  return [
    Deno.execPath(),
    "run",
    ...options,
    `${HERE}sdk_tour.mjs`,
    url,
    transport,
  ];
}

async function withServer(
  use: (server: ServerProcess) => Promise<void>,
): Promise<void> {
  const demo = JSON.parse(await Deno.readTextFile(`${ROOT}examples/demo.json`));
  const configPath = await writeConfig({ ...demo, network: {} });
  const server = await startServer(configPath);
  try {
    await server.wrote("machine is running");
    await use(server);
  } finally {
    const code = await server.stop();
    await Deno.remove(configPath);
    assertEquals(code, 0);
  }
}

async function tour(server: ServerProcess, command: string[]): Promise<void> {
  const { code, stdout, stderr } = await run(command);
  assertEquals(
    code,
    0,
    `${command.join(" ")} failed:\n${stderr}\nthe server wrote:\n${server.output()}`,
  );
  judge(JSON.parse(stdout.trim().split("\n").at(-1)!));
}

function judge(seen: Seen): void {
  const wanted = [
    "arm/arm1",
    "board/board1",
    "camera/camera1",
    "encoder/encoder1",
    "motor/motor1",
    "vision/vision1",
  ];
  assertEquals(wanted.filter((name) => !seen.resources.includes(name)), []);
  assertEquals(seen.version.platform, "rdk");
  assertMatch(seen.version.version, /^v?\d+\.\d+\.\d+$/);
  assertMatch(seen.version.apiVersion, /^v\d+\.\d+\.\d+$/);
  assertEquals(seen.machine, { state: 2, unhealthy: 0 });
  assertEquals(seen.joints.found, seen.joints.wanted);
  assertLess(seen.armErrorMm, 0.1);
  assertGreater(seen.encoder.after, seen.encoder.before);
  assertEquals(seen.power, { on: true, pct: 0.5 });
  assertEquals(seen.gpio, true);
  assertEquals(seen.ticks.length, 3);
  assert(seen.ticks.every(({ time }) => BigInt(time) > 0n));
  assertGreater(seen.images.length, 0);
  assert(
    seen.images.every(({ bytes, mimeType }) => bytes > 0 && mimeType.startsWith("image/")),
  );
  assertEquals(seen.capturedAt, true);
  assertGreater(seen.pointCloudBytes, 0);
  assertGreater(seen.detections, 0);
  assertEquals(seen.stopped, true);
  assertEquals(seen.missing?.code ?? 2, 2);
  assertEquals(seen.again, seen.resources.length);
}

/** A folder with the tour and the packages it needs, as npm installs them. */
async function nodeFolder(): Promise<string> {
  const folder = `${cacheFolder()}/svc-interop-node`;
  await Deno.mkdir(folder, { recursive: true });
  const { imports } = JSON.parse(await Deno.readTextFile(`${HERE}packages.json`));
  const packages = Object.values<string>(imports).map((specifier) => specifier.replace("npm:", ""));
  await succeed([
    "npm",
    "install",
    "--silent",
    "--ignore-scripts",
    "--prefix",
    folder,
    ...packages,
  ]);
  await Deno.copyFile(`${HERE}sdk_tour.mjs`, `${folder}/sdk_tour.mjs`);
  return folder;
}

/** A Python that has the SDK, in a virtual environment that is kept; `undefined` where none can be had. */
async function pythonProgram(): Promise<string | undefined> {
  const folder = `${cacheFolder()}/svc-interop-python`;
  const python = `${folder}/bin/python3`;
  try {
    await succeed(["python3", "-m", "venv", folder]);
    await succeed([
      python,
      "-m",
      "pip",
      "install",
      "--quiet",
      "viam-sdk==0.85.1",
    ]);
    return python;
  } catch (error) {
    console.log(`skipped: the Python SDK cannot be installed here: ${error}`);
    return undefined;
  }
}

function cacheFolder(): string {
  return Deno.env.get("TMPDIR") ?? "/tmp";
}

async function succeed(command: string[]): Promise<void> {
  const { code, stderr } = await run(command);
  if (code !== 0) throw new Error(`${command.join(" ")} failed: ${stderr}`);
}

async function run([program, ...args]: string[]) {
  const { code, stdout, stderr } = await new Deno.Command(program, {
    args,
    stdin: "null",
  }).output();
  const text = new TextDecoder();
  return { code, stdout: text.decode(stdout), stderr: text.decode(stderr) };
}
