import { assertEquals, assertRejects } from "@std/assert";
import { settle } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { ResourceName } from "../../resource/name.ts";
import { bench, component, header } from "../../../tests/support/machine_bench.ts";

const ID = "3fa85f64-5717-4562-b3fc-2c963f66afa6";
const MACHINE = { components: [component("motor", "m")] };
const GO_FOR = "/viam.component.motor.v1.MotorService/GoFor";

Deno.test("Operations: an operation takes the opid header, is listed, and is echoed in the answer's header", async () => {
  const { robot, motors, apply, close, clock } = bench();
  await apply(MACHINE);
  const going = motors.goFor({ name: "m", rpm: 10, revolutions: 2 }, header(["opid", ID.toUpperCase()]));
  const failed = assertRejects(() => going, SvcError, `operation ${ID} was canceled on request`);
  await settle();

  const { operations } = await robot.getOperations({});
  assertEquals(operations.length, 1);
  const [{ id, method, arguments: args, started, sessionId }] = operations;
  assertEquals({ id, method, args, sessionId }, {
    id: ID,
    method: GO_FOR,
    args: { name: "m", rpm: 10, revolutions: 2 },
    sessionId: undefined,
  });
  assertEquals(Number(started!.seconds) * 1000, clock.nowMs());

  await robot.cancelOperation({ id: ID });
  assertEquals((await failed).code, "canceled");
  assertEquals((await robot.getOperations({})).operations, []);
  let echoed: string | undefined;
  await robot.getVersion({}, { ...header(["opid", ID]), onHeader: (answer) => echoed = answer.get("opid") });
  assertEquals(echoed, ID);
  await robot.getVersion({}, { onHeader: (answer) => echoed = answer.get("opid") });
  assertEquals([echoed?.length, echoed === ID], [36, false]);
  await close();
});

Deno.test("Operations: a call with the opid of a running operation joins it, and is canceled with it", async () => {
  const { robot, motors, apply, close, diary } = bench();
  await apply({ components: [component("motor", "m"), component("motor", "n")] });
  const first = motors.goFor({ name: "m" }, header(["opid", ID])).catch((error) => error.code);
  const second = motors.goFor({ name: "n" }, header(["opid", ID])).catch((error) => error.code);
  await settle();
  const { operations } = await robot.getOperations({});
  assertEquals(operations.map(({ arguments: args }) => args?.name), ["m"]);
  // A caller who is part of it sees the others only, and need not wait for itself.
  assertEquals((await robot.getOperations({}, header(["opid", ID]))).operations, []);
  await robot.blockForOperation({ id: ID }, header(["opid", ID]));

  await robot.cancelOperation({ id: ID });
  assertEquals(await Promise.all([first, second]), ["canceled", "canceled"]);
  assertEquals(diary, ["go m", "go n", "aborted m", "aborted n"]);
  await close();
});

Deno.test("Operations: an operation ends with the last of its calls", async () => {
  const { robot, motors, apply, close } = bench();
  await apply({ components: [component("motor", "m"), component("motor", "n")] });
  const gone = new AbortController();
  const first = motors.goFor({ name: "m" }, { ...header(["opid", ID]), signal: gone.signal }).catch(() => {});
  const second = motors.goFor({ name: "n" }, header(["opid", ID])).catch(() => {});
  await settle();
  let ended = false;
  const waiting = robot.blockForOperation({ id: ID }).then(() => ended = true);
  gone.abort();
  await first;
  await settle();
  assertEquals([ended, (await robot.getOperations({})).operations.length], [false, 2]);
  await robot.cancelOperation({ id: ID });
  await Promise.all([second, waiting]);
  assertEquals(ended, true);
  await close();
});

Deno.test("Operations: an unknown id counts as ended, and an opid that is not a UUID is refused", async () => {
  const { robot, close } = bench();
  await robot.cancelOperation({ id: "nobody" });
  await robot.blockForOperation({ id: "nobody" });
  const notOne = await assertRejects(
    () => robot.getVersion({}, header(["opid", "x"])),
    SvcError,
    "wanted a UUID",
  );
  assertEquals(notOne.code, "invalid_argument");
  await assertRejects(
    () => robot.getVersion({}, header(["opid", ID], ["opid", ID])),
    SvcError,
    "holds 2 ids",
  );
  await close();
});

Deno.test("StopAll: cancels other operations, then stops every actuator with its own extra params", async () => {
  const { robot, motors, apply, close, diary } = bench();
  await apply({ components: [component("motor", "m"), component("motor", "n"), component("generic", "g")] });
  const going = motors.goFor({ name: "m" }).catch((error) => error.message);
  await settle();
  const name = { namespace: "rdk", type: "component", subtype: "motor", name: "n" };
  await robot.stopAll({ extra: [{ name, params: { fast: true } }] });
  assertEquals(/operation .* was canceled by StopAll/.test(await going), true);
  assertEquals(diary, ["go m", "aborted m", "stop m", 'stop n {"fast":true}']);
  await close();
});

Deno.test("StopAll: hands a remote's actuator the arguments for its name for clients, if no local one hides it", async () => {
  const { machine, robot, apply, close, diary } = bench();
  await apply({ components: [component("motor", "n")] });
  const far = (short: string) => ({
    name: ResourceName.of("rdk:component:motor", `far:p-${short}`, short),
    isMoving: () => Promise.resolve(false),
    stop: (call: { extra?: JsonObject }) =>
      Promise.resolve(void diary.push(`far ${short} ${JSON.stringify(call.extra)}`)),
  });
  const named = (name: string) => ({ namespace: "rdk", type: "component", subtype: "motor", name });
  const extra = ["p-m", "n"].map((name) => ({ name: named(name), params: { of: name } }));
  const hidden = { ...far("n"), name: ResourceName.of("rdk:component:motor", "far:n") };
  const resources = [...machine.resources, far("m"), hidden];
  Object.defineProperty(machine, "resources", { value: resources, configurable: true });
  await robot.stopAll({ extra });
  assertEquals(diary, ['stop n {"of":"n"}', 'far m {"of":"p-m"}', "far n undefined"]);
  Reflect.deleteProperty(machine, "resources");
  await close();
});

Deno.test("StopAll: stops every actuator it can and reports all failures", async () => {
  const { robot, apply, close, diary, faults } = bench();
  await apply({ components: [component("motor", "m"), component("motor", "n"), component("motor", "o")] });
  faults.add("m").add("o");
  const error = await assertRejects(() => robot.stopAll({}), SvcError);
  assertEquals(error.code, "unavailable");
  assertEquals(
    error.message,
    "StopAll: cannot stop rdk:component:motor/m: no power; cannot stop rdk:component:motor/o: no power",
  );
  assertEquals(diary, ["stop n"]);
  await close();
});

Deno.test("Operations: StopAll ends what is held on any page, until it is let go and taken again", async () => {
  const { robot, motors, apply, close } = bench();
  await apply({ components: [component("motor", "m"), component("motor", "n")] });
  const holds = Array.from({ length: 3 }, () => crypto.randomUUID());
  const drive = (name: string, hold?: string) =>
    motors.setPower({ name, powerPct: 1 }, hold === undefined ? {} : header(["svc-hold", hold]));
  await drive("m", holds[0]);
  await drive("n", holds[1]);
  await robot.stopAll({});
  const refused = "everything was stopped: let go first";
  for (const hold of [holds[0], holds[1], holds[0]]) {
    const error = await assertRejects(() => drive("m", hold), SvcError, refused);
    assertEquals(error.code, "failed_precondition");
  }
  await drive("m", holds[2]);
  await drive("n");

  // Others cannot make the machine forget the hold that is in use.
  await robot.stopAll({});
  for (let other = 0; other < 600; other++) {
    await drive("n", crypto.randomUUID());
    if (other % 100 === 0) await assertRejects(() => drive("m", holds[2]), SvcError, refused);
  }
  await assertRejects(() => drive("m", "no id"), SvcError, "wanted a UUID");
  await close();
});
