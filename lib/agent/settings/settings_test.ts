import { assertEquals, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import type { Json, JsonObject } from "../../base/schema/schema.ts";
import {
  type AgentSettings,
  decideSettings,
  readDefaults,
  readLastGood,
  settingsBeforeCloud,
  settingsProblems,
  writeLastGood,
} from "./settings.ts";
import { SECTIONS } from "./settings_fields.ts";
import { FakeFiles } from "../../../tests/support/fake_files.ts";

const built = decideSettings({ defaults: {}, cloud: {} }).settings;

/** The settings and problems of one section from the cloud. */
function fromCloud(section: string, values: Json): { settings: AgentSettings; logged: string[] } {
  const { settings, problems } = decideSettings({ defaults: {}, cloud: { [section]: values } });
  return {
    settings,
    logged: problems.map(({ severity, path, message }) => `${severity} ${path}: ${message}`),
  };
}

Deno.test("decideSettings: the built-in values are the published defaults", () => {
  const { hotspotPassword: _, ...network } = built.network;
  assertEquals({ ...built, network } as unknown, {
    advanced: {
      debug: undefined,
      waitForUpdateCheck: undefined,
      disableRuntime: undefined,
      disableNetworkConfiguration: undefined,
      disableSystemConfiguration: undefined,
      disableLogDeduplication: undefined,
      runtimeStartTimeoutMs: 600_000,
      runtimeEnv: {},
    },
    network: {
      manufacturer: "svc",
      model: "custom",
      fragmentId: "",
      hotspotInterface: "",
      hotspotPrefix: "svc-setup",
      hotspotSsid: "",
      disableCaptivePortalRedirect: undefined,
      turnOnHotspotIfWifiHasNoInternet: undefined,
      wifiPowerSave: undefined,
      offlineBeforeStartingHotspotMs: 120_000,
      userIdleMs: 300_000,
      retryConnectionTimeoutMs: 600_000,
      deviceRebootAfterOfflineMs: 0,
      disableBtProvisioning: undefined,
      disableWifiProvisioning: undefined,
      bluetoothTrustAll: undefined,
    },
    additionalNetworks: {},
    system: {
      journaldSystemMaxUseMb: 512,
      journaldRuntimeMaxUseMb: 512,
      journaldStorage: undefined,
      forwardSystemLogs: "",
      osAutoUpgradeType: "",
      osManagedUpgradeIntervalHours: 24,
    },
  });
});

Deno.test("decideSettings: the cloud overrides manufacturer defaults key by key, except empty or zero values", () => {
  const { settings } = decideSettings({
    defaults: {
      advanced_settings: { debug: true, viam_server_env: { A: "maker", B: "maker" } },
      network_configuration: {
        model: "m1",
        hotspot_prefix: "acme",
        user_idle_minutes: 7,
        wifi_power_save: true,
      },
      additional_networks: { x: { type: "wired", priority: 1 }, y: { type: "wired" } },
    },
    cloud: {
      advanced_settings: { debug: null, viam_server_env: { B: "cloud" } },
      network_configuration: {
        model: "",
        hotspot_prefix: "mine",
        user_idle_minutes: 0,
        wifi_power_save: false,
      },
      additional_networks: { x: { type: "wifi", ssid: "home" } },
    },
  });
  assertEquals(settings.advanced.debug, true);
  assertEquals(settings.advanced.runtimeEnv, { A: "maker", B: "cloud" });
  const { model, hotspotPrefix, userIdleMs, wifiPowerSave } = settings.network;
  assertEquals([model, hotspotPrefix, userIdleMs, wifiPowerSave], ["m1", "mine", 420_000, false]);
  // An entry with the same name is replaced as a whole.
  assertEquals(settings.additionalNetworks.x.priority, 0);
  assertEquals(Object.keys(settings.additionalNetworks), ["x", "y"]);
});

Deno.test("decideSettings: a bad value keeps its last good value or its default, and others apply", () => {
  const first = decideSettings({
    defaults: {},
    cloud: {
      advanced_settings: { disable_viam_server: true, viam_server_start_timeout_minutes: 3 },
      additional_networks: { home: { type: "wifi", ssid: "home", psk: "12345678" } },
      system_configuration: { os_auto_upgrade_type: "security" },
    },
  });
  const { settings, problems, lastGood } = decideSettings({
    defaults: {},
    cloud: {
      advanced_settings: { disable_viam_server: "yes", viam_server_start_timeout_minutes: 4, debug: true },
      additional_networks: { home: { type: "wifi", ssid: "home", psk: "1234" }, lan: { type: "wired" } },
      system_configuration: 5,
      network_configuration: { user_idle_minutes: "soon" },
    },
    lastGood: first.lastGood,
  });
  assertEquals(settings.advanced.disableRuntime, true);
  assertEquals(settings.advanced.debug, true);
  assertEquals(settings.advanced.runtimeStartTimeoutMs, 240_000);
  assertEquals(settings.additionalNetworks.home.psk?.reveal(), "12345678");
  assertEquals(Object.keys(settings.additionalNetworks), ["home", "lan"]);
  assertEquals(settings.system.osAutoUpgradeType, "security");
  assertEquals(settings.network.userIdleMs, 300_000);
  assertEquals(problems.map(({ severity, path }) => `${severity} ${path}`), [
    "error cloud.advanced_settings.disable_viam_server",
    "error cloud.network_configuration.user_idle_minutes",
    "error cloud.system_configuration",
    "error cloud.additional_networks.home.psk",
  ]);
  // Good settings stay good, however long the cloud is unreachable.
  assertEquals(decideSettings({ defaults: {}, lastGood }).settings, settings);
});

Deno.test("decideSettings: accepts neutral spellings, the old provisioning file and other letter case", () => {
  const { settings } = decideSettings({
    defaults: {
      manufacturer: "acme",
      roaming_mode: true,
      disable_dns_redirect: true,
      offline_timeout: "3m",
      user_timeout: 2.5,
      fallback_timeout: "1h",
    },
    cloud: {
      version_control: { agent: "stable" },
      advanced_settings: {
        svc_server_env: { A: "1" },
        disable_svc_server: true,
        svc_server_start_timeout_minutes: "2m30s",
        Wait_For_Update_Check: true,
      },
    },
  });
  const { manufacturer, turnOnHotspotIfWifiHasNoInternet, disableCaptivePortalRedirect } = settings.network;
  assertEquals([manufacturer, turnOnHotspotIfWifiHasNoInternet, disableCaptivePortalRedirect], [
    "acme",
    true,
    true,
  ]);
  const { offlineBeforeStartingHotspotMs, userIdleMs, retryConnectionTimeoutMs } = settings.network;
  assertEquals([offlineBeforeStartingHotspotMs, userIdleMs, retryConnectionTimeoutMs], [
    180_000,
    150_000,
    3600_000,
  ]);
  const { runtimeEnv, disableRuntime, runtimeStartTimeoutMs, waitForUpdateCheck } = settings.advanced;
  assertEquals([runtimeEnv, disableRuntime, runtimeStartTimeoutMs], [{ A: "1" }, true, 150_000]);
  assertEquals(waitForUpdateCheck, true);
});

Deno.test("ranges: the error for a value out of range has its path and the allowed values", () => {
  const bad: [section: string, values: JsonObject, logged: string][] = [
    ["advanced_settings", { viam_server_start_timeout_minutes: 0.5 }, "warning cloud.advanced_settings."],
    [
      "advanced_settings",
      { viam_server_env: { "A=B": "1" } },
      "error cloud.advanced_settings.viam_server_env.A=B",
    ],
    ["advanced_settings", { viam_server_env: { A: 1 } }, "found 1, wanted a string"],
    [
      "advanced_settings",
      { viam_server_env: { SVC_RELEASE_KEYS: "" } },
      "the agent itself sets this variable",
    ],
    ["advanced_settings", { disable_vaim_server: true }, 'did you mean "disable_viam_server"?'],
    ["network_configuration", { hotspot_password: "short" }, "found 5 characters, wanted 8 to 63"],
    ["network_configuration", { offline_before_starting_hotspot_minutes: 0.2 }, "minutes (at least 1)"],
    [
      "network_configuration",
      { hotspot_ssid: "x".repeat(40) },
      "found 40 bytes, wanted at most 32; the rest is cut off",
    ],
    [
      "network_configuration",
      { device_reboot_after_offline_minutes: 0.5 },
      "found 0.5, wanted 0 or at least 1 minute",
    ],
    ["system_configuration", { os_auto_upgrade_type: "securty" }, 'did you mean "security"?'],
    ["system_configuration", { logging_journald_storage: "disk" }, 'found "disk", wanted one of'],
    ["system_configuration", { os_managed_upgrade_interval_hours: 0.5 }, "from 1 to"],
    ["additional_networks", { a: { type: "radio" } }, 'found "radio", wanted one of "wifi", "wired"'],
    ["additional_networks", { a: { type: "wifi" } }, "cloud.additional_networks.a.ssid"],
    ["additional_networks", { a: { type: "wired", interface: "a".repeat(16) } }, "at most 15 characters"],
    ["additional_networks", { a: { type: "wired", priority: 1000 } }, "from -999 to 999"],
    [
      "additional_networks",
      { a: { type: "wired", ipv4_address: "10.0.0.1" } },
      'or an address such as "192.168.1.5/24"',
    ],
    ["additional_networks", { a: { type: "wired", ipv4_gateway: "fe80::1" } }, "wanted an IPv4 address"],
    ["additional_networks", { a: { type: "wired", ipv4_dns: ["1.1.1.1", "x"] } }, "ipv4_dns.1: found"],
  ];
  for (const [section, values, logged] of bad) {
    const { logged: all } = fromCloud(section, values);
    assertEquals(all.length, 1, JSON.stringify(values));
    assertStringIncludes(all[0], logged);
  }
});

Deno.test("decideSettings: every published setting has its name, type and default", () => {
  const { advanced, network, system } = built;
  const minutes = (ms: number) => ms / 60_000;
  const rows: [section: string, key: string, given: Json, found: unknown, published: unknown][] = [
    ["advanced_settings", "debug", true, advanced.debug ?? false, false],
    [
      "advanced_settings",
      "disable_network_configuration",
      true,
      advanced.disableNetworkConfiguration ?? false,
      false,
    ],
    [
      "advanced_settings",
      "disable_system_configuration",
      true,
      advanced.disableSystemConfiguration ?? false,
      false,
    ],
    ["advanced_settings", "disable_viam_server", true, advanced.disableRuntime ?? false, false],
    ["advanced_settings", "viam_server_env", { A: "1" }, advanced.runtimeEnv, {}],
    [
      "advanced_settings",
      "viam_server_start_timeout_minutes",
      20,
      minutes(advanced.runtimeStartTimeoutMs),
      10,
    ],
    ["advanced_settings", "wait_for_update_check", true, advanced.waitForUpdateCheck ?? false, false],
    [
      "network_configuration",
      "device_reboot_after_offline_minutes",
      3,
      network.deviceRebootAfterOfflineMs,
      0,
    ],
    [
      "network_configuration",
      "disable_captive_portal_redirect",
      true,
      network.disableCaptivePortalRedirect ?? false,
      false,
    ],
    ["network_configuration", "fragment_id", "some-fragment", network.fragmentId, ""],
    ["network_configuration", "hotspot_interface", "wlan0", network.hotspotInterface, ""],
    [
      "network_configuration",
      "hotspot_password",
      "some password",
      network.hotspotPassword.reveal() !== "",
      true,
    ],
    ["network_configuration", "hotspot_prefix", "acme", network.hotspotPrefix, "svc-setup"],
    ["network_configuration", "manufacturer", "acme", network.manufacturer, "svc"],
    ["network_configuration", "model", "m1", network.model, "custom"],
    [
      "network_configuration",
      "offline_before_starting_hotspot_minutes",
      4,
      minutes(network.offlineBeforeStartingHotspotMs),
      2,
    ],
    [
      "network_configuration",
      "retry_connection_timeout_minutes",
      4,
      minutes(network.retryConnectionTimeoutMs),
      10,
    ],
    [
      "network_configuration",
      "turn_on_hotspot_if_wifi_has_no_internet",
      true,
      network.turnOnHotspotIfWifiHasNoInternet ?? false,
      false,
    ],
    ["network_configuration", "user_idle_minutes", 4, minutes(network.userIdleMs), 5],
    ["network_configuration", "wifi_power_save", false, network.wifiPowerSave, undefined],
    ["system_configuration", "forward_system_logs", "all,-kernel", system.forwardSystemLogs, ""],
    [
      "system_configuration",
      "logging_journald_runtime_max_use_megabytes",
      -1,
      system.journaldRuntimeMaxUseMb,
      512,
    ],
    [
      "system_configuration",
      "logging_journald_system_max_use_megabytes",
      64,
      system.journaldSystemMaxUseMb,
      512,
    ],
    ["system_configuration", "os_auto_upgrade_type", "all", system.osAutoUpgradeType, ""],
    ["system_configuration", "os_auto_upgrade_type", "security", system.osAutoUpgradeType, ""],
    ["system_configuration", "os_auto_upgrade_type", "disable", system.osAutoUpgradeType, ""],
  ];
  for (const [section, key, given, found, published] of rows) {
    assertEquals(found, published, `the default of ${key}`);
    const { logged, settings } = fromCloud(section, { [key]: given });
    assertEquals(logged, [], key);
    if (!["wifi_power_save", "hotspot_password"].includes(key)) assertNotEquals(settings, built, key);
    assertNotEquals(fromCloud(section, { [key]: { no: ["value"] } }).logged, [], `${key} takes anything`);
  }
  const wifi = {
    type: "wifi",
    interface: "wlan0",
    ssid: "home",
    psk: "some password",
    priority: -999,
    ipv4_address: "192.168.1.5/24",
    ipv4_gateway: "192.168.1.1",
    ipv4_dns: ["1.1.1.1"],
    ipv4_route_metric: 50,
  };
  const { ssid: _, psk: _psk, ...both } = wifi;
  for (const one of [wifi, { ...both, type: "wired", priority: 999 }, { type: "wired" }]) {
    assertEquals(fromCloud("additional_networks", { mine: one }).logged, []);
  }
  const { mine } = fromCloud("additional_networks", { mine: { type: "wired" } }).settings.additionalNetworks;
  assertEquals({ ...mine }, {
    type: "wired",
    interface: "",
    ssid: "",
    psk: undefined,
    priority: 0,
    ipv4Address: "auto",
    ipv4Gateway: "",
    ipv4Dns: [],
    ipv4RouteMetric: 0,
  });
});

Deno.test("accepts a short wait before a reboot, with a warning if no hotspot would start", () => {
  for (const minutes of [1, 2, 3, 4]) {
    const values = { device_reboot_after_offline_minutes: minutes };
    const { settings, logged } = fromCloud("network_configuration", values);
    assertEquals(settings.network.deviceRebootAfterOfflineMs, minutes * 60_000);
    const path = "network_configuration.device_reboot_after_offline_minutes";
    assertEquals(logged.map((one) => one.split(": ")[0]), minutes <= 2 ? [`warning ${path}`] : []);
  }
});

Deno.test("warns of settings of networks that have no effect by themselves", () => {
  const logged = (section: string, values: JsonObject) => fromCloud(section, values).logged;
  const network = (values: JsonObject) => logged("additional_networks", { a: values });
  const at = "warning cloud.additional_networks.a.";
  const gateway = { ipv4_gateway: "192.168.1.1" };
  const alone = [`${at}ipv4_gateway: has no effect without an ipv4_address`];
  assertEquals(network({ type: "wired", ...gateway }), alone);
  assertEquals(network({ type: "wifi", ssid: "s", ipv4_address: "auto", ...gateway }), alone);
  assertEquals(network({ type: "wired", ipv4_address: "192.168.1.5/24", ...gateway }), []);
  assertEquals(network({ type: "wired", ssid: "s", psk: "a long password" }), [
    `${at}ssid: has no effect without "type": "wifi"`,
    `${at}psk: has no effect without "type": "wifi"`,
  ]);
  const hotspot = (values: JsonObject) => logged("network_configuration", values);
  assertEquals(hotspot({ hotspot_prefix: "acme", hotspot_ssid: "acme-1" }), [
    "warning cloud.network_configuration.hotspot_prefix: has no effect with hotspot_ssid",
  ]);
  assertEquals(hotspot({ bluetooth_trust_all: true, disable_bt_provisioning: true }), [
    "warning cloud.network_configuration.bluetooth_trust_all: has no effect with disable_bt_provisioning",
  ]);
  assertEquals(hotspot({ bluetooth_trust_all: true, disable_bt_provisioning: false }), []);
});

Deno.test("settingsProblems: checks an agent section with the paths of its configuration", () => {
  assertEquals(settingsProblems(undefined), []);
  assertEquals(
    settingsProblems({ version_control: { agent: "stable" }, advanced_settings: { debug: true } }),
    [],
  );
  const found = settingsProblems({
    advanced_settings: { viam_server_start_timeout_minutes: "x", debgu: true },
    network_configuration: { device_reboot_after_offline_minutes: 1 },
    additional_networks: { home: { type: "wifi" }, lan: { type: "wired", priority: 1000 } },
  });
  assertEquals(found.map(({ severity, path }) => `${severity} ${path}`), [
    "error agent.advanced_settings.viam_server_start_timeout_minutes",
    "warning agent.advanced_settings.debgu",
    "error agent.additional_networks.home.ssid",
    "error agent.additional_networks.lan.priority",
    "warning agent.network_configuration.device_reboot_after_offline_minutes",
  ]);
  assertEquals(settingsProblems(5).map(({ path }) => path), ["agent"]);
});

Deno.test("decideSettings: accepts unusual valid values and clamps the start timeout", () => {
  const { settings } = fromCloud("system_configuration", {
    logging_journald_system_max_use_megabytes: -7,
    logging_journald_runtime_max_use_megabytes: 64,
    os_auto_upgrade_type: "Disabled",
  });
  const { journaldSystemMaxUseMb, journaldRuntimeMaxUseMb, osAutoUpgradeType } = settings.system;
  assertEquals([journaldSystemMaxUseMb, journaldRuntimeMaxUseMb, osAutoUpgradeType], [-1, 64, "disable"]);
  for (const ipv4_address of ["auto", "AUTO", ""]) {
    const { settings, logged } = fromCloud("additional_networks", { a: { type: "wired", ipv4_address } });
    assertEquals([settings.additionalNetworks.a.ipv4Address, logged], ["auto", []]);
  }
  const clamped = fromCloud("advanced_settings", { viam_server_start_timeout_minutes: 0.5 });
  assertEquals(clamped.settings.advanced.runtimeStartTimeoutMs, 60_000);
});

Deno.test("decideSettings: settings and problems print no secret", () => {
  const { settings, logged } = fromCloud("additional_networks", {
    a: { type: "wifi", ssid: "s", psk: "sesame1" },
    b: { type: "wifi", ssid: "s", psk: "sesame-open" },
    c: { type: "wifi", ssid: "s", psk: 123454321 },
  });
  const shown = `${JSON.stringify(settings)} ${Deno.inspect(settings, { depth: 9 })} ${logged.join()}`;
  assertEquals(logged.length, 2);
  assertEquals(/sesame|12345/.test(shown), false, shown);
});

Deno.test("decideSettings: returns the defaults for any invalid input", () => {
  const odd: Json[] = [null, 5, "x", [], { advanced_settings: [] }, {
    additional_networks: { "": 1, __proto__: {} },
  }];
  for (const cloud of odd) {
    for (const defaults of odd) {
      const { settings } = decideSettings({ cloud, defaults, lastGood: { cloud: { a: {} }, defaults: {} } });
      assertEquals(settings, built);
    }
  }
});

Deno.test("readDefaults: reads comments, reports a broken file, and ignores a missing file", async () => {
  const path = "/etc/svc-defaults.json";
  const read = (text?: string) =>
    readDefaults(FakeFiles.with(text === undefined ? {} : { [path]: text }), path);
  assertEquals(await read(), { defaults: {}, problems: [] });
  assertEquals((await read('{"model": "m", // ours\n}')).defaults, { model: "m" });
  const { defaults, problems } = await read("{");
  assertEquals(defaults, undefined);
  assertMatch(problems[0].message, /svc-defaults\.json:1:/);
});

Deno.test("writeLastGood: writes with mode 0600, and readLastGood ignores an unreadable file", async () => {
  const files = new FakeFiles();
  const { lastGood } = decideSettings({ defaults: {}, cloud: { advanced_settings: { debug: true } } });
  await writeLastGood(files, "/opt/svc", lastGood);
  assertEquals(files.mode("/opt/svc/state/settings.json"), 0o600);
  assertEquals(await readLastGood(files, "/opt/svc"), lastGood);
  for (const text of ["", "{", "[]", '{"cloud":{}}']) {
    files.put("/opt/svc/state/settings.json", text);
    assertEquals(await readLastGood(files, "/opt/svc"), undefined);
  }
});

Deno.test("until the cloud answers its last good settings apply, over those of the manufacturer", async () => {
  const defaults = JSON.stringify({ network_configuration: { model: "rover", hotspot_prefix: "rover" } });
  const files = FakeFiles.with({ "/etc/d.json": defaults });
  const network = async () => (await settingsBeforeCloud(files, "/opt/svc", "/etc/d.json")).network;
  assertEquals((await network()).hotspotPrefix, "rover");
  const { lastGood } = decideSettings({
    cloud: { network_configuration: { hotspot_prefix: "ours", hotspot_password: "not the built-in one" } },
  });
  await writeLastGood(files, "/opt/svc", lastGood);
  const { model, hotspotPrefix, hotspotPassword } = await network();
  assertEquals([model, hotspotPrefix, hotspotPassword.reveal()], ["rover", "ours", "not the built-in one"]);
});

Deno.test("SECTIONS: the JSON Schema shows defaults of settings in minutes", () => {
  const rows = Object.values(SECTIONS).flatMap(({ field }) =>
    Object.entries((field.jsonSchema() as { properties: JsonObject }).properties)
  );
  const defaults = rows.filter(([name]) => name.endsWith("_minutes")).map(([name, schema]) =>
    [name, (schema as JsonObject).default] as const
  );
  assertEquals(Object.fromEntries(defaults), {
    viam_server_start_timeout_minutes: 10,
    svc_server_start_timeout_minutes: 10,
    offline_before_starting_hotspot_minutes: 2,
    user_idle_minutes: 5,
    retry_connection_timeout_minutes: 10,
    device_reboot_after_offline_minutes: 0,
  });
});
