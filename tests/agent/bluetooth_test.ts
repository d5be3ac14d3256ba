/** Setting a device up by Bluetooth, as a phone does it: over a real message bus, on which a BlueZ is played. */

import { Buffer } from "node:buffer";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Bluetooth } from "../../lib/agent/bluetooth/bluetooth.ts";
import { BLUETOOTH_SERVICE, READ, uuidOf, WRITTEN } from "../../lib/agent/bluetooth/values.ts";
import {
  type DeviceView,
  type ProvisioningSubmission,
  ProvisioningSubmissions,
} from "../../lib/agent/portal/submissions.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { type LogRecord, Logs } from "../../lib/base/log/log.ts";
import { Secret } from "../../lib/base/secret.ts";
import { FakeBluez, PHONE } from "../support/fake_bluez.ts";
import { FastClock } from "../support/fast_clock.ts";
import { needingTest } from "../support/needing.ts";
import { busDaemon, PrivateBus } from "../support/private_bus.ts";
import { until } from "../support/until.ts";

const PASSWORD = "rover: the hotspot";
/** How many times as fast time passes where much of it is waited for. */
const HASTE = 20;
const NEEDED = await busDaemon();
const KEY = { id: "key", key: "s3cr3t" };

class Device {
  view: DeviceView = {
    manufacturer: "Acme",
    model: "rover",
    fragmentId: "fragment-1",
    agentVersion: "1.2.3",
    configured: false,
    online: false,
    networks: [
      { ssid: "shop", security: "WPA2", signal: 80, connected: false, lastError: "" },
      { ssid: "café ☕", security: "", signal: 5, connected: false, lastError: "" },
    ],
  };
  wanted = true;
  trustsAll = false;
  /** The phones that have paired. */
  readonly paired: string[] = [];
  readonly taken: ProvisioningSubmission[] = [];
  readonly log: string[] = [];
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;

  constructor(private readonly haste = 1) {}

  async run(privateBus: PrivateBus, work: (device: this) => Promise<void>): Promise<void> {
    const clock = new FastClock(new SystemClock(), this.haste);
    const bus = await privateBus.open();
    const sink = ({ message }: LogRecord) => void this.log.push(message);
    const bluetooth = new Bluetooth({
      ...{ bus, clock },
      logger: new Logs(clock, [sink]).logger("bluetooth"),
      submissions: new ProvisioningSubmissions(
        clock,
        () => this.view,
        (submitted) => void this.taken.push(submitted),
      ),
      offer: () => ({
        ...{ wanted: this.wanted, trustsAll: this.trustsAll },
        ...{ name: "svc-setup-rover", password: new Secret(PASSWORD) },
      }),
      paired: (address) => void this.paired.push(address),
    });
    this.#running = bluetooth.run(this.#stop.signal);
    try {
      await work(this);
    } finally {
      this.#stop.abort();
      await this.#running;
      await bus.close();
    }
  }
}

/** A device beside a BlueZ. */
function bluetoothTest(name: string, work: (device: Device, bluez: FakeBluez) => Promise<void>): void {
  needingTest(name, NEEDED, async () => {
    const privateBus = await PrivateBus.start();
    const bluez = await FakeBluez.start(privateBus);
    try {
      await new Device().run(privateBus, async (device) => {
        await until(() => bluez.advertised);
        await work(device, bluez);
      });
      assertEquals(bluez.advertised, undefined, "it is advertised still");
    } finally {
      await bluez.stop();
      await privateBus.stop();
    }
  });
}

bluetoothTest("a phone finds the published service and reads the device's facts", async (device, bluez) => {
  assertEquals(bluez.advertised, {
    Type: "peripheral",
    ServiceUUIDs: [BLUETOOTH_SERVICE],
    LocalName: "svc-setup-rover",
    Discoverable: true,
  });
  assertEquals([bluez.isPowered, bluez.services], [true, ["51d984c2-43bd-5228-a3ac-a3eca992e8b3"]]);
  assertEquals(uuidOf("ssid"), "37a720ee-86e5-55a8-b876-d200fb7e4f72");
  for (const one of READ) assertEquals(bluez.found.get(uuidOf(one))?.flags, ["read", "notify"]);
  for (const one of WRITTEN) {
    assertEquals(bluez.found.get(uuidOf(one))?.flags, ["write", "write-without-response"]);
  }
  const texts = ["manufacturer", "model", "fragment_id", "agent_version"].map(async (one) =>
    String(await bluez.read(one))
  );
  assertEquals(await Promise.all(texts), ["Acme", "rover", "fragment-1", "1.2.3"]);
  assertEquals([...await bluez.read("status")], [0]);
  const networks = [
    Buffer.from([0x80 | 80]),
    Buffer.from("shop\0"),
    Buffer.from([5]),
    Buffer.from("café ☕\0"),
  ];
  assertEquals(await bluez.read("networks"), Buffer.concat(networks));
  assertEquals(await bluez.read("networks", 1), (await bluez.read("networks")).subarray(1));
  await assertRejects(() => bluez.read("networks", 1000), Error, "behind the end");
  device.view = { ...device.view, configured: true, online: true };
  assertEquals([...await bluez.read("status")], [3]);
});

bluetoothTest("values from a phone apply once it ends the setup", async (device, bluez) => {
  const values = {
    ssid: "shop",
    psk: "12345678",
    id: "part",
    secret: "",
    api_key: JSON.stringify(KEY),
    app_address: "https://cloud:8090",
  };
  for (const [name, value] of Object.entries(values)) await bluez.write(name, PASSWORD, value);
  assertEquals(device.taken.length, 0);
  await bluez.write("exit_provisioning", PASSWORD, "1");
  const [{ network, credentials }] = device.taken;
  assertEquals([network?.ssid, network?.psk.reveal()], ["shop", "12345678"]);
  assertEquals(JSON.parse(credentials!.reveal()), {
    cloud: { id: "part", app_address: "https://cloud:8090", api_key: KEY },
  });
  assert(!device.log.join("\n").match(/12345678|s3cr3t|the hotspot/));
});

bluetoothTest(
  "Bluetooth setup refuses a wrong password and keeps the earlier values",
  async (device, bluez) => {
    await bluez.write("ssid", PASSWORD, "shop");
    await bluez.write("psk", PASSWORD, "12345678");
    await assertRejects(
      () => bluez.write("ssid", "guess", "evil"),
      Error,
      "the password of the device's hotspot",
    );
    await assertRejects(() => bluez.write("exit_provisioning", "guess", "1"), Error, "hotspot is wrong");
    await assertRejects(
      () => bluez.writeBytes("psk", new Uint8Array(256)),
      Error,
      "not encrypted for this device's key",
    );
    await assertRejects(() => bluez.writeBytes("psk", new Uint8Array(257)), Error, "a value has 256 bytes");
    await assertRejects(() => bluez.writeBytes("psk", Buffer.from("evil")), Error, "a value has 256 bytes");
    assertEquals(device.taken.length, 0);
    assertStringIncludes(String(await bluez.read("errors")), "the password of the device's hotspot is wrong");
    await assertRejects(
      () => bluez.write("exit_provisioning", PASSWORD, "1"),
      Error,
      "credentials are missing",
    );
    device.view = { ...device.view, configured: true };
    await bluez.write("ssid", PASSWORD, "shop");
    await bluez.write("psk", PASSWORD, "12345678");
    await bluez.write("exit_provisioning", PASSWORD, "1");
    assertEquals(device.taken.map(({ network }) => network?.ssid), ["shop"]);
    assertEquals(String(await bluez.read("errors")), "");
  },
);

bluetoothTest("Bluetooth setup accepts a value in pieces at consecutive offsets", async (device, bluez) => {
  device.view = { ...device.view, configured: true };
  const sealed = await bluez.sealed(PASSWORD, "shop");
  const reliable = { type: "reliable" };
  await bluez.writeBytes("ssid", sealed.subarray(0, 100), reliable);
  await assertRejects(
    () => bluez.writeBytes("ssid", sealed.subarray(100), { ...reliable, offset: 99 }),
    Error,
    "offset",
  );
  await bluez.writeBytes("ssid", sealed.subarray(0, 100), reliable);
  await bluez.writeBytes("ssid", sealed.subarray(100), { ...reliable, offset: 100 });
  await bluez.write("exit_provisioning", PASSWORD, "1");
  assertEquals(device.taken.map(({ network }) => network?.ssid), ["shop"]);
});

bluetoothTest("what a listener has heard on the radio is of no use to it", async (device, bluez) => {
  device.view = { ...device.view, configured: true };
  const heard = new Map<string, Uint8Array>();
  const write = async (name: string, value: string) => {
    const sealed = await bluez.sealed(PASSWORD, value);
    heard.set(name, sealed);
    await bluez.writeBytes(name, sealed);
  };
  for (const [name, value] of [["unlock_pairing", "true"], ["unlock_pairing", "false"]]) {
    await write(name, value);
  }
  for (const [name, value] of [["ssid", "shop"], ["psk", "12345678"]]) await write(name, value);
  // The password of the network as its name would be sent in the clear, and shown in errors.
  const refused = (name: string, sealed: Uint8Array) =>
    assertRejects(() => bluez.writeBytes(name, sealed), Error, "the value was written before");
  await refused("ssid", heard.get("psk")!);
  await refused("unlock_pairing", heard.get("unlock_pairing")!);
  await write("exit_provisioning", "1");
  assertEquals(device.taken.map(({ network }) => network?.ssid), ["shop"]);
  // Later, when the device needs setup again: also under another offer of the service.
  device.wanted = false;
  await until(() => bluez.advertised === undefined);
  device.wanted = true;
  await until(() => bluez.advertised);
  for (const [name, sealed] of heard) await refused(name, sealed);
  assertEquals([device.taken.length, bluez.isVisible], [1, false]);
});

bluetoothTest(
  "a phone that writes as often as it can leaves the others their share",
  async (device, bluez) => {
    device.view = { ...device.view, configured: true };
    const garbage = new Uint8Array(256);
    const from = (number: number) => ({ device: `/org/bluez/hci0/dev_${number}` });
    const codes = async (count: number, phone: number) => {
      const some = Array.from({ length: count }, () => bluez.writeBytes("psk", garbage, from(phone)));
      return (await Promise.allSettled(some)).map((one) =>
        one.status === "rejected" ? one.reason.message : ""
      );
    };
    for (let turn = 0; turn < 10; turn++) await codes(10, 1);
    assertStringIncludes((await codes(1, 1))[0], "too many values");
    // Its pieces of a long value do not disturb another's.
    const reliable = { type: "reliable" };
    const sealed = await bluez.sealed(PASSWORD, "shop");
    await bluez.writeBytes("ssid", sealed.subarray(0, 100), { ...reliable, ...from(2) });
    await bluez.writeBytes("ssid", garbage.subarray(0, 50), { ...reliable, ...from(1) });
    await bluez.writeBytes("ssid", sealed.subarray(100), { ...reliable, ...from(2), offset: 100 });
    await bluez.writeBytes("exit_provisioning", await bluez.sealed(PASSWORD, "1"), from(2));
    assertEquals(device.taken.map(({ network }) => network?.ssid), ["shop"]);
    // Malformed values change nothing and end nothing.
    const halves = ['{"id":"key","key":""}', '{"id":"","key":"s3cr3t"}', '{"id":"key"}', "{}"];
    const broken = ["null", "[]", "{", '{"id":{},"key":[]}', '"\\ud800"', "{}".repeat(40)];
    for (const value of [...halves, ...broken]) {
      await bluez.write("ssid", PASSWORD, "shop");
      await bluez.write("api_key", PASSWORD, value);
      await assertRejects(() => bluez.write("exit_provisioning", PASSWORD, "1"), Error);
    }
    assertEquals(device.taken.length, 1);
    // A phone without a key sends empty texts.
    await bluez.write("ssid", PASSWORD, "shop");
    await bluez.write("api_key", PASSWORD, '{"id":"","key":""}');
    await bluez.write("exit_provisioning", PASSWORD, "1");
    assertEquals(device.taken.map(({ network, credentials }) => [network?.ssid, credentials]), [
      ["shop", undefined],
      ["shop", undefined],
    ]);
    const shown = await Promise.all(READ.map(async (one) => String(await bluez.read(one))));
    assert(!shown.join().includes("hotspot"), shown.join());
  },
);

bluetoothTest("Bluetooth setup limits wrong passwords per minute", async (_, bluez) => {
  const sealed = await bluez.sealed("guess", "evil");
  const output: string[] = [];
  while (output.length < 200) {
    const some = Array.from({ length: 20 }, () => bluez.writeBytes("psk", sealed));
    output.push(
      ...(await Promise.allSettled(some)).map((one) => one.status === "rejected" ? one.reason.message : ""),
    );
  }
  const wrong = output.filter((one) => one.includes("hotspot is wrong"));
  const tooMany = output.filter((one) => one.includes("too many values in one minute"));
  assert(wrong.length > 0 && wrong.length + tooMany.length === 200, output.join("\n"));
  assert(tooMany.length > 0, output.join("\n"));
});

bluetoothTest(
  "a phone pairs only after unlock_pairing with the right password",
  async (device, bluez) => {
    await until(() => bluez.alias === "svc-setup-rover");
    await assertRejects(() => bluez.pair(), Error, "accepts no new phones now");
    await assertRejects(() => bluez.write("unlock_pairing", "guess", "true"), Error, "hotspot is wrong");
    await assertRejects(
      () => bluez.write("unlock_pairing", PASSWORD, "maybe"),
      Error,
      "neither true nor false",
    );
    await assertRejects(() => bluez.pair(), Error, "accepts no new phones now");
    assertEquals([bluez.isVisible, bluez.isTrusted], [false, false]);
    await bluez.write("unlock_pairing", PASSWORD, "true");
    await until(() => bluez.isVisible);
    await bluez.pair();
    await until(() => device.paired.length > 0);
    assertEquals([device.paired, bluez.isTrusted], [[PHONE], true]);
    await bluez.write("unlock_pairing", PASSWORD, "0");
    await until(() => !bluez.isVisible);
    // A trusted phone may pair again.
    await bluez.pair();
    await until(() => device.paired.length > 1);
    bluez.isTrusted = false;
    await assertRejects(() => bluez.pair(), Error, "accepts no new phones now");
    device.wanted = false;
    // The service ends after the pairing.
    await until(() => bluez.services.length === 0);
    await assertRejects(() => bluez.pair(), Error, "no agent answers");
    assertEquals(bluez.alias, "");
  },
);

bluetoothTest(
  "with bluetooth_trust_all every phone pairs, except with a PIN",
  async (device, bluez) => {
    device.trustsAll = true;
    await until(() => bluez.isVisible);
    const phone = `/org/bluez/hci0/dev_${PHONE.replaceAll(":", "_")}`;
    await assertRejects(() => bluez.ask("RequestPinCode", "o", [phone]), Error, "accepts no new phones now");
    await assertRejects(
      () => bluez.ask("RequestAuthorization", "o", ["/org/bluez/hci0/dev_none"]),
      Error,
      "accepts no new phones now",
    );
    await bluez.ask("AuthorizeService", "os", [phone, "00001116-0000-1000-8000-00805f9b34fb"]);
    assertEquals(device.paired, []);
    await bluez.pair();
    await until(() => device.paired.length > 0);
    assertEquals([device.paired, bluez.isTrusted], [[PHONE], true]);
    device.trustsAll = false;
    await until(() => !bluez.isVisible);
  },
);

needingTest(
  "the service is offered while it is wanted, and again after a restart of BlueZ",
  NEEDED,
  async () => {
    const privateBus = await PrivateBus.start();
    const first = await FakeBluez.start(privateBus);
    const device = new Device(HASTE);
    await device.run(privateBus, async () => {
      await until(() => first.advertised);
      device.wanted = false;
      await until(() => first.advertised === undefined);
      device.wanted = true;
      await until(() => first.advertised);
      await first.stop();
      const second = await FakeBluez.start(privateBus);
      await until(() => second.advertised);
      assertEquals([...await second.read("status")], [0]);
      await second.stop();
    });
    await privateBus.stop();
  },
);

needingTest("without BlueZ, and without an adapter, the log says so once", NEEDED, async () => {
  const privateBus = await PrivateBus.start();
  try {
    await new Device(HASTE).run(privateBus, async (device) => {
      await until(() => device.log.length > 0);
      assertStringIncludes(
        device.log[0],
        "nobody can set this device up by Bluetooth: BlueZ is not on the message bus",
      );
      const bluez = await FakeBluez.start(privateBus, { adapter: false });
      await until(() => device.log.length > 1);
      assertStringIncludes(device.log[1], "there is no Bluetooth adapter that phones could find");
      await bluez.stop();
    });
  } finally {
    await privateBus.stop();
  }
});
