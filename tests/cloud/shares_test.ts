/**
 * Shares of what all tenants hold together: followers of logs, and uploads. Whoever holds as much as possible takes
 * neither the share of another key nor that of another organization.
 */

import { assertEquals, assertRejects } from "@std/assert";
import { AppService, TailRobotPartLogsRequestSchema } from "../../proto/gen/app_pb.ts";
import type { LogEntry } from "../../proto/gen/common_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { assertRefused } from "../support/refusals.ts";
import { until } from "../support/until.ts";
import { Usage } from "../../lib/cloud/access/usage.ts";
import { logHandlers } from "../../lib/cloud/services/operations/log_service.ts";
import type { LogStore } from "../../lib/cloud/logs/logs.ts";
import { create } from "../../lib/wire/rpc/proto.ts";
import { fakeCall } from "../support/fake_call.ts";
import { sqliteTest } from "./stores.ts";
import { newWorld, type World } from "./world.ts";

const clock = new SystemClock();
const codeOf = (error: unknown) => SvcError.from(error).code;

sqliteTest("followers of logs: neither a key nor an organization takes another's share", async ({ open }) => {
  const store = await open();
  const [greedy, honest, third] = [await newWorld(store), await newWorld(store), await newWorld(store)];
  let started = Promise.withResolvers<string>();
  // Logs without news: a follower waits until its call ends.
  const silent: Pick<LogStore, "find" | "follow"> = {
    find: () => Promise.resolve({ entries: [], more: false }),
    async *follow(_id, _filter, signal) {
      started.resolve("follows");
      yield* await new Promise<LogEntry[][]>((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason))
      );
    },
  };
  const [all, ofOrganization, ofKey] = [6, 4, 2];
  const handlers = logHandlers(silent, { store, clock }, [all, ofOrganization, ofKey]);
  const ends: (() => Promise<unknown>)[] = [];
  /** The followers that gave way or were refused. */
  const ended: string[] = [];
  const follow = async ({ part }: World, entity: string) => {
    started = Promise.withResolvers();
    const call = fakeCall({ method: AppService.method.tailRobotPartLogs, entity });
    const request = create(TailRobotPartLogsRequestSchema, { id: part });
    const following = handlers.tailRobotPartLogs(request, call)[Symbol.asyncIterator]();
    const next = following.next().then(() => "over", (error) => {
      ended.push(entity);
      return codeOf(error);
    });
    ends.push(() => {
      call.cancel(new SvcError("canceled", "the test is over"));
      return next;
    });
    return await Promise.race([next, started.promise]);
  };
  const outcomes = async (world: World, ...keys: string[]) => {
    const found: string[] = [];
    for (const key of keys) found.push(await follow(world, key));
    return found.join();
  };
  assertEquals(await outcomes(greedy, "a", "a", "a"), "follows,follows,resource_exhausted");
  // Its organization is full with b's second one: c takes one of them, and not two.
  assertEquals(await outcomes(greedy, "b", "b", "c"), "follows,follows,follows");
  assertEquals([ended.length, ended.filter((one) => "ab".includes(one)).length], [2, 2]);
  assertEquals(await outcomes(greedy, "c"), "resource_exhausted");
  // All six are held: a third organization takes one of the largest.
  assertEquals(await outcomes(honest, "own", "own"), "follows,follows");
  assertEquals(await outcomes(third, "other"), "follows");
  assertEquals(ended.filter((one) => one === "own" || one === "other"), []);
  for (const end of ends) await end();
});

Deno.test("uploads: neither a key nor an organization takes another's share", async () => {
  const usage = new Usage({
    sql: { query: <R>() => Promise.resolve([{ amount: 0 }] as R[]) },
    limits: defaultLimits(),
    clock,
    logger: silentLogs(clock).logger("usage"),
  });
  const begin = (organization: string, key: string) =>
    usage.upload(organization, key, [["dataBytesPerOrganization", organization]]);
  const beginMany = async (organization: string, key: string, count: number) => {
    for (let upload = 0; upload < count; upload++) await begin(organization, key);
  };
  const refused = async (organization: string, key: string) =>
    assertEquals((await assertRejects(() => begin(organization, key), SvcError)).code, "resource_exhausted");
  await beginMany("one", "a", 32);
  await refused("one", "a");
  for (const key of ["b", "c", "d"]) await beginMany("one", key, 32);
  // The organization is full; another key of it still gets its share.
  await beginMany("one", "honest", 10);
  // Organizations of the same person fill everything.
  for (const organization of ["two", "three", "four"]) {
    for (const key of ["a", "b", "c", "d"]) await beginMany(organization, key, 32);
  }
  const honest = await begin("five", "its key");
  await beginMany("five", "its key", 31);
  await refused("five", "its key");
  const lengths: number[] = [];
  for await (const { length } of honest.counted(bytes(3))) lengths.push(length);
  honest.end(true);
  assertEquals(lengths, [10, 10, 10]);
});

Deno.test("uploads under way count together in a limit, and a kept one after its end", async () => {
  const usage = new Usage({
    sql: { query: <R>() => Promise.resolve([{ amount: 0 }] as R[]) },
    limits: { ...defaultLimits(), dataBytesPerOrganization: 100 },
    clock,
    logger: silentLogs(clock).logger("usage"),
  });
  const begin = () => usage.upload("one", "a", [["dataBytesPerOrganization", "one"]]);
  const send = async (upload: Awaited<ReturnType<typeof begin>>, count: number) => {
    for await (const _ of upload.counted(bytes(count)));
  };
  const used = async () =>
    (await usage.ofOrganization("one")).find(({ name }) => name === "data_bytes_per_organization")!.used;

  const [first, second] = [await begin(), await begin()];
  await send(first, 6);
  await send(second, 4);
  assertEquals(await used(), 100);
  await assertRefused("resource_exhausted", "found 100 and 10 more", () => send(second, 1));
  await assertRefused("resource_exhausted", "found 100 and 0 more", begin);
  first.end(false);
  first.end(false);
  assertEquals(await used(), 40);
  second.end(true);
  assertEquals(await used(), 40);
  const third = await begin();
  await send(third, 6);
  third.end(true);
  assertEquals(await used(), 100);
});

Deno.test("usage: uploads in the same moment sum up once, and those of many machines forget no organization's", async () => {
  const asked: string[] = [];
  const answers: PromiseWithResolvers<{ amount: number }[]>[] = [];
  const usage = new Usage({
    sql: {
      query: <R>(_: string, id: unknown) => {
        asked.push(String(id));
        const answer = Promise.withResolvers<{ amount: number }[]>();
        if (id === "one") answers.push(answer);
        else answer.resolve([{ amount: 0 }]);
        return answer.promise as Promise<R[]>;
      },
    },
    limits: defaultLimits(),
    clock,
    logger: silentLogs(clock).logger("usage"),
  });
  const takes = () => Array.from({ length: 5 }, () => usage.take("one", "logBytesPerOrganization", 1));
  const [first, ...others] = takes();
  assertEquals(asked, ["one"]);
  // The caller whose query it was has gone: one of the others asks.
  answers[0].reject(new SvcError("canceled", "gone"));
  assertEquals((await assertRejects(() => first, SvcError)).code, "canceled");
  await until(() => asked.length > 1);
  answers[1].resolve([{ amount: 7 }]);
  await Promise.all(others);
  await Promise.all(takes());
  for (let machine = 0; machine < 10_050; machine++) {
    await usage.take(`part ${machine}`, "logBytesPerPart", 1);
    await usage.take(`machine ${machine}`, "dataBytesPerMachine", 1);
  }
  await usage.take("one", "logBytesPerOrganization", 1);
  assertEquals(asked.filter((id) => id === "one").length, 2);
});

async function* bytes(count: number): AsyncGenerator<Uint8Array> {
  for (let piece = 0; piece < count; piece++) yield new Uint8Array(10);
}
