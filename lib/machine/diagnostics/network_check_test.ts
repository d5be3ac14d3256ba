import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import {
  type CheckNetwork,
  checkNetwork,
  type Finding,
  formatReport,
  isOffline,
  readPing,
  tellNetwork,
} from "./network_check.ts";
import { readGateway } from "./system_network.ts";

const PINGED = `10 packets transmitted, 10 received, 0% packet loss, time 9012ms
rtt min/avg/max/mdev = 1.158/2.513/4.026/0.210 ms`;

/** A server's answer to a request that it receives from `192.0.2.1` and `port`. */
function answerTo(request: Uint8Array, port: number): Uint8Array {
  const bytes = new Uint8Array(32);
  bytes.set(request);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, 0x0101);
  view.setUint16(2, 12);
  view.setUint16(20, 0x0001);
  view.setUint16(22, 8);
  view.setUint8(25, 1);
  view.setUint16(26, port);
  bytes.set([192, 0, 2, 1], 28);
  return bytes;
}

/** A network in which everything works; `portOf` is how the router shows the socket to a server. */
function goodNetwork(portOf: (host: string) => number = () => 4000): CheckNetwork & { open: number } {
  const network = {
    open: 0,
    resolve: () => Promise.resolve(["203.0.113.7"]),
    tcp: (host: string, _port: number, _signal: AbortSignal, request?: Uint8Array) =>
      Promise.resolve(request ? answerTo(request, portOf(host)) : new Uint8Array()),
    udp: (received: (bytes: Uint8Array) => void) => {
      network.open++;
      return Promise.resolve({
        send: (host: string, _port: number, bytes: Uint8Array) => {
          received(answerTo(bytes, portOf(host)));
          return Promise.resolve();
        },
        close: () => void network.open--,
      });
    },
    gateway: () => Promise.resolve("192.0.2.254"),
    ping: () => Promise.resolve(PINGED),
  };
  return network;
}

/** The findings of a check that may take its whole time. */
async function findingsOf(network: CheckNetwork, appAddress?: string): Promise<Finding[]> {
  const clock = new FakeClock();
  const findings = checkNetwork({ network, clock, appAddress });
  await clock.advance(30_000);
  assertEquals(clock.pending, 0);
  return await findings;
}

async function reportOf(network: CheckNetwork, appAddress?: string): Promise<string> {
  return formatReport(await findingsOf(network, appAddress));
}

Deno.test("a working network: each check with its result, and no complaint", async () => {
  const network = goodNetwork();
  assertEquals(
    await reportOf(network, "https://app.example.com"),
    `DNS
  ok           app.example.com              203.0.113.7 (0 ms)
  ok           global.stun.twilio.com       203.0.113.7 (0 ms)
  ok           stun.cloudflare.com          203.0.113.7 (0 ms)
  ok           stun.l.google.com            203.0.113.7 (0 ms)

UDP
  ok           global.stun.twilio.com:3478  sees this machine as 192.0.2.1:4000 (0 ms)
  ok           stun.cloudflare.com:3478     sees this machine as 192.0.2.1:4000 (0 ms)
  ok           stun.l.google.com:19302      sees this machine as 192.0.2.1:4000 (0 ms)

TCP
  ok           app.example.com:443          connected (0 ms)
  ok           global.stun.twilio.com:3478  sees this machine as 192.0.2.1:4000 (0 ms)
  ok           stun.cloudflare.com:3478     sees this machine as 192.0.2.1:4000 (0 ms)

Packet loss
  ok           gateway 192.0.2.254          10 of 10 came back, after 2.513 ms on average
  ok           1.1.1.1                      10 of 10 came back, after 2.513 ms on average

Result
  Every possible check succeeded.
`,
  );
  assertEquals(network.open, 0);
});

Deno.test("checkNetwork: reports a hard NAT when STUN servers see different ports", async () => {
  const report = await reportOf(goodNetwork((host) => 4000 + host.length));
  assertStringIncludes(report, "(192.0.2.1:4022, 192.0.2.1:4019, 192.0.2.1:4017): a hard NAT");
  assertMatch(report, /not checked +control plane +the configuration names none/);
});

Deno.test("checkNetwork: without a network, the report gives a reason for each check that was not made", async () => {
  const offline = () => Promise.reject(new SvcError("not_found", "the name cannot be resolved"));
  const findings = await findingsOf({
    resolve: offline,
    tcp: offline,
    udp: () => Promise.resolve({ send: offline, close: () => {} }),
    gateway: () => Promise.reject(new SvcError("unavailable", "this machine has no default route")),
    ping: () => Promise.reject(new SvcError("unavailable", "there is no ping program on this machine")),
  }, "http://10.0.0.1:8080");
  const report = formatReport(findings);
  assertEquals(isOffline(findings), true);
  assertEquals(isOffline(await findingsOf(goodNetwork())), false);
  assertEquals(report.match(/FAILED/g)?.length, 4 + 3 + 3);
  assertMatch(report, /not checked +gateway +this machine has no default route/);
  assertMatch(report, /not checked +1\.1\.1\.1 +there is no ping program on this machine/);
  assertStringIncludes(report, "Nothing outside this machine answers");
});

Deno.test("checkNetwork: each check without an answer fails at its deadline", async () => {
  const never = () => new Promise<never>(() => {});
  const sent: string[] = [];
  const report = await reportOf({
    resolve: never,
    tcp: never,
    udp: () =>
      Promise.resolve({
        send: (host) => {
          sent.push(host);
          return Promise.resolve();
        },
        close: () => {},
      }),
    gateway: () => Promise.resolve("192.0.2.254"),
    ping: never,
  });
  assertEquals(report.match(/FAILED .* no answer within 5 s/g)?.length, 3 + 3 + 2);
  assertEquals(report.match(/FAILED .* no answer within 25 s/g)?.length, 2);
  // A datagram may get lost, so each is sent several times.
  assertEquals(sent.length, 3 * 4);
});

Deno.test("checkNetwork: lost pings and an answer that is not STUN are failures", async () => {
  const network: CheckNetwork = {
    ...goodNetwork(),
    tcp: () => Promise.resolve(new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n")),
    ping: () => Promise.resolve("10 packets transmitted, 7 received, 30% packet loss, time 9012ms"),
  };
  const report = await reportOf(network);
  assertMatch(report, /FAILED +gateway 192\.0\.2\.254 +7 of 10 came back/);
  assertMatch(report, /FAILED +stun\.cloudflare\.com:3478 +it connects, but its answer is not STUN/);
  assertStringIncludes(report, "4 of 11 checks failed.");
});

Deno.test("readPing: reads the summaries of iputils, BusyBox and Windows ping", () => {
  assertEquals(readPing(PINGED), { sent: 10, received: 10, averageMs: 2.513 });
  const busybox =
    "10 packets transmitted, 9 packets received, 10% packet loss\nround-trip min/avg/max = 1.1/2.2/3.3 ms";
  assertEquals(readPing(busybox), { sent: 10, received: 9, averageMs: 2.2 });
  const windows =
    "Packets: Sent = 4, Received = 3, Lost = 1 (25% loss),\r\nApproximate round trip times in " +
    "milli-seconds:\r\n    Minimum = 12ms, Maximum = 17ms, Average = 14ms";
  assertEquals(readPing(windows), { sent: 4, received: 3, averageMs: 14 });
  assertEquals(readPing("something else"), undefined);
});

Deno.test("readGateway: returns the gateway of the default route", () => {
  const routes = `Iface\tDestination\tGateway \tFlags
eth0\t000200C0\t00000000\t0001
eth0\t00000000\tFE0200C0\t0003
`;
  assertEquals(readGateway(routes), "192.0.2.254");
  assertEquals(readGateway("Iface\tDestination\tGateway\n"), undefined);
  for (const odd of ["", "0", "0102A8C", "0102A8C0FF", "gateway!"]) {
    assertEquals(readGateway(`Iface\tDestination\tGateway\neth0\t00000000\t${odd}`), undefined, odd);
  }
});

Deno.test("tellNetwork: logs the result in a single line, and nothing when it is aborted", async () => {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logs = new Logs(clock, [memorySink(records)]);
  const logger = logs.logger("rdk.network-checks");
  const logged = async (network: CheckNetwork, signal?: AbortSignal, forMs = 30_000) => {
    const telling = tellNetwork({ network, clock, signal }, logger);
    await clock.advance(forMs);
    await telling;
    return records.splice(0).map(({ level, message, fields }) => ({ level, message, fields }));
  };
  const message = "network checks: Every possible check succeeded.";
  assertEquals(await logged(goodNetwork()), [{ level: "info", message, fields: {} }]);
  const lossy = { ...goodNetwork(), resolve: () => Promise.reject(new SvcError("not_found", "no DNS")) };
  const [line, ...more] = await logged(lossy);
  assertStringIncludes(line.message, "network checks: Names cannot be resolved");
  assertEquals(more, [], "each failed check is for the debug log");
  logs.configure([], true);
  const [, failed] = await logged(lossy);
  assertEquals(failed.message, "network check failed: DNS global.stun.twilio.com: no DNS");
  logs.configure([], false);
  const over = new AbortController();
  const telling = logged({ ...goodNetwork(), ping: () => new Promise(() => {}) }, over.signal, 1_000);
  over.abort(new SvcError("canceled", "the program ends"));
  assertEquals([await telling, clock.pending], [[], 0]);
});
