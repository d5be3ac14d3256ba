/**
 * A small internet in network namespaces: a control plane in the open, and machines behind routers that translate
 * addresses (nftables). All of it is on this computer, and disappears when it is closed.
 *
 * The control plane's namespace is the network in between: it forwards packets, loses some of them if told to, and is
 * where connections are cut.
 */

import type { Needed } from "../support/needing.ts";

export interface Place {
  /** Its network namespace. */
  readonly space: string;
}

export interface Home extends Place {
  /** The address that the outside sees. */
  readonly outside: string;
}

export interface Net {
  readonly cloud: Place & { readonly address: string };
  readonly homes: readonly [Home, Home];
  /** How packets fare, in words. */
  readonly weather: string;
  /** What passes between the homes: everything, nothing that goes from one to the other directly, or nothing at all. */
  pass(what: "all" | "only through the control plane" | "nothing"): Promise<void>;
  /** Packets that were lost by chance since `pass`. */
  lost(): Promise<number>;
  /** Ends it all; nothing may run in it any more. */
  close(): Promise<void>;
}

const CLOUD = "203.0.113.1";
/** Of a thousand packets in each direction. */
const LOST = 10;
/** Of packets from the homes, and how far it varies. */
const [DELAY_MS, SPREAD_MS] = ["40", "10"];

/** Why this process cannot create one here, if it cannot. */
export async function netNeeds(programs: readonly string[] = []): Promise<Needed<true>> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) {
    return { missing: "network namespaces are made by root on Linux" };
  }
  for (const program of ["ip", "nft", "python3", ...programs]) {
    const { success } = await output("sh", ["-c", `command -v ${program}`]);
    if (!success) return { missing: `there is no ${program} here` };
  }
  const space = nameOf("probe");
  try {
    const { success } = await output("ip", ["netns", "add", space]);
    if (!success) return { missing: "the system makes no network namespaces" };
    const rules = await output("ip", ["netns", "exec", space, "nft", "add table ip probe"]);
    return rules.success ? { found: true } : { missing: "the system has no nftables" };
  } finally {
    await output("ip", ["netns", "del", space]);
  }
}

export async function openNet(): Promise<Net> {
  const cloud = nameOf("cloud");
  const spaces: string[] = [];
  const add = async (space: string) => {
    await run("ip", "netns", "add", space);
    spaces.push(space);
    await inSpace(space, "ip", "link", "set", "lo", "up");
  };
  let delay: Deno.ChildProcess | undefined;
  const close = async () => {
    delay?.kill("SIGKILL");
    await delay?.status;
    for (const space of spaces.reverse()) await output("ip", ["netns", "del", space]);
  };
  try {
    await add(cloud);
    await inSpace(cloud, "sysctl", "-qw", "net.ipv4.ip_forward=1");
    const homes = [await home(1, cloud, add), await home(2, cloud, add)] as const;
    await inSpace(
      cloud,
      "nft",
      "add table ip net; add chain ip net between { type filter hook forward priority 0; }; " +
        "add chain ip net to { type filter hook input priority 0; }; " +
        "add chain ip net from { type filter hook output priority 0; }",
    );
    delay = await delayed(cloud);
    const net: Net = {
      cloud: { space: cloud, address: CLOUD },
      homes: [homes[0], homes[1]],
      weather: `${
        LOST / 10
      } % of packets are lost, those from the homes come ${DELAY_MS} ± ${SPREAD_MS} ms later`,
      pass,
      lost,
      close,
    };
    await net.pass("all");
    return net;
  } catch (error) {
    await close();
    throw error;
  }

  async function pass(what: Parameters<Net["pass"]>[0]): Promise<void> {
    const chance = `numgen random mod 1000 < ${LOST} counter drop`;
    const rules: { readonly [W in typeof what]: string } = {
      "all": `add rule ip net between iifname slow ${chance}; add rule ip net to iifname != lo ${chance}`,
      "only through the control plane":
        `add rule ip net between iifname slow drop; add rule ip net to iifname != lo ${chance}`,
      "nothing": "add rule ip net between iifname slow drop; add rule ip net to iifname != lo drop; " +
        "add rule ip net from oifname != lo drop",
    };
    await inSpace(cloud, "nft", `flush table ip net; ${rules[what]}`);
  }

  async function lost(): Promise<number> {
    const { stdout } = await output("ip", ["netns", "exec", cloud, "nft", "list", "table", "ip", "net"]);
    return countedIn(new TextDecoder().decode(stdout));
  }
}

/** The counters of the rules that drop at random. */
function countedIn(rules: string): number {
  const counts = [...rules.matchAll(/counter packets (\d+)/g)].map(([, packets]) => Number(packets));
  return counts.reduce((sum, packets) => sum + packets, 0);
}

/** A network at home: the machine's namespace, and a router that gives all its packets its own address. */
async function home(number: number, cloud: string, add: (space: string) => Promise<void>): Promise<Home> {
  const [machine, router] = [nameOf(`home${number}`), nameOf(`router${number}`)];
  // Both subnets of the outside are for documentation.
  const net = number === 1 ? "203.0.113" : "198.51.100";
  await add(router);
  await add(machine);
  await link(machine, "inside", `192.168.${number}.2/24`, router, "home", `192.168.${number}.1/24`);
  await link(router, "outside", `${net}.2/24`, cloud, `to${number}`, `${net}.1/24`);
  await inSpace(machine, "ip", "route", "add", "default", "via", `192.168.${number}.1`);
  await inSpace(router, "ip", "route", "add", "default", "via", `${net}.1`);
  await inSpace(router, "sysctl", "-qw", "net.ipv4.ip_forward=1");
  // Unrequested packets do not enter, not even to the router itself: its connection tracking would block later packets
  // to the same place.
  await inSpace(
    router,
    "nft",
    "add table ip nat; " +
      "add chain ip nat out { type nat hook postrouting priority 100; }; add rule ip nat out oifname outside masquerade; " +
      "add chain ip nat through { type filter hook forward priority 0; }; " +
      "add rule ip nat through iifname outside ct state new drop; " +
      "add chain ip nat to { type filter hook input priority 0; }; " +
      "add rule ip nat to iifname outside ct state new drop",
  );
  return { space: machine, outside: `${net}.2` };
}

async function link(a: string, nameA: string, addressA: string, b: string, nameB: string, addressB: string) {
  await run("ip", "link", "add", nameA, "netns", a, "type", "veth", "peer", "name", nameB, "netns", b);
  for (const [space, name, address] of [[a, nameA, addressA], [b, nameB, addressB]]) {
    await inSpace(space, "ip", "address", "add", address, "dev", name);
    await inSpace(space, "ip", "link", "set", name, "up");
  }
}

/**
 * Delays what comes from the homes, without a kernel that has netem: it is routed through a device that a program
 * answers.
 */
async function delayed(cloud: string): Promise<Deno.ChildProcess> {
  const script = new URL("delay.py", import.meta.url).pathname;
  const [program, args] = commandIn({ space: cloud }, "python3", [script, "slow", DELAY_MS, SPREAD_MS]);
  const child = new Deno.Command(program, { args, stdin: "null", stdout: "piped", stderr: "inherit" })
    .spawn();
  for await (const _ of child.stdout) break;
  await inSpace(cloud, "ip", "link", "set", "slow", "up");
  // A packet for a known socket would not be forwarded, and one that comes back not from its sender's side be dropped.
  await inSpace(cloud, "sysctl", "-qw", "net.ipv4.ip_early_demux=0");
  for (const name of ["all", "slow"]) {
    await inSpace(cloud, "sysctl", "-qw", `net.ipv4.conf.${name}.rp_filter=0`);
  }
  await inSpace(cloud, "ip", "route", "add", "default", "dev", "slow", "table", "100");
  // Before the table of local addresses, so that what is for the control plane itself is delayed, too.
  await inSpace(cloud, "ip", "rule", "add", "pref", "1", "lookup", "local");
  await inSpace(cloud, "ip", "rule", "del", "pref", "0");
  await inSpace(cloud, "ip", "rule", "add", "pref", "0", "fwmark", "1", "lookup", "100");
  // By a mark, which packets have and questions for hardware addresses have not: those find nobody behind the device.
  await inSpace(
    cloud,
    "nft",
    "add table ip slow; add chain ip slow in { type filter hook prerouting priority -150; }; " +
      "add rule ip slow in iifname { to1, to2 } meta mark set 1",
  );
  return child;
}

/** What runs in a place. */
export function commandIn({ space }: Place, program: string, args: readonly string[]): [string, string[]] {
  return ["ip", ["netns", "exec", space, program, ...args]];
}

function nameOf(what: string): string {
  return `svc-${Deno.pid}-${what}`;
}

function inSpace(space: string, ...command: string[]): Promise<void> {
  return run("ip", "netns", "exec", space, ...command);
}

async function run(program: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await output(program, args);
  if (!success) throw new Error(`${program} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}

async function output(program: string, args: string[]): Promise<Deno.CommandOutput> {
  try {
    return await new Deno.Command(program, { args, stdin: "null", stdout: "piped", stderr: "piped" })
      .output();
  } catch (error) {
    const stderr = new TextEncoder().encode(String(error));
    return { success: false, code: 127, signal: null, stdout: new Uint8Array(), stderr };
  }
}
