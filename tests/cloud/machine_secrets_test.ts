/**
 * A machine that shows the secret of its part to its control plane, and lets in who shows that of its location.
 */

import { assertEquals } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { Secret } from "../../lib/base/secret.ts";
import { connectApp } from "../../lib/cloud_client/app_channel.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { startServer } from "../support/server.ts";
import { type Example, serveCloud, svcCloud } from "./program.ts";
import { awaitOutcome } from "../support/outcome.ts";

const DEADLINE_MS = 120_000;
const TYPE = "robot-location-secret";

Deno.test("a machine runs with its part's secret, and admits the secrets of its location while they exist", async () => {
  const clock = new SystemClock();
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const data = ["--data", `${folder}/data`];
  const { partId, locationId, ownerKey }: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
  await Deno.writeTextFile(
    `${folder}/config.json`,
    JSON.stringify({ network: { bind_address: "localhost:0" } }),
  );
  await svcCloud("config", "set", partId, `${folder}/config.json`, ...data);
  const ca = await svcCloud("authority", ...data);
  const cloud = await serveCloud([...data, "--localhost-certificates"]);
  const own = { address: cloud.url, ca, keyId: ownerKey.id, key: new Secret(ownerKey.key), clock };
  const channel = connectApp(own);
  const app = client(AppService, channel);
  try {
    const { secret, fqdn } = (await app.createRobotPartSecret({ partId })).part!;
    const file = `${folder}/machine.json`;
    const origin = { id: partId, secret, app_address: cloud.url, refresh_interval: "1s" };
    await Deno.writeTextFile(file, JSON.stringify({ cloud: origin }));
    const server = await startServer(file, { args: ["-allow-insecure-creds"], env: { SVC_HOME: folder } });
    try {
      await server.wrote("machine is running");
      const open = (header?: Metadata) =>
        connectGrpc(new URL(server.url).host, { clock, tls: { ca }, header });
      const door = open();
      const show = (payload: string) =>
        client(AuthService, door).authenticate({ entity: fqdn, credentials: { type: TYPE, payload } });
      try {
        const { auth } = await app.createLocationSecret({ locationId });
        const [{ id: secretId, secret: text }] = auth!.secrets;
        // The machine hears of it with its configuration.
        const { accessToken } = await eventually(() => show(text));
        assertEquals(await awaitOutcome(show(`${text}x`)), "unauthenticated");
        const inside = open(Metadata.from([["authorization", `Bearer ${accessToken}`]]));
        try {
          const { resourceNames } = client(RobotService, inside);
          await resourceNames({});
          await app.deleteLocationSecret({ locationId, secretId });
          await eventually(async () =>
            assertEquals(await awaitOutcome(resourceNames({})), "unauthenticated")
          );
        } finally {
          inside.close();
        }
      } finally {
        door.close();
      }
    } finally {
      await server.stop();
    }
  } finally {
    channel.close();
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

/** Tries until it works. */
async function eventually<T>(work: () => Promise<T>): Promise<T> {
  const clock = new SystemClock();
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (deadline.aborted) throw error;
      await clock.sleep(50, deadline).catch(() => {});
    }
  }
}
