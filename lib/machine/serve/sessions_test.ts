import {
  assertEquals,
  assertNotEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { settle } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { ResourceName } from "../../resource/name.ts";
import { Metadata } from "../../wire/rpc/metadata.ts";
import type { CallContext } from "../../wire/rpc/service.ts";
import { bench, component, ENTITY, header } from "../../../tests/support/machine_bench.ts";

const MACHINE = { components: [component("motor", "m"), component("motor", "n")] };
const inSession = (id: string) => header(["viam-sid", id]);

Deno.test("Sessions: without heartbeats a session expires, and the actuators it moved are stopped", async () => {
  const { robot, motors, apply, close, clock, diary } = bench({ heartbeatWindowMs: 300 });
  await apply(MACHINE);
  const { id, heartbeatWindow } = await robot.startSession({});
  assertEquals(heartbeatWindow, { ...heartbeatWindow!, seconds: 0n, nanos: 300_000_000 });
  await motors.setPower({ name: "m", powerPct: 1 }, inSession(id));
  await clock.advance(200);
  await robot.sendSessionHeartbeat({ id });
  await clock.advance(299);
  assertEquals(diary, []);
  assertEquals((await robot.getSessions({})).sessions.map((one) => one.id), [id]);
  await clock.advance(1);
  assertEquals(diary, ["stop m"]);
  assertEquals((await robot.getSessions({})).sessions, []);
  const expired = await assertRejects(() => robot.sendSessionHeartbeat({ id }), SvcError);
  assertEquals([expired.code, expired.message], ["invalid_argument", "SESSION_EXPIRED"]);
  await assertRejects(
    () => motors.setPower({ name: "m", powerPct: 1 }, inSession(id)),
    SvcError,
    "SESSION_EXPIRED",
  );
  await close();
});

Deno.test("Sessions: only a monitored call counts as a heartbeat and needs a live session", async () => {
  const { robot, motors, apply, close, clock, diary } = bench({ heartbeatWindowMs: 300 });
  await apply(MACHINE);
  const { id } = await robot.startSession({});
  for (let call = 0; call < 5; call++) {
    await clock.advance(250);
    await motors.setPower({ name: "m", powerPct: 1 }, inSession(id));
  }
  await clock.advance(250);
  await motors.isMoving({ name: "m" }, inSession(id));
  await clock.advance(50);
  assertEquals(diary, ["stop m"]);
  await motors.isMoving({ name: "m" }, inSession(id));
  await close();
});

Deno.test("Sessions: an expired session stops only the actuators that it moved last", async () => {
  const { robot, motors, apply, close, clock, diary } = bench({ heartbeatWindowMs: 300 });
  await apply(MACHINE);
  const { id: lost } = await robot.startSession({});
  const { id: live } = await robot.startSession({});
  await motors.setPower({ name: "m", powerPct: 1 }, inSession(lost));
  await motors.setPower({ name: "n", powerPct: 1 }, inSession(lost));
  await motors.setPower({ name: "m", powerPct: 1 }, inSession(live));
  await motors.setPower({ name: "n", powerPct: 1 });
  await clock.advance(200);
  await robot.sendSessionHeartbeat({ id: live });
  await clock.advance(200);
  assertEquals(diary, []);
  await clock.advance(100);
  assertEquals(diary, ["stop m"]);
  await close();
});

Deno.test("Sessions: a client that streams arm moves owns the arm from the message that names it", async () => {
  const { robot, arms, apply, close, clock, diary } = bench({ heartbeatWindowMs: 300 });
  await apply({ components: [component("arm", "a")] });
  const follow = async (id: string, begin: Promise<void>, end: Promise<void>) => {
    const requests = async function* () {
      await begin;
      yield { name: "a", message: { case: "init", value: {} } } as const;
      await end;
    };
    await Array.fromAsync(arms.moveThroughJointPositionsStreamed(requests(), inSession(id)));
  };
  const never = Promise.withResolvers<void>();
  const { id } = await robot.startSession({});
  const moving = follow(id, Promise.resolve(), never.promise);
  await clock.advance(299);
  assertEquals(diary, []);
  await clock.advance(1);
  assertEquals(diary, ["stop a"]);
  never.resolve();
  await moving;

  const begin = Promise.withResolvers<void>();
  const { id: late } = await robot.startSession({});
  const tooLate = assertRejects(
    () => follow(late, begin.promise, Promise.resolve()),
    SvcError,
    "SESSION_EXPIRED",
  );
  await clock.advance(300);
  begin.resolve();
  await tooLate;
  assertEquals(diary, ["stop a"]);
  await close();
});

Deno.test("Sessions: only the owner can use a session and resume it before it expires", async () => {
  const { robot, close, clock } = bench();
  const ada = header([ENTITY, "ada"]);
  const { id } = await robot.startSession({}, ada);
  await robot.sendSessionHeartbeat({ id }, ada);
  await assertRejects(() => robot.sendSessionHeartbeat({ id }), SvcError, "SESSION_EXPIRED");
  await assertRejects(
    () => robot.sendSessionHeartbeat({ id }, header([ENTITY, "bob"])),
    SvcError,
    "SESSION_EXPIRED",
  );
  await clock.advance(1500);
  assertEquals((await robot.startSession({ resume: id }, ada)).id, id);
  assertNotEquals((await robot.startSession({ resume: id })).id, id);
  await clock.advance(1500);
  await robot.sendSessionHeartbeat({ id }, ada);
  await clock.advance(2000);
  assertNotEquals((await robot.startSession({ resume: id }, ada)).id, id);
  await assertRejects(() => robot.startSession({ resume: "me" }), SvcError, "wanted a UUID");
  await close();
});

Deno.test("Sessions: one key's sessions leave places for others, and the idlest stops what it moved", async () => {
  const { robot, motors, apply, close, sessions, clock, diary } = bench();
  await apply(MACHINE);
  const startAs = (entity: string, remoteAddress?: string) => {
    return sessions.start({ entity, peer: { kind: "grpc", remoteAddress } } as CallContext, "");
  };
  const ada = header([ENTITY, "ada"]);
  const { id } = await robot.startSession({}, ada);
  await motors.setPower({ name: "m", powerPct: 1 }, header([ENTITY, "ada"], ["viam-sid", id]));
  await clock.advance(1);
  for (let count = 1; count < 256; count++) startAs("ada");
  const { code, message } = assertThrows(() => startAs("ada"), SvcError);
  assertEquals([code, message.slice(0, 31)], ["resource_exhausted", "256 sessions of one address exi"]);
  for (let count = 0; count < 256; count++) startAs("ada", "192.0.2.1");
  for (let count = 0; count < 256; count++) startAs("bob", `192.0.2.${count % 2}`);
  for (let count = 0; count < 256; count++) startAs("eve");
  assertEquals([sessions.list().length, diary], [1024, []]);
  assertStringIncludes(startAs("cyd"), "-");
  await settle();
  assertEquals([sessions.list().length, diary], [1024, ["stop m"]]);
  await close();
});

Deno.test("Sessions: log an actuator of a lost client that cannot be stopped", async () => {
  const { robot, motors, apply, close, clock, diary, faults, records } = bench();
  await apply(MACHINE);
  const { id } = await robot.startSession({});
  for (const name of ["m", "n"]) await motors.setPower({ name, powerPct: 1 }, inSession(id));
  await assertRejects(() => motors.setPower({ name: "gone", powerPct: 1 }, inSession(id)));
  faults.add("m");
  await clock.advance(2000);
  assertEquals(diary, ["stop n"]);
  const [error] = records.filter(({ level }) => level === "error");
  assertStringIncludes(error.message, "cannot stop rdk:component:motor/m: no power");
  await close();
});

Deno.test("Sessions.alsoMoves: sets the viam-smrn header and stops that resource on expiry", async () => {
  const { robot, apply, close, clock, diary, sessions } = bench();
  await apply(MACHINE);
  const { id } = await robot.startSession({});
  const ctx = { requestHeader: Metadata.from([["viam-sid", id]]), responseHeader: new Metadata() };
  sessions.alsoMoves(ctx as CallContext, ResourceName.of("rdk:component:motor", "n"));
  assertEquals(ctx.responseHeader.get("viam-smrn"), "rdk:component:motor/n");
  await clock.advance(2000);
  assertEquals(diary, ["stop n"]);
  await close();
});

Deno.test("Sessions.close: ends sessions without stopping actuators", async () => {
  const { robot, motors, apply, close, clock, diary } = bench();
  await apply(MACHINE);
  const { id } = await robot.startSession({});
  await motors.setPower({ name: "m", powerPct: 1 }, inSession(id));
  await close();
  await clock.advance(10_000);
  await settle();
  assertEquals([diary, clock.pending], [[], 0]);
});

Deno.test("Sessions: a live session keeps its heartbeat window when the setting changes", async () => {
  const { robot, sessions, close, clock } = bench({ heartbeatWindowMs: 300 });
  const { id: old } = await robot.startSession({});
  sessions.heartbeatWindowMs = 100;
  const { id: fresh, heartbeatWindow } = await robot.startSession({});
  assertEquals(heartbeatWindow?.nanos, 100_000_000);
  await robot.sendSessionHeartbeat({ id: old });
  await clock.advance(299);
  const living = async () => (await robot.getSessions({})).sessions.map((one) => one.id);
  assertEquals([await living(), fresh === old], [[old], false]);
  await robot.startSession({ resume: old });
  await clock.advance(100);
  await clock.advance(200);
  assertEquals(await living(), []);
  await close();
});
