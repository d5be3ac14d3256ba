import { assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { PublicAddresses } from "./public_addresses.ts";
import { type OutwardOptions, sendOnce } from "./single_request.ts";

const clock = new SystemClock();
const TIMEOUT_MS = 30_000;

function options(allowed: readonly string[], resolve?: OutwardOptions["resolve"]): OutwardOptions {
  return {
    addresses: new PublicAddresses(allowed),
    clock,
    timeoutMs: TIMEOUT_MS,
    signal: new AbortController().signal,
    resolve,
  };
}

function request(url: string, body = "") {
  const method = body === "" ? "GET" : "POST";
  return {
    method,
    url: new URL(url),
    headers: [["X-Name", "Zoë\r\nInjected: 1"]],
    body: Buffer.from(body),
  } as const;
}

/** A server that answers every request with a text; `heard` has what it was sent. */
async function withServer(
  answer: string,
  run: (port: number, heard: () => string, connections: () => number) => Promise<void>,
): Promise<void> {
  let [heard, connections] = ["", 0];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    connections++;
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("data", (data: Uint8Array) => {
      heard += Buffer.from(data).toString();
      if (heard.includes("\r\n\r\n")) socket.write(answer);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await run((server.address() as AddressInfo).port, () => heard, () => connections);
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  }
}

Deno.test("PublicAddresses: only public addresses, unless the operator allows others", () => {
  const none = new PublicAddresses();
  const refused = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "10.0.0.1",
    "100.100.100.200",
    "169.254.169.254",
    "168.63.129.16",
    "172.31.255.255",
    "192.168.1.1",
    "192.0.0.192",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "64:ff9b::7f00:1",
    "fe80::1",
    "fd00:ec2::254",
    "fc00::1",
    "ff02::1",
    "2002:7f00:1::",
    "2001:0:1::",
    "not an address",
  ];
  for (const one of refused) {
    const error = assertThrows(() => none.choose(one, [one]), SvcError);
    assertEquals(error.code, "permission_denied", one);
  }
  for (const one of ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700:4700::1111", "::ffff:8.8.8.8"]) {
    assertEquals(none.choose(one, [one]), one);
  }
  // One address of a name inside is enough to refuse it: which one is used is chance.
  const mixed = assertThrows(() => none.choose("mixed.example", ["1.1.1.1", "10.0.0.1"]), SvcError);
  assertStringIncludes(mixed.message, '"mixed.example" is 10.0.0.1');
  assertEquals(assertThrows(() => none.choose("empty.example", []), SvcError).code, "unavailable");

  const some = new PublicAddresses(["10.1.0.0/16", "Hooks.lan", "fd00::/8"]);
  assertEquals(some.choose("10.1.2.3", ["10.1.2.3"]), "10.1.2.3");
  assertEquals(some.choose("hooks.lan", ["192.168.7.7"]), "192.168.7.7");
  assertEquals(some.choose("fd12::1", ["fd12::1"]), "fd12::1");
  assertThrows(() => some.choose("10.2.0.1", ["10.2.0.1"]), SvcError);
  assertThrows(() => some.choose("other.lan", ["192.168.7.7"]), SvcError);
  assertThrows(() => new PublicAddresses(["10.0.0.0/99"]), SvcError);
});

Deno.test("sendOnce connects to the address that was checked, with one look-up", async () => {
  await withServer(
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nRetry-After: 7\r\n\r\n",
    async (port, heard) => {
      let asked = 0;
      // The name leads elsewhere from the second question on.
      const resolve = () => Promise.resolve([asked++ === 0 ? "127.0.0.1" : "127.255.0.1"]);
      const answer = await sendOnce(
        request(`http://hook.example:${port}/a?b=1`, "body"),
        options(["127.0.0.1"], resolve),
      );
      assertEquals([answer.status, answer.headers.get("retry-after"), asked], [204, "7", 1]);
      assertStringIncludes(heard(), `POST /a?b=1 HTTP/1.1\r\nHost: hook.example:${port}\r\n`);
      assertStringIncludes(heard(), "X-Name: Zoë Injected: 1\r\n");
      assertStringIncludes(heard(), "\r\n\r\nbody");
    },
  );
});

Deno.test("sendOnce does not even connect to an address that is not for others", async () => {
  await withServer("HTTP/1.1 200 OK\r\n\r\n", async (port, _, connections) => {
    const loopback = () => Promise.resolve(["127.0.0.1"]);
    const urls = [
      `http://127.0.0.1:${port}/`,
      `http://2130706433:${port}/`,
      `http://0x7f.1:${port}/`,
      `http://[::ffff:127.0.0.1]:${port}/`,
      `http://inside.example:${port}/`,
      `https://inside.example:${port}/`,
      `http://inside.example.:${port}/`,
    ];
    for (const url of urls) {
      const error = await assertRejects(() => sendOnce(request(url), options([], loopback)), SvcError);
      assertEquals(error.code, "permission_denied", url);
    }
    const other = await assertRejects(
      () => sendOnce(request("ftp://inside.example/"), options([])),
      SvcError,
    );
    assertEquals(other.code, "invalid_argument");
    assertEquals(connections(), 0);
  });
});

Deno.test("sendOnce takes no endless head, no other protocol and no silence for an answer", async () => {
  for (const answer of ["SSH-2.0-OpenSSH\r\n\r\n", `HTTP/1.1 200 OK\r\n${"a: b\r\n".repeat(20_000)}`]) {
    await withServer(answer, async (port) => {
      const error = await assertRejects(
        () => sendOnce(request(`http://127.0.0.1:${port}/`), options(["127.0.0.1"])),
        SvcError,
      );
      assertEquals(error.code, "unavailable");
    });
  }
  await withServer("", async (port) => {
    const quick = { ...options(["127.0.0.1"]), timeoutMs: 20 };
    const error = await assertRejects(() => sendOnce(request(`http://127.0.0.1:${port}/`), quick), SvcError);
    assertEquals(error.code, "deadline_exceeded");
  });
});
