/** A machine reaches another one by its name alone: on the same network, and through the control plane. */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { BoardService } from "../../proto/gen/board_pb.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { loopbackMulticast } from "../support/multicast.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { selfSigned } from "../support/echo.ts";
import { type ServerProcess, startServer, writeConfig } from "../support/server.ts";
import { type ManagedMachine, withManagedMachine } from "./managed.ts";

const clock = new SystemClock();

/** A second machine of the same control plane, with the first one as its remote, by its name unless it is told. */
async function startNear(
  { example, fqdn, folder, cloud, channel }: ManagedMachine,
  args: string[],
  how: JsonObject = { address: fqdn, insecure: true },
) {
  const app = client(AppService, channel);
  const name = `near-${crypto.randomUUID().slice(0, 8)}`;
  const { partId: id } = await app.newRobotPart({ robotId: example.machineId, partName: name });
  const { id: entity, key: payload } = example.ownerKey;
  const auth = { entity, credentials: { type: "api-key", payload } };
  const remotes = [{ name: "far", ...how, auth }];
  const robotConfig = { network: { bind_address: "localhost:0" }, remotes };
  await app.updateRobotPart({ id, name, robotConfig });
  const { api_key } = example.config.cloud;
  const file = `${folder}/${name}.json`;
  await Deno.writeTextFile(file, JSON.stringify({ cloud: { id, api_key, app_address: cloud.url } }));
  const env = { SVC_HOME: `${folder}/${name}` };
  return await startServer(file, { args: ["-allow-insecure-creds", "-no-tls", ...args], env });
}

/** A continuing stream. */
interface Following {
  readonly ended: Promise<void>;
  /** Follows it no longer. */
  close(): Promise<void>;
}

/** Uses the board of the remote through the machine, and follows its ticks. */
async function usesBoard(server: ServerProcess, { example }: ManagedMachine): Promise<Following> {
  const header = new Metadata();
  const channel = connectGrpc(new URL(server.url).host, { clock, header });
  try {
    const { id: entity, key: payload } = example.ownerKey;
    const credentials = { type: "api-key", payload };
    const { accessToken } = await client(AuthService, channel).authenticate({ entity, credentials });
    header.set("authorization", `Bearer ${accessToken}`);
    const board = client(BoardService, channel);
    await board.setGPIO({ name: "far:board1", pin: "7", high: true });
    assertEquals((await board.getGPIO({ name: "far:board1", pin: "7" })).high, true);
    const ticks = board.streamTicks({ name: "far:board1", pinNames: ["tick"] })[Symbol.asyncIterator]();
    // The first answer is empty (published).
    await ticks.next();
    assertEquals((await ticks.next()).value?.pinName, "tick");
    const ended = readToEnd(ticks).finally(() => channel.close());
    const close = () => {
      channel.close();
      return ended;
    };
    return { ended, close };
  } catch (error) {
    channel.close();
    throw error;
  }
}

/** Resolves when a stream has ended, however it does. */
async function readToEnd(stream: AsyncIterator<unknown>): Promise<void> {
  try {
    while (!(await stream.next()).done);
  } catch {
    // A call that is cut fails.
  }
}

const BOARD = {
  name: "board1",
  api: "rdk:component:board",
  model: "fake",
  attributes: { digital_interrupts: [{ name: "tick", pin: "1" }] },
};
const FAR = { components: [BOARD], network: { bind_address: "localhost:0", no_tls: true } };

async function reached(way: string, args: string[]): Promise<void> {
  await withManagedMachine(
    FAR,
    async (far) => {
      const near = await startNear(far, args);
      try {
        const connected = 'remote "far" is connected';
        await near.wrote(connected);
        assertStringIncludes(
          near.output().split("\n").find((line) => line.includes(connected))!,
          `"by":"${way}"`,
        );
        await (await usesBoard(near, far)).close();
      } finally {
        await near.stop();
      }
    },
  );
}

Deno.test("a machine trusts the authority of its control plane for its remotes, and no other one", () =>
  withManagedMachine({ components: [BOARD] }, async (far) => {
    const address = new URL(far.server.url).host;
    const near = await startNear(far, ["-disable-mdns"], { address });
    const other = await selfSigned();
    const [cert, key] = [`${far.folder}/cert.pem`, `${far.folder}/key.pem`];
    await Deno.writeTextFile(cert, other.certPem);
    await Deno.writeTextFile(key, other.keyPem);
    const config = await writeConfig({ network: { tls_cert_file: cert, tls_key_file: key } });
    const stranger = await startServer(config);
    const nearStranger = await startNear(far, ["-disable-mdns"], { address: new URL(stranger.url).host });
    try {
      await near.wrote('remote "far" is connected');
      await (await usesBoard(near, far)).close();
      await nearStranger.wrote('remote "far"');
      assertMatch(
        nearStranger.output(),
        /remote "far" .* is not connected: .*(self-signed|unable to verify)/,
      );
    } finally {
      for (const one of [near, nearStranger, stranger]) await one.stop();
      await Deno.remove(config);
    }
  }));

Deno.test("a machine reaches a remote by its name through the control plane over WebRTC", () =>
  reached("WebRTC", ["-disable-mdns"]));

needingTest(
  "a machine reaches a remote on the same network by its name through multicast DNS",
  await loopbackMulticast(),
  () => reached("multicast DNS", []),
);

Deno.test("a remote over WebRTC reconnects after a restart of either machine", () =>
  withManagedMachine(FAR, async (far) => {
    const args = ["-disable-mdns"];
    let near = await startNear(far, args);
    let second: ServerProcess | undefined;
    try {
      await near.wrote('remote "far" is connected');
      const first = await usesBoard(near, far);
      await far.server.stop();
      await first.ended;
      const env = { SVC_HOME: far.folder };
      second = await startServer(`${far.folder}/machine.json`, { args: ["-allow-insecure-creds"], env });
      const again = await until(() => usesBoard(near, far).catch(() => undefined), {
        withinMs: 60_000,
        found: () => near.output(),
      });
      await again.close();
      await near.stop();
      near = await startNear(far, args);
      await near.wrote('remote "far" is connected');
      await (await usesBoard(near, far)).close();
    } finally {
      await near.stop();
      await second?.stop();
    }
  }));
