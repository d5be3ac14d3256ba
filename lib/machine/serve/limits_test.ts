import { assertEquals, assertRejects } from "@std/assert";
import { MotorService } from "../../../proto/gen/motor_pb.ts";
import { settle } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { MotorApi } from "../../api/actuators/motor.ts";
import { Registry } from "../../resource/registry.ts";
import { Metadata } from "../../wire/rpc/metadata.ts";
import { create } from "../../wire/rpc/proto.ts";
import { requestLimit } from "./limits.ts";
import { bench, component } from "../../../tests/support/machine_bench.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { fakeCall } from "../../../tests/support/fake_call.ts";

function limitOf(value: string | undefined, clock = new FakeClock(), records: LogRecord[] = []) {
  const logger = new Logs(clock, [memorySink(records)]).logger("t");
  return requestLimit({ host: { env: () => value }, registry: new Registry([MotorApi], []), clock, logger });
}

Deno.test("requestLimit: refuses calls beyond the limit of a resource, but not calls of other resources", async () => {
  const { clock, robot, motors, apply, close } = bench({ env: { VIAM_RESOURCE_REQUESTS_LIMIT: "2" } });
  await apply({ components: [component("motor", "m"), component("motor", "n")] });
  const going = [1, 2].map(() => motors.goFor({ name: "m" }).catch(() => {}));
  await clock.advance(3_000);
  const refused = await assertRejects(() => motors.setPower({ name: "m", powerPct: 1 }), SvcError);
  assertEquals(refused.code, "resource_exhausted");
  assertEquals(
    refused.message,
    "exceeded request limit 2 on resource m.viam.component.motor.v1.MotorService with SetPower; " +
      "held by 2 GoFor from the machine itself for up to 3.0 s; " +
      "wait for these calls to end, cancel them, or set SVC_RESOURCE_REQUESTS_LIMIT to more",
  );
  await motors.setPower({ name: "n", powerPct: 1 });
  await robot.stopAll({});
  await Promise.all(going);
  await motors.setPower({ name: "m", powerPct: 1 });
  await close();
});

Deno.test("requestLimit: RobotService has a single count, and Log is never refused", async () => {
  const { robot, motors, apply, close, records } = bench({ env: { SVC_RESOURCE_REQUESTS_LIMIT: "1" } });
  await apply({ components: [component("motor", "m")] });
  const going = motors.goFor({ name: "m" }, {}).catch(() => {});
  await settle();
  const { operations: [{ id }] } = await robot.getOperations({});
  const waiting = robot.blockForOperation({ id });
  await settle();
  await assertRejects(
    () => robot.getVersion({}),
    SvcError,
    "on resource viam.robot.v1.RobotService with GetVersion",
  );
  await robot.log({ logs: [{ level: "INFO", message: "hello" }] });
  assertEquals(records.at(-1)?.message, "hello");
  await close();
  await Promise.allSettled([going, waiting]);
});

Deno.test("requestLimit: a call that waits for its reader does not count", async () => {
  const around = limitOf("2");
  const method = MotorService.method.goFor;
  const request = create(method.input, { name: "m" });
  const call = () => Object.assign(fakeCall({ method }), { unread: false });
  const waiting = [1, 2].map(() => call());
  const ends = waiting.map((ctx) => around(ctx, request) as () => void);
  await assertRejects(async () => void await around(call(), request), SvcError, "exceeded request limit 2");
  for (const ctx of waiting) ctx.unread = true;
  const other = around(call(), request) as () => void;
  for (const end of [...ends, other]) end();
});

Deno.test("requestLimit: the caller with the most calls gives way to another, a module never does", async () => {
  const around = limitOf("4");
  const { goFor, stop } = MotorService.method;
  const call = (method: typeof goFor | typeof stop, entity?: string, remoteAddress?: string) => {
    const over = new AbortController();
    const ctx = fakeCall({
      method,
      peer: { kind: "grpc", remoteAddress },
      signal: over.signal,
      cancel: (reason) => over.abort(reason),
    });
    ctx.entity = entity;
    return { ctx, end: around(ctx, create(method.input, { name: "m" })) };
  };
  const busy = [1, 2, 3, 4].map(() => call(goFor, "busy", "192.0.2.1"));
  const stopped = call(stop, "other", "192.0.2.2");
  const end = await stopped.end;
  assertEquals(busy.map(({ ctx }) => ctx.signal.aborted), [true, false, false, false]);
  assertEquals(SvcError.from(busy[0].ctx.signal.reason).code, "resource_exhausted");
  await assertRejects(
    async () => void await call(goFor, "busy", "192.0.2.1").end,
    SvcError,
    "3 GoFor by busy",
  );
  for (const one of [end, ...busy.map((one) => one.end)]) (one as () => void)();

  const modules = [1, 2, 3, 4].map(() => call(goFor).end);
  await assertRejects(async () => void await call(stop, "other", "192.0.2.2").end, SvcError, "4 GoFor");
  for (const one of modules) (one as () => void)();
});

Deno.test("requestLimit: 50 short calls at the same moment pass a limit of 2", async () => {
  const around = limitOf("2");
  const method = MotorService.method.goFor;
  const request = create(method.input, { name: "m" });
  const ctx = () => fakeCall({ method });
  const call = async () => {
    const end = await around(ctx(), request) as () => void;
    await Promise.resolve();
    end();
  };
  await Promise.all(Array.from({ length: 50 }, call));
});

Deno.test("requestLimit: a refusal lists the callers that hold the resource, most calls first", async () => {
  const clock = new FakeClock();
  const around = limitOf("7", clock);
  const { goFor, goTo, stop } = MotorService.method;
  const call = (method: typeof goFor | typeof goTo | typeof stop, entity?: string, client?: string) => {
    const requestHeader = Metadata.from(client === undefined ? [] : [["viam_client", client]]);
    const ctx = fakeCall({ method, requestHeader, peer: { kind: "grpc", remoteAddress: "10.0.0.7" } });
    ctx.entity = entity;
    return around(ctx, create(method.input, { name: "m" }));
  };
  const ends = [call(goTo, "key-2", "python;v0.60\n\u001b[2J;and much more that nobody needs to read")];
  await clock.advance(60_000);
  for (let n = 0; n < 3; n++) ends.push(call(goFor, "key-1"));
  ends.push(call(goFor), call(stop, "key-1"), call(stop, "key-2"));
  await clock.advance(500);
  const { message } = await assertRejects(async () => void await call(stop, "key-1"), SvcError);
  const [, held] = /held by (.*); wait/.exec(message) ?? [];
  assertEquals(held.split(", "), [
    "3 GoFor by key-1 from 10.0.0.7 for up to 0.5 s",
    "1 GoTo by key-2 from 10.0.0.7 (python;v0.60\\n\\u001b[2J;and much more that nob) for up to 61 s",
    "1 GoFor from 10.0.0.7 for up to 0.5 s",
    "2 other kinds of calls",
  ]);
  for (const end of ends) (end as () => void)();
});

Deno.test("requestLimit: an invalid SVC_RESOURCE_REQUESTS_LIMIT is logged and 100 is used", async () => {
  for (const value of ["0", "-1", "many", "1.5", "100001"]) {
    const records: LogRecord[] = [];
    const around = limitOf(value, new FakeClock(), records);
    assertEquals(
      records.map(({ message }) => message),
      [`SVC_RESOURCE_REQUESTS_LIMIT is "${value}", wanted a whole number from 1 to 100000; 100 is used`],
    );
    const method = MotorService.method.goFor;
    const call = () => around(fakeCall({ method }), create(method.input, { name: "m" })) as () => void;
    const ends = Array.from({ length: 100 }, call);
    await assertRejects(async () => void await call(), SvcError, "exceeded request limit 100");
    for (const end of ends) end();
  }
});
