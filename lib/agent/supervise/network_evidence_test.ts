import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeCommands } from "../../../tests/support/fake_commands.ts";
import { FakeFiles } from "../../../tests/support/fake_files.ts";
import {
  gatewaysOf,
  nameServersOf,
  neighboursOf,
  NetworkEvidence,
  windowsGatewaysOf,
  windowsNeighboursOf,
} from "./network_evidence.ts";

const ROUTES = `Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
ppp0\t00000000\t00000000\t0001\t0\t0\t700\t00000000\t0\t0\t0
wlan0\t0001A8C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0
`;
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

/** A device on whose network some hosts answer a connection, and others their hardware address only. */
async function evidenceOf(
  { os = "linux", answering = [] as string[], arp = "", windowsArp = "" },
): Promise<string | undefined> {
  const files = new FakeFiles();
  for (
    const [path, text] of [
      ["/proc/net/route", ROUTES],
      ["/proc/net/arp", arp],
      ["/etc/resolv.conf", "nameserver 127.0.0.53\nnameserver 9.9.9.9\n"],
    ]
  ) await files.writeFile(path, text);
  const commands = new FakeCommands({
    "route print": { output: WINDOWS_ROUTES },
    "arp -a": { output: windowsArp },
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

Deno.test("NetworkEvidence: Windows tells its gateways and neighbours by its programs, in any language", async () => {
  assertEquals(await evidenceOf({ os: "windows" }), undefined);
  assertEquals(await evidenceOf({ os: "windows", answering: ["192.168.7.1"] }), "192.168.7.1");
  assertEquals(await evidenceOf({ os: "windows", windowsArp: WINDOWS_ARP }), "192.168.7.1");
});

Deno.test("the tables of routes, neighbours and name servers are read; broken ones name nobody", () => {
  assertEquals(gatewaysOf(ROUTES), ["192.168.1.1"]);
  assertEquals(neighboursOf(ARP), ["192.168.1.1"]);
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
