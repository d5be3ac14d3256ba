/**
 * What a machine's configuration lets each caller call: a machine of its own, and one of a control plane.
 */

import { assertEquals } from "@std/assert";
import { AppService } from "../proto/gen/app_pb.ts";
import { AuthService } from "../proto/gen/auth_pb.ts";
import { MotorService } from "../proto/gen/motor_pb.ts";
import { RobotService } from "../proto/gen/robot_pb.ts";
import { SystemClock } from "../lib/base/clock.ts";
import { SvcError } from "../lib/base/error.ts";
import type { JsonObject } from "../lib/base/schema/schema.ts";
import { connectGrpc } from "../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../lib/wire/rpc/metadata.ts";
import { client } from "../lib/wire/rpc/channel.ts";
import { withManagedMachine } from "./cloud/managed.ts";
import { startServer, writeConfig } from "./support/server.ts";
import { until } from "./support/until.ts";

const clock = new SystemClock();
const IS_POWERED = "/viam.component.motor.v1.MotorService/IsPowered";
const NAMES = "/viam.robot.v1.RobotService/ResourceNames";

const components = ["left", "right"].map((name) => ({ name, api: "rdk:component:motor", model: "fake" }));

/** Lets `id` ask for the names of resources, and one motor whether it runs. */
const permissionsOf = (id: string, motor: string): JsonObject[] => [{
  user: { type: "api-key-id", id },
  permissions: [
    { resources: ["_machine"], allowed_methods: [NAMES] },
    { resources: [motor], allowed_methods: [IS_POWERED] },
  ],
}];

interface Key {
  readonly id: string;
  readonly key: string;
}

/** What this key may do at a machine: whether either motor runs, starting the left one, the list of its resources. */
async function rightsOf({ id, key }: Key, url: string, ca?: string): Promise<string[]> {
  const { host } = new URL(url);
  const tls = url.startsWith("https") ? { ca } : undefined;
  const first = connectGrpc(host, { clock, tls });
  const credentials = { type: "api-key", payload: key };
  const { accessToken } = await client(AuthService, first).authenticate({ entity: id, credentials });
  first.close();

  const header = Metadata.from([["authorization", `Bearer ${accessToken}`]]);
  const channel = connectGrpc(host, { clock, tls, header });
  const [motor, robot] = [client(MotorService, channel), client(RobotService, channel)];
  const asked = [
    motor.isPowered({ name: "left" }),
    motor.isPowered({ name: "right" }),
    motor.setPower({ name: "left", powerPct: 0.1 }),
    robot.resourceNames({}),
  ];
  const results = await Promise.all(
    asked.map((one: Promise<unknown>) => one.then(() => "ok", (error) => SvcError.from(error).code)),
  );
  channel.close();
  return results;
}

const ALL = ["ok", "ok", "ok", "ok"];
const ONE_MOTOR = ["ok", "permission_denied", "permission_denied", "ok"];
const NOTHING = ["permission_denied", "permission_denied", "permission_denied", "permission_denied"];

Deno.test("a machine's user_permissions bind each caller, from the next configuration on", async () => {
  const [mine, another] = [{ id: "me", key: "sesame" }, { id: "another", key: "poppy" }];
  const config = { me: mine.key, another: another.key, keys: [mine.id, another.id] };
  const auth = { handlers: [{ type: "api-key", config }] };
  const path = await writeConfig({ components, auth });
  const server = await startServer(path);
  try {
    await server.wrote("machine is running");
    assertEquals(await rightsOf(mine, server.url), ALL);
    const { network } = JSON.parse(await Deno.readTextFile(path));
    const restricted = { ...auth, user_permissions: permissionsOf("me", "left") };
    await Deno.writeTextFile(path, JSON.stringify({ network, components, auth: restricted }));
    await until(async () => (await rightsOf(another, server.url))[0] !== "ok");
    assertEquals(await rightsOf(mine, server.url), ONE_MOTOR);
    assertEquals(await rightsOf(another, server.url), NOTHING);
  } finally {
    await server.stop();
    await Deno.remove(path);
  }
});

Deno.test("a control plane hands a machine its user_permissions", () =>
  withManagedMachine({ components }, async ({ example: { partId, ownerKey }, channel, server, ca }) => {
    const app = client(AppService, channel);
    assertEquals(await rightsOf(ownerKey, server.url, ca), ALL);
    const { part } = await app.getRobotPart({ id: partId });
    const restricted = {
      ...part!.robotConfig as JsonObject,
      auth: { user_permissions: permissionsOf(ownerKey.id, "left") },
    };
    await app.updateRobotPart({ id: partId, name: part!.name, robotConfig: restricted });
    await until(async () => (await rightsOf(ownerKey, server.url, ca))[1] !== "ok");
    assertEquals(await rightsOf(ownerKey, server.url, ca), ONE_MOTOR);
  }));
