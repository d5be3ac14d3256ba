/**
 * Executes a parsed command line of `svc-server`: serves a machine, or answers about one.
 *
 * Owns the choice of APIs, models and host. It prints every problem of an unusable configuration and exits with 1;
 * otherwise it serves until a signal or a call stops it.
 */

import { resolve } from "node:path";
import { APIS } from "../../lib/api/mod.ts";
import type { Host } from "../../lib/base/host.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { machineSchema } from "../../lib/machine/config/config.ts";
import type { PageSource } from "../../lib/wire/page/page.ts";
import { type Runtime, startRuntime } from "../../lib/machine/runtime.ts";
import { systemNetwork } from "../../lib/machine/diagnostics/system_network.ts";
import { type ListedModel, Registry, withoutPrograms } from "../../lib/resource/registry.ts";
import { MODELS } from "../../drivers/mod.ts";
import { encodeImage, MIME } from "../../lib/geometry/image/image.ts";
import { Vp8Encoder } from "../../lib/machine/streams/video_encoder.ts";
import { testWebRtc } from "../../lib/wire/signaling/self_check.ts";
import { discover, networkCheck, printCapture, profiled } from "./diagnostics.ts";
import { openLogs } from "../logs.ts";
import { serveMachine } from "../serving.ts";
import { installServer } from "./install.ts";
import { builtPage } from "../built_page.ts";
import { MACHINE_PAGE } from "../page_path.ts";
import { startScreen } from "./screen.ts";
import { EXIT, failed } from "../program.ts";
import type { Options } from "./main.ts";

const NAME = "svc-server";

/** Executes `options`; returns the exit code. */
export async function run(
  options: Options,
  host: Host,
  models: readonly ListedModel[] = MODELS,
): Promise<number> {
  const registry = new Registry(APIS, options.untrustedEnv ? withoutPrograms(models) : models);
  try {
    if (host.env("SVC_SELFTEST") === "webrtc") return await selfTest(host);
    if (options.dumpResources !== "") return await dumpResources(options.dumpResources, registry, host);
    if (options.configSchema) {
      host.write(`${JSON.stringify(await machineSchema(registry), null, 2)}\n`);
      return EXIT.ok;
    }
    if (options.networkCheck) return await networkCheck(options.config, registry, host);
    if (options.discover) return await discover(host);
    if (options.ftdcRead !== "") {
      await printCapture(options.ftdcRead, options.ftdcFormat, options.ftdcMetrics, host);
      return EXIT.ok;
    }
    if (options.aixInstall) return await installServer(options.config, host);
    if (options.config === "") {
      host.writeError("svc-server: no configuration; give one with -config FILE; see -help\n");
      return EXIT.usage;
    }
    return await profiled(options.cpuprofile, host, () => serve(options, registry, host));
  } catch (error) {
    return failed(NAME, error, host);
  }
}

function serve(options: Options, registry: Registry, host: Host): Promise<number> {
  const { debug, logFile } = options;
  return serveMachine({ name: NAME, logFile, debug }, host, async ({ stop, stopping, ...parts }) => {
    const { config: configPath, noTls, webrtc, revealSensitiveConfigDiffs: showConfigDiffs } = options;
    const { allowInsecureCreds: allowInsecureCredentials, disableMdns } = options;
    const { ftdc, webprofile: webProfile, outputTelemetry: telemetry } = options;
    const page = builtPage(host, MACHINE_PAGE);
    const runtime = await startRuntime(
      {
        configPath,
        debug,
        noTls,
        mdns: !disableMdns,
        webrtc,
        allowInsecureCredentials,
        untrusted: options.untrustedEnv,
        showConfigDiffs,
        staticFolder: options.shareddir || undefined,
        hotFolder: options.hot && resolve(host.cwd(), options.hot),
        page,
        diagnostics: { ftdc, webProfile, telemetry },
        network: systemNetwork(host),
        stop,
        stopping,
      },
      { registry, host, ...parts },
    );
    if (logFile === "") {
      void runtime.ready.then(() => showStart(runtime, { page, configPath, ...parts }, host));
    }
    return runtime;
  });
}

/** Shows a person at the terminal what the machine is and what to do next. */
async function showStart(
  { url, machine }: Runtime,
  { page, configPath: file, version }: {
    readonly page: PageSource;
    readonly configPath: string;
    readonly version: string;
  },
  host: Host,
): Promise<void> {
  const columns = host.columns();
  if (columns === undefined) return;
  const hasPage = await page.load().then((bytes) => bytes !== undefined, () => false);
  const resources = [...machine.nodes].map(({ name, state, error }) => ({ name: name.short, state, error }));
  const modules = machine.modules?.statuses ?? [];
  const managedBy = machine.config?.cloud?.appAddress;
  const lines = startScreen({ version, url, hasPage, resources, modules, file, managedBy }, columns);
  try {
    host.write(`${lines.join("\n")}\n`);
  } catch {
    // The terminal has gone; the log says the same.
  }
}

async function dumpResources(path: string, registry: Registry, host: Host): Promise<number> {
  await host.writeFile(path, `${JSON.stringify(await registry.dump(), null, "\t")}\n`, { mode: 0o600 });
  return EXIT.ok;
}

/** Proves that WebRTC works in this executable: it connects to itself, and encodes a picture as video. */
async function selfTest(host: Host): Promise<number> {
  const clock = new SystemClock();
  using open = openLogs(NAME, "", host, clock);
  host.write(`${await testWebRtc(clock, open.logs.logger("rdk"))}\n`);
  const encoder = new Vp8Encoder();
  try {
    const image = { width: 64, height: 48, rgba: new Uint8Array(4 * 64 * 48) };
    const picture = encodeImage({ kind: "color", image }, MIME.rgba);
    const { frame } = await encoder.encode({ picture, key: true });
    host.write(`a picture became ${frame.length} bytes of video\n`);
  } finally {
    encoder.close();
  }
  return EXIT.ok;
}
