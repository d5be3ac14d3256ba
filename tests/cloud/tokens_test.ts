/**
 * Tokens of the control plane: they end with their key, at once, and so do the calls that they have begun.
 */

import { assert, assertEquals } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Keys, newKeySecret } from "../../lib/cloud/access/keys.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { TOKEN_MS } from "../../lib/wire/auth/tokens.ts";
import { svcCloud } from "./program.ts";
import { storeTest } from "./stores.ts";
import { newKey, newWorld, ownKey, type ServedCloud, withCloud, type World } from "./world.ts";
import { moving, until } from "../support/until.ts";
import { awaitOutcome } from "../support/outcome.ts";

/** Above the time for which a call may outlive its permission. */
const STEP_MS = 5_000;

storeTest(
  "a token ends with its key, and with its time; tokens of other keys stay valid",
  async (database) => {
    const clock = new FakeClock();
    await withCloud(database, async ({ store, app }) => {
      const world = await newWorld(store);
      const [owner, operator, doomed] = [
        await app(world.owner),
        await app(world.operator),
        await newKey(store, "operator", "organization", world.organization),
      ];
      const list = (one: typeof owner) => awaitOutcome(one.listOrganizations({}));
      assertEquals(await list(operator), "ok");
      const rotated = await owner.rotateKey({ id: world.operator.id });
      assertEquals(await list(operator), "unauthenticated");
      const again = await app({ id: rotated.id, key: rotated.key });
      assertEquals(await list(again), "ok");
      // The command line ends them too.
      await svcCloud("key", "rotate", world.operator.id, ...database.flags);
      assertEquals(await list(again), "unauthenticated");
      const last = await app(doomed);
      await owner.deleteKey({ id: doomed.id });
      assertEquals(await list(last), "unauthenticated");
      assertEquals(await list(owner), "ok");
      await clock.advance(TOKEN_MS);
      assertEquals(await list(owner), "unauthenticated");
      assertEquals(await list(await app(world.owner)), "ok");
    }, { clock });
  },
);

/** Follows the logs of a part; `over` is how that ends. */
async function follow({ store, channel, robot }: ServedCloud, { part, machine }: World, key: World["owner"]) {
  const stop = new AbortController();
  const { tailRobotPartLogs } = client(AppService, await channel(key));
  const entries = tailRobotPartLogs({ id: part }, { signal: stop.signal })[Symbol.asyncIterator]();
  const first = entries.next();
  first.catch(() => {});
  await (await robot(await ownKey(store, { machine }))).log({
    id: part,
    logs: [{ message: "here", level: "info" }],
  });
  const over = first.then(async () => {
    while (!(await entries.next()).done);
    return "ended";
  }).catch((error) => SvcError.from(error).code);
  return { over, stop };
}

async function codeWhile(clock: FakeClock, over: Promise<string>): Promise<string> {
  let code: string | undefined;
  void over.then((found) => code = found);
  const startMs = clock.nowMs();
  const found = await until(() => code, { meanwhile: moving(clock, STEP_MS) });
  assert(clock.nowMs() - startMs < TOKEN_MS / 2, "it has ended with its token");
  return found;
}

storeTest("calls in progress end with their key, and with the role that admitted them", async (database) => {
  const clock = new FakeClock();
  await withCloud(database, async (cloud) => {
    const { store } = cloud;
    const world = await newWorld(store);
    const spare = () => newKey(store, "operator", "organization", world.organization);
    const [rotated, deleted, stripped, other] = [await spare(), await spare(), await spare(), await spare()];
    const secret = await newKeySecret();
    const grant = { role: "operator", kind: "organization", resourceId: world.organization } as const;
    const cases = [
      [rotated, "unauthenticated", (keys: Keys) => keys.rotate(rotated.id, secret)],
      [deleted, "unauthenticated", (keys: Keys) => keys.delete(deleted.id)],
      [stripped, "permission_denied", (keys: Keys) => keys.revoke(stripped.id, grant)],
    ] as const;
    const lasting = await follow(cloud, world, other);
    for (const [key, wanted, change] of cases) {
      const { over } = await follow(cloud, world, key);
      await store.transaction(async (sql) => void await change(new Keys(sql)));
      assertEquals(await codeWhile(clock, over), wanted);
    }
    lasting.stop.abort(new SvcError("canceled", "enough"));
    assertEquals(await lasting.over, "canceled");
  }, { clock });
});
