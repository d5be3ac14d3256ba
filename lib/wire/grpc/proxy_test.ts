import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { connectThrough, firstHopOf, type HostPort, proxyOf } from "./proxy.ts";

const CLOUD = { host: "cloud.example", port: 443 };

function chosen(env: Record<string, string>, target: HostPort = CLOUD, secure = true): string | undefined {
  const found = proxyOf(target, secure, (name) => env[name]);
  return found && `${found.kind} ${found.host}:${found.port} ${found.user}:${found.password.reveal()}`;
}

Deno.test("proxyOf: the variables in their order, in capitals and small letters", () => {
  assertEquals(chosen({}), undefined);
  assertEquals(chosen({ HTTPS_PROXY: "http://p:3128" }), "http p:3128 :");
  assertEquals(chosen({ https_proxy: "p:3128", HTTPS_PROXY: "http://q" }), "http p:3128 :");
  assertEquals(chosen({ HTTP_PROXY: "http://p" }), undefined);
  assertEquals(chosen({ HTTP_PROXY: "http://p" }, CLOUD, false), "http p:80 :");
  assertEquals(chosen({ ALL_PROXY: "socks5://u%40x:s%3A@p", SOCKS_PROXY: "s:1" }), "socks5 p:1080 u@x:s:");
  assertEquals(chosen({ SOCKS_PROXY: "10.0.0.1:1081" }), "socks5 10.0.0.1:1081 :");
  assertEquals(chosen({ all_proxy: "socks5h://[fd00::1]:9" }), "socks5 fd00::1:9 :");
  assertEquals(chosen({ HTTPS_PROXY: " " }), undefined);
});

Deno.test("proxyOf: a proxy has the name of the variable that the person has set", () => {
  const variable = (env: Record<string, string>) => proxyOf(CLOUD, true, (name) => env[name])?.variable;
  assertEquals(variable({ ALL_PROXY: "socks5h://s:1", SOCKS_PROXY: "s:1" }), "SOCKS_PROXY");
  assertEquals(variable({ ALL_PROXY: "socks5h://s:1", socks_proxy: "socks5://s:1" }), "socks_proxy");
  assertEquals(variable({ ALL_PROXY: "socks5h://t:1", SOCKS_PROXY: "s:1" }), "ALL_PROXY");
  assertEquals(variable({ https_proxy: "http://p", SOCKS_PROXY: "s:1" }), "https_proxy");
});

Deno.test("proxyOf: NO_PROXY names hosts, domains, addresses and networks; this computer needs no proxy", () => {
  const direct = (list: string, host: string, port = 443) =>
    chosen({ HTTPS_PROXY: "http://p", NO_PROXY: list }, { host, port }) === undefined;
  for (const host of ["localhost", "127.0.0.5", "::1"]) assert(direct("", host), host);
  for (
    const [list, host] of [
      ["cloud.example", "Cloud.Example"],
      [".example", "cloud.example"],
      ["example", "cloud.example"],
      ["*.example", "cloud.example"],
      ["a, b,cloud.example:443", "cloud.example"],
      ["*", "anything"],
      ["10.0.0.0/8", "10.9.8.7"],
      ["192.168.1.7", "192.168.1.7"],
      ["fd00::/16", "fd00::5"],
      ["[fd00::5]:443", "fd00::5"],
      ["[fd00::]/8", "fd00::5"],
      ["2001:0DB8::1", "2001:db8::1"],
      ["2001:db8:0:0:0:0:0:1", "2001:db8::1"],
      ["fd00:1:2:3:4:5:6:7", "fd00:1:2:3:4:5:6:7"],
      ["192.168.2.203/24", "192.168.2.7"],
    ]
  ) assert(direct(list, host), `${list} names ${host}`);
  for (
    const [list, host] of [
      ["loud.example", "cloud.example"],
      ["cloud.example:80", "cloud.example"],
      ["10.0.0.0/8", "11.0.0.1"],
      ["10.0.0.0/x", "10.0.0.1"],
      ["fd00::1:2", "fd00::1"],
      ["[fd00::5]:80", "fd00::5"],
      ["::/x", "fd00::1"],
      ["", "cloud.example"],
      [",, ,", "cloud.example"],
    ]
  ) assert(!direct(list, host), `${list} does not name ${host}`);
});

Deno.test("proxyOf: an unusable variable is named, without its password", () => {
  for (
    const value of [
      "https://u:hunter2@p",
      "http://u:hunter2@",
      "ftp://u:hunter2@p",
      "http://u:hunter2@p:99999",
    ]
  ) {
    const error = assertThrows(() => chosen({ HTTPS_PROXY: value }), SvcError);
    assertStringIncludes(error.message, "HTTPS_PROXY");
    assert(!error.message.includes("hunter2"), error.message);
    assertEquals(firstHopOf("https://cloud.example", () => value), { host: "cloud.example", port: 443 });
  }
});

Deno.test("a link-local address with its interface is reached directly, however it is written", () => {
  for (const zone of ["%eth0", "%25eth0"]) {
    const env = { HTTPS_PROXY: "http://p:1", ALL_PROXY: "socks5://p:2" } as Record<string, string>;
    const found = firstHopOf(`https://[fe80::1${zone}]:8090`, (name) => env[name]);
    assertEquals(found, { host: `fe80::1${zone}`, port: 8090 });
    assertEquals(firstHopOf(`http://[fe80::1${zone}]`, () => undefined).port, 80);
  }
});

/** A proxy that answers by a script; returns the error of a connection through it. */
async function refusedBy(
  kind: "http" | "socks5",
  answer: (asked: Uint8Array) => Uint8Array,
  user = "user:hunter2@",
): Promise<SvcError> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serving = (async () => {
    const connection = await listener.accept();
    const bytes = new Uint8Array(1024);
    try {
      for (let count; (count = await connection.read(bytes)) !== null;) {
        await connection.write(answer(bytes.subarray(0, count)));
      }
    } catch {
      // The other side has gone.
    }
    connection.close();
  })();
  const env = { ALL_PROXY: `${kind}://${user}127.0.0.1:${listener.addr.port}` };
  const proxy = proxyOf(CLOUD, true, (name) => env[name as "ALL_PROXY"])!;
  try {
    return await assertRejects(() => connectThrough(proxy, CLOUD, AbortSignal.timeout(20_000)), SvcError);
  } finally {
    await serving;
    listener.close();
  }
}

Deno.test("connectThrough: what a proxy answers is said, and is no answer of the cloud; a hostile one costs nothing", async () => {
  const text = (words: string) => () => new TextEncoder().encode(words);
  for (
    const [kind, answer, wanted, code] of [
      ["http", text("HTTP/1.1 407 Authenticate\r\n\r\n"), "refuses the user", "unauthenticated"],
      ["http", text("HTTP/1.1 403 Forbidden\r\n\r\n"), "answers 403", "unavailable"],
      ["http", text("SSH-2.0-dropbear\r\n\r\n"), "begins with socks5://", "unavailable"],
      ["http", text("x".repeat(1024 * 40)), "too long", "unavailable"],
      [
        "socks5",
        text("HTTP/1.1 400 Bad\r\n\r\n"),
        "SOCKS5; if it is an HTTP proxy, its address begins with http://",
        "unavailable",
      ],
      ["socks5", () => new Uint8Array([5, 255]), "wants a user", "unauthenticated"],
      [
        "socks5",
        (asked: Uint8Array) => new Uint8Array(asked[0] === 1 ? [1, 1] : [5, 2]),
        "refuses",
        "unauthenticated",
      ],
      [
        "socks5",
        (asked: Uint8Array) => new Uint8Array(asked[1] === 1 ? [5, 4, 0, 1, 0, 0, 0, 0, 0, 0] : [5, 0]),
        "the host cannot be reached",
        "unavailable",
      ],
    ] as const
  ) {
    const error = await refusedBy(kind, answer);
    assertStringIncludes(error.message, wanted);
    assertStringIncludes(error.message, " of ALL_PROXY: ");
    assertEquals(error.code, code);
    assert(!error.message.includes("hunter2"));
  }
});

Deno.test("connectThrough: a SOCKS5 proxy hears a user of up to 255 bytes, and none that nobody has set", async () => {
  const longest = "x".repeat(255);
  const cases: [user: string, wanted: string, code: string, heard: number[]][] = [
    ["", "it wants a user and a password", "unauthenticated", []],
    [`${longest}:${longest}@`, "it refuses the user or the password", "unauthenticated", [255, 255]],
    [`${longest}x:p@`, "the user or the password is too long", "unavailable", []],
    [`u:${longest}x@`, "the user or the password is too long", "unavailable", []],
  ];
  for (const [user, wanted, code, lengths] of cases) {
    const heard: number[] = [];
    const error = await refusedBy("socks5", (asked) => {
      if (asked[0] === 5) return new Uint8Array([5, 2]);
      heard.push(asked[1]!, asked[2 + asked[1]!]!);
      return new Uint8Array([1, 1]);
    }, user);
    assertStringIncludes(error.message, wanted);
    assertEquals([error.code, heard], [code, lengths], user.slice(0, 10));
  }
});

/** A server that accepts, reads and does as `serve` says; returns the error of a connection through it. */
async function silentProxy(
  kind: "http" | "socks5",
  serve: (socket: Deno.Conn, bytes: Uint8Array) => void,
  waits = false,
) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const asked = Promise.withResolvers<void>();
  const serving = (async () => {
    const socket = await listener.accept();
    const bytes = new Uint8Array(1024);
    try {
      for (let count; (count = await socket.read(bytes)) !== null;) {
        serve(socket, bytes.subarray(0, count));
        asked.resolve();
      }
      socket.close();
    } catch {
      // The server itself has ended the connection.
    }
  })();
  const clock = new FakeClock();
  const env = { all_proxy: `${kind}://127.0.0.1:${listener.addr.port}` };
  const proxy = proxyOf(CLOUD, true, (name) => env[name as "all_proxy"])!;
  const failing = assertRejects(
    () => connectThrough(proxy, CLOUD, AbortSignal.timeout(60_000), clock),
    SvcError,
  );
  await asked.promise;
  if (waits) await clock.advance(8_000);
  const { message } = await failing;
  await serving;
  listener.close();
  return message;
}

Deno.test("connectThrough: an HTTP proxy that is set as SOCKS5 waits for its line, and is named after 8 s", async () => {
  const message = await silentProxy("socks5", () => {}, true);
  assertStringIncludes(message, "of all_proxy: it answers no greeting of SOCKS5 for 8 s");
  assertStringIncludes(message, "if it is an HTTP proxy, its address begins with http://");
});

Deno.test("connectThrough: a SOCKS5 proxy that is set as HTTP ends the connection, and is named", async () => {
  const message = await silentProxy("http", (socket) => socket.close());
  assertStringIncludes(
    message,
    "it ended the connection; if it is a SOCKS5 proxy, its address begins with socks5://",
  );
});

Deno.test("connectThrough: a SOCKS5 proxy that ends the connection later gets no hint about its kind", async () => {
  let greeted = false;
  const message = await silentProxy("socks5", (socket) => {
    if (greeted) return socket.close();
    greeted = true;
    void socket.write(new Uint8Array([5, 0]));
  });
  assertMatch(message, /of all_proxy: it ended the connection$/);
});
