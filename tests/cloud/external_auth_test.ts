/**
 * One key opens a machine from anywhere: the control plane exchanges it for a token that the machine verifies by
 * itself, and that ends when the machine learns of the key's end.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { ExternalAuthService } from "../../proto/gen/auth_pb.ts";
import { AppService } from "../../proto/gen/app_pb.ts";
import { RobotService as MachineService } from "../../proto/gen/robot_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { until } from "../support/until.ts";
import { withManagedMachine } from "./managed.ts";
import { newKey, newWorld, withCloud } from "./world.ts";
import { storeTest } from "./stores.ts";

storeTest(
  "AuthenticateTo gives a token only for machines that its caller may operate",
  (database) =>
    withCloud(database, async ({ store, channel, robot, token }) => {
      const [mine, other] = [await newWorld(store), await newWorld(store)];
      const part = await newKey(store, "operator", "machine", mine.machine);
      const nameOf = async (world: typeof mine) => {
        const { config } = await (await robot(world.owner)).config({ id: world.part });
        return config!.cloud!;
      };
      const { fqdn, localFqdn } = await nameOf(mine);
      const to = async (key: typeof part | undefined, entity: string) => {
        const { authenticateTo } = client(ExternalAuthService, await channel(key));
        return await outcome(authenticateTo({ entity }));
      };
      for (const key of [mine.owner, mine.operator, part]) {
        for (const name of [fqdn, localFqdn]) {
          const { accessToken } = await client(ExternalAuthService, await channel(key)).authenticateTo({
            entity: name,
          });
          const [header, claims] = accessToken.split(".").slice(0, 2).map((one) =>
            JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(one, { alphabet: "base64url" })))
          );
          assertEquals(header.alg, "RS256");
          assertEquals([claims.sub, claims.aud, claims.rpc_creds_type], [
            key.id,
            [fqdn, localFqdn],
            "external",
          ]);
          // It opens nothing at the control plane itself.
          const own = Metadata.from([["authorization", `Bearer ${accessToken}`]]);
          const app = client(AppService, await channel());
          assertStringIncludes(await outcome(app.listOrganizations({}, { header: own })), "external");
        }
      }
      const refused = `permission_denied: this needs an API key that opens the machine "${fqdn}"`;
      assertEquals(await to(other.owner, fqdn), refused);
      assertEquals(await to(mine.owner, fqdn.replace("rover", "nobody")), refused.replace("rover", "nobody"));
      assertEquals(
        await to(mine.owner, ""),
        "invalid_argument: found no host, wanted the DNS name of a machine, such as main.LOCATION.svc.internal (svc-cloud hosts prints it)",
      );
      assertStringIncludes(await to(undefined, fqdn), "unauthenticated");
      assertEquals(await outcome(token(mine.owner)), "ok");
    }),
);

Deno.test("a machine accepts the control plane's token until it learns that the key has changed", () =>
  withManagedMachine({}, async ({ example: { ownerKey }, fqdn, ca, server, channel }) => {
    const { authenticateTo } = client(ExternalAuthService, channel);
    const { accessToken } = await authenticateTo({ entity: fqdn });
    const names = async (token: string) => {
      const header = Metadata.from([["authorization", `Bearer ${token}`]]);
      const clock = new SystemClock();
      const machine = connectGrpc(new URL(server.url).host, { clock, tls: { ca }, header });
      try {
        return await outcome(client(MachineService, machine).resourceNames({}));
      } finally {
        machine.close();
      }
    };
    assertEquals(await names(accessToken), "ok");
    const [head, claims, signature] = accessToken.split(".");
    assertStringIncludes(await names(`${head}.${claims}.${signature.slice(4)}AAAA`), "signature is invalid");
    // The machine verifies the token by itself, and refuses it once it knows of the rotation.
    await client(AppService, channel).rotateKey({ id: ownerKey.id });
    const isOver = async () => (await names(accessToken)).includes("has been replaced or no longer exists");
    await until(isOver, { found: () => server.output() });
  }));

async function outcome(work: Promise<unknown>): Promise<string> {
  return await work.then(() => "ok", (error) => {
    const { code, message } = SvcError.from(error);
    return `${code}: ${message}`;
  });
}
