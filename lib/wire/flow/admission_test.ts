/** Who gives way when a port is full, and how many connections the system's limit leaves room for. */

import { assert, assertEquals } from "@std/assert";
import {
  CallMark,
  connectionLimit,
  type Counts,
  type Guest,
  Guests,
  PROGRESS_BYTES,
  rankToLeave,
} from "./admission.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeFiles } from "../../../tests/support/fake_files.ts";

/** A port and who has left it, by name. */
function port(limit: number) {
  const clock = new FakeClock();
  const guests = new Guests(limit, clock);
  const gone: string[] = [];
  const admit = (name: string, address = "10.0.0.1", says: "nothing" | "something" | "calls" = "nothing") => {
    const guest = guests.admit(address, () => void gone.push(name));
    if (says !== "nothing") guest.progressed();
    if (says === "calls") guest.began();
    return guest;
  };
  return { guests, gone, admit, clock };
}

function counts(given: Partial<Counts>): Counts {
  return { silent: 0, stranger: 0, known: 0, calling: 0, ...given };
}

Deno.test("rankToLeave: chooses the lowest rank, and each rank keeps some room", () => {
  const cases: [Partial<Counts>, string][] = [
    [{ silent: 1 }, "silent"],
    [{ stranger: 1 }, "stranger"],
    [{ known: 1 }, "known"],
    [{ calling: 1 }, "calling"],
    [{ silent: 50, stranger: 20, known: 20, calling: 10 }, "silent"],
    [{ silent: 10, stranger: 70, known: 10, calling: 10 }, "stranger"],
    [{ silent: 34, stranger: 33, known: 33 }, "silent"],
    [{ silent: 33, stranger: 34, known: 33 }, "stranger"],
    // Neither silent callers nor strangers crowd out known callers, and known callers do not crowd out newcomers.
    [{ silent: 20, stranger: 20, known: 60 }, "known"],
    // A live call gives way only where the others have next to no room.
    [{ stranger: 26, calling: 74 }, "stranger"],
    [{ silent: 26, calling: 74 }, "silent"],
    [{ silent: 25, calling: 75 }, "calling"],
  ];
  for (const [given, wanted] of cases) {
    assertEquals(rankToLeave(counts(given)), wanted, JSON.stringify(given));
  }
});

Deno.test("Guests: a new connection stays while there are older idle connections", async () => {
  const { admit, gone, clock } = port(12);
  for (let i = 0; i < 8; i++) admit(`stranger ${i}`, "10.0.0.1", "something");
  await clock.advance(200);
  for (let i = 0; i < 7; i++) admit(`newcomer ${i}`, `10.0.0.${10 + i}`);
  // The next beat may come before anybody has read their data.
  await clock.advance(100);
  for (let i = 7; i < 10; i++) admit(`newcomer ${i}`, `10.0.0.${10 + i}`);
  assertEquals(gone, Array.from({ length: 6 }, (_, i) => `stranger ${i}`));
  await clock.advance(200);
  // They had their time: among the silent and strangers, the silent ones are too many.
  for (let i = 10; i < 13; i++) admit(`newcomer ${i}`, `10.0.0.${10 + i}`);
  assertEquals(gone.slice(6), ["newcomer 0", "newcomer 1", "newcomer 2"]);
});

Deno.test("Guests: a connection with recent progress stays", async () => {
  const { admit, gone, clock } = port(12);
  for (let i = 0; i < 6; i++) admit(`stranger ${i}`, `10.0.1.${i}`, "something");
  for (let i = 0; i < 4; i++) admit(`silent ${i}`, `10.0.2.${i}`);
  await clock.advance(200);
  const newcomers = [0, 1].map((i) => admit(`newcomer ${i}`, `10.0.3.${i}`));
  for (const newcomer of newcomers) newcomer.progressed();
  for (let i = 0; i < 10; i++) admit(`silent again ${i}`, `10.0.4.${i}`);
  assertEquals(gone.length, 10);
  assert(gone.every((name) => !name.startsWith("newcomer") && !name.startsWith("silent again")), gone.join());
  // Now that all are spared, those go who came first.
  admit("one more", "10.0.5.1");
  assertEquals(gone[10], "newcomer 0");
});

Deno.test("Guests: an idle or empty port runs no timer", async () => {
  const { guests, admit, clock } = port(3);
  const guest = admit("one", "10.0.0.1");
  assertEquals(clock.pending, 1);
  await clock.advance(1_000);
  assertEquals(clock.pending, 0);
  guest.progressed();
  assertEquals(clock.pending, 1);
  guests.remove(guest);
  assertEquals(clock.pending, 0);
});

Deno.test("Guests: within a rank, the guest without progress for longest leaves", () => {
  const { admit, gone } = port(8);
  const [first] = [admit("first", "10.0.0.1", "something"), admit("second", "10.0.0.2", "something")];
  for (let i = 3; i <= 8; i++) admit(`${i}`, `10.0.0.${i}`, "something");
  first.moved(PROGRESS_BYTES - 1);
  admit("newcomer", "10.0.0.9", "something");
  assertEquals(gone, ["first"]);
  admit("another", "10.0.0.10", "something").moved(PROGRESS_BYTES);
  admit("a third", "10.0.0.11");
  assertEquals(gone, ["first", "second", "3"]);
});

Deno.test("Guests: bytes without a valid request do not count as progress", () => {
  const { admit, gone } = port(2);
  const silent = admit("silent", "10.0.0.1");
  admit("younger", "10.0.0.2");
  silent.moved(10 * PROGRESS_BYTES);
  assertEquals(silent.rank, "silent");
  admit("newcomer", "10.0.0.3");
  assertEquals(gone, ["silent"]);
});

Deno.test("Guests: within a rank, the address with most connections loses its oldest", () => {
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

Deno.test("Guests: an address beyond its share displaces only its own connections", () => {
  const { admit, gone } = port(8);
  admit("other", "10.0.0.9");
  for (let i = 0; i < 5; i++) admit(`greedy ${i}`, "10.0.0.1", "calls");
  assertEquals(gone, ["greedy 0"]);
  for (let i = 0; i < 6; i++) admit(`local ${i}`, "127.0.0.1");
  assert(!gone.includes("other") || gone.indexOf("other") > 0);
  assertEquals(gone.filter((name) => name.startsWith("greedy")), ["greedy 0"]);
});

Deno.test("Guests: a quiet authenticated call survives 500 connections without such calls", () => {
  const { admit, gone, guests } = port(16);
  const call = new CallMark(admit("quiet", "127.0.0.1", "something"));
  call.admitted("known");
  call.begun();
  for (let i = 0; i < 500; i++) {
    const guest = admit(`attacker ${i}`, "127.0.0.1", i % 2 ? "nothing" : "something");
    const mark = new CallMark(guest);
    mark.admitted("stranger");
    mark.begun();
    guest.moved(PROGRESS_BYTES);
    if (i % 3 === 0) mark.released();
  }
  assert(!gone.includes("quiet"));
  assertEquals(guests.counts.calling, 1);
  call.released();
  call.released();
  assertEquals(guests.counts, { ...guests.counts, known: 1, calling: 0 });
});

Deno.test("Guests: a newcomer has time to speak before later silent connections displace it", () => {
  const { admit, gone } = port(300);
  for (let i = 0; i < 300; i++) admit(`${i}`, `10.0.${i}.1`, "calls");
  const newcomer = admit("newcomer", "10.1.0.1");
  for (let i = 0; i < 24; i++) admit(`silent ${i}`, `10.2.${i}.1`);
  assert(!gone.includes("newcomer"));
  newcomer.began();
  for (let i = 0; i < 1000; i++) admit(`silent again ${i}`, `10.3.${i % 250}.1`);
  assert(!gone.includes("newcomer"));
});

Deno.test("Guests: a removed guest is not counted again", () => {
  const { guests, admit } = port(2);
  const one: Guest = admit("one", "10.0.0.1", "calls");
  guests.remove(one);
  guests.remove(one);
  one.ended();
  one.progressed();
  assertEquals(guests.counts, counts({}));
});

Deno.test("connectionLimit: leaves file descriptors for the program", async () => {
  const limits = (text: string) => connectionLimit(FakeFiles.with({ "/proc/self/limits": text }));
  const line = (soft: string) =>
    `Limit  Soft  Hard  Units\nMax open files            ${soft}     4096      files\n`;
  assertEquals(await limits(line("64")), 21);
  assertEquals(await limits(line("1024")), 512);
  assertEquals(await limits(line("unlimited")), 4096);
  assertEquals(await connectionLimit(new FakeFiles()), 512);
});
