/**
 * `deno task vm:network`: a person sets a new device up with a phone, in a virtual machine with simulated radios; then
 * its networks fail and return in many ways.
 *
 * NetworkManager, wpa_supplicant, hostapd and dnsmasq are Debian's; the kernel simulates the radios. The agent runs from
 * its source, because executables of the older Deno serve no HTTP/1.1. Prints a line for each step, `ok …` or
 * `FAILED …`, with the time it took, and the counts at the end; exits with 0 only if no step failed.
 */

import { Buffer } from "node:buffer";
import { messageOf } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Report } from "../../cli/build/report.ts";
import { begin } from "../../cli/program.ts";
import { type Read, uuidOf } from "../../lib/agent/bluetooth/values.ts";
import { agentUnit } from "../../lib/agent/system/service_unit.ts";
import { exists, ROOT } from "../../cli/build/compiler.ts";
import { isInService, VmDevice } from "./device.ts";
import { Air, PASSWORDS } from "./network/air.ts";
import { RADIO_DEVICE } from "./network/system.ts";

const PROGRAM = {
  name: "deno task vm:network",
  summary: "Tests a device with simulated radios, and its setup by phone, in a virtual machine.",
  style: "gnu",
  usage: "[flags]",
  flags: [
    { name: "verbose", type: "bool", default: false, help: "Print the agent's log, on standard error." },
    {
      name: "from",
      type: "string",
      default: "",
      value: "WORDS",
      help: "Begin at the step whose name contains these words, with a device that is already set up.",
    },
    { name: "reuse", type: "bool", default: false, help: "Reuse the programs of an earlier run." },
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
/** Deadlines for an emulated processor. */
const SOON_MS = 420_000;
const SERVICE_MS = 600_000;
/** Longer than a device is offline before its hotspot comes up. */
const QUIET_MS = 90_000;
const PORTAL = "http://10.42.0.1";
const JOURNAL = "journalctl -u svc-agent -u NetworkManager -o short-monotonic --no-pager | tail -n 150";
const ROUTERS = ["shop", "annex"] as const;
const ANNEX = { type: "wifi", ssid: "annex", psk: PASSWORDS.annex, priority: 500 };
/** A default route that leads nowhere and wins over all others. */
const CABLE = {
  ...{ type: "wired", interface: "cable0" },
  ...{ ipv4_address: "10.88.0.5/24", ipv4_gateway: "10.88.0.1", ipv4_route_metric: 1 },
};
/** How much the name server's memory may grow during a stranger's packets. */
const NAMES_KIB_MAX = 4096;
/** The profile that the agent keeps for the network that a user chose. */
const CHOSEN_PROFILE = `[connection]
id=shop@wlan0
uuid=5b7b8e3f-6a05-4c58-9d0c-6d1f0a4a1c11
type=wifi
autoconnect-priority=999
interface-name=wlan0

[wifi]
mode=infrastructure
ssid=shop

[wifi-security]
key-mgmt=wpa-psk
psk=${PASSWORDS.shop}

[ipv4]
method=auto

[user]
svc.network=chosen:shop
`;
const ROAMING = { turn_on_hotspot_if_wifi_has_no_internet: true };
const APP = `${PORTAL}:4772/viam.provisioning.v1.ProvisioningService`;

interface World {
  readonly device: VmDevice;
  readonly air: Air;
}

type Step = readonly [name: string, run: (world: World) => Promise<string | void>];

const STEPS: readonly Step[] = [
  ["a device out of the box opens its hotspot", async (world) => {
    const { air } = world;
    await install(world);
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
      const page = await air.phone(`curl -sS -L -m 20 -w '%{http_code} %{url_effective}' http://${url}`);
      const wanted = [
        "Set up Acme rover",
        '<option value="shop">',
        '<option value="annex">',
        `200 ${PORTAL}/`,
      ];
      for (const text of wanted) if (!page.includes(text)) throw new Error(`${url}: no ${text} in:\n${page}`);
    }
  }],
  ["the hotspot's name server survives a stranger", async ({ device, air }) => {
    const memory = `grep -h VmRSS $(pgrep -f dnsmasq.*10.42.0 | sed 's|.*|/proc/&/status|')`;
    const before = await device.machine.run(memory);
    const sent = await air.phone("perl /mnt/share/names.pl 10.42.0.1 1");
    const address = await air.phone("busybox nslookup -type=a example.org 10.42.0.1");
    if (!address.includes("10.42.0.1")) throw new Error(`found ${address}`);
    const after = await device.machine.run(memory);
    const kib = (text: string) => Number(/(\d+) kB/.exec(text)?.[1]);
    if (!(kib(after) - kib(before) < NAMES_KIB_MAX)) throw new Error(`found ${before}, then ${after}`);
    return `${sent}; ${kib(after) - kib(before)} KiB more`;
  }],
  ["the app's service answers", async ({ air }) => {
    const call =
      `curl -sS -m 20 --http2-prior-knowledge -H "content-type: application/grpc" -H "te: trailers"`;
    const body = "--data-binary @/tmp/empty";
    const printed = await air.phone(
      `bash -c 'printf "\\0\\0\\0\\0\\0" > /tmp/empty; ${call} ${body} ${APP}/GetSmartMachineStatus | tr -cd "[:print:]"; ` +
        `${call} ${body} ${APP}/GetNetworkList | tr -cd "[:print:]"'`,
    );
    for (const text of ["fragment-1", "rover", "Acme", "shop", "annex", "WPA2"]) {
      if (!printed.includes(text)) throw new Error(`no ${text} in:\n${printed}`);
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
    const [, logged] = /role="alert"><ul><li>([^<]*)/.exec(page) ?? [];
    if (!logged?.includes("Joining shop failed: the password")) throw new Error(`the page says:\n${page}`);
    return logged;
  }],
  ["the right one brings it online, and svc-server is installed and serves", async (world) => {
    const { device, air } = world;
    await save(world, PASSWORDS.shop, false);
    await device.until("in service", SERVICE_MS, isInService);
    await joined(device, "shop");
    await air.sees(HOTSPOT, false, SOON_MS);
    const { machines: [part] } = JSON.parse(await device.svcCloud("fleet", "--json"));
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
    await autoconnects(device, { shop: true, annex: false });
    await device.machine.cut();
    await device.machine.on();
    await air.ready();
    for (const router of ROUTERS) await air.router(router, "on");
    await joined(device, "shop");
    await device.inService(SERVICE_MS);
  }],
  ["it dies: the next one is not tried, and the hotspot is back", async ({ device, air }) => {
    await device.want({}, { additional_networks: { annex: ANNEX } });
    await device.machine.eventually("nmcli -g NAME connection show | grep -q '^annex@wlan0$'", SOON_MS);
    const began = await device.machine.run("date +%s");
    await air.router("shop", "off");
    await air.sees(HOTSPOT, true, SOON_MS);
    const joined = await device.machine.try(
      `journalctl -u NetworkManager --since @${began} | grep 'starting connection .annex@wlan0'`,
    );
    if (joined.code === 0) throw new Error(`the next one was tried:\n${joined.output}`);
  }],
  ["turn_on_hotspot_if_wifi_has_no_internet: it dies, and the next one is tried", async ({ device, air }) => {
    await air.router("shop", "on");
    await device.inService(SOON_MS);
    await device.want({}, { additional_networks: { annex: ANNEX }, network_configuration: ROAMING });
    await device.machine.eventually(`grep -q '"turn_on_hotspot' /opt/svc/state/*.json`, SOON_MS);
    await autoconnects(device, { shop: true, annex: true });
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
    await air.internet("shop", "on");
  }],
  ["a network that changes to WPA3 alone is joined again, and once more when it goes back", async (world) => {
    const { device, air } = world;
    const details: string[] = [];
    await device.want({}, { additional_networks: { annex: ANNEX }, network_configuration: ROAMING });
    await device.machine.eventually("nmcli -g NAME connection show | grep -q '^annex@wlan0$'", SOON_MS);
    for (const keys of ["SAE", "WPA-PSK"] as const) {
      for (const router of ROUTERS) await air.router(router, "off");
      await device.until("offline", SOON_MS, ({ online }) => !online);
      await air.keys("annex", keys);
      await air.router("annex", "on");
      await joined(device, "annex");
      await device.inService(SOON_MS);
      // By which keys it is joined, as the supplicant says; the profile for WPA2 may join WPA3, too.
      const used = await device.machine.run("wpa_cli -i wlan0 status | grep ^key_mgmt=");
      if (used.includes("SAE") !== (keys === "SAE")) throw new Error(`found ${used}`);
      details.push(used);
    }
    await air.router("shop", "on");
    return details.join(", ");
  }],
  ["a cable from the configuration that cuts it off is taken back", async ({ device }) => {
    await device.machine.run(
      "ip link add cable0 type veth peer name cable1 && ip link set cable1 up && nmcli device set cable0 managed yes",
    );
    await device.want({}, {
      additional_networks: { annex: ANNEX, cable: CABLE },
      network_configuration: ROAMING,
    });
    await device.machine.eventually(`ip route | grep -q '^default via ${CABLE.ipv4_gateway}'`, SOON_MS);
    const { problems } = await device.until("told that it was cut off", SOON_MS, (status) => {
      return status.problems.some((problem) => problem.includes("are as they were before"));
    });
    await device.machine.run(
      `! ip route | grep ${CABLE.ipv4_gateway} && ! nmcli -g NAME connection | grep cable0`,
    );
    await device.inService(SOON_MS);
    await device.machine.run("ip link delete cable0");
    return problems.find((problem) => problem.includes("are as they were before"));
  }],
  ["where the settings say so, only names in .setup lead to the hotspot", async ({ device, air }) => {
    await device.want({}, { network_configuration: { disable_captive_portal_redirect: true } });
    await device.machine.eventually("! nmcli -g NAME connection | grep -q '^annex@'", SOON_MS);
    for (const router of ROUTERS) await air.router(router, "off");
    await air.sees(HOTSPOT, true, SOON_MS);
    await air.join(HOTSPOT, HOTSPOT_PASSWORD);
    const printed = await air.phone(
      `curl -sS -L -m 20 -o /dev/null -w '%{http_code} %{url_effective}' http://rover.setup/`,
    );
    if (printed !== `200 ${PORTAL}/`) throw new Error(`found ${printed}`);
    const other = await device.machine.try(
      "ip netns exec phone curl -sS -m 20 http://captive.apple.com/",
      SOON_MS,
    );
    if (other.code === 0) throw new Error(`found ${other.output}`);
  }],
  ["NetworkManager answers no more: the agent ends in its time", async ({ device, air }) => {
    const { machine } = device;
    await machine.run("kill -STOP $(pidof NetworkManager)");
    const began = performance.now();
    await machine.run("systemctl stop svc-agent", SOON_MS);
    const seconds = (performance.now() - began) / 1000;
    await machine.run("kill -CONT $(pidof NetworkManager)");
    const result = await machine.run("systemctl show svc-agent -p Result --value");
    if (result !== "success") throw new Error(`systemd says ${result}, after ${seconds.toFixed(0)} s`);
    await machine.run("systemctl start svc-agent", SERVICE_MS);
    await air.router("shop", "on");
    await joined(device, "shop");
    await device.inService(SERVICE_MS);
    return `ended after ${seconds.toFixed(0)} s`;
  }],
  ["by Bluetooth a phone reads what it is, and pairs once that is unlocked", async ({ device, air }) => {
    const { machine } = device;
    for (const router of ROUTERS) await air.router(router, "off");
    await machine.run("systemctl start bluetooth && systemd-run --unit btvirt btvirt -l2");
    for (const controller of ["hci0", "hci1"]) {
      await machine.eventually(
        `busctl introspect org.bluez /org/bluez/${controller} | grep GattManager1`,
        SOON_MS,
      );
    }
    await machine.run("systemctl restart svc-agent", SERVICE_MS);
    await air.sees(HOTSPOT, true, SOON_MS);
    await air.bluetooth("find", HOTSPOT);
    const read = async (name: Read) => String(Buffer.from(await air.bluetooth("read", uuidOf(name)), "hex"));
    const found = [await read("manufacturer"), await read("model"), await read("fragment_id")];
    if (found.join() !== "Acme,rover,fragment-1") throw new Error(`found ${found}`);
    const unlock = (password: string) => air.bluetooth("write", uuidOf("unlock_pairing"), password, "true");
    await unlock("guess");
    const errors = await read("errors");
    if (!errors.includes("the password of the device's hotspot is wrong")) throw new Error(`found ${errors}`);
    const refused = await air.bluetooth("pair").then(() => undefined, messageOf);
    if (!refused?.includes("Authentication Failed")) {
      throw new Error(`found ${refused ?? "a phone that paired"}`);
    }
    await air.bluetooth("find", HOTSPOT);
    await unlock(HOTSPOT_PASSWORD);
    await machine.eventually(
      "busctl get-property org.bluez /org/bluez/hci0 org.bluez.Adapter1 Discoverable | grep true",
      SOON_MS,
    );
    await air.bluetooth("pair");
    return await machine.eventually("nmcli -t -g TYPE,NAME connection | grep ^bluetooth:", SOON_MS);
  }],
];

/** Puts the agent into the device, with the manufacturer's settings, and starts it. */
async function install({ device, air }: World): Promise<void> {
  await air.ready();
  for (const router of ROUTERS) await air.router(router, "on");
  await device.machine.put("/etc/svc-defaults.json", JSON.stringify({ network_configuration: SETTINGS }));
  await device.machine.put("/etc/systemd/system/svc-agent.service", unit());
  await device.machine.run("systemctl daemon-reload && systemctl enable --now svc-agent", SERVICE_MS);
}

/** Makes a device that is already set up: it has credentials and has joined the shop's network. */
async function setUpBefore(world: World): Promise<void> {
  const { device } = world;
  const profile = "/etc/NetworkManager/system-connections/shop@wlan0.nmconnection";
  await device.machine.put(profile, CHOSEN_PROFILE);
  await device.machine.put("/etc/svc.json", credentials(device));
  await device.machine.run(`chmod 600 ${profile} /etc/svc.json && nmcli connection reload`);
  await install(world);
  await joined(device, "shop");
  await device.inService(SERVICE_MS);
}

/** The text of the machine's credentials. */
function credentials({ example: { partId, config: { cloud: { api_key } } }, url }: VmDevice): string {
  return JSON.stringify({ cloud: { app_address: url, id: partId, api_key } });
}

/** The agent's systemd unit, with the pinned Deno and the agent's source as its program. */
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
async function save({ device, air }: World, password: string, isNew: boolean): Promise<void> {
  await device.machine.put("/tmp/credentials", credentials(device));
  const page = await air.phone(`curl -sS -m 20 ${PORTAL}/`);
  const [, token] = /name="token" value="([^"]+)"/.exec(page) ?? [];
  if (page.includes("viamconfig") !== isNew) throw new Error(`found another form:\n${page}`);
  const fields = [`token=${token}`, "ssid=shop", `password=${password}`];
  if (isNew) fields.push("viamconfig@/tmp/credentials");
  const data = fields.map((field) => `--data-urlencode '${field}'`).join(" ");
  const printed = await air.phone(`curl -sS -L -m 20 ${data} ${PORTAL}/save`);
  if (!printed.includes("The device now joins shop.")) throw new Error(`the page says:\n${printed}`);
}

/** Waits until the device has joined a network. */
async function joined(device: VmDevice, ssid: string): Promise<void> {
  await device.machine.eventually(`iw dev wlan0 link | grep -q 'SSID: ${ssid}$'`, SOON_MS);
}

/** Waits until each of these networks has the wanted `autoconnect` in NetworkManager. */
async function autoconnects(device: VmDevice, wanted: Readonly<Record<string, boolean>>): Promise<void> {
  for (const [ssid, alone] of Object.entries(wanted)) {
    const value = `$(nmcli -g connection.autoconnect connection show ${ssid}@wlan0)`;
    await device.machine.eventually(`[ "${value}" = ${alone ? "yes" : "no"} ]`, SOON_MS);
  }
}

async function main(args: readonly string[], host: DenoHost): Promise<number> {
  const begun = begin(PROGRAM, args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const { from, reuse, verbose } = begun.values;
  const first = STEPS.findIndex(([name]) => name.includes(from));
  if (first < 0) {
    host.writeError(`${PROGRAM.name}: no step has the words "${from}"\n`);
    return 2;
  }
  const report = new Report(host);
  const folder = `${ROOT}dist/vm/network-${from === "" ? "run" : "part"}`;
  if (await exists(folder)) await Deno.remove(folder, { recursive: true });
  const share = `${folder}/share`;
  await prepare(share);
  const programs = { names: ["svc-server"], versions: [VERSION] } as const;
  const device = await VmDevice.make(folder, { reuse, system: RADIO_DEVICE, share, ...programs });
  const world = { device, air: new Air(device.machine) };
  if (verbose) device.follow = (line) => host.writeError(`  ${line}\n`);
  try {
    if (first > 0) await setUpBefore(world);
    for (const [name, run] of STEPS.slice(first)) {
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
