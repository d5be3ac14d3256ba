import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { forwardedBy } from "../../wire/rpc/proxies.ts";
import type { Peer } from "../../wire/rpc/service.ts";
import { Addresses, checkedAddress, powershellQuoted } from "./addresses.ts";

const HOSTILE = [
  "http://$(touch pwned)",
  "http://$(reboot):8090",
  "http://`id`",
  "http://a';id;'",
  'http://a";id;"',
  "http://a\nid\n",
  "http://a\r\nX: y",
  "http://a;id",
  "http://a&id",
  "http://a|id",
  "http://${IFS}",
  "http://a b",
  "http://user:password@a",
  "http://a/?x=$(id)",
  "http://a/#x",
  "http://a/$(id)",
  "http://a\u2019;id",
  "http://a@b",
  "http://a\\b",
  "javascript:alert(1)",
  `http://${"a".repeat(600)}`,
  "http://",
  "",
];

function from(origin: string, localAddress = "192.0.2.7"): Peer {
  return { kind: "grpc", origin, localAddress };
}

Deno.test("Addresses.ownFor: without a public address accepts only this computer's own addresses", async () => {
  const addresses = new Addresses([], "Tower");
  const own = [
    "http://localhost:8090",
    "http://127.0.0.1:8090",
    "https://[::1]:8090",
    "http://tower:8090",
    "http://192.0.2.7:8090",
    "http://192.0.2.7",
  ];
  for (const origin of own) assertEquals(await addresses.ownFor(from(origin)), origin);
  // Another port of this computer may be another user's program.
  const at = (origin: string) => ({ ...from(origin), localPort: 8090 });
  assertEquals(await addresses.ownFor(at("http://localhost:8090")), "http://localhost:8090");
  for (const origin of ["http://localhost:8091", "http://192.0.2.7", "https://tower"]) {
    await assertRejects(() => addresses.ownFor(at(origin)), SvcError, "--public-url");
  }
  assertEquals(await addresses.ownFor(from("http://192.0.2.7:1", "::ffff:192.0.2.7")), "http://192.0.2.7:1");
  const strange = [
    "http://evil.example",
    "http://192.0.2.8",
    "http://localhost.evil.example",
    "http://127.1.evil",
  ];
  for (const origin of [...strange, ...HOSTILE]) {
    const error = await assertRejects(() => addresses.ownFor(from(origin)), SvcError, "--public-url");
    assertEquals([error.code, error.message.includes("evil")], ["failed_precondition", false]);
  }
});

Deno.test("Addresses: with public addresses ignores any other origin of the caller", async () => {
  const addresses = new Addresses(["https://cloud.example.com/", "http://10.0.0.5:8090"], "tower");
  assertEquals(addresses.main, "https://cloud.example.com");
  for (const origin of [...HOSTILE, "http://evil.example", "http://localhost:8090"]) {
    assertEquals(await addresses.ownFor(from(origin)), "https://cloud.example.com", origin);
    assertEquals(await addresses.linkFor(from(origin)), "https://cloud.example.com", origin);
  }
  assertEquals(await addresses.ownFor(from("http://10.0.0.5:8090")), "http://10.0.0.5:8090");
});

Deno.test("Addresses.linkFor: returns the caller's own address if it is valid", async () => {
  const addresses = new Addresses();
  assertEquals(await addresses.linkFor(from("http://cloud.lan:8090")), "http://cloud.lan:8090");
  for (const origin of HOSTILE) {
    const error = await assertRejects(() => addresses.linkFor(from(origin)), SvcError);
    assertEquals(error.code, "failed_precondition", origin);
  }
});

Deno.test("checkedAddress: accepts a plain public address and refuses others with --public-url", () => {
  const good = {
    "https://Cloud.Example.com/": "https://cloud.example.com",
    "HTTPS://cloud.example.com///": "https://cloud.example.com",
    "  http://h:1 ": "http://h:1",
  };
  for (const [given, wanted] of Object.entries(good)) assertEquals(checkedAddress(given), wanted);
  for (const text of [...HOSTILE, "http://h:1/a/b", "https://cloud.example.com/svc", "cloud.example.com"]) {
    assertThrows(() => checkedAddress(text), SvcError, "--public-url");
  }
  const error = assertThrows(() => checkedAddress("https://user:hunter2@cloud.example.com"), SvcError);
  assertEquals(error.message.includes("hunter2"), false);
});

Deno.test("Addresses.linkFor: no name that only a proxy knows, and no missing name, gets into a link", async () => {
  const addresses = new Addresses();
  const at = (origin: string) => ({ ...from(origin), localPort: 8090 });
  for (
    const origin of ["http://undefined", "http://svc_cloud", "http://backend", "http://svc_cloud:8090", ""]
  ) {
    const error = await assertRejects(() => addresses.linkFor(at(origin)), SvcError, "--public-url");
    assertEquals(error.code, "failed_precondition");
    assertEquals(await new Addresses(["https://c.example"]).linkFor(at(origin)), "https://c.example");
  }
  for (
    const origin of ["http://tower:8090", "http://tower:9000", "https://cloud.lan", "http://localhost:9000"]
  ) {
    assertEquals(await addresses.linkFor(at(origin)), origin);
  }
});

Deno.test("Addresses.linkFor: a proxy's own way to this server gets into no link", async () => {
  const addresses = new Addresses();
  const proxied = {
    ...from("http://127.0.0.1:8090", "127.0.0.1"),
    remoteAddress: "127.0.0.1",
    localPort: 8090,
  };
  const by = (addressed: string) => addresses.linkFor({ ...proxied, addressed });
  assertEquals(await by("https://cloud.example.com"), "https://cloud.example.com");
  assertEquals(await by("https://cloud.example.com:8443"), "https://cloud.example.com:8443");
  // A program on this computer itself, and one that does not say how it came here.
  assertEquals(await by("http://localhost:8090"), "http://127.0.0.1:8090");
  assertEquals(await addresses.linkFor(proxied), "http://127.0.0.1:8090");
  // With a trusted proxy the caller is known to be elsewhere.
  const elsewhere = { ...proxied, remoteAddress: "203.0.113.9" };
  for (const origin of ["http://127.0.0.1:8090", "http://localhost:8090", "http://[::1]:8090"]) {
    await assertRejects(() => addresses.linkFor({ ...elsewhere, origin }), SvcError, "--public-url");
  }
  for (const addressed of HOSTILE) {
    await assertRejects(() => addresses.linkFor({ ...elsewhere, addressed }), SvcError, "--public-url");
  }
  assertEquals(
    await addresses.linkFor({ ...from("http://svc_cloud"), addressed: "http://c.lan" }),
    "http://c.lan",
  );
});

Deno.test("Addresses: a silent proxy on this computer is known by its end of the connection", async () => {
  const asked: number[] = [];
  const isLoopbackProxy = ({ other }: { other: { port: number } }) => {
    asked.push(other.port);
    return Promise.resolve(other.port === 1);
  };
  const addresses = new Addresses([], "tower", { isLoopbackProxy });
  const at = (origin: string, remotePort: number, more: Partial<Peer> = {}): Peer => {
    return { ...from(origin, "127.0.0.1"), remoteAddress: "127.0.0.1", remotePort, localPort: 8090, ...more };
  };
  for (const origin of ["http://127.0.0.1:8090", "http://localhost:8090", "http://[::1]:8090"]) {
    await assertRejects(() => addresses.linkFor(at(origin, 1)), SvcError, "--public-url");
    await assertRejects(() => addresses.ownFor(at(origin, 1)), SvcError, "--public-url");
    assertEquals(await addresses.linkFor(at(origin, 2)), origin);
    assertEquals(await addresses.ownFor(at(origin, 2)), origin);
  }
  // A connection is looked at once, and only if the answer could be the proxy's own way.
  assertEquals(asked, [1, 2]);
  assertEquals(await addresses.linkFor(at("http://cloud.lan", 1)), "http://cloud.lan");
  assertEquals(await addresses.linkFor(at("http://localhost:9000", 1)), "http://localhost:9000");
  const own = { addressed: "http://localhost:8090" };
  assertEquals(await addresses.linkFor(at("http://localhost:8090", 1, own)), "http://localhost:8090");
  const configured = new Addresses(["https://c.example"], "", { isLoopbackProxy });
  assertEquals(await configured.linkFor(at("http://localhost:8090", 1)), "https://c.example");
  assertEquals(asked, [1, 2]);
});

Deno.test("Addresses: what a proxy's header fields tell decides for foreign clients", async () => {
  const addresses = new Addresses([], "tower");
  const at = (origin: string, fields: [string, string][]): Peer => {
    const peer = { ...from(origin, "127.0.0.1"), remoteAddress: "127.0.0.1", remotePort: 9, localPort: 8090 };
    return { ...peer, ...forwardedBy(fields) };
  };
  const elsewhere: [string, string] = ["x-forwarded-for", "203.0.113.9"];
  for (
    const origin of [
      "http://127.0.0.1:8090",
      "http://localhost:8090",
      "http://backend:8090",
      "http://tower:8090",
    ]
  ) {
    const more: [string, string][] = [["via", "1.1 proxy"], ["x-real-ip", "203.0.113.9"]];
    for (const field of [elsewhere, ...more]) {
      await assertRejects(() => addresses.linkFor(at(origin, [field])), SvcError, "--public-url");
    }
    const named: [string, string][] = [elsewhere, ["x-forwarded-host", "c.example"], [
      "x-forwarded-proto",
      "https",
    ]];
    assertEquals(await addresses.linkFor(at(origin, named)), "https://c.example");
    // Whoever runs an installer as root does not follow what a caller writes.
    if (!origin.includes("backend")) {
      await assertRejects(() => addresses.ownFor(at(origin, named)), SvcError, "--public-url");
    }
  }
  // A person at this computer, through a proxy.
  const here = at("http://localhost:8090", [["x-forwarded-for", "127.0.0.1"]]);
  assertEquals(await addresses.linkFor(here), "http://localhost:8090");
  assertEquals(await addresses.linkFor(at("http://cloud.lan", [elsewhere])), "http://cloud.lan");
  for (const host of HOSTILE) {
    const fields: [string, string][] = [elsewhere, ["x-forwarded-host", host.replace(/^\w+:\/\//, "")]];
    await assertRejects(
      () => addresses.linkFor(at("http://127.0.0.1:8090", fields)),
      SvcError,
      "--public-url",
    );
  }
});

Deno.test("powershellQuoted: PowerShell reads any quoted text as a string", () => {
  assertEquals(powershellQuoted("it's \u2019 $(id)"), "'it''s \u2019\u2019 $(id)'");
});
