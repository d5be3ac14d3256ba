import { assertEquals, assertRejects } from "@std/assert";
import { MotorService } from "../../../proto/gen/motor_pb.ts";
import { settle } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { MotorApi } from "../../api/motor.ts";
import { Registry } from "../../resource/registry.ts";
import { create } from "../../wire/proto.ts";
import { requestLimit } from "./limits.ts";
import { bench, component } from "../../../tests/support/machine_bench.ts";
import { fakeCall } from "../../../tests/support/fake_call.ts";

Deno.test("a call beyond the limit of its resource is refused, other resources and later calls are not", async () => {
  const { robot, motors, apply, close } = bench({ env: { VIAM_RESOURCE_REQUESTS_LIMIT: "2" } });
  await apply({ components: [component("motor", "m"), component("motor", "n")] });
  const going = [1, 2].map(() => motors.goFor({ name: "m" }).catch(() => {}));
  await settle();
  const refused = await assertRejects(() => motors.setPower({ name: "m", powerPct: 1 }), SvcError);
  assertEquals(refused.code, "resource_exhausted");
  assertEquals(
    refused.message,
    "exceeded request limit 2 on resource m.viam.component.motor.v1.MotorService with SetPower; " +
      "wait for earlier calls to end, or set SVC_RESOURCE_REQUESTS_LIMIT to more",
  );
  await motors.setPower({ name: "n", powerPct: 1 });
  await robot.stopAll({});
  await Promise.all(going);
  await motors.setPower({ name: "m", powerPct: 1 });
  await close();
});

Deno.test("the machine's own service has one count, and logs are always taken", async () => {
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

Deno.test("a call that waits for its reader does not keep others from the resource", async () => {
  const around = requestLimit({ host: { env: () => "2" }, registry: new Registry([MotorApi], []) });
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

Deno.test("calls that come in the same moment are not refused if each of them is over at once", async () => {
  const around = requestLimit({ host: { env: () => "2" }, registry: new Registry([MotorApi], []) });
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
