/**
 * The memory budget of connections, and who is closed when it is used up.
 */

import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { PortAllowance } from "./byte_budget.ts";

const LARGE = 100_000;

Deno.test("PortAllowance: the connection with most unread bytes is closed in favour of a smaller user", () => {
  const port = new PortAllowance({ unread: 1_000_000, unreadByConnection: 600_000 });
  const left: string[] = [];
  const connect = (name: string) => {
    const { unread, end } = port.connection(() => {
      left.push(name);
      unread.give(unread.usedBytes);
      end();
    });
    return unread;
  };
  const [greedy, hungry, modest] = ["greedy", "hungry", "modest"].map(connect);
  for (let i = 0; i < 4; i++) greedy.take(LARGE);
  for (let i = 0; i < 3; i++) hungry.take(LARGE);
  // The requester would be the largest holder, so nobody is closed for it.
  assertThrows(() => hungry.take(LARGE), SvcError, "that nobody has read hold 700000");
  assertEquals(left, []);
  modest.check(LARGE);
  assertEquals([left, modest.usedBytes], [["greedy"], 0]);
  for (let i = 0; i < 2; i++) modest.take(LARGE);
  assertEquals([left, port.usedBytes.unread], [["greedy"], 5 * LARGE]);
  modest.give(2 * LARGE);
  hungry.take(LARGE);
  assertEquals(port.usedBytes.unread, 4 * LARGE);
});
