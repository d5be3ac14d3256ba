/** Who gives way when a port is full, and how many connections the system's limit leaves room for. */

import { assert, assertEquals } from "@std/assert";
import { connectionLimit, type Guest, Guests } from "./guests.ts";

function guest(address: string | undefined, usedMs: number, idle = true) {
  const made = {
    address,
    usedMs,
    requests: 0,
    isIdle: () => idle,
    gone: false,
    leave: () => void (made.gone = true),
  };
  return made satisfies Guest;
}

Deno.test("the connection that has been idle for longest gives way, and a busy one never", () => {
  const guests = new Guests(4);
  const [busy, young, old] = [guest("10.0.0.1", 0, false), guest("10.0.0.2", 9), guest("10.0.0.3", 5)];
  for (const one of [busy, young, old, guest("10.0.0.4", 7)]) assert(guests.admit(one));
  assert(guests.admit(guest("10.0.0.5", 10, false)));
  assertEquals([busy.gone, young.gone, old.gone], [false, false, true]);
});

Deno.test("one address has only its share, and makes room for itself alone", () => {
  const guests = new Guests(8);
  const other = guest("10.0.0.9", 0);
  assert(guests.admit(other));
  const greedy = Array.from({ length: 5 }, (_, i) => guest("10.0.0.1", 1 + i, i > 0));
  for (const one of greedy) assert(guests.admit(one));
  assertEquals(greedy.map(({ gone }) => gone), [false, true, false, false, false]);
  assert(!other.gone);
  const all = new Guests(4);
  for (let i = 0; i < 2; i++) assert(all.admit(guest("10.0.0.1", i, false)));
  assert(!all.admit(guest("10.0.0.1", 9)));
  assert(all.admit(guest("127.0.0.1", 9)));
});

Deno.test("the limit of connections leaves files for the program", async () => {
  const limits = (text: string) => connectionLimit({ readTextFile: () => Promise.resolve(text) });
  const line = (soft: string) =>
    `Limit  Soft  Hard  Units\nMax open files            ${soft}     4096      files\n`;
  assertEquals(await limits(line("64")), 32);
  assertEquals(await limits(line("1024")), 768);
  assertEquals(await limits(line("unlimited")), 4096);
  assertEquals(await connectionLimit({ readTextFile: () => Promise.reject(new Error("no such file")) }), 768);
});
