/** Who gives way when a port is full, and how many connections the system's limit leaves room for. */

import { assert, assertEquals } from "@std/assert";
import {
  type AdmittedConnection,
  CallMark,
  ConnectionAdmission,
  connectionLimit,
  type Counts,
  evictionRank,
  PROGRESS_BYTES,
} from "./admission.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeFiles } from "../../../tests/support/fake_files.ts";

/** A port and who has left it, by name. */
function port(limit: number) {
  const clock = new FakeClock();
  const connections = new ConnectionAdmission(limit, clock);
  const gone: string[] = [];
  const admit = (name: string, address = "10.0.0.1", says: "nothing" | "something" | "calls" = "nothing") => {
    const connection = connections.admit(address, () => void gone.push(name));
    if (says !== "nothing") connection.progressed();
    if (says === "calls") connection.callStarted();
    return connection;
  };
  return { connections, gone, admit, clock };
}

function counts(given: Partial<Counts>): Counts {
  return { silent: 0, unauthenticated: 0, authenticated: 0, calling: 0, ...given };
}

Deno.test("evictionRank: chooses the lowest rank, and each rank keeps some room", () => {
  const cases: [Partial<Counts>, string][] = [
    [{ silent: 1 }, "silent"],
    [{ unauthenticated: 1 }, "unauthenticated"],
    [{ authenticated: 1 }, "authenticated"],
    [{ calling: 1 }, "calling"],
    [{ silent: 50, unauthenticated: 20, authenticated: 20, calling: 10 }, "silent"],
    [{ silent: 10, unauthenticated: 70, authenticated: 10, calling: 10 }, "unauthenticated"],
    [{ silent: 34, unauthenticated: 33, authenticated: 33 }, "silent"],
    [{ silent: 33, unauthenticated: 34, authenticated: 33 }, "unauthenticated"],
    // Neither silent nor unauthenticated connections crowd out authenticated ones, and authenticated ones do not crowd out newcomers.
    [{ silent: 20, unauthenticated: 20, authenticated: 60 }, "authenticated"],
    // A live call gives way only where the others have next to no room.
    [{ unauthenticated: 26, calling: 74 }, "unauthenticated"],
    [{ silent: 26, calling: 74 }, "silent"],
    [{ silent: 25, calling: 75 }, "calling"],
  ];
  for (const [given, wanted] of cases) {
    assertEquals(evictionRank(counts(given)), wanted, JSON.stringify(given));
  }
});

Deno.test("ConnectionAdmission: a new connection stays while there are older idle connections", async () => {
  const { admit, gone, clock } = port(12);
  for (let i = 0; i < 8; i++) admit(`active ${i}`, "10.0.0.1", "something");
  await clock.advance(200);
  for (let i = 0; i < 7; i++) admit(`newcomer ${i}`, `10.0.0.${10 + i}`);
  // The next tick may come before anybody has read their data.
  await clock.advance(100);
  for (let i = 7; i < 10; i++) admit(`newcomer ${i}`, `10.0.0.${10 + i}`);
  assertEquals(gone, Array.from({ length: 6 }, (_, i) => `active ${i}`));
  await clock.advance(200);
  // They had their time: among connections without authenticated calls, the silent ones are too many.
  for (let i = 10; i < 13; i++) admit(`newcomer ${i}`, `10.0.0.${10 + i}`);
  assertEquals(gone.slice(6), ["newcomer 0", "newcomer 1", "newcomer 2"]);
});

Deno.test("ConnectionAdmission: a connection with recent progress stays", async () => {
  const { admit, gone, clock } = port(12);
  for (let i = 0; i < 6; i++) admit(`active ${i}`, `10.0.1.${i}`, "something");
  for (let i = 0; i < 4; i++) admit(`silent ${i}`, `10.0.2.${i}`);
  await clock.advance(200);
  const newcomers = [0, 1].map((i) => admit(`newcomer ${i}`, `10.0.3.${i}`));
  for (const newcomer of newcomers) newcomer.progressed();
  for (let i = 0; i < 10; i++) admit(`silent again ${i}`, `10.0.4.${i}`);
  assertEquals(gone.length, 10);
  assert(gone.every((name) => !name.startsWith("newcomer") && !name.startsWith("silent again")), gone.join());
  // Now that all are in their grace period, those go who came first.
  admit("one more", "10.0.5.1");
  assertEquals(gone[10], "newcomer 0");
});

Deno.test("ConnectionAdmission: an idle or empty port runs no timer", async () => {
  const { connections, admit, clock } = port(3);
  const connection = admit("one", "10.0.0.1");
  assertEquals(clock.pending, 1);
  await clock.advance(1_000);
  assertEquals(clock.pending, 0);
  connection.progressed();
  assertEquals(clock.pending, 1);
  connections.remove(connection);
  assertEquals(clock.pending, 0);
});

Deno.test("ConnectionAdmission: within a rank, the connection without progress for longest leaves", () => {
  const { admit, gone } = port(8);
  const [first] = [admit("first", "10.0.0.1", "something"), admit("second", "10.0.0.2", "something")];
  for (let i = 3; i <= 8; i++) admit(`${i}`, `10.0.0.${i}`, "something");
  first.transferred(PROGRESS_BYTES - 1);
  admit("newcomer", "10.0.0.9", "something");
  assertEquals(gone, ["first"]);
  admit("another", "10.0.0.10", "something").transferred(PROGRESS_BYTES);
  admit("a third", "10.0.0.11");
  assertEquals(gone, ["first", "second", "3"]);
});

Deno.test("ConnectionAdmission: bytes without a valid request do not count as progress", () => {
  const { admit, gone } = port(2);
  const silent = admit("silent", "10.0.0.1");
  admit("younger", "10.0.0.2");
  silent.transferred(10 * PROGRESS_BYTES);
  assertEquals(silent.rank, "silent");
  admit("newcomer", "10.0.0.3");
  assertEquals(gone, ["silent"]);
});

Deno.test("ConnectionAdmission: within a rank, the address with most connections loses its oldest", () => {
  const { admit, gone } = port(6);
  admit("lonely", "10.0.0.9");
  for (let i = 0; i < 3; i++) admit(`crowd ${i}`, "10.0.0.1");
  for (let i = 0; i < 2; i++) admit(`pair ${i}`, "10.0.0.2");
  admit("newcomer", "10.0.0.3");
  assertEquals(gone, ["crowd 0"]);
  admit("another", "10.0.0.4");
  // Two of each: the older one.
  assertEquals(gone, ["crowd 0", "crowd 1"]);
});

Deno.test("ConnectionAdmission: an address beyond its share displaces only its own connections", () => {
  const { admit, gone } = port(8);
  admit("other", "10.0.0.9");
  for (let i = 0; i < 5; i++) admit(`greedy ${i}`, "10.0.0.1", "calls");
  assertEquals(gone, ["greedy 0"]);
  for (let i = 0; i < 6; i++) admit(`local ${i}`, "127.0.0.1");
  assert(!gone.includes("other") || gone.indexOf("other") > 0);
  assertEquals(gone.filter((name) => name.startsWith("greedy")), ["greedy 0"]);
});

Deno.test("ConnectionAdmission: a quiet authenticated call survives 500 connections without such calls", () => {
  const { admit, gone, connections } = port(16);
  const call = new CallMark(admit("quiet", "127.0.0.1", "something"));
  call.admitted("authenticated");
  call.begun();
  for (let i = 0; i < 500; i++) {
    const connection = admit(`attacker ${i}`, "127.0.0.1", i % 2 ? "nothing" : "something");
    const mark = new CallMark(connection);
    mark.admitted("unauthenticated");
    mark.begun();
    connection.transferred(PROGRESS_BYTES);
    if (i % 3 === 0) mark.released();
  }
  assert(!gone.includes("quiet"));
  assertEquals(connections.counts.calling, 1);
  call.released();
  call.released();
  assertEquals(connections.counts, { ...connections.counts, authenticated: 1, calling: 0 });
});

Deno.test("ConnectionAdmission: a newcomer has time to speak before later silent connections displace it", () => {
  const { admit, gone } = port(300);
  for (let i = 0; i < 300; i++) admit(`${i}`, `10.0.${i}.1`, "calls");
  const newcomer = admit("newcomer", "10.1.0.1");
  for (let i = 0; i < 24; i++) admit(`silent ${i}`, `10.2.${i}.1`);
  assert(!gone.includes("newcomer"));
  newcomer.callStarted();
  for (let i = 0; i < 1000; i++) admit(`silent again ${i}`, `10.3.${i % 250}.1`);
  assert(!gone.includes("newcomer"));
});

Deno.test("ConnectionAdmission: a removed connection is not counted again", () => {
  const { connections, admit } = port(2);
  const one: AdmittedConnection = admit("one", "10.0.0.1", "calls");
  connections.remove(one);
  connections.remove(one);
  one.callEnded();
  one.progressed();
  assertEquals(connections.counts, counts({}));
});

Deno.test("connectionLimit: leaves file descriptors for the program", async () => {
  const limits = (text: string) => connectionLimit(FakeFiles.with({ "/proc/self/limits": text }));
  const line = (soft: string) =>
    `Limit  Soft  Hard  Units\nMax open files            ${soft}     4096      files\n`;
  assertEquals(await limits(line("64")), 21);
  assertEquals(await limits(line("1024")), 512);
  assertEquals(await limits(line("unlimited")), 4096);
  const many = FakeFiles.with({ "/proc/self/limits": line("65536") });
  assertEquals([await connectionLimit(many), await connectionLimit(many, 20_000)], [4096, 20_000]);
  assertEquals(await connectionLimit(FakeFiles.with({ "/proc/self/limits": line("1024") }), 20_000), 512);
  assertEquals(await connectionLimit(new FakeFiles()), 512);
});
