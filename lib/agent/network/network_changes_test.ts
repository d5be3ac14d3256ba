/** A change of networks that a power cut has interrupted, with the file about it as it should be, and damaged. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { FakeFiles } from "../../../tests/support/fake_files.ts";
import { NetworkDevice } from "../../../tests/support/network_device.ts";

const NOTE = "/opt/svc/state/network_changes.json";
const LINE = { type: "wired", interface: "eth0", ipv4_address: "10.0.0.5/24" };
const CHANGED = { ...LINE, ipv4_address: "10.0.0.6/24", ipv4_gateway: "10.0.0.1" };
const LAB = { type: "wifi", ssid: "lab", psk: "secret of lab" };

/** The device at the moment of the power cut, while a change that cuts it off is tried. */
async function interrupted() {
  const device = new NetworkDevice();
  device.configured = true;
  device.network.wired = true;
  assertEquals(await device.apply({ line: LINE, lab: LAB }), "");
  device.network.breaking.add("other");
  const change = { line: CHANGED, lab: LAB, other: { type: "wired", interface: "eth1" } };
  const applying = device.networking.apply(device.settings(change), device.stop.signal).catch(() => {});
  await device.minutes(1);
  const found = {
    note: await device.files.readTextFile(NOTE),
    // With paths that the next start does not use for others.
    profiles: [...device.network.profiles.values()].map((one) => ({ ...one, path: `/before/${one.name}` })),
  };
  await device.minutes(4);
  await device.minutes(4);
  await applying;
  await device.end();
  return found;
}

/** What becomes of the entry `line` on the device that starts again with this note. */
async function afterStart(note: string, { profiles }: Awaited<ReturnType<typeof interrupted>>) {
  const device = new NetworkDevice({}, {}, FakeFiles.with({ [NOTE]: note }));
  device.configured = true;
  for (const profile of profiles) device.network.profiles.set(profile.path, profile);
  await device.minutes(15);
  const line = [...device.network.profiles.values()].find(({ name }) => name === "line");
  const addresses = JSON.stringify(line?.wanted.settings.ipv4["address-data"]) ?? "none";
  const left = device.log.filter((line) => line.includes("not managed"));
  const { hotspot } = device.network;
  await device.end();
  return {
    now: /10\.0\.0\.\d/.exec(addresses)?.[0] ?? "none",
    left,
    hotspot,
    rest: await device.files.readTextFile(NOTE),
  };
}

Deno.test("after a power cut during a change, the entries are as they were before it", async () => {
  const found = await interrupted();
  assertStringIncludes(found.note, "secret of lab");
  const { now, left, rest } = await afterStart(found.note, found);
  assertEquals([now, left], ["10.0.0.5", []]);
  assertEquals(JSON.parse(rest).trial, []);
  assertStringIncludes(rest, "secret of lab");
});

Deno.test("a note with entries that this agent does not know takes back what it can, and the networks stay managed", async () => {
  const found = await interrupted();
  const note = JSON.parse(found.note);
  const { line } = note.proven;
  const withLine = (entry: unknown) => JSON.stringify({ ...note, proven: { ...note.proven, line: entry } });

  // A newer agent has added keys, here and in entries.
  const newer = {
    version: 7,
    ...note,
    proven: { ...note.proven, line: { ...line, ipv6Address: "fd00::1" } },
  };
  assertEquals((await afterStart(JSON.stringify(newer), found)).now, "10.0.0.5");

  // Without a usable entry from before, the changed one goes.
  const unusable = [
    withLine(null),
    withLine("eth0"),
    withLine([]),
    withLine({}),
    withLine({ ...line, type: "satellite" }),
    withLine({ ...line, ipv4Address: 5 }),
    withLine({ ...line, ipv4Dns: "1.1.1.1" }),
    withLine({ ...line, ipv4RouteMetric: "many" }),
    withLine({ ...line, type: "wifi", ssid: ["x"] }),
    withLine({ ...line, type: "wifi", ssid: "x", psk: { key: 1 } }),
    JSON.stringify({ ...note, proven: [] }),
    JSON.stringify({ trial: [...note.trial, 5, null, {}] }),
  ];
  for (const text of unusable) {
    const { now, left, hotspot } = await afterStart(text, found);
    assertEquals([now, left, hotspot], ["none", [], "svc-setup-rover"], text);
  }

  // Without a list of what was tried, nothing is taken back.
  const silent = [
    "",
    "\0\0\0",
    "null",
    "[]",
    "5",
    found.note.slice(0, -20),
    JSON.stringify({ ...note, trial: "all" }),
    JSON.stringify({ ...note, trial: { 0: note.trial[0] } }),
  ];
  for (const text of silent) {
    const { now, left, hotspot } = await afterStart(text, found);
    assertEquals([now, left, hotspot], ["10.0.0.6", [], "svc-setup-rover"], text);
  }
});
