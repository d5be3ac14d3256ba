import { assertEquals } from "@std/assert";
import { FakeClock } from "../base/clock.ts";
import { type LogRecord, Logs, memorySink } from "../base/log.ts";
import type { JsonObject } from "../base/schema.ts";
import { FakeCommands } from "./fake_commands.ts";
import { Journald } from "./journald.ts";
import { originsOf, OsUpgrades } from "./os_upgrades.ts";
import { decideSettings } from "./settings.ts";
import { systemDisk } from "./update_files.ts";

const { signal } = new AbortController();

const POLICY = `Package files:
 100 /var/lib/dpkg/status
     release a=now
 500 http://mirror/debian-security bookworm-security/main amd64 Packages
     release v=12,o=Debian,a=stable-security,n=bookworm-security,l=Debian-Security,c=main,b=amd64
 500 http://mirror/debian bookworm/main amd64 Packages
     release v=12.14,o=Debian,a=stable,n=bookworm,l=Debian,c=main,b=amd64
     release v=12.14,o=Debian,a=stable,n=bookworm,l=Debian,c=contrib,b=amd64
`;

/** A Debian system in a folder, whose programs answer as the test says. */
async function withSystem(
  run: (system: {
    parts: { disk: ReturnType<typeof systemDisk>; commands: FakeCommands; logger: never; root: string };
    clock: FakeClock;
    read: (path: string) => Promise<string | undefined>;
    write: (path: string, text: string) => Promise<void>;
    messages: () => string[];
  }) => Promise<void>,
): Promise<void> {
  const root = await Deno.makeTempDir();
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logger = new Logs(clock, [memorySink(records)]).logger("svc-agent") as never;
  const commands = new FakeCommands({ "apt-cache policy": { output: POLICY } });
  const write = async (path: string, text: string) => {
    await Deno.mkdir(`${root}${path.slice(0, path.lastIndexOf("/"))}`, { recursive: true });
    await Deno.writeTextFile(`${root}${path}`, text);
  };
  try {
    await write("/etc/os-release", 'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n');
    await run({
      parts: { disk: systemDisk("linux"), commands, logger, root },
      clock,
      read: (path) => Deno.readTextFile(`${root}${path}`).catch(() => undefined),
      write,
      messages: () => records.map(({ message }) => message),
    });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

const settingsOf = (system: JsonObject, advanced: JsonObject = {}) =>
  decideSettings({ cloud: { system_configuration: system, advanced_settings: advanced } }).settings;

const JOURNAL = "/etc/systemd/journald.conf.d/90-svc.conf";
const AUTO = "/etc/apt/apt.conf.d/20auto-upgrades";
const ORIGINS = "/etc/apt/apt.conf.d/50unattended-upgrades";

Deno.test("the journal is limited once, and set free again", () =>
  withSystem(async ({ parts, read }) => {
    const journald = new Journald(parts);
    const { ran } = parts.commands;
    await journald.apply(settingsOf({ logging_journald_system_max_use_megabytes: 100 }), signal);
    const [, section, ...lines] = (await read(JOURNAL))!.trim().split("\n");
    assertEquals([section, lines.slice(0, 2)], ["[Journal]", ["SystemMaxUse=100M", "RuntimeMaxUse=512M"]]);
    assertEquals(ran.splice(0), [
      "systemctl is-enabled systemd-journald",
      "systemctl restart systemd-journald",
      "journalctl --flush",
    ]);
    await journald.apply(settingsOf({ logging_journald_system_max_use_megabytes: 100 }), signal);
    assertEquals(ran.splice(0), ["systemctl is-enabled systemd-journald"], "nothing has changed");
    await journald.apply(settingsOf({}, { disable_system_configuration: true }), signal);
    assertEquals(await read(JOURNAL) !== undefined, true, "left as it is");
    const off = {
      logging_journald_system_max_use_megabytes: -1,
      logging_journald_runtime_max_use_megabytes: -1,
    };
    await journald.apply(settingsOf(off), signal);
    assertEquals([await read(JOURNAL), ran], [undefined, ["systemctl restart systemd-journald"]]);
  }));

Deno.test("a system without journald is told of once", () =>
  withSystem(async ({ parts, read, messages }) => {
    parts.commands.answers["systemctl is-enabled"] = { code: 1 };
    const journald = new Journald(parts);
    for (const _ of [1, 2]) await journald.apply(settingsOf({}), signal);
    assertEquals([await read(JOURNAL), messages().length], [undefined, 1]);
  }));

Deno.test("origins are those that are there, always in the same order", () => {
  assertEquals(originsOf(POLICY, "all"), [
    "origin=Debian,codename=bookworm",
    "origin=Debian,codename=bookworm-security",
  ]);
  assertEquals(originsOf(POLICY, "security"), ["origin=Debian,codename=bookworm-security"]);
});

Deno.test("automatic upgrades are turned on and off, and left alone where nothing is said", () =>
  withSystem(async ({ parts, clock, read, write }) => {
    const more = { clock, mayInterrupt: () => Promise.resolve(true), reboot: () => Promise.resolve() };
    const upgrades = new OsUpgrades({ ...parts, ...more });
    const { ran, answers } = parts.commands;
    await write(AUTO, "mine\n");
    await upgrades.apply(settingsOf({}), signal);
    assertEquals([await read(AUTO), ran], ["mine\n", []]);

    answers["unattended-upgrade --help"] = { code: 127 };
    await upgrades.apply(settingsOf({ os_auto_upgrade_type: "security" }), signal);
    assertEquals(ran.splice(0).slice(-3), [
      "apt-get install -y unattended-upgrades",
      "apt-cache policy",
      "systemctl enable --now apt-daily-upgrade.timer",
    ]);
    assertEquals((await read(AUTO))!.includes('Unattended-Upgrade "1"'), true);
    assertEquals(
      await read(ORIGINS),
      'Unattended-Upgrade::Origins-Pattern {\n  "origin=Debian,codename=bookworm-security";\n};\n',
    );
    await upgrades.apply(settingsOf({ os_auto_upgrade_type: "security" }), signal);
    assertEquals(ran, [], "once is enough");

    await upgrades.apply(settingsOf({ os_auto_upgrade_type: "disable" }), signal);
    assertEquals(ran.splice(0), ["systemctl disable --now apt-daily-upgrade.timer"]);
    assertEquals((await read(AUTO))!.includes('Unattended-Upgrade "0"'), true);
  }));

Deno.test("upgrades of the agent's own wait for the runtime, are repeated, and reboot where that is needed", () =>
  withSystem(async ({ parts, clock, write }) => {
    const world = { allowed: false, rebooted: [] as string[] };
    const upgrades = new OsUpgrades({
      ...parts,
      clock,
      mayInterrupt: () => Promise.resolve(world.allowed),
      reboot: (reason) => Promise.resolve(void world.rebooted.push(reason)),
    });
    const { ran, answers } = parts.commands;
    const settings = settingsOf({
      os_auto_upgrade_type: "managed-all",
      os_managed_upgrade_interval_hours: 2,
    });
    const made = () => ran.splice(0).filter((line) => line.startsWith("apt-get upgrade")).length;
    await upgrades.apply(settings, signal);
    assertEquals(made(), 0);
    world.allowed = true;
    answers["apt-get update"] = { code: 100, output: "no network" };
    await upgrades.apply(settings, signal);
    await upgrades.apply(settings, signal);
    assertEquals(made(), 0);
    answers["apt-get update"] = {};
    await clock.advance(5 * 60_000);
    await upgrades.apply(settings, signal);
    assertEquals(made(), 1);
    await clock.advance(60 * 60_000);
    await upgrades.apply(settings, signal);
    assertEquals(made(), 0);
    await write("/var/run/reboot-required", "");
    await clock.advance(60 * 60_000);
    await upgrades.apply(settings, signal);
    assertEquals([made(), world.rebooted.length], [1, 0]);
    world.allowed = false;
    await upgrades.apply(settings, signal);
    world.allowed = true;
    await upgrades.apply(settings, signal);
    assertEquals(world.rebooted.length, 1);
  }));

Deno.test("another system than Debian is left alone", () =>
  withSystem(async ({ parts, clock, write, messages }) => {
    await write("/etc/os-release", "ID=fedora\nVERSION_ID=41\n");
    const more = { clock, mayInterrupt: () => Promise.resolve(true), reboot: () => Promise.resolve() };
    const upgrades = new OsUpgrades({ ...parts, ...more });
    for (const _ of [1, 2]) await upgrades.apply(settingsOf({ os_auto_upgrade_type: "all" }), signal);
    assertEquals([parts.commands.ran, messages().length], [[], 1]);
  }));
