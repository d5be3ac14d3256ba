/**
 * The agent against a hostile NetworkManager, over a real message bus: names of networks chosen by strangers, values of
 * unpublished types, endless lists.
 */

import { Buffer } from "node:buffer";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { NetworkManager } from "../../lib/agent/network/network_manager.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { type Bus, type Typed, typed } from "../../lib/base/bus/bus.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Logs } from "../../lib/base/log/log.ts";
import { Networking } from "../../lib/agent/network/networking.ts";
import { ProvisioningSubmissions } from "../../lib/agent/portal/submissions.ts";
import { decideSettings } from "../../lib/agent/settings/settings.ts";
import { needingTest } from "../support/needing.ts";
import { FakeFiles } from "../support/fake_files.ts";
import { until } from "../support/until.ts";
import { busDaemon, PrivateBus } from "../support/private_bus.ts";

const NM = "org.freedesktop.NetworkManager";
const ROOT = "/org/freedesktop/NetworkManager";
const DEVICE = `${ROOT}/Devices/1`;
const PROFILE = `${ROOT}/Settings/1`;
const NEEDED = await busDaemon();
const MEBIBYTE = 1024 * 1024;

/** NetworkManager's answers by their published names, where they are unusual. */
interface Printed {
  readonly points?: readonly (Readonly<Record<string, Typed>>)[];
  readonly devices?: Typed;
  readonly profiles?: Typed;
  readonly settings?: Typed;
  readonly connectivity?: Typed;
  readonly device?: Readonly<Record<string, Typed>>;
  readonly wireless?: Typed;
}

function point(ssid: Uint8Array, more: Record<string, Typed> = {}): Readonly<Record<string, Typed>> {
  return {
    Ssid: typed("ay", Buffer.from(ssid)),
    Strength: typed("y", 50),
    Flags: typed("u", 1),
    WpaFlags: typed("u", 0),
    RsnFlags: typed("u", 0x100),
    ...more,
  };
}

function serve(bus: Bus, output: Printed): void {
  const points = output.points ?? [];
  const propertiesOf = (values: Readonly<Record<string, Typed>>) =>
    Object.fromEntries(
      Object.entries(values).map(([name, [type, value]]) => [name, [type, () => value] as const]),
    );
  const answer = ([out, value]: Typed) => ({ out, run: () => value });
  const connectivity = output.connectivity ?? typed("u", 4);
  bus.serve(ROOT, {
    name: NM,
    properties: propertiesOf({
      Connectivity: connectivity,
      ConnectivityCheckAvailable: typed("b", true),
      ConnectivityCheckEnabled: typed("b", true),
      WirelessEnabled: output.wireless ?? typed("b", true),
    }),
    methods: { GetDevices: answer(output.devices ?? typed("ao", [DEVICE])) },
  });
  const device = {
    Interface: typed("s", "wlan0"),
    DeviceType: typed("u", 2),
    ActiveConnection: typed("o", "/"),
  };
  bus.serve(DEVICE, { name: `${NM}.Device`, properties: propertiesOf({ ...device, ...output.device }) });
  const paths = points.map((_, at) => `${ROOT}/AccessPoint/${at}`);
  bus.serve(DEVICE, {
    name: `${NM}.Device.Wireless`,
    methods: { GetAllAccessPoints: answer(typed("ao", paths)) },
  });
  points.forEach((one, at) => {
    bus.serve(paths[at], { name: `${NM}.AccessPoint`, properties: propertiesOf(one) });
  });
  bus.serve(`${ROOT}/Settings`, {
    name: `${NM}.Settings`,
    methods: { ListConnections: answer(output.profiles ?? typed("ao", [PROFILE])) },
  });
  bus.serve(`${ROOT}/ActiveConnection/1`, {
    name: `${NM}.Connection.Active`,
    properties: propertiesOf({ State: typed("u", 2), Connection: typed("o", PROFILE) }),
  });
  bus.serve(PROFILE, {
    name: `${NM}.Settings.Connection`,
    methods: { GetSettings: answer(output.settings ?? typed("a{sa{sv}}", {})) },
  });
}

async function withManager(output: Printed, test: (manager: NetworkManager) => Promise<void>): Promise<void> {
  const privateBus = await PrivateBus.start();
  const service = await privateBus.own(NM);
  serve(service, output);
  const manager = new NetworkManager(await privateBus.open(), new SystemClock());
  try {
    await test(manager);
  } finally {
    await manager.close();
    await service.close();
    await privateBus.stop();
  }
}

const { signal } = new AbortController();

needingTest(
  "network names are untrusted bytes: printable names are shown, others left out",
  NEEDED,
  async () => {
    const text = new TextEncoder();
    const names = {
      html: `"><script>alert(1)</script>`,
      quotes: `shop ü"<'\\`,
      controls: "a\x1b[2J\r\nb\x07",
      directions: "\u202eevil",
    };
    const split = text.encode("é".repeat(16) + "x").subarray(1, 33);
    const whole = text.encode("é".repeat(16));
    const output = {
      points: [
        ...Object.values(names).map((name) => point(text.encode(name))),
        point(split),
        point(whole),
        point(new Uint8Array(0)),
        point(new Uint8Array(32)),
        point(text.encode("shop"), { Strength: typed("s", "strong") }),
        point(text.encode("loud"), { Strength: typed("u", 4_000_000_000) }),
        { ...point(new Uint8Array(0)), Ssid: typed("s", "a text and no bytes") },
        { ...point(text.encode("flags")), RsnFlags: typed("s", "many"), WpaFlags: typed("as", ["x"]) },
      ],
    };
    await withManager(output, async (manager) => {
      const { inRange } = await manager.look("", signal);
      const found = new Map(inRange.map(({ ssid, signal }) => [ssid, signal]));
      assertEquals(
        [...found.keys()].sort(),
        [...Object.values(names), "é".repeat(16), "flags", "loud", "shop"].sort(),
      );
      assertEquals([found.get("loud"), found.get("shop")], [100, 0]);
    });
  },
);

const WRONG: { readonly [what: string]: Printed } = {
  "a text for the list of devices": { devices: typed("s", "none") },
  "numbers for the list of devices": { devices: typed("au", [1, 2]) },
  "a number for the list of profiles": { profiles: typed("u", 7) },
};

for (const [what, output] of Object.entries(WRONG)) {
  needingTest(
    `NetworkManager.look() fails on an answer of the wrong type and names the call: ${what}`,
    NEEDED,
    async () => {
      await withManager(output, async (manager) => {
        const error = await assertRejects(() => manager.look("", signal), SvcError);
        assert(/NetworkManager.*gave .*wanted a list of paths/.test(error.message), error.message);
      });
    },
  );
}

needingTest("values of other types count as missing", NEEDED, async () => {
  const output = {
    device: { Interface: typed("u", 5), DeviceType: typed("s", "2") },
    settings: typed("a{ss}", { connection: "x", "802-11-wireless": "y", user: "z" }),
    connectivity: typed("s", "full"),
  };
  await withManager(output, async (manager) => {
    const { wifiDevice, internet, profiles, inRange } = await manager.look("", signal);
    assertEquals([wifiDevice, internet, inRange], [undefined, false, []]);
    const [{ name, id, ssid, priority }] = profiles;
    assertEquals([name, id, ssid, priority], ["", "", undefined, 0]);
  });
});

needingTest(
  "Wi-Fi without a link is not connected, even if the service says so",
  NEEDED,
  async () => {
    const active = `${ROOT}/ActiveConnection/1`;
    for (const [flags, wanted] of [[0x10003, "shop"], [0x1, undefined]] as const) {
      const device = { ActiveConnection: typed("o", active), InterfaceFlags: typed("u", flags) };
      const wifi = { ssid: Buffer.from("shop") };
      await withManager(
        { device, settings: typed("a{sa{say}}", { "802-11-wireless": wifi }) },
        async (manager) => {
          assertEquals((await manager.look("", signal)).connectedTo, wanted);
        },
      );
    }
  },
);

needingTest(
  "stopping the agent ends calls to a NetworkManager that never answers",
  NEEDED,
  async () => {
    const privateBus = await PrivateBus.start();
    const service = await privateBus.own(NM);
    let asked = 0;
    const silence = new Promise<void>(() => {});
    service.serve(ROOT, {
      name: NM,
      methods: { GetDevices: { out: "ao", run: () => ++asked && silence } },
    });
    const [clock, stop] = [new SystemClock(), new AbortController()];
    const port = new NetworkManager(await privateBus.open(), clock);
    const networking = new Networking({
      ...{ port, clock, files: new FakeFiles() },
      ...{ hostname: "rover", agentVersion: "1", refusedFile: "/refused.json" },
      logger: new Logs(clock, []).logger("networks"),
      submissions: (device, take) => new ProvisioningSubmissions(clock, device, take),
      isConfigured: () => true,
      reachesCloud: () => false,
      tryCloud: () => Promise.resolve(false),
      configure: () => Promise.resolve(),
      serve: () => Promise.reject(new Error("no hotspot opens here")),
    }, decideSettings({}).settings);
    const running = networking.run(stop.signal);
    const applying = networking.apply(decideSettings({}).settings, stop.signal);
    try {
      await until(() => asked > 0);
    } finally {
      stop.abort();
      // Without an abort each call would take the 25 s of the bus.
      const ended = await Promise.race([
        Promise.allSettled([running, applying, networking.close()]).then(() => "ended"),
        clock.sleep(20_000).then(() => "still waiting"),
      ]);
      assertEquals(ended, "ended");
      await port.close();
      await service.close();
      await privateBus.stop();
    }
  },
);

needingTest("NetworkManager.look() cuts endless lists and keeps memory bounded", NEEDED, async () => {
  const points = Array.from({ length: 2_000 }, (_, at) => point(new TextEncoder().encode(`network ${at}`)));
  const many = typed("ao", Array.from({ length: 50_000 }, (_, at) => `${ROOT}/Settings/${at + 2}`));
  const before = Deno.memoryUsage().rss;
  await withManager({ points, profiles: many }, async (manager) => {
    for (let time = 0; time < 3; time++) {
      const { inRange, profiles } = await manager.look("", signal);
      assertEquals([inRange.length, profiles.length], [200, 0]);
    }
  });
  const grown = (Deno.memoryUsage().rss - before) / MEBIBYTE;
  console.log(
    `50,000 profiles and 2,000 networks, three times: ${
      grown.toFixed(0)
    } MiB more in use, both sides together`,
  );
  assert(grown < 300, `${grown} MiB`);
});

needingTest(
  "access points of one network are one network, with the security of all of them",
  NEEDED,
  async () => {
    const name = new TextEncoder().encode("shop");
    const [psk, sae, both] = [0x100, 0x400, 0x500].map((flags) => ({ RsnFlags: typed("u", flags) }));
    const cases = [
      [[psk, sae], "WPA2 WPA3"],
      [[sae, sae], "WPA3"],
      [[sae, both], "WPA2 WPA3"],
      [[{ ...psk, RsnFlags: typed("u", 0) }, psk], "WPA2"],
    ] as const;
    for (const [points, security] of cases) {
      const strengths = [40, 80].map((strength) => ({ Strength: typed("y", strength) }));
      const output = { points: points.map((one, at) => point(name, { ...one, ...strengths[at] })) };
      await withManager(output, async (manager) => {
        const { inRange, isWifiOff } = await manager.look("", signal);
        assertEquals([inRange, isWifiOff], [[{ ssid: "shop", signal: 80, security }], false]);
      });
    }
    for (const [state, isUnmanaged] of [[10, true], [30, false], [100, false]] as const) {
      await withManager({ device: { State: typed("u", state) } }, async (manager) => {
        assertEquals((await manager.look("", signal)).isUnmanaged, isUnmanaged, String(state));
      });
    }
    await withManager({ wireless: typed("b", false) }, async (manager) => {
      assertEquals((await manager.look("", signal)).isWifiOff, true);
    });
  },
);
