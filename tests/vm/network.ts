/**
 * `deno task vm:network`: a device out of the box in a virtual machine with radios, and a person with a phone who sets it
 * up; then all that may happen to its networks.
 *
 * NetworkManager, wpa_supplicant, hostapd and dnsmasq are Debian's; the radios are the kernel's simulated ones. The agent
 * runs from its source, for the runtime of the executables that can be made everywhere serves no HTTP/1.1. Promises:
 * one line a step with the time that it took, `ok …` or `FAILED …`, and their count at the end; exit code 0 only if none
 * failed.
 */

import { messageOf } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Report } from "../../cli/build/report.ts";
import { begin } from "../../cli/program.ts";
import { agentUnit } from "../../lib/agent/system/service_unit.ts";
import { exists, ROOT } from "../../cli/build/compiler.ts";
import { isInService, VmDevice } from "./device.ts";
import { Air, PASSWORDS } from "./network/air.ts";
import { RADIO_DEVICE } from "./network/system.ts";

const PROGRAM = {
  name: "deno task vm:network",
  summary: "Sets a device with simulated radios up by phone, in a virtual machine.",
  style: "gnu",
  usage: "[flags]",
  flags: [
    { name: "verbose", type: "bool", default: false, help: "Print the agent's log, on standard error." },
    { name: "reuse", type: "bool", default: false, help: "Take the programs of an earlier run." },
  ],
} as const;

const VERSION = "1.0.0";
const AGENT_SOURCE = `${ROOT}tests/agent/hasty_agent.ts`;
const AGENT_FILE = "/mnt/share/agent.js";
const HOTSPOT = "svc-setup-device";
const HOTSPOT_PASSWORD = "rover's hotspot";
/** Short times: the device is offline for a minute, and then its hotspot is open for three. */
const SETTINGS = {
  manufacturer: "Acme",
  model: "rover",
  fragment_id: "fragment-1",
  hotspot_password: HOTSPOT_PASSWORD,
  offline_before_starting_hotspot_minutes: 1,
  retry_connection_timeout_minutes: 3,
  user_idle_minutes: 1,
};
/** On an emulated processor. */
const SOON_MS = 420_000;
const SERVICE_MS = 600_000;
/** Longer than a device is offline before its hotspot comes up. */
const QUIET_MS = 90_000;
const PORTAL = "http://10.42.0.1";
const JOURNAL = "journalctl -u svc-agent -u NetworkManager -o short-monotonic --no-pager | tail -n 150";
const ROUTERS = ["shop", "annex"] as const;
const ANNEX = { type: "wifi", ssid: "annex", psk: PASSWORDS.annex, priority: 500 };
const ROAMING = { turn_on_hotspot_if_wifi_has_no_internet: true };
const APP = `${PORTAL}:4772/viam.provisioning.v1.ProvisioningService`;

interface World {
  readonly device: VmDevice;
  readonly air: Air;
}

type Step = readonly [name: string, run: (world: World) => Promise<string | void>];

const STEPS: readonly Step[] = [
  ["a device out of the box opens its hotspot", async ({ device, air }) => {
    for (const router of ROUTERS) await air.router(router, "on");
    await device.machine.put("/etc/svc-defaults.json", JSON.stringify({ network_configuration: SETTINGS }));
    await device.machine.put("/etc/systemd/system/svc-agent.service", unit());
    await device.machine.run("systemctl daemon-reload && systemctl enable --now svc-agent", SERVICE_MS);
    await air.sees(HOTSPOT, true, SOON_MS);
  }],
  ["a phone with a wrong password stays outside", async ({ device }) => {
    const { code, output } = await device.machine.try(
      `bash /mnt/share/air.sh join ${HOTSPOT} "not the password"`,
      SOON_MS,
    );
    if (code !== 2) throw new Error(`found ${code}: ${output}`);
  }],
  ["a phone joins and gets an address", async ({ air }) => {
    const got = await air.join(HOTSPOT, HOTSPOT_PASSWORD);
    if (!/^10\.42\.0\.\d+ names by 10\.42\.0\.1$/.test(got)) throw new Error(`found ${got}`);
    return got;
  }],
  ["every name leads to the portal", async ({ air }) => {
    for (
      const url of ["captive.apple.com/hotspot-detect.html", "connectivitycheck.gstatic.com/generate_204"]
    ) {
      const page = await air.phone(`curl -sS -m 20 -w '%{http_code} %{remote_ip}' http://${url}`);
      const wanted = [
        "Set up Acme rover",
        '<option value="shop">',
        '<option value="annex">',
        "200 10.42.0.1",
      ];
      for (const text of wanted) if (!page.includes(text)) throw new Error(`${url}: no ${text} in:\n${page}`);
    }
  }],
  ["the app's service answers", async ({ air }) => {
    const call =
      `curl -sS -m 20 --http2-prior-knowledge -H "content-type: application/grpc" -H "te: trailers"`;
    const body = "--data-binary @/tmp/empty";
    const said = await air.phone(
      `bash -c 'printf "\\0\\0\\0\\0\\0" > /tmp/empty; ${call} ${body} ${APP}/GetSmartMachineStatus | tr -cd "[:print:]"; ` +
        `${call} ${body} ${APP}/GetNetworkList | tr -cd "[:print:]"'`,
    );
    for (const text of ["fragment-1", "rover", "Acme", "shop", "annex", "WPA2"]) {
      if (!said.includes(text)) throw new Error(`no ${text} in:\n${said}`);
    }
  }],
  ["a wrong Wi-Fi password is told on the page", async (world) => {
    const { device, air } = world;
    await save(world, "not the password", true);
    await device.machine.eventually(
      "journalctl -u svc-agent | grep -q 'did not bring the device online'",
      SOON_MS,
    );
    await air.sees(HOTSPOT, true, SOON_MS);
    await air.join(HOTSPOT, HOTSPOT_PASSWORD);
    const page = await air.phone(`curl -sS -m 20 ${PORTAL}/`);
    const [, told] = /role="alert"><ul><li>([^<]*)/.exec(page) ?? [];
    if (!told?.includes("Joining shop failed: the password")) throw new Error(`the page says:\n${page}`);
    return told;
  }],
  ["the right one brings it online, and svc-server is installed and serves", async (world) => {
    const { device, air } = world;
    await save(world, PASSWORDS.shop, false);
    await device.until("in service", SERVICE_MS, isInService);
    await joined(device, "shop");
    await air.sees(HOTSPOT, false, SOON_MS);
    const [part] = JSON.parse(await device.svcCloud("fleet", "--json"));
    if (part.state !== "online") throw new Error(`the fleet shows it ${part.state}`);
    return "the fleet shows it online";
  }],
  ["the router dies: the hotspot is back", async ({ device, air }) => {
    await air.router("shop", "off");
    await air.sees(HOTSPOT, true, SOON_MS);
    await device.until("offline", SOON_MS, ({ online }) => !online);
  }],
  ["the router returns: the device is online again", async ({ device, air }) => {
    await air.router("shop", "on");
    await joined(device, "shop");
    await device.inService(SOON_MS);
    await air.sees(HOTSPOT, false, SOON_MS);
  }],
  ["no internet behind the Wi-Fi: without the setting that counts as online", async ({ device, air }) => {
    await air.internet("shop", "off");
    await device.until("offline", SOON_MS, ({ online }) => !online);
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
    await joined(device, "shop");
    await air.sees(HOTSPOT, false, 0);
    await air.internet("shop", "on");
    await device.inService(SOON_MS);
  }],
  ["power cut: the network of the highest priority is joined", async ({ device, air }) => {
    await device.want({}, { additional_networks: { annex: ANNEX } });
    await device.machine.eventually("nmcli -g NAME connection show | grep -q '^annex@wlan0$'", SOON_MS);
    await device.machine.cut();
    await device.machine.on();
    for (const router of ROUTERS) await air.router(router, "on");
    await joined(device, "shop");
    await device.inService(SERVICE_MS);
  }],
  ["it dies: the next one is not tried, and the hotspot is back", async ({ device, air }) => {
    await device.machine.run("nmcli connection modify annex@wlan0 autoconnect no");
    await air.router("shop", "off");
    await air.sees(HOTSPOT, true, SOON_MS);
  }],
  ["turn_on_hotspot_if_wifi_has_no_internet: it dies, and the next one is tried", async ({ device, air }) => {
    await air.router("shop", "on");
    await device.inService(SOON_MS);
    await device.want({}, { additional_networks: { annex: ANNEX }, network_configuration: ROAMING });
    await device.machine.eventually(`grep -q '"turn_on_hotspot' /opt/svc/state/*.json`, SOON_MS);
    await air.router("shop", "off");
    await joined(device, "annex");
    await device.inService(SOON_MS);
    await air.sees(HOTSPOT, false, 0);
  }],
  ["with that setting, a Wi-Fi without internet is left for the next", async ({ device, air }) => {
    await air.router("shop", "on");
    await air.internet("annex", "off");
    await joined(device, "shop");
    await device.inService(SOON_MS);
  }],
  ["with that setting, no internet anywhere brings the hotspot", async ({ air }) => {
    await air.internet("shop", "off");
    await air.sees(HOTSPOT, true, SOON_MS);
  }],
  ["the internet returns, and the device finds it", async ({ device, air }) => {
    await air.internet("annex", "on");
    await joined(device, "annex");
    await device.inService(SOON_MS);
    await air.sees(HOTSPOT, false, SOON_MS);
  }],
];

/** The agent's own service, but for the program: the pinned Deno with the agent's source. */
function unit(): string {
  const files = { configPath: "/etc/svc.json", defaultsPath: "/etc/svc-defaults.json" };
  const { text } = agentUnit({ base: "/opt/svc", ...files });
  return text.replace("/opt/svc/bin/svc-agent-loader", `/mnt/share/deno run -A --cached-only ${AGENT_FILE}`);
}

/** Fills the folder that the machine mounts. */
async function prepare(share: string): Promise<void> {
  await Air.share(share);
  await Deno.copyFile(Deno.execPath(), `${share}/deno`);
  const args = ["bundle", "--quiet", "--platform", "deno", "-o", `${share}/agent.js`, AGENT_SOURCE];
  const { success, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
  if (!success) throw new Error(`deno bundle: ${new TextDecoder().decode(stderr)}`);
}

/** Fills in the portal's form as a browser does. */
async function save({ device, air }: World, password: string, credentials: boolean): Promise<void> {
  const { partId, config: { cloud: { api_key } } } = device.example;
  const document = JSON.stringify({ cloud: { app_address: device.url, id: partId, api_key } });
  await device.machine.put("/tmp/credentials", document);
  const page = await air.phone(`curl -sS -m 20 ${PORTAL}/`);
  const [, token] = /name="token" value="([^"]+)"/.exec(page) ?? [];
  if (page.includes("viamconfig") !== credentials) throw new Error(`found another form:\n${page}`);
  const fields = [`token=${token}`, "ssid=shop", `password=${password}`];
  if (credentials) fields.push("viamconfig@/tmp/credentials");
  const data = fields.map((field) => `--data-urlencode '${field}'`).join(" ");
  const said = await air.phone(`curl -sS -L -m 20 ${data} ${PORTAL}/save`);
  if (!said.includes("The device now joins shop.")) throw new Error(`the page says:\n${said}`);
}

/** Waits until the device's radio is in a network. */
async function joined(device: VmDevice, ssid: string): Promise<void> {
  await device.machine.eventually(`iw dev wlan0 link | grep -q 'SSID: ${ssid}$'`, SOON_MS);
}

async function main(args: readonly string[], host: DenoHost): Promise<number> {
  const begun = begin(PROGRAM, args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const { reuse, verbose } = begun.values;
  const report = new Report(host);
  const folder = `${ROOT}dist/vm/network-run`;
  if (await exists(folder)) await Deno.remove(folder, { recursive: true });
  const share = `${folder}/share`;
  await prepare(share);
  const programs = { names: ["svc-server"], versions: [VERSION] } as const;
  const device = await VmDevice.make(folder, { reuse, system: RADIO_DEVICE, share, ...programs });
  const world = { device, air: new Air(device.machine) };
  if (verbose) device.follow = (line) => host.writeError(`  ${line}\n`);
  try {
    for (const [name, run] of STEPS) {
      const began = performance.now();
      const passed = await report.check(name, async () => {
        const detail = await run(world);
        return `${((performance.now() - began) / 1000).toFixed(1)} s${detail ? `; ${detail}` : ""}`;
      });
      if (passed) continue;
      const { output } = await device.machine.try(JOURNAL);
      host.writeError(`${output}\n`);
      // Later steps depend on the earlier ones.
      break;
    }
    return report.finish();
  } catch (error) {
    host.writeError(`${PROGRAM.name}: ${messageOf(error)}\n`);
    return 1;
  } finally {
    await device.close();
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
