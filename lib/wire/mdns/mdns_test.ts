import { assert, assertEquals } from "@std/assert";
import type { networkInterfaces } from "node:os";
import { FakeClock, passing } from "../../../tests/support/fake_clock.ts";
import { fakeInterface, FakeLan, FakeMdnsNetwork } from "../../../tests/support/fake_mdns.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { type Announcement, Announcer } from "./announcer.ts";
import { browse, lookUp } from "./browser.ts";
import { decodeDns, encodeDns } from "./dns_message.ts";
import { GROUP, interfacesOf } from "./links.ts";
import { DNS_SD_SERVICE, instancesOf, SERVICES } from "./names.ts";

const ROVER: Announcement = {
  names: ["rover-main.abc.example.com", "rover-main.abc.local.example.com"],
  port: 8080,
  serves: ["grpc", "webrtc"],
};

function bench() {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logs = new Logs(clock, [memorySink(records)]);
  logs.configure([], true);
  const logger = logs.logger("mdns");
  const lan = new FakeLan();
  const loopbacks = new Map<string, FakeLan>();
  const computer = (address: string, ...more: string[]) => {
    const loopback = loopbacks.getOrInsertComputed(address, () => new FakeLan());
    return new FakeMdnsNetwork(
      new Map([[fakeInterface("127.0.0.1"), loopback], [fakeInterface(address, ...more), lan]]),
    );
  };
  const announce = async (announcement: Announcement, network: FakeMdnsNetwork) => {
    const announcer = new Announcer(announcement, { network, clock, logger, random: () => 0 });
    await announcer.open();
    return announcer;
  };
  const find = (network: FakeMdnsNetwork) => passing(clock, 5_000, browse({ network, clock, logger }, 1_500));
  const seek = (network: FakeMdnsNetwork, name: string) =>
    passing(clock, 5_000, lookUp({ network, clock, logger }, name));
  return { clock, records, logger, lan, computer, announce, find, seek };
}

Deno.test("mDNS: a machine is found under its names, with dots and dashes, until it closes", async () => {
  const { clock, computer, announce, find, seek } = bench();
  const [there, here] = [computer("10.0.0.1", "fd00::1"), computer("10.0.0.2")];
  const announcer = await announce(ROVER, there);
  const rover = {
    names: [
      "rover-main.abc.example.com",
      "rover-main.abc.local.example.com",
      "rover-main-abc-example-com",
      "rover-main-abc-local-example-com",
    ],
    addresses: ["10.0.0.1", "fd00::1"],
    port: 8080,
    serves: ["grpc", "webrtc"],
  };
  assertEquals(await find(here), [rover]);
  for (const name of ["rover-main.abc.example.com", "Rover-Main-abc-example-com"]) {
    const found = await seek(here, name);
    assertEquals([found?.port, found?.addresses[0]], [8080, "10.0.0.1"]);
  }
  assertEquals(await seek(here, "nobody.example.com"), undefined);
  // On the computer itself it is reached by its loopback interface, too.
  assertEquals((await find(there))[0].addresses, ["10.0.0.1", "fd00::1", "127.0.0.1"]);
  await announcer.close();
  assertEquals(await find(here), []);
  assertEquals(clock.pending, 0);
});

Deno.test("mDNS: on a network of IPv6 alone a machine is found at its address, or at its link-local one", async () => {
  const { clock, lan, computer, announce, find } = bench();
  const [global, local] = [computer("fe80::1%eth0", "fd00::1", "2001:db8::1"), computer("fe80::2%wlan0")];
  const here = computer("fe80::3%end0");
  const announcers = [
    await announce({ ...ROVER, names: ["a.x"] }, global),
    await announce({ ...ROVER, names: ["b.x"] }, local),
  ];
  // The interface is the finder's own.
  const addresses = (await find(here)).map(({ addresses }) => addresses);
  assertEquals(addresses, [["2001:db8::1", "fd00::1"], ["fe80::2%end0"]]);

  await clock.advance(2_000);
  const [near, elsewhere] = [lan.stranger("fe80::9", 40_000), lan.stranger("2001:db8::9", 40_000)];
  const question = encodeDns({ type: "query", questions: [{ name: `b-x.${DNS_SD_SERVICE}`, type: "SRV" }] });
  near.send(question);
  elsewhere.send(question);
  await clock.advance(0);
  assertEquals([near.heard.length, elsewhere.heard.length], [1, 0]);
  for (const announcer of announcers) await announcer.close();
});

Deno.test("mDNS: an interface is used by IPv4, or by its link-local address where there is none", () => {
  const one = (family: "IPv4" | "IPv6", address: string, netmask: string, internal = false) =>
    ({
      ...{ family, address, netmask, internal, mac: "", cidr: null, scopeid: 0 },
    }) as ReturnType<typeof networkInterfaces>[string] extends (infer A)[] | undefined ? A : never;
  const V6 = "ffff:ffff:ffff:ffff::";
  const found = interfacesOf({
    veth0: [one("IPv6", "fe80::9", V6)],
    lo: [one("IPv4", "127.0.0.1", "255.0.0.0", true), one("IPv6", "::1", V6, true)],
    eth0: [one("IPv6", "fe80::5", V6), one("IPv4", "10.0.0.5", "255.0.0.0"), one("IPv6", "fd00::5", V6)],
    wlan0: [one("IPv6", "fd00::6", V6), one("IPv6", "fe80::6", V6)],
    usb0: [one("IPv6", "fe80::7", V6)],
    tun0: [one("IPv6", "fd00::8", V6)],
  });
  assertEquals(found.map(({ address, addresses, isLoopback }) => [address, addresses, isLoopback]), [
    ["127.0.0.1", ["127.0.0.1"], true],
    ["10.0.0.5", ["10.0.0.5", "fd00::5"], false],
    ["fe80::9%veth0", ["fe80::9"], false],
    ["fe80::6%wlan0", ["fd00::6"], false],
    ["fe80::7%usb0", ["fe80::7"], false],
  ]);
});

Deno.test("mDNS: an answer contains the SRV, TXT and address records of an instance", async () => {
  const { clock, lan, computer, announce } = bench();
  const announcer = await announce({ ...ROVER, names: ["m.x"] }, computer("10.0.0.1"));
  const peer = lan.stranger("10.0.0.9", GROUP.port);
  peer.send(encodeDns({ type: "query", questions: [{ name: DNS_SD_SERVICE, type: "PTR" }] }));
  await clock.advance(200);
  const messages = peer.heard.map((bytes) => decodeDns(bytes)!).filter(({ type }) => type === "response");
  const logged = messages.map(({ answers = [], additionals = [] }) => ({
    answers: answers.map(({ name, data }) => [name, data]),
    more: additionals.map(({ name, type }) => [name, type]),
  }));
  assertEquals(
    logged,
    ["m.x", "m-x"].map((one) => ({
      answers: [[DNS_SD_SERVICE, `${one}.${DNS_SD_SERVICE}`]],
      more: [[`${one}.${DNS_SD_SERVICE}`, "SRV"], [`${one}.${DNS_SD_SERVICE}`, "TXT"], [`${one}.local`, "A"]],
    })),
  );
  await announcer.close();
});

Deno.test("mDNS: a unicast DNS query is answered at its own port, with its question and id", async () => {
  const { clock, lan, computer, announce } = bench();
  const announcer = await announce({ ...ROVER, names: ["m"] }, computer("10.0.0.1"));
  await clock.advance(2_000);
  const asker = lan.stranger("10.0.0.9", 40_000);
  const questions = [{ name: `m.${DNS_SD_SERVICE}`, type: "SRV" }];
  asker.send(encodeDns({ id: 77, type: "query", questions }));
  await clock.advance(0);
  const [{ id, questions: [asked] = [], answers = [], additionals = [] }] = asker.heard.map((one) =>
    decodeDns(one)!
  );
  assertEquals([id, asked.name], [77, `m.${DNS_SD_SERVICE}`]);
  const all = [...answers, ...additionals];
  assert(all.some(({ type, name }) => type === "A" && name === "m.local"));
  assert(all.every(({ ttl, flush }) => ttl! <= 10 && !flush));
  // At most a few times a second.
  for (let n = 0; n < 1_000; n++) asker.send(encodeDns({ id: n, type: "query", questions }));
  await clock.advance(900);
  assertEquals(asker.heard.length, 50);
  await announcer.close();
});

Deno.test("mDNS: known answers are not repeated, and a flood of queries gets few answers", async () => {
  const { clock, lan, computer, announce } = bench();
  const announcer = await announce({ ...ROVER, names: ["m"] }, computer("10.0.0.1"));
  await clock.advance(5_000);
  const peer = lan.stranger("10.0.0.9", GROUP.port);
  const questions = [{ name: DNS_SD_SERVICE, type: "PTR" }];
  const known = { name: DNS_SD_SERVICE, type: "PTR" as const, ttl: 4_000, data: `m.${DNS_SD_SERVICE}` };
  const before = lan.sent;
  peer.send(encodeDns({ type: "query", questions, answers: [known] }));
  await clock.advance(1_000);
  assertEquals(lan.sent - before, 1, "the question alone");
  for (let n = 0; n < 1_000; n++) {
    peer.send(encodeDns({ type: "query", questions: [...questions, { name: SERVICES, type: "PTR" }] }));
    await clock.advance(1);
  }
  const answers = lan.sent - before - 1_001;
  assert(answers >= 4 && answers <= 10, `${answers} answers in a second`);
  await announcer.close();
});

Deno.test("mDNS: a machine bound to an address is announced on that network alone", async () => {
  const { computer, announce, find } = bench();
  const [there, here] = [computer("10.0.0.1", "fd00::1"), computer("10.0.0.2")];
  const local = await announce({ ...ROVER, address: "127.0.0.1" }, there);
  assertEquals(await find(here), []);
  assertEquals((await find(there)).map(({ addresses }) => addresses), [["127.0.0.1"]]);
  await local.close();
  const bound = await announce({ ...ROVER, address: "10.0.0.1" }, there);
  assertEquals((await find(here)).map(({ addresses }) => addresses), [["10.0.0.1"]]);
  await bound.close();
});

Deno.test("mDNS: a network that refuses multicast is logged once and retried", async () => {
  const { clock, records, computer, announce, find } = bench();
  const [there, here] = [computer("10.0.0.1"), computer("10.0.0.2")];
  there.refusing.add("10.0.0.1");
  const announcer = await announce(ROVER, there);
  assertEquals(await find(here), []);
  await clock.advance(60_000);
  assertEquals(records.map(({ message }) => message), [
    "multicast DNS skips a network: multicast at 10.0.0.1: not permitted",
  ]);
  there.refusing.clear();
  await clock.advance(15_000);
  assertEquals((await find(here)).length, 1);
  await announcer.close();
});

Deno.test("mDNS: a network that stays is not joined again, one that goes is left, and one that comes is joined", async () => {
  const { clock, computer, lan, announce, find } = bench();
  const there = computer("10.0.0.1");
  const announcer = await announce(ROVER, there);
  await clock.advance(15_000);
  const [members, sent] = [[...lan.members], lan.sent];
  await clock.advance(60_000);
  assertEquals([...lan.members].map((one, at) => one === members[at]), [true]);
  assertEquals(lan.sent, sent);

  const [[own]] = [...there.lans].filter(([{ address }]) => address === "10.0.0.1");
  there.lans.delete(own);
  await clock.advance(15_000);
  assertEquals(lan.members.size, 0);
  there.lans.set(own, lan);
  await clock.advance(15_000);
  assertEquals((await find(computer("10.0.0.2"))).length, 1);
  await announcer.close();
});

Deno.test("mDNS: ignores malformed messages and messages from other networks", async () => {
  const { clock, lan, computer, announce, find, seek } = bench();
  const [there, here] = [computer("10.0.0.1"), computer("10.0.0.2")];
  const announcer = await announce({ ...ROVER, names: ["m"] }, there);
  const good = encodeDns({ type: "query", questions: [{ name: DNS_SD_SERVICE, type: "PTR" }] });
  const [peer, elsewhere] = [lan.stranger("10.0.0.9", GROUP.port), lan.stranger("192.0.2.9", GROUP.port)];
  await clock.advance(5_000);
  const before = lan.sent;
  elsewhere.send(good);
  let seed = 7;
  const random = () => (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31;
  for (let n = 0; n < 2_000; n++) {
    const bytes = Uint8Array.from(good);
    for (let at = 0; at < 1 + random() * 4; at++) bytes[Math.floor(random() * bytes.length)] = random() * 256;
    peer.send(bytes.subarray(0, random() < 0.3 ? random() * bytes.length : bytes.length));
  }
  await clock.advance(0);
  assert(lan.sent - before < 2_200, `${lan.sent - before} messages`);

  // A network full of lies: the memory is bounded, and impossible machines are dropped.
  const finding = find(here);
  await clock.advance(200);
  const lies = () => {
    for (let n = 0; n < 3_000; n++) lie(n);
  };
  const lie = (n: number) => {
    const name = `liar${n}.${DNS_SD_SERVICE}`;
    peer.send(encodeDns({
      type: "response",
      answers: [
        { name: DNS_SD_SERVICE, type: "PTR", ttl: 100, data: name },
        { name, type: "SRV", ttl: 100, data: { target: `liar${n}.local`, port: 1 } },
        { name, type: "TXT", ttl: 100, data: [n % 2 === 0 ? "grpc" : "other"] },
        { name: `liar${n}.local`, type: "A", ttl: 100, data: "10.0.0.9" },
      ],
    }));
  };
  lies();
  const found = await finding;
  assertEquals(found.map(({ port }) => port).sort((a, b) => a - b).slice(0, 2), [1, 8080]);
  assert(found.find(({ port }) => port === 1)!.names.length <= 2_000);
  const seeking = seek(here, "m");
  lies();
  assertEquals((await seeking)?.port, 8080, "lies do not hide the machine that is looked for");
  await announcer.close();
});

Deno.test("instancesOf: drops names that DNS cannot represent", () => {
  assertEquals(instancesOf(["M.x", "m.x"]), ["m.x", "m-x"]);
  assertEquals(instancesOf(["a..b", "", "x".repeat(64)]), ["a--b"]);
  const long = `${"x".repeat(40)}.${"y".repeat(40)}`;
  assertEquals(instancesOf([long]), [long], "with dashes it is one label, and too long for one");
});
