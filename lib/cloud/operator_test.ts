/** What the operator's log says about failed calls. */

import { assertEquals } from "@std/assert";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { EchoService } from "../../proto/gen/echo_pb.ts";
import { SystemClock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../base/log/log.ts";
import { client } from "../wire/rpc/channel.ts";
import { memoryChannel } from "../wire/rpc/memory.ts";
import { service, ServiceTable } from "../wire/rpc/service.ts";
import { tellOperator } from "./operator.ts";

Deno.test("tellOperator: defects always, a full disk once a minute, and nothing that is the caller's fault", async () => {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logger = new Logs(clock, [memorySink(records)]).logger("cloud");
  const table = new ServiceTable(new SystemClock(), [tellOperator(logger, clock)]);
  let failure: Error;
  table.add(service(EchoService, { echo: () => Promise.reject(failure) }));
  const echo = client(EchoService, memoryChannel(table));
  const logged = async (error: Error) => {
    failure = error;
    records.length = 0;
    await echo.echo({ message: "" }).catch(() => {});
    return records.map(({ message }) => message.replace(/^\S+: /, ""));
  };
  assertEquals(await logged(new SvcError("not_found", "there is none")), []);
  assertEquals(await logged(new SvcError("resource_exhausted", "too many machines")), []);
  assertEquals(await logged(new SvcError("internal", "a defect")), ["a defect"]);
  const full = () => new SvcError("resource_exhausted", "the disk is full", { cause: new Error("/data") });
  assertEquals(await logged(full()), ["the disk is full: /data"]);
  assertEquals(await logged(full()), []);
  await clock.advance(60_000);
  assertEquals(await logged(full()), ["the disk is full: /data"]);
});
