/** An idle agent, and a control plane with machines. */

import { AppService } from "../../../proto/gen/app_pb.ts";
import { AuthService } from "../../../proto/gen/auth_pb.ts";
import { RobotService } from "../../../proto/gen/robot_config_pb.ts";
import { toTimestamp } from "../../../lib/api/shared/time.ts";
import { connectApp } from "../../../lib/cloud_client/app_channel.ts";
import { Secret } from "../../../lib/base/secret.ts";
import { connectGrpc } from "../../../lib/wire/grpc/grpc_channel.ts";
import { type Channel, client } from "../../../lib/wire/rpc/channel.ts";
import { Metadata } from "../../../lib/wire/rpc/metadata.ts";
import { type CloudProcess, type Example, serveCloud, svcCloud } from "../../cloud/program.ts";
import { processorMs, residentBytes } from "../../support/server.ts";
import { Relay } from "../relay.ts";
import {
  addRate,
  callsOf,
  clock,
  type Command,
  endProcess,
  type Figures,
  type OpenFigures,
  spawn,
  waitFor,
} from "./contestant.ts";

const MINUTE_MS = 60_000;
const MACHINES = 100;
const LOG_ENTRIES = 5;
const AT_ONCE = 16;
const CALLS = 2000;

/** An agent of a device that has nothing to do, with our control plane behind a relay. */
export async function agent(command: Command): Promise<Figures> {
  const folder = await Deno.makeTempDir({ prefix: "svc-compare-" });
  const data = ["--data", `${folder}/data`];
  const example: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
  const cloud = await serveCloud(data);
  const relay = new Relay(Number(new URL(cloud.url).port));
  const file = `${folder}/agent.json`;
  const own = { ...example.config.cloud, app_address: relay.url, id: example.partId };
  await Deno.writeTextFile(file, JSON.stringify({ cloud: own }));

  const [program, ...args] = command;
  const flags = ["--dev-mode", "--dir", `${folder}/agent`, "--config", file];
  const child = spawn([program, ...args, ...flags], folder);
  try {
    await waitFor(() => Promise.resolve(relay.connections > 0), "the agent does not connect");
    await clock.sleep(MINUTE_MS);
    const beforeMs = await processorMs(child.pid);
    await clock.sleep(MINUTE_MS);
    return {
      "idle agent: memory, MB": await residentBytes(child.pid) / 1e6,
      "idle agent: processor time of a minute, ms": await processorMs(child.pid) - beforeMs,
      "agent: traffic of its first two minutes, kB": relay.bytes / 1000,
    };
  } finally {
    await endProcess(child);
    relay.close();
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

/** A control plane with a hundred machines, each with a connection of its own. */
export async function cloud(command: Command): Promise<Figures> {
  const folder = await Deno.makeTempDir({ prefix: "svc-compare-" });
  const data = ["--data", folder];
  const [program, ...args] = command;
  const { stdout } = await new Deno.Command(program, {
    args: [...args, "init", ...data, "--json"],
    stderr: "inherit",
  }).output();
  const example: Example = JSON.parse(new TextDecoder().decode(stdout));
  const beganMs = performance.now();
  const plane = await serveCloud(data, { command });
  const figures: OpenFigures = { "svc-cloud: serving, ms": performance.now() - beganMs };
  const channels: Channel[] = [];
  try {
    const machines = await createMachines(plane, example);
    const waiting = machines.values();
    await addRate(figures, "svc-cloud: machines logging in", plane, MACHINES, () => {
      const login = async () => {
        const at = waiting.next().value!;
        channels[machines.indexOf(at)] = await connectMachine(plane, at);
      };
      return callsOf(login, AT_ONCE, MACHINES);
    });

    for (const [name, call] of Object.entries(machineCalls(machines, channels))) {
      await callsOf(call, AT_ONCE, MACHINES);
      await addRate(figures, `svc-cloud: ${name}`, plane, CALLS, () => callsOf(call, AT_ONCE, CALLS));
    }
    figures[`svc-cloud: memory with ${MACHINES} machines, MB`] = await residentBytes(plane.pid) / 1e6;
    return figures;
  } finally {
    for (const channel of channels) channel.close();
    await plane.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

/** A machine's part, and the key that it logs in with. */
interface Machine {
  readonly partId: string;
  readonly key: Example["ownerKey"];
}

async function createMachines({ url }: CloudProcess, example: Example): Promise<Machine[]> {
  const { ownerKey: { id: keyId, key }, locationId: location } = example;
  const channel = connectApp({ address: url, keyId, key: new Secret(key), clock });
  const app = client(AppService, channel);
  try {
    const machines: Machine[] = [];
    for (let at = 0; at < MACHINES; at++) {
      const { id: resourceId } = await app.newRobot({ name: `machine-${at}`, location });
      const { parts: [part] } = await app.getRobotParts({ robotId: resourceId });
      const role = {
        authorizationType: "role",
        authorizationId: "robot_operator",
        resourceType: "robot",
        resourceId,
        organizationId: example.organizationId,
      };
      const made = await app.createKey({ name: `machine-${at}`, authorizations: [role] });
      machines.push({ partId: part!.id, key: made });
    }
    return machines;
  } finally {
    channel.close();
  }
}

async function connectMachine({ url }: CloudProcess, { key }: Machine): Promise<Channel> {
  const host = new URL(url).host;
  const first = connectGrpc(host, { clock });
  try {
    const { authenticate } = client(AuthService, first);
    const credentials = { type: "api-key", payload: key.key };
    const { accessToken } = await authenticate({ entity: key.id, credentials });
    return connectGrpc(host, { clock, header: Metadata.from([["authorization", `Bearer ${accessToken}`]]) });
  } finally {
    first.close();
  }
}

/** The calls that machines make all the time, by turns of the machines. */
function machineCalls(machines: readonly Machine[], channels: readonly Channel[]) {
  const robots = channels.map((channel, at) => ({
    id: machines[at]!.partId,
    robot: client(RobotService, channel),
  }));
  let turn = 0;
  const next = () => robots[turn++ % robots.length]!;
  const logs = () =>
    Array.from({ length: LOG_ENTRIES }, (_, at) => ({
      message: `the motor turned ${turn} times and is at ${at}`,
      level: "info",
      loggerName: "rdk.resource_manager.rdk:component:motor/left",
      time: toTimestamp(clock.nowMs()),
    }));
  const called = (call: (one: ReturnType<typeof next>) => Promise<unknown>) => () => call(next());
  return {
    "configurations asked for": called(({ id, robot }) => robot.config({ id })),
    "restarts asked for": called(({ id, robot }) => robot.needsRestart({ id })),
    "logs of 5 lines": called(({ id, robot }) => robot.log({ id, logs: logs() })),
  };
}
