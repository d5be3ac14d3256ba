/**
 * Runs executables from an empty folder and reports their behaviour; the second half of `compile:check`.
 *
 * It runs inside a namespace without a network, together with the programs that it starts, so that its gRPC client
 * reaches their server. The programs see an empty folder, an empty PATH and no other variable.
 */

import { Buffer } from "node:buffer";
import * as http2 from "node:http2";
import { dirname } from "node:path";
import { assert, assertStringIncludes } from "@std/assert";
import { parseJsonc } from "../../lib/base/schema/jsonc.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageShape,
  toBinary,
} from "../../lib/wire/rpc/proto.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { DataService } from "../../proto/gen/data_pb.ts";
import {
  type GetMachineStatusResponse,
  GetMachineStatusResponse_State,
  RobotService,
} from "../../proto/gen/robot_pb.ts";
import { VERSION } from "../version.ts";
import { ROOT } from "./compiler.ts";
import { Report } from "./report.ts";

/** What to run, as JSON in the only argument. */
export interface RunRequest {
  /** The command before the path of an executable: none, or an emulator for its processor. */
  readonly runner: readonly string[];
  /** Whether an emulator runs it. */
  readonly emulated: boolean;
  readonly os: "linux" | "windows";
  readonly programs: readonly { readonly name: string; readonly path: string }[];
  /** An executable that does nothing, for comparison; only without an emulator. */
  readonly empty?: string;
}

/** Under an emulator, a start takes seconds. */
const DEADLINE_MS = 90_000;

/** Memory of one program differs by this from start to start, more so on a busy computer. */
const SPREAD_MB = 4;

const EXAMPLE = `${ROOT}examples/demo.json`;
const IMAGE = `${ROOT}tests/data/camera/color.png`;
const ONNX_MODEL = `${ROOT}tests/data/ml_model/colors/model.onnx`;

/** A folder that is empty except for the program's own files, and the way to run programs in it. */
class Sandbox {
  readonly #runner: readonly string[];
  readonly folder: string;

  constructor(runner: readonly string[], folder: string) {
    this.#runner = runner;
    this.folder = folder;
  }

  command(path: string, args: readonly string[], env: Record<string, string> = {}): Deno.Command {
    const [file = path, ...rest] = [...this.#runner, path, ...args];
    return new Deno.Command(file, {
      args: rest,
      cwd: this.folder,
      clearEnv: true,
      env: { PATH: this.folder, HOME: this.folder, TMPDIR: this.folder, ...env },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
      signal: AbortSignal.timeout(DEADLINE_MS),
    });
  }

  /** Runs a program to its end and requires the exit code `code`; returns its output. */
  async run(path: string, args: readonly string[], code = 0, env?: Record<string, string>): Promise<string> {
    const outcome = await this.command(path, args, env).output();
    const output = new TextDecoder().decode(outcome.stdout),
      errors = new TextDecoder().decode(outcome.stderr);
    assert(outcome.code === code, `exit code ${outcome.code}, wanted ${code}; it said: ${output}${errors}`);
    // The check may compile with another runtime than the product's, which each program remarks.
    return output + errors.replace(/^svc-[\w-]+: this program is made for Deno .*\n/m, "");
  }
}

async function main(request: RunRequest): Promise<number> {
  const report = new Report(new DenoHost());
  for (const { name, path } of request.programs) {
    const folder = await Deno.makeTempDir({ prefix: "svc_check_" });
    try {
      const sandbox = new Sandbox(request.runner, folder);
      await checkCommandLine(report, sandbox, name, path);
      if (name === "svc-server") await checkServer(report, sandbox, path);
      if (name === "svc-micro-server") await checkMicro(report, sandbox, path, request.os);
      if (name === "svc-server" && !request.emulated) await checkModels(report, sandbox, path);
      if (request.os !== "windows") await checkLeftovers(report, sandbox, name);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  }
  const pathOf = (wanted: string) => request.programs.find(({ name }) => name === wanted)?.path;
  const [cloud, ml] = [pathOf("svc-cloud"), pathOf("svc-ml")];
  if (cloud && ml && !request.emulated) await checkInference(report, request.runner, cloud, ml);
  const [micro, server] = [pathOf("svc-micro-server"), pathOf("svc-server")];
  if (micro && server && request.empty) {
    await compareMicro(report, { micro, server, empty: request.empty });
  }
  return report.finish();
}

async function checkCommandLine(report: Report, sandbox: Sandbox, name: string, path: string): Promise<void> {
  await report.check(`${name} prints its version`, async () => {
    const output = (await sandbox.run(path, ["-version"])).trim();
    assertStringIncludes(output, `${name} ${VERSION}`);
    return output;
  });
  await report.check(`${name} prints the licenses of third-party software`, async () => {
    assertStringIncludes(await sandbox.run(path, ["-licenses"]), "\nlibdatachannel in node-datachannel");
  });
  await report.check(`${name} prints its help`, async () => {
    assertStringIncludes(await sandbox.run(path, ["-help"]), `Usage: ${name} `);
  });
  await report.check(`${name} refuses an unknown flag`, async () => {
    assertStringIncludes(await sandbox.run(path, ["--verison"], 2), "did you mean");
  });
}

/** Anybody can write to the folder for temporary files, which is the sandbox's here. */
async function checkLeftovers(report: Report, sandbox: Sandbox, name: string): Promise<void> {
  await report.check(`${name} keeps no compiled code among temporary files`, async () => {
    for await (const { name } of Deno.readDir(sandbox.folder)) assert(!name.startsWith("deno-compile"), name);
  });
}

async function checkServer(report: Report, sandbox: Sandbox, path: string): Promise<void> {
  await report.check("svc-server -dump-resources lists its models", async () => {
    const file = `${sandbox.folder}/resources.json`;
    await sandbox.run(path, ["-dump-resources", file]);
    const models: { api: string; model: string }[] = JSON.parse(await Deno.readTextFile(file));
    assert(models.length > 0, "the list is empty");
    for (const { api, model } of models) assert(api.startsWith("rdk:") && model !== "", `${api} ${model}`);
    return `${models.length} models`;
  });
  await report.check("svc-server connects to itself over WebRTC, and encodes video", async () => {
    const reported = await sandbox.run(path, [], 0, { SVC_SELFTEST: "webrtc" });
    assertStringIncludes(reported, "a call over WebRTC was answered");
    assertStringIncludes(reported, "bytes of video");
  });
  await report.check(
    "svc-server serves the example machine over gRPC (h2c) and stops when told",
    async () => {
      const config = parseJsonc(await Deno.readFile(EXAMPLE), { file: EXAMPLE }) as {
        components?: unknown[];
        network?: object;
      };
      config.network = { ...config.network, bind_address: "127.0.0.1:0" };
      const file = `${sandbox.folder}/machine.json`;
      await Deno.writeTextFile(file, JSON.stringify(config));
      return await whileServing(sandbox.command(path, ["-config", file]), async (url) => {
        await runningStatus(url);
        const { resources } = await call(url, "ResourceNames", RobotService.method.resourceNames);
        const wanted = config.components?.length ?? 0;
        assert(resources.length >= wanted, `${resources.length} resources, wanted at least ${wanted}`);
        const { platform, version } = await call(url, "GetVersion", RobotService.method.getVersion);
        return `${platform} ${version}, ${resources.length} resources`;
      });
    },
  );
}

async function checkMicro(
  report: Report,
  sandbox: Sandbox,
  path: string,
  os: RunRequest["os"],
): Promise<void> {
  const file = `${sandbox.folder}/micro.json`;
  const devices = os === "linux" ? "opens devices through the C library" : "says where devices work";
  await report.check(
    `svc-micro-server serves a board with motors, and ${devices}`,
    async () => {
      const sensor = { name: "s", api: "rdk:component:power_sensor", model: "ina219" };
      const attributes = { i2c_bus: "/dev/null" };
      const config = machineOf(10);
      await Deno.writeTextFile(
        file,
        JSON.stringify({ ...config, components: [...config.components, { ...sensor, attributes }] }),
      );
      return await whileServing(sandbox.command(path, ["-config", file]), async (url) => {
        const motor = await builtResource(url, "motor9");
        assert(motor.error === "", motor.error);
        // There is no bus here; the attempt to open it, and the system's error, are the proof.
        const { error } = await builtResource(url, "s");
        const reported = os === "linux"
          ? 'cannot control (0x703) the device "/dev/null"'
          : "works on Linux only";
        assertStringIncludes(error, reported);
        return error;
      });
    },
  );
  await report.check("svc-micro-server refuses PWM that a microcontroller cannot make", async () => {
    const { components: [board, motor], network } = machineOf(2);
    const wrong = { ...motor, attributes: { ...motor?.attributes, pwm_freq: 800 } };
    await Deno.writeTextFile(file, JSON.stringify({ network, components: [board, wrong] }));
    const reported = await sandbox.run(path, ["-config", file], 1);
    assertStringIncludes(reported, "found 800 Hz on pin 2, wanted 10000 Hz");
  });
}

/** A machine with this many resources: a board, and motors on it. */
function machineOf(resources: number) {
  const board = { name: "board", api: "rdk:component:board", model: "fake", attributes: {} };
  const motors = Array.from({ length: resources - 1 }, (_, index) => ({
    name: `motor${index + 1}`,
    api: "rdk:component:motor",
    model: "gpio",
    attributes: { board: "board", pins: { dir: "1", pwm: "2" }, max_rpm: 100 },
  }));
  return { components: [board, ...motors], network: { bind_address: "127.0.0.1:0", no_tls: true } };
}

/** The costs of svc-micro-server beside svc-server and a program that does nothing. */
async function compareMicro(
  report: Report,
  programs: { readonly micro: string; readonly server: string; readonly empty: string },
): Promise<void> {
  await report.check(
    "svc-micro-server takes no more memory than svc-server",
    async () => {
      const folder = await Deno.makeTempDir({ prefix: "svc_check_" });
      try {
        const sandbox = new Sandbox([], folder);
        const empty = await measureCosts(sandbox, programs.empty);
        const [micro, server] = [
          await measureCosts(sandbox, programs.micro, 1),
          await measureCosts(sandbox, programs.server, 1),
        ];
        const [micro50, server50] = [
          await measureCosts(sandbox, programs.micro, 50),
          await measureCosts(sandbox, programs.server, 50),
        ];
        const share = (micro.residentMb - empty.residentMb) / (server.residentMb - empty.residentMb);
        const reported = [
          `${micro.sizeMb.toFixed(0)} MB beside ${server.sizeMb.toFixed(0)} MB (nothing: ${
            empty.sizeMb.toFixed(0)
          } MB)`,
          `resident ${micro.residentMb.toFixed(0)} beside ${
            server.residentMb.toFixed(0)
          } MB, with 50 resources ` +
          `${micro50.residentMb.toFixed(0)} beside ${server50.residentMb.toFixed(0)} MB (nothing: ` +
          `${empty.residentMb.toFixed(0)} MB)`,
          `serves after ${
            (micro.startMs / empty.startMs).toFixed(1)
          } times the start of nothing, svc-server after ` +
          `${(server.startMs / empty.startMs).toFixed(1)} times`,
        ].join("; ");
        const costs = `${(100 * share).toFixed(0)} % of it above a program that does nothing: ${reported}`;
        assert(micro.residentMb < server.residentMb + SPREAD_MB, costs);
        // Half of what svc-server took when it still copied its native code into memory.
        assert(micro.residentMb - empty.residentMb < 27 + SPREAD_MB, costs);
        return costs;
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  );
}

/** The shortest of several starts, and the memory after a quiet while. */
async function measureCosts(sandbox: Sandbox, path: string, resources?: number) {
  const file = `${sandbox.folder}/machine.json`;
  if (resources) await Deno.writeTextFile(file, JSON.stringify(machineOf(resources)));
  const args = resources ? ["-config", file] : [];
  let [startMs, residentMb] = [Infinity, Infinity];
  for (let start = 0; start < 3; start++) {
    const begin = performance.now();
    await whileServing(sandbox.command(path, args), async (url, pid) => {
      startMs = Math.min(startMs, performance.now() - begin);
      if (resources) await builtResource(url, resources > 1 ? `motor${resources - 1}` : "board");
      await new Promise((resolve) => setTimeout(resolve, 1500));
      const [, kilobytes] = /^VmRSS:\s+(\d+)/m.exec(await Deno.readTextFile(`/proc/${pid}/status`))!;
      residentMb = Math.min(residentMb, Number(kilobytes) / 1024);
    });
  }
  return { startMs, residentMb, sizeMb: (await Deno.stat(path)).size / 1e6 };
}

/** The library reads the processor's description, which an emulator copies from the host's processor. */
async function checkModels(report: Report, sandbox: Sandbox, path: string): Promise<void> {
  await report.check("svc-server runs an ONNX model with the library that it embeds", async () => {
    const services = [{
      name: "m",
      api: "rdk:service:mlmodel",
      model: "onnx_cpu",
      attributes: { model_path: ONNX_MODEL },
    }];
    const file = `${sandbox.folder}/models.json`;
    await Deno.writeTextFile(file, JSON.stringify({ services, network: { bind_address: "127.0.0.1:0" } }));
    // Anybody can put a library among temporary files. Opening this one waits without end.
    await new Deno.Command("mkfifo", { args: [`${sandbox.folder}/libonnxruntime.so.1`] }).output();
    return await whileServing(sandbox.command(path, ["-config", file]), async (url) => {
      const model = await builtResource(url, "m");
      assert(model.error === "", `the model is not there: ${model.error}`);
      const left = Array.from(Deno.readDirSync(sandbox.folder)).filter(({ name }) =>
        name.startsWith("svc-packed-")
      );
      assert(left.length === 0, `${left.length} unpacked folders are left behind`);
    });
  });
}

/** Asks a model through two programs: svc-cloud opens it in a content process, which is svc-cloud itself. */
async function checkInference(
  report: Report,
  runner: readonly string[],
  cloud: string,
  ml: string,
): Promise<void> {
  await report.check("svc-cloud answers svc-ml infer and queries, and unpacks native code once", async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc_check_" });
    try {
      const sandbox = new Sandbox(runner, folder);
      const init = await sandbox.command(cloud, ["init", "--json"]).output();
      const { organizationId, ownerKey } = JSON.parse(new TextDecoder().decode(init.stdout));
      const model = `${folder}/colors.tar.gz`;
      const packed = await new Deno.Command("tar", { args: ["-czf", model, "-C", dirname(ONNX_MODEL), "."] })
        .output();
      assert(packed.success, "tar cannot pack the model");
      await sandbox.run(cloud, ["package", "upload", "colors", "1.0.0", model, "--type", "ml_model"]);
      return await whileServing(
        sandbox.command(cloud, ["serve", "--listen", "127.0.0.1:0", "--uploads-without-sandbox"]),
        async (url) => {
          const seen = await sandbox.run(ml, ["infer", IMAGE, "--model", "colors"], 0, {
            SVC_BASE_URL: url,
            SVC_ORG_ID: organizationId,
            SVC_API_KEY_ID: ownerKey.id,
            SVC_API_KEY: ownerKey.key,
          });
          assert(/\b(red|green|blue)\b/.test(seen), `it sees no colour: ${seen}`);
          const sums = () => query(new URL(url).host, organizationId, ownerKey);
          return await checkUnpackedOnce(folder, sums);
        },
      );
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}

/** The first query may unpack native code; the second one writes none anywhere in `folder`. */
async function checkUnpackedOnce(folder: string, query: () => Promise<readonly unknown[]>): Promise<string> {
  const written: string[][] = [];
  for (let round = 0; round < 2; round++) {
    const paths = new Set<string>();
    using watcher = Deno.watchFs(folder);
    const watching = (async () => {
      for await (const { kind, paths: changed } of watcher) {
        const written = kind === "access" ? [] : changed.filter((path) => path.includes("duckdb"));
        for (const path of written) paths.add(path);
      }
    })();
    const answers = await query();
    assert(answers.length === 1, `a query has ${answers.length} answers, wanted 1`);
    watcher.close();
    await watching;
    written.push([...paths]);
  }
  const [first = [], second = []] = written;
  assert(first.length > 0, "the first query has unpacked nothing, so the check sees nothing");
  assert(second.length === 0, `the second query has written ${second}`);
  return `the first query has written ${first.length} paths, the second none`;
}

/** Counts an organization's readings, in SQL. */
async function query(host: string, organizationId: string, { id, key }: { id: string; key: string }) {
  const clock = new SystemClock();
  const stranger = connectGrpc(host, { clock });
  const credentials = { type: "api-key", payload: key };
  const { accessToken } = await client(AuthService, stranger).authenticate({ entity: id, credentials });
  const header = Metadata.from([["authorization", `Bearer ${accessToken}`]]);
  const owner = connectGrpc(host, { clock, header });
  try {
    const sqlQuery = "SELECT COUNT(*) FROM readings";
    return (await client(DataService, owner).tabularDataBySQL({ organizationId, sqlQuery })).rawData;
  } finally {
    for (const channel of [stranger, owner]) channel.close();
  }
}

/** The status of the machine, once it has tried to build every configured resource. */
async function runningStatus(url: string): Promise<GetMachineStatusResponse> {
  const signal = AbortSignal.timeout(DEADLINE_MS);
  for (;;) {
    const status = await call(url, "GetMachineStatus", RobotService.method.getMachineStatus);
    if (status.state === GetMachineStatusResponse_State.RUNNING) return status;
    signal.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** The status of a configured resource, once the machine runs. */
async function builtResource(url: string, name: string) {
  const found = (await runningStatus(url)).resources.find((one) => one.name?.name === name);
  assert(found, `the machine runs without the configured resource ${name}`);
  return found;
}

/** Starts a server, waits for its printed URL, uses it and stops it; the server must end with 0. */
async function whileServing<T>(
  command: Deno.Command,
  use: (url: string, pid: number) => Promise<T>,
): Promise<T> {
  const server = command.spawn();
  const { promise: url, resolve: found } = Promise.withResolvers<string>();
  let printed = "";
  const listen = async (stream: ReadableStream<Uint8Array>) => {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) {
      printed += text;
      const [match] = printed.match(/http:\/\/[\w.:[\]-]+:\d+(?=\D)/) ?? [];
      if (match !== undefined) found(match);
    }
  };
  const heard = Promise.all([listen(server.stdout), listen(server.stderr)]);
  const ended = server.status.then(({ code }): never => {
    throw new Error(`the server ended with ${code}`);
  });
  try {
    const result = await Promise.race([url.then((found) => use(found, server.pid)), ended]);
    server.kill("SIGTERM");
    const { code } = await server.status;
    assert(code === 0, `exit code ${code} after SIGTERM, wanted 0`);
    return result;
  } catch (cause) {
    throw new Error(`it said: ${printed.slice(0, 4000)}`, { cause });
  } finally {
    ended.catch(() => {});
    await stop(server);
    await heard;
  }
}

async function stop(server: Deno.ChildProcess): Promise<void> {
  try {
    server.kill("SIGKILL");
  } catch {
    // The process has ended already.
  }
  await server.status;
}

/**
 * One unary call with an empty request over HTTP/2 without TLS, written out, so that it does not depend on our own
 * client.
 */
async function call<I extends DescMessage, O extends DescMessage>(
  url: string,
  name: string,
  method: { readonly input: I; readonly output: O },
): Promise<MessageShape<O>> {
  const request = toBinary(method.input, create(method.input));
  const frame = Buffer.concat([Buffer.from([0, 0, 0, 0, request.length]), request]);
  const session = http2.connect(url);
  // The stream fails with the same error.
  session.on("error", () => {});
  try {
    const stream = session.request({
      ":method": "POST",
      ":path": `/viam.robot.v1.RobotService/${name}`,
      "content-type": "application/grpc",
      te: "trailers",
    }, { signal: AbortSignal.timeout(DEADLINE_MS) });
    let status: unknown;
    const note = (headers: Record<string, unknown>) => status = headers["grpc-status"] ?? status;
    stream.on("response", note);
    stream.on("trailers", note);
    stream.end(frame);
    const answer = Buffer.concat(await Array.fromAsync<Buffer>(stream));
    assert(String(status) === "0", `${name} answered with grpc-status ${status}, wanted 0`);
    assert(
      answer.readUInt32BE(1) === answer.length - 5,
      `${name} answered with other than one whole message`,
    );
    return fromBinary(method.output, answer.subarray(5));
  } finally {
    session.destroy();
  }
}

if (import.meta.main) Deno.exit(await main(JSON.parse(Deno.args[0] ?? "{}")));
