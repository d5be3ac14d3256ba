import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../error.ts";
import type { LoopbackEnds } from "../host.ts";
import { checkLoopback } from "./loopback.ts";
import { checkLinux, checkStarter, socketLines } from "./socket_table.ts";
import { connectionsIn } from "./tcp_owners.ts";

/** Only root may start a program as somebody else. */
const asOthers = Deno.build.os === "linux" && Deno.uid() === 0;
const NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
const HOST = "127.0.0.1";

function endsOf(socket: Socket, role: LoopbackEnds["role"]): LoopbackEnds {
  const { localAddress, localPort, remoteAddress, remotePort } = socket;
  return {
    own: { address: localAddress!, port: localPort! },
    other: { address: remoteAddress!, port: remotePort! },
    role,
  };
}

async function listen(server: Server): Promise<number> {
  server.listen(0, HOST);
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** How the check of the other end of a connection to our server ends. */
async function judged(
  command: (port: number) => string[],
  check: (ends: LoopbackEnds) => Promise<void> = checkLoopback,
): Promise<string> {
  const server = createServer();
  const port = await listen(server);
  const [program, ...args] = command(port);
  const child = new Deno.Command(program, { args, stdin: "piped", stdout: "null", stderr: "null" }).spawn();
  const [socket] = await once(server, "connection") as [Socket];
  try {
    await check(endsOf(socket, "server"));
    return "trusted";
  } catch (error) {
    return SvcError.from(error).code;
  } finally {
    socket.destroy();
    server.close();
    await child.stdin.close().catch(() => {});
    await child.status;
  }
}

/** A program that connects, and ends with its input; in a session of its own that is no descendant of ours. */
const connectTo = (port: number) => ["bash", "-c", `exec 3<>/dev/tcp/${HOST}/${port}; cat; exit 0`];

Deno.test({
  name: "checkLoopback trusts programs of our user, and descendants that have changed theirs",
  ignore: !asOthers,
  fn: async () => {
    assertEquals(await judged(connectTo), "trusted");
    assertEquals(await judged((port) => [...NOBODY, ...connectTo(port)]), "trusted");
  },
});

Deno.test({
  name: "checkStarter trusts programs of our user, not those of others, also if we started them",
  ignore: !asOthers,
  fn: async () => {
    assertEquals(await judged(connectTo, checkStarter), "trusted");
    assertEquals(await judged((port) => [...NOBODY, ...connectTo(port)], checkStarter), "permission_denied");
    const ends = { own: { address: "10.0.0.1", port: 1 }, other: { address: "10.0.0.2", port: 2 } };
    await checkStarter({ ...ends, role: "server" });
    const over6 = (other: string) => ({
      own: { address: "::1", port: 1 },
      other: { address: other, port: 2 },
    });
    await assertRejects(() => checkStarter({ ...over6("::1"), role: "server" }), SvcError, "no program");
  },
});

Deno.test({
  name: "checkLoopback refuses another user's client and server, and one that has gone",
  ignore: !asOthers,
  fn: async () => {
    // `setsid --fork` leaves the family: its parent is init.
    const stranger = (script: string) => ["setsid", "--fork", ...NOBODY, "bash", "-c", script];
    const server = createServer();
    const port = await listen(server);
    const connected = once(server, "connection");
    const [program, ...args] = stranger(`exec 3<>/dev/tcp/${HOST}/${port}; cat <&3`);
    await new Deno.Command(program, { args, stdout: "null", stderr: "null" }).output();
    const [socket] = await connected as [Socket];
    const ends = endsOf(socket, "server");
    const error = await assertRejects(() => checkLoopback(ends), SvcError, "a program of the user 65534");
    assertEquals(error.code, "permission_denied");
    socket.destroy();
    await once(socket, "close");
    await assertRejects(() => checkLoopback(ends), SvcError, "at the other end");
    server.close();
  },
});

Deno.test({
  name: "checkLoopback refuses another user's server, also before it has accepted the connection",
  ignore: !asOthers,
  fn: async () => {
    for (const accept of ["", "$s->accept;"]) {
      const script =
        'use IO::Socket::INET; $| = 1; my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1"); ' +
        `print $s->sockport, "\\n"; my $c = ${accept || "0;"} <STDIN>;`;
      const [program, ...args] = ["setsid", "--fork", ...NOBODY, "perl", "-e", script];
      const child = new Deno.Command(program, { args, stdin: "piped", stdout: "piped" }).spawn();
      const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
      const port = Number((await reader.read()).value);
      const socket = connect(port, HOST);
      await once(socket, "connect");
      await assertRejects(() => checkLoopback(endsOf(socket, "client")), SvcError, "the user 65534");
      socket.destroy();
      await child.stdin.close();
      while (!(await reader.read()).done);
      await child.status;
    }
  },
});

Deno.test({
  name: "checkLoopback looks who answers: an accepted connection, and one that waits",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const server = createServer();
    const port = await listen(server);
    const accepted = once(server, "connection");
    const socket = connect(port, HOST);
    await once(socket, "connect");
    await checkLoopback(endsOf(socket, "client"));
    const [other] = await accepted as [Socket];
    await checkLoopback(endsOf(socket, "client"));
    await checkLoopback(endsOf(other, "server"));
    for (const one of [socket, other]) one.destroy();
    server.close();
  },
});

/** 127.0.0.1 as the table has it. */
const LOCAL = "0100007F";
const MAPPED = "0000000000000000FFFF00000100007F";
const ENDS = { own: { address: HOST, port: 0x1000 }, other: { address: HOST, port: 0x2000 } };

Deno.test("checkLinux: every socket that may be the other end must be trusted", async () => {
  const line = (local: string, remote: string, state: string, uid: number, inode: number) => ({
    local,
    remote,
    state,
    uid,
    inode,
  });
  const there = (uid: number, inode: number, address = LOCAL) =>
    line(`${address}:2000`, `${address}:1000`, "01", uid, inode);
  const listener = (address: string, uid: number, inode = 5) =>
    line(`${address}:2000`, "00000000:0000", "0A", uid, inode);
  const judge = async (role: "server" | "client", ...lines: ReturnType<typeof line>[]) =>
    await checkLinux({ ...ENDS, role }, lines, [1000], (inode) => Promise.resolve(inode === 77))
      .then(() => true, () => false);
  for (const role of ["server", "client"] as const) {
    assertEquals(await judge(role, there(1000, 9)), true);
    assertEquals(await judge(role, there(0, 9)), true);
    assertEquals(await judge(role, there(1000, 9, MAPPED)), true);
    const over6 = there(1000, 9, `${"0".repeat(24)}01000000`);
    const ends6 = { own: { address: "::1", port: 0x1000 }, other: { address: "::1", port: 0x2000 }, role };
    await checkLinux(ends6, [over6], [1000], () => Promise.resolve(false));
    assertEquals(await judge(role, there(1001, 77)), true, "a descendant");
    assertEquals(await judge(role, there(1001, 9)), false);
    assertEquals(await judge(role, there(1001, 9), listener(LOCAL, 1000)), false);
    assertEquals(await judge(role, there(0, 0)), false, "closed already: the system forgets whose it was");
    assertEquals(await judge(role), false);
    assertEquals(await judge(role, listener(LOCAL, 1000)), false, "no connection");
  }
  for (const address of [LOCAL, MAPPED, "00000000", "0".repeat(32)]) {
    assertEquals(await judge("client", there(0, 0), listener(address, 1000)), true, address);
    assertEquals(await judge("server", there(0, 0), listener(address, 1000)), false, address);
    const mixed = [listener(address, 1000), listener(LOCAL, 1001)];
    assertEquals(await judge("client", there(0, 0), ...mixed), false, address);
  }
});

Deno.test("socketLines reads the tables of Linux, connectionsIn those of Windows", () => {
  const table =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
    "   0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0 20 4\n";
  assertEquals(socketLines(table), [{
    local: "0100007F:1F90",
    remote: "0100007F:C350",
    state: "01",
    uid: 1000,
    inode: 4242,
  }]);
  // A program on IPv6 sees a client on IPv4 at ::ffff:127.0.0.1.
  for (const isV6 of [false, true]) {
    const [rowBytes, own, ownPort, other, otherPort, pid] = isV6
      ? [56, 0, 20, 24, 44, 52]
      : [24, 4, 8, 12, 16, 20];
    const rows = new Uint8Array(4 + 2 * rowBytes), view = new DataView(rows.buffer);
    view.setUint32(0, 2, true);
    for (const [row, port] of [8080, 8081].entries()) {
      const at = 4 + row * rowBytes;
      view.setUint32(at + (isV6 ? 48 : 0), 5, true);
      for (const address of [own, other]) {
        rows.set(isV6 ? [...Array(10).fill(0), 0xff, 0xff, 127, 0, 0, 1] : [127, 0, 0, 1], at + address);
      }
      view.setUint16(at + ownPort, port);
      view.setUint16(at + otherPort, 50_000 + row);
      view.setUint32(at + pid, 321 + row, true);
    }
    assertEquals(connectionsIn(rows, isV6), [
      { ends: "127.0.0.1:8080,127.0.0.1:50000", pid: 321 },
      { ends: "127.0.0.1:8081,127.0.0.1:50001", pid: 322 },
    ]);
  }
});
