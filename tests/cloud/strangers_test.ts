/** Every method of a control plane, signaling included, with each kind of bad token, over gRPC and gRPC-web. */

import { assertEquals, assertNotEquals } from "@std/assert";
import { CODES } from "../../lib/base/error.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { pathOf } from "../../lib/wire/rpc/service.ts";
import { AppService } from "../../proto/gen/app_pb.ts";
import { AuthService, ExternalAuthService } from "../../proto/gen/auth_pb.ts";
import { Health } from "../../proto/gen/health_pb.ts";
import { SignalingService } from "../../proto/gen/signaling_pb.ts";
import { overChannel, overWeb, unsigned } from "../support/bare_calls.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { sqliteTest } from "./stores.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "./world.ts";

const DAY_MS = 24 * 3600 * 1000;

/** Services that let everybody in. */
const OPEN = [AuthService.typeName, Health.typeName];

/** A token for the machine of a world. */
async function machineToken({ channel, robot }: ServedCloud, { owner, part }: World): Promise<string> {
  const { config } = await (await robot(owner)).config({ id: part });
  const { authenticateTo } = client(ExternalAuthService, await channel(owner));
  return (await authenticateTo({ entity: config!.cloud!.fqdn })).accessToken;
}

/** The token of a key that was replaced after it had been given. */
async function replacedToken({ app, token }: ServedCloud, { owner, operator }: World): Promise<string> {
  const before = await token(operator);
  await (await app(owner)).rotateKey({ id: operator.id });
  return before;
}

sqliteTest("every method of a control plane except Auth and Health refuses bad tokens", async (database) => {
  const clock = new FakeClock();
  await withCloud(database, async (served) => {
    const world = await newWorld(served.store);
    const expired = await served.token(world.owner);
    await clock.advance(31 * DAY_MS);
    const good = await served.token(world.owner);
    const [head, claims, signature] = good.split(".");
    const bad = {
      "no token": undefined,
      "a wrong token": "nonsense",
      "an empty token": "",
      "a token that has expired": expired,
      "a token with another signature": `${head}.${claims}.${signature.slice(4)}AAAA`,
      "a token that nobody has signed": unsigned(good),
      // It is good for signaling alone, and there for its machine alone.
      "a token for a machine": await machineToken(served, world),
      "a token of a key that was replaced": await replacedToken(served, world),
    };
    const methods = [...served.cloud.table.services].flatMap(({ desc }) => desc.methods)
      .filter(({ parent }) => !OPEN.includes(parent.typeName));
    assertNotEquals(methods.filter(({ parent }) => parent.typeName === SignalingService.typeName), []);
    const transports = { gRPC: overChannel(await served.channel()), "gRPC-web": overWeb(served.url) };
    for (const [name, call] of Object.entries(transports)) {
      for (const [what, token] of Object.entries(bad)) {
        const answered: string[] = [];
        await Promise.all(methods.map(async (method) => {
          const status = await call(method, token);
          if (status !== CODES.unauthenticated) answered.push(`${pathOf(method)}: ${status}`);
        }));
        assertEquals(answered, [], `${what} over ${name}`);
      }
      assertNotEquals(await call(AppService.method.listOrganizations, good), CODES.unauthenticated, name);
    }
  }, { clock });
});
