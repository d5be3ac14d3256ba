import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeCommands } from "../../../tests/support/fake_commands.ts";
import { FakeFiles } from "../../../tests/support/fake_files.ts";
import {
  gateways6Of,
  gatewaysOf,
  nameServersOf,
  neighbours6Of,
  neighboursOf,
  NetworkEvidence,
  windowsGateways6Of,
  windowsGatewaysOf,
  windowsNeighboursOf,
} from "./network_evidence.ts";

const ROUTES = `Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
ppp0\t00000000\t00000000\t0001\t0\t0\t700\t00000000\t0\t0\t0
wlan0\t0001A8C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0
`;
/** No address. */
const Z = "0".repeat(32);
const ARP = `IP address       HW type     Flags       HW address            Mask     Device
192.168.1.1      0x1         0x2         a0:b1:c2:d3:e4:f5     *        wlan0
192.168.1.9      0x1         0x0         00:00:00:00:00:00     *        wlan0
`;
/** German, as the console of Windows prints it. */
const WINDOWS_ROUTES = `IPv4-Routentabelle
     Netzwerkziel    Netzwerkmaske          Gateway    Schnittstelle Metrik
          0.0.0.0          0.0.0.0      192.168.7.1     192.168.7.20     25
        127.0.0.0        255.0.0.0   Auf Verbindung         127.0.0.1    331
`;
const WINDOWS_ARP = `Schnittstelle: 192.168.7.20 --- 0x5
  Internetadresse       Physische Adresse     Typ
  192.168.7.1           a0-b1-c2-d3-e4-f5     dynamisch
  192.168.7.255         ff-ff-ff-ff-ff-ff     statisch
  224.0.0.22            01-00-5e-00-00-16     statisch
`;

const NONE: readonly (readonly [string, string])[] = [];

/** A device on whose network some hosts answer a connection, and others their hardware address only. */
async function evidenceOf(
  { os = "linux", answering = [] as string[], arp = "", windowsArp = "", six = "", more = NONE },
): Promise<string | undefined> {
  const files = new FakeFiles();
  for (
    const [path, text] of [
      ["/proc/net/route", ROUTES],
      ["/proc/net/arp", arp],
      ["/etc/resolv.conf", "nameserver 127.0.0.53\nnameserver 9.9.9.9\n"],
      ...more,
    ] as const
  ) await files.writeFile(path, text);
  const commands = new FakeCommands({
    "route print": { output: WINDOWS_ROUTES },
    "arp -a": { output: windowsArp },
    "ip -6": { output: six },
  });
  const asked: string[] = [];
  const check = new NetworkEvidence({
    ...{ os, host: files, commands, clock: new FakeClock() },
    cloud: { host: "cloud.example", port: 443 },
    answers: ({ host }) => {
      asked.push(host);
      return Promise.resolve(answering.includes(host));
    },
  });
  const found = await check.find(new AbortController().signal);
  assertEquals(asked[0], "cloud.example");
  return found;
}

Deno.test("NetworkEvidence: any host that answers shows that the network works", async () => {
  assertEquals(await evidenceOf({}), undefined);
  for (const host of ["cloud.example", "9.9.9.9", "192.168.1.1"]) {
    assertEquals(await evidenceOf({ answering: [host] }), host);
  }
  // The local server of names is no other host.
  assertEquals(await evidenceOf({ answering: ["127.0.0.53"] }), undefined);
});

Deno.test("NetworkEvidence: a gateway that drops every packet is there if its hardware address is known", async () => {
  assertEquals(await evidenceOf({ arp: ARP }), "192.168.1.1");
  assertEquals(await evidenceOf({ arp: ARP.replace("0x2", "0x0") }), undefined);
});

/** Containers at a bridge of their own, and hosts at a bridge to which a network card belongs. */
const INNER_ARP = `${
  ARP.replace("0x2", "0x0")
}172.17.0.2       0x1         0x2         02:42:ac:11:00:02     *        docker0
`;
const BRIDGES: readonly (readonly [string, string])[] = [
  ["/sys/class/net/docker0/bridge/bridge_id", "8000"],
  ["/sys/class/net/docker0/lower_veth1/type", "1"],
  ["/sys/class/net/veth1/upper_docker0/type", "1"],
  ["/sys/class/net/br0/bridge/bridge_id", "8000"],
  ["/sys/class/net/br0/lower_veth2/type", "1"],
  ["/sys/class/net/br0/lower_bond0/type", "1"],
  ["/sys/class/net/bond0/lower_eth0/type", "1"],
  ["/sys/class/net/eth0/device/vendor", "0x8086"],
  ["/sys/class/net/wlan0/device/vendor", "0x8086"],
];

Deno.test("NetworkEvidence: a container of the device is no sign of a network, and a host behind its bridge is", async () => {
  assertEquals(await evidenceOf({ arp: INNER_ARP, answering: ["172.17.0.2"], more: BRIDGES }), undefined);
  const outer = INNER_ARP.replace("docker0", "br0");
  assertEquals(await evidenceOf({ arp: outer, answering: ["172.17.0.2"], more: BRIDGES }), "172.17.0.2");
  assertEquals(await evidenceOf({ arp: outer, more: BRIDGES }), "172.17.0.2", "by its hardware address");
  // A computer within a container has no hardware at all, and no bridge.
  assertEquals(await evidenceOf({ arp: ARP }), "192.168.1.1");

  const six = "fd77::7 dev docker0 lladdr 4e:2d:a7:82:28:47 REACHABLE\n";
  assertEquals(await evidenceOf({ six, answering: ["fd77::7"], more: BRIDGES }), undefined);
  assertEquals(
    await evidenceOf({ six: six.replace("docker0", "br0"), answering: ["fd77::7"], more: BRIDGES }),
    "fd77::7",
  );
});

Deno.test("NetworkEvidence: Windows tells its gateways and neighbours by its programs, in any language", async () => {
  assertEquals(await evidenceOf({ os: "windows" }), undefined);
  assertEquals(await evidenceOf({ os: "windows", answering: ["192.168.7.1"] }), "192.168.7.1");
  assertEquals(await evidenceOf({ os: "windows", windowsArp: WINDOWS_ARP }), "192.168.7.1");
});

Deno.test("the tables of routes, neighbours and name servers are read; broken ones name nobody", () => {
  assertEquals(gatewaysOf(ROUTES), ["192.168.1.1"]);
  assertEquals(neighboursOf(ARP), [{ address: "192.168.1.1", device: "wlan0" }]);
  assertEquals(windowsGatewaysOf(WINDOWS_ROUTES), ["192.168.7.1"]);
  assertEquals(windowsNeighboursOf(WINDOWS_ARP), ["192.168.7.1"]);
  assertEquals(
    nameServersOf("nameserver 127.0.0.53\n nameserver 1.1.1.1\n# nameserver 2.2.2.2\nnameserver ::1\n"),
    [
      "1.1.1.1",
    ],
  );
  for (const broken of ["", "\n\n", "x", "Iface\n\t\t\t\n", "a b\n0 00000000 zz"]) {
    assertEquals([gatewaysOf(broken), neighboursOf(broken), nameServersOf(broken)], [[], [], []]);
  }
});

/** As the kernel of a computer with IPv6 alone writes it. */
const ROUTES_6 =
  `fd770000000000000000000000000000 40 ${Z} 00 ${Z} 00000100 00000001 00000000 00000001     wlan0
${Z} 00 ${Z} 00 fe800000000000004c2da7fffe822846 00000400 00000003 00000000 00000003    wlan0
${Z} 00 ${Z} 00 fd770000000000000000000000000001 00000401 00000003 00000000 00000003    wlan0
${Z} 00 ${Z} 00 ${Z} ffffffff 00000001 00000000 00200200       lo
`;
const NEIGHBOURS_6 = `fe80::4c2d:a7ff:fe82:2846 dev wlan0 lladdr 4e:2d:a7:82:28:46 router STALE
fd77::9 dev wlan0 FAILED
fd77::8 dev wlan0  INCOMPLETE
fd77::7 dev wlan0 lladdr 4e:2d:a7:82:28:47 REACHABLE
fd77::6 dev wlan0 lladdr 4e:2d:a7:82:28:48 used 0/0/0 probes 3 FAILED
`;
const WINDOWS_ROUTES_6 = ` If Metric Network Destination      Gateway
 12    281 ::/0                     fe80::1
  1    331 ::1/128                  On-link
`;
const WINDOWS_NEIGHBOURS_6 = `Internet Address                              Physical Address   Type
--------------------------------------------  -----------------  -----------
fe80::1                                       a0-b1-c2-d3-e4-f5  Reachable (Router)
fe80::2                                       00-00-00-00-00-00  Unreachable
ff02::1                                       33-33-00-00-00-01  Permanent
`;

Deno.test("NetworkEvidence: a network with IPv6 alone has gateways, neighbours and name servers of one link", async () => {
  const [router, windows] = ["fe80::4c2d:a7ff:fe82:2846%wlan0", "fe80::1%12"];
  assertEquals(gateways6Of(ROUTES_6), [router, "fd77::1"]);
  assertEquals(neighbours6Of(NEIGHBOURS_6).map(({ address }) => address), [router, "fd77::7"]);
  assertEquals(windowsGateways6Of(WINDOWS_ROUTES_6), [windows]);
  assertEquals(windowsNeighboursOf(WINDOWS_NEIGHBOURS_6), ["fe80::1"]);
  assertEquals(nameServersOf("nameserver fe80::1%wlan0\nnameserver fd77::53\n"), [
    "fe80::1%wlan0",
    "fd77::53",
  ]);
  for (const broken of ["", "x", `${Z} 00 ${Z} 00 zz 0 0 0 3 x\n`, "1:2:3 dev x lladdr y STALE\n", "::"]) {
    assertEquals([...gateways6Of(broken), ...neighbours6Of(broken), ...windowsGateways6Of(broken)], []);
  }
  const find = async (answering: readonly string[], neighbours: string) => {
    const files = new FakeFiles();
    await files.writeFile("/proc/net/ipv6_route", ROUTES_6);
    const check = new NetworkEvidence({
      ...{ os: "linux", host: files, clock: new FakeClock(), cloud: { host: "cloud.example", port: 443 } },
      commands: new FakeCommands({ "ip -6 neighbour show": { output: neighbours } }),
      answers: ({ host }) => Promise.resolve(answering.includes(host)),
    });
    return await check.find(new AbortController().signal);
  };
  assertEquals(await find([router], ""), router);
  assertEquals(await find([], NEIGHBOURS_6), router);
  assertEquals(await find([], NEIGHBOURS_6.replaceAll(/lladdr \S+/g, "")), undefined);
});
