import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { FakeCommands } from "../../../tests/support/fake_commands.ts";
import { Journald } from "./journald.ts";
import { hasNewerKernel, patternsOf, usesReplaced } from "./upgrades/apt.ts";
import { SystemCommands } from "./commands.ts";
import { type StoredCount, storedCount } from "./stored_count.ts";
import { DenoHost } from "../../base/host_deno.ts";
import { SystemClock } from "../../base/clock.ts";
import { until } from "../../../tests/support/until.ts";
import { familyOf } from "./upgrades/upgrader.ts";
import { OsUpgrades } from "./upgrades/upgrades.ts";
import { decideSettings } from "../settings/settings.ts";
import { SystemFiles } from "../../base/files/system_files.ts";

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
    parts: {
      files: SystemFiles;
      commands: FakeCommands;
      logger: never;
      root: string;
      reboots: StoredCount;
    };
    clock: FakeClock;
    read: (path: string) => Promise<string | undefined>;
    write: (path: string, text: string) => Promise<void>;
    messages: () => string[];
  }) => Promise<void>,
): Promise<void> {
  const root = await Deno.makeTempDir();
  const files = new SystemFiles();
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
      parts: { files, commands, logger, root, reboots: storedCount(files, `${root}/state/upgrade_reboots`) },
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

Deno.test("limits the journal once, and removes the limit again", () =>
  withSystem(async ({ parts, read }) => {
    const journald = new Journald(parts);
    const { ran } = parts.commands;
    await journald.apply(settingsOf({ logging_journald_system_max_use_megabytes: 100 }), signal);
    const [, section, ...lines] = (await read(JOURNAL))!.trim().split("\n");
    assertEquals(
      [section, lines],
      ["[Journal]", ["SystemMaxUse=100M", "RuntimeMaxUse=512M"]],
      "and no storage",
    );
    assertEquals(ran.splice(0), [
      "systemctl is-enabled systemd-journald",
      "systemctl restart systemd-journald",
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

Deno.test("a journald that does not restart is restarted at the next turn", () =>
  withSystem(async ({ parts, messages }) => {
    const journald = new Journald(parts);
    const { answers, ran } = parts.commands;
    answers["systemctl restart"] = { code: 1, output: "timeout" };
    await assertRejects(() => journald.apply(settingsOf({}), signal), SvcError, "timeout");
    delete answers["systemctl restart"];
    await journald.apply(settingsOf({}), signal);
    await journald.apply(settingsOf({}), signal);
    assertEquals(ran.filter((one) => one === "systemctl restart systemd-journald").length, 2);
    assertEquals(messages(), ["the journal is limited"]);
  }));

Deno.test("a journald that an agent did not restart is restarted by the next agent", () =>
  withSystem(async ({ parts }) => {
    const { answers, ran } = parts.commands;
    answers["systemctl restart"] = { code: 1, output: "the agent was killed" };
    await assertRejects(() => new Journald(parts).apply(settingsOf({}), signal), SvcError, "killed");
    delete answers["systemctl restart"];
    ran.length = 0;
    for (const _ of ["the next agent", "the one after it"]) {
      await new Journald(parts).apply(settingsOf({}), signal);
    }
    assertEquals(ran.filter((one) => one !== "systemctl is-enabled systemd-journald"), [
      "systemctl restart systemd-journald",
    ]);
  }));

Deno.test("Journald: sets storage only if logging_journald_storage is set", () =>
  withSystem(async ({ parts, read }) => {
    const settings = settingsOf({
      logging_journald_system_max_use_megabytes: -1,
      logging_journald_runtime_max_use_megabytes: -1,
      logging_journald_storage: "persistent",
    });
    await new Journald(parts).apply(settings, signal);
    assertEquals((await read(JOURNAL))!.trim().split("\n").slice(1), ["[Journal]", "Storage=persistent"]);
    assertEquals(parts.commands.ran.at(-1), "journalctl --flush");
  }));

Deno.test("Journald: logs a system without journald once", () =>
  withSystem(async ({ parts, read, messages }) => {
    parts.commands.answers["systemctl is-enabled"] = { code: 1 };
    const journald = new Journald(parts);
    for (const _ of [1, 2]) await journald.apply(settingsOf({}), signal);
    assertEquals([await read(JOURNAL), messages().length], [undefined, 1]);
  }));

Deno.test("lists the device's repositories in a fixed order", () => {
  assertEquals(patternsOf(POLICY, "all"), [
    "origin=Debian,codename=bookworm",
    "origin=Debian,codename=bookworm-security",
  ]);
  assertEquals(patternsOf(POLICY, "security"), ["origin=Debian,codename=bookworm-security"]);
});

Deno.test("includes custom repositories, and Ubuntu's security archive, whose codename is the release's", () => {
  const policy = `Package files:
 100 /var/lib/dpkg/status
     release a=now
 500 https://download.example.com/linux noble/stable amd64 Packages
     release o=Example, Inc.,a=noble,l=Example CE,c=stable,b=amd64
     origin download.example.com
 500 https://flat.example.org ./ Packages
     release c=
     origin flat.example.org
 500 https://evil.example.net ./ Packages
     release o="; }; DPkg::Pre-Invoke { "reboot,n=x,c=main
     origin evil.example.net
 500 http://security.ubuntu.com/ubuntu noble-security/main amd64 Packages
     release v=24.04,o=Ubuntu,a=noble-security,n=noble,l=Ubuntu,c=main,b=amd64
     origin security.ubuntu.com
 500 http://archive.ubuntu.com/ubuntu noble/main amd64 Packages
     release v=24.04,o=Ubuntu,a=noble,n=noble,l=Ubuntu,c=main,b=amd64
     origin archive.ubuntu.com
Pinned packages:
`;
  assertEquals(patternsOf(policy, "all"), [
    "origin=Example%2C Inc.,archive=noble",
    "origin=Ubuntu,codename=noble",
    "site=evil.example.net",
    "site=flat.example.org",
  ]);
  assertEquals(patternsOf(policy, "security"), ["origin=Ubuntu,archive=noble-security"]);
});

Deno.test("familyOf: recognizes a system by ID and ID_LIKE", () => {
  const systems: [release: string, family: string | undefined][] = [
    ["ID=debian\nVERSION_CODENAME=forky\n", "debian"],
    ["ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n", "debian"],
    ["ID=linuxmint\nID_LIKE='ubuntu debian'\n", "debian"],
    ["ID=raspbian\nID_LIKE=debian\n", "debian"],
    ["ID=fedora\nVERSION_ID=43\n", "fedora"],
    ['ID="rocky"\nID_LIKE="rhel centos fedora"\n', "fedora"],
    ['ID="amzn"\nID_LIKE="fedora"\n', "fedora"],
    ["ID=arch\n", undefined],
    ["ID=alpine\nNAME=debian\n", undefined],
    ["", undefined],
  ];
  for (const [release, family] of systems) assertEquals(familyOf(release), family, release);
});

Deno.test("turns automatic upgrades on and off, and leaves them alone by default", () =>
  withSystem(async ({ parts, clock, read, write, messages }) => {
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

    // The next agent finds them so, and says nothing; nor does it of those that are on already.
    const [on, off] = [
      "automatic upgrades of the system are on: security",
      "automatic upgrades of the system are off",
    ];
    assertEquals(messages(), [on, off]);
    for (const type of ["disable", "security"]) {
      for (let starts = 0; starts < 2; starts++) {
        await new OsUpgrades({ ...parts, ...more }).apply(settingsOf({ os_auto_upgrade_type: type }), signal);
      }
    }
    assertEquals(messages(), [on, off, on]);
  }));

Deno.test("OsUpgrades: without its settings files nothing is turned on or off", () =>
  withSystem(async ({ parts, clock, read }) => {
    const more = { clock, mayInterrupt: () => Promise.resolve(true), reboot: () => Promise.resolve() };
    const { ran } = parts.commands;
    for (const [type, path] of [["disable", AUTO], ["managed-all", AUTO], ["all", AUTO], ["all", ORIGINS]]) {
      const inTheWay = `${parts.root}${path}`;
      await Deno.mkdir(`${inTheWay}/more`, { recursive: true });
      const upgrades = new OsUpgrades({ ...parts, ...more });
      const settings = settingsOf({ os_auto_upgrade_type: type });
      await assertRejects(() => upgrades.apply(settings, signal), Error, path);
      assertEquals(ran.splice(0).filter((line) => line.startsWith("systemctl")), [], `${type} ${path}`);
      // The next pass tries again.
      await Deno.remove(inTheWay, { recursive: true });
      await upgrades.apply(settings, signal);
      assertEquals(ran.splice(0).filter((line) => line.startsWith("systemctl")).length, 1);
      assertEquals((await read(AUTO))!.includes(`Unattended-Upgrade "${type === "all" ? 1 : 0}"`), true);
      await Deno.remove(`${parts.root}/etc/apt`, { recursive: true });
    }
  }));

Deno.test("OsUpgrades: managed upgrades wait for the runtime, repeat, and reboot if needed", () =>
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
    const finishes = "dpkg --force-confdef --force-confold --configure -a";
    const made = () => {
      const lines = ran.splice(0);
      const upgrades = lines.filter((line) => line.startsWith("apt-get upgrade"));
      assertEquals(
        lines.filter((line) => line === finishes).length,
        upgrades.length,
        "first an interrupted one",
      );
      return upgrades.length;
    };
    await upgrades.apply(settings, signal);
    assertEquals(made(), 0);
    world.allowed = true;
    answers["apt-get update"] = { code: 100, output: "no network" };
    // The failure stays in the status until an attempt succeeds.
    for (const _ of [1, 2]) {
      const error = await assertRejects(() => upgrades.apply(settings, signal), SvcError, "in 5 minutes");
      assertStringIncludes(chainOf(error), "apt-get update failed with exit code 100: no network");
    }
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

Deno.test("OsUpgrades: a device whose reboot does not bring what needs it reboots once a day, then ever less", () =>
  withSystem(async ({ parts, clock, write, messages }) => {
    const HOUR_MS = 3600_000;
    const rebootsMs: number[] = [];
    const world = { failing: false };
    const settings = settingsOf({
      os_auto_upgrade_type: "managed-all",
      os_managed_upgrade_interval_hours: 24,
    });
    /** Each start of the device has an agent of its own; only files last. */
    const start = () => {
      const startedMs = clock.monotonicMs();
      return new OsUpgrades({
        ...{ ...parts, reboots: storedCount(parts.files, `${parts.root}/state/upgrade_reboots`), clock },
        mayInterrupt: () => Promise.resolve(true),
        reboot: () => {
          if (world.failing) return Promise.reject(new SvcError("unknown", "an inhibitor"));
          return Promise.resolve(void rebootsMs.push(clock.monotonicMs() - startedMs));
        },
      });
    };
    // GRUB starts a pinned kernel.
    await write("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    await write("/boot/vmlinuz-6.1.0-25-amd64", "");
    const rebootHours = async () => {
      const upgrades = start();
      for (const before = rebootsMs.length; rebootsMs.length === before;) {
        await upgrades.apply(settings, signal);
        await clock.advance(HOUR_MS);
      }
      return Math.round(rebootsMs.at(-1)! / HOUR_MS);
    };
    assertEquals(
      [await rebootHours(), await rebootHours(), await rebootHours(), await rebootHours()],
      [1, 24, 48, 96],
    );
    const upgraded = parts.commands.ran.filter((line) => line.startsWith("apt-get upgrade")).length;
    assertEquals(upgraded >= 7, true, "upgrades go on while the reboot waits");
    assertEquals(messages().filter((line) => line.includes("has not helped")).length >= 3, true);

    // A reboot that does not begin does not count.
    const upgrades = start();
    await upgrades.apply(settings, signal);
    await clock.advance(200 * HOUR_MS);
    world.failing = true;
    await assertRejects(() => upgrades.apply(settings, signal), SvcError, "an inhibitor");
    assertEquals(await Deno.readTextFile(`${parts.root}/state/upgrade_reboots`), "4");
    world.failing = false;

    // Once it has helped, the next upgrade is followed by a reboot at once.
    await write("/proc/sys/kernel/osrelease", "6.1.0-25-amd64\n");
    await start().apply(settings, signal);
    await write("/boot/vmlinuz-6.1.0-30-amd64", "");
    assertEquals(await rebootHours(), 1);
  }));

Deno.test("OsUpgrades: a device that cannot count its reboots does not reboot for an upgrade", () =>
  withSystem(async ({ parts, clock, write }) => {
    const rebooted: string[] = [];
    const full = () => Promise.reject(new SvcError("resource_exhausted", "the disk is full"));
    const upgrades = new OsUpgrades({
      ...{ ...parts, reboots: { get: () => Promise.resolve(0), set: full }, clock },
      mayInterrupt: () => Promise.resolve(true),
      reboot: (reason) => Promise.resolve(void rebooted.push(reason)),
    });
    await write("/var/run/reboot-required", "");
    const settings = settingsOf({ os_auto_upgrade_type: "managed-all" });
    await upgrades.apply(settings, signal);
    await assertRejects(() => upgrades.apply(settings, signal), SvcError, "the disk is full");
    assertEquals(rebooted, []);
  }));

Deno.test("OsUpgrades: a system in memory is not upgraded, because it forgets that at its next start", () =>
  withSystem(async ({ parts, clock, write }) => {
    const more = { clock, mayInterrupt: () => Promise.resolve(true), reboot: () => Promise.resolve() };
    await write("/proc/mounts", "overlay / overlay rw 0 0\n/dev/sda3 /opt/svc ext4 rw 0 0\n");
    await write("/proc/cmdline", "boot=overlay root=PARTUUID=1\n");
    const upgrades = new OsUpgrades({ ...parts, ...more });
    for (const type of ["managed-all", "security"]) {
      const settings = settingsOf({ os_auto_upgrade_type: type });
      await assertRejects(() => upgrades.apply(settings, signal), SvcError, "the system is in memory");
    }
    assertEquals(parts.commands.ran, []);
    await upgrades.apply(settingsOf({ os_auto_upgrade_type: "disable" }), signal);
    // A container's root is an overlay, too, and lasts.
    await write("/proc/cmdline", "root=PARTUUID=1\n");
    await upgrades.apply(settingsOf({ os_auto_upgrade_type: "managed-all" }), signal);
    assertEquals(parts.commands.ran.some((line) => line.startsWith("apt-get upgrade")), true);
  }));

Deno.test("OsUpgrades: type security fails without a security repository, and writes nothing", () =>
  withSystem(async ({ parts, clock, read }) => {
    parts.commands.answers["apt-cache policy"] = { output: POLICY.replaceAll("security", "updates") };
    const more = { clock, mayInterrupt: () => Promise.resolve(true), reboot: () => Promise.resolve() };
    const upgrades = new OsUpgrades({ ...parts, ...more });
    const settings = settingsOf({ os_auto_upgrade_type: "security" });
    await assertRejects(() => upgrades.apply(settings, signal), SvcError, 'whose codename has "security"');
    assertEquals(await read(AUTO), undefined);
    parts.commands.answers["apt-cache policy"] = { output: POLICY };
    await upgrades.apply(settings, signal);
    assertEquals((await read(AUTO))!.includes('Unattended-Upgrade "1"'), true, "the next time it is there");
  }));

Deno.test("upgrades systems like Fedora with dnf-automatic, for every version of dnf", () =>
  withSystem(async ({ parts, clock, read, write }) => {
    await write("/etc/os-release", 'ID="rocky"\nID_LIKE="rhel centos fedora"\n');
    const SETTINGS = "/etc/dnf/automatic.conf";
    const { ran, answers } = parts.commands;
    const rebooted: string[] = [];
    const more = {
      clock,
      mayInterrupt: () => Promise.resolve(true),
      reboot: (reason: string) => Promise.resolve(void rebooted.push(reason)),
    };
    const upgrades = new OsUpgrades({ ...parts, ...more });
    // Nothing of it is installed: neither timer is there.
    answers["systemctl cat"] = { code: 1 };
    await upgrades.apply(settingsOf({ os_auto_upgrade_type: "disable" }), signal);
    assertEquals([ran.splice(0).filter((line) => !line.includes(" cat ")), await read(SETTINGS)], [
      [],
      undefined,
    ]);

    answers["dnf install -y dnf-automatic"] = { code: 1, output: "No match for argument" };
    await upgrades.apply(settingsOf({ os_auto_upgrade_type: "security" }), signal);
    assertEquals(ran.splice(0).filter((line) => !line.includes(" cat ")), [
      "dnf install -y dnf-automatic",
      "dnf install -y dnf5-plugin-automatic",
      "systemctl enable --now dnf-automatic.timer",
    ]);
    const text = (await read(SETTINGS))!;
    assertEquals(["upgrade_type = security", "apply_updates = yes"].every((one) => text.includes(one)), true);

    answers["systemctl cat dnf5-automatic.timer"] = { code: 0 };
    await upgrades.apply(settingsOf({ os_auto_upgrade_type: "all" }), signal);
    assertEquals(ran.splice(0).at(-1), "systemctl enable --now dnf5-automatic.timer");
    assertEquals((await read(SETTINGS))!.includes("upgrade_type = default"), true);
    await upgrades.apply(settingsOf({ os_auto_upgrade_type: "disable" }), signal);
    assertEquals(ran.splice(0).includes("systemctl disable --now dnf5-automatic.timer"), true);
    assertEquals((await read(SETTINGS))!.includes("apply_updates = no"), true);

    answers["dnf needs-restarting -r"] = { code: 1 };
    const managed = settingsOf({ os_auto_upgrade_type: "managed-security" });
    await upgrades.apply(managed, signal);
    assertEquals(ran.includes("dnf upgrade -y --security"), true);
    await upgrades.apply(managed, signal);
    assertEquals(rebooted.length, 1);
  }));

Deno.test("OsUpgrades: an unsupported system is an error and runs no command", () =>
  withSystem(async ({ parts, clock, write }) => {
    await write("/etc/os-release", "ID=arch\n");
    const more = { clock, mayInterrupt: () => Promise.resolve(true), reboot: () => Promise.resolve() };
    const upgrades = new OsUpgrades({ ...parts, ...more });
    for (const type of ["all", "security", "disable", "managed-all"]) {
      const settings = settingsOf({ os_auto_upgrade_type: type });
      await assertRejects(
        () => upgrades.apply(settings, signal),
        SvcError,
        `"${type}" is not applied: found "arch"`,
      );
    }
    await upgrades.apply(settingsOf({}), signal);
    assertEquals(parts.commands.ran, []);
  }));

Deno.test("a reboot is needed for a newer kernel of the running kind, and for replaced libraries of the first process", () => {
  for (
    const [running, names, wanted] of [
      ["6.1.0-18-amd64", ["vmlinuz-6.1.0-18-amd64", "initrd.img-6.1.0-25-amd64"], false],
      ["6.1.0-18-amd64", ["vmlinuz-6.1.0-18-amd64", "vmlinuz-6.1.0-25-amd64"], true],
      ["6.1.0-25-amd64", ["vmlinuz-6.1.0-9-amd64"], false],
      ["6.1.0-18-amd64", ["vmlinuz-6.5.0-1-cloud-amd64"], false],
      ["6.6.31+rpt-rpi-v8", ["vmlinuz-6.6.51+rpt-rpi-2712"], false],
      ["6.6.31+rpt-rpi-v8", ["vmlinuz-6.6.51+rpt-rpi-v8"], true],
      ["6.6.31", ["vmlinuz", "vmlinuz-"], false],
      ["", ["vmlinuz-6.1.0-25-amd64"], false],
    ] as const
  ) assertEquals(hasNewerKernel(running, names), wanted, `${running} ${names}`);
  const maps = "7f00-7f01 r-xp 00000000 08:01 12 ";
  assertEquals(usesReplaced(`${maps}/usr/lib/x86_64-linux-gnu/libc.so.6 (deleted)\n`), true);
  assertEquals(usesReplaced(`${maps}/lib/systemd/libsystemd-shared-252.so (deleted)\n`), true);
  assertEquals(
    usesReplaced(`${maps}/usr/lib/x86_64-linux-gnu/libc.so.6\n${maps}/memfd:x (deleted)\n`),
    false,
  );
});

Deno.test("OsUpgrades: older systems of Fedora's family are upgraded by yum", () =>
  withSystem(async ({ parts, clock, write, read }) => {
    await write("/etc/os-release", 'ID="amzn"\nID_LIKE="centos rhel fedora"\n');
    await write("/usr/bin/yum", "");
    const more = { clock, mayInterrupt: () => Promise.resolve(true), reboot: () => Promise.resolve() };
    const upgrades = new OsUpgrades({ ...parts, ...more });
    const { ran } = parts.commands;
    await upgrades.apply(settingsOf({ os_auto_upgrade_type: "managed-security" }), signal);
    assertEquals(ran.splice(0), ["yum update -y --security", "needs-restarting -r"]);
    await upgrades.apply(settingsOf({ os_auto_upgrade_type: "all" }), signal);
    assertEquals(ran.splice(0), ["yum install -y yum-cron", "systemctl enable --now yum-cron.service"]);
    assertStringIncludes((await read("/etc/yum/yum-cron.conf"))!, "apply_updates = yes");
    await upgrades.apply(settingsOf({ os_auto_upgrade_type: "disable" }), signal);
    assertStringIncludes((await read("/etc/yum/yum-cron.conf"))!, "apply_updates = no");
    // With dnf beside it, dnf it is.
    await write("/usr/bin/dnf", "");
    ran.length = 0;
    await new OsUpgrades({ ...parts, ...more })
      .apply(settingsOf({ os_auto_upgrade_type: "managed-all" }), signal);
    assertEquals(ran.some((line) => line.startsWith("dnf upgrade")), true);
  }));

Deno.test({
  name:
    "SystemCommands: a package manager outlives the end of the agent and of its time, and its output is kept",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const folder = await Deno.makeTempDir();
    const commands = new SystemCommands(new DenoHost(), new SystemClock());
    const outlives = `${folder}/log`;
    const waiting =
      `echo begun; while [ ! -e ${folder}/go ]; do sleep 0.05; done; echo done; : >${folder}/end`;
    const there = (name: string) => Deno.stat(`${folder}/${name}`).then(() => true, () => false);
    for (const how of ["abort", "time"]) {
      const stop = new AbortController();
      const options = { signal: stop.signal, outlives, ...(how === "time" ? { timeoutMs: 200 } : {}) };
      const running = commands.run("sh", ["-c", waiting], options);
      if (how === "abort") {
        await until(() => there("log"));
        stop.abort(new SvcError("canceled", "the agent stops"));
      }
      await assertRejects(() => running, SvcError, "goes on by itself");
      await Deno.writeTextFile(`${folder}/go`, "");
      await until(() => there("end"));
      for (const name of ["go", "end"]) await Deno.remove(`${folder}/${name}`);
    }
    await until(async () => (await Deno.readTextFile(outlives)).includes("done"));
    assertEquals(await commands.run("sh", ["-c", "echo fine"], { outlives }), "fine");
    await assertRejects(
      () => commands.run("sh", ["-c", "echo bad >&2; exit 3"], { outlives }),
      SvcError,
      "code 3: bad",
    );
    const error = await assertRejects(() => commands.run("no-such-program", [], { outlives }), SvcError);
    assertEquals(error.code, "not_found");
    await Deno.remove(folder, { recursive: true });
  },
});
