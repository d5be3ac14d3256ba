/**
 * WebRTC through the signaling of a control plane: who may call whom, who may answer, and several control planes on one
 * database.
 */

import { assertEquals, assertGreater, assertStringIncludes } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { ExternalAuthService } from "../../proto/gen/auth_pb.ts";
import { EchoService } from "../../proto/gen/echo_pb.ts";
import { SignalingService } from "../../proto/gen/signaling_pb.ts";
import { RobotService as MachineService } from "../../proto/gen/robot_pb.ts";
import { race, SystemClock } from "../../lib/base/clock.ts";
import { CODES, SvcError } from "../../lib/base/error.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { Secret } from "../../lib/base/secret.ts";
import type { NewKey } from "../../lib/cloud/access/keys.ts";
import { machineNames } from "../../lib/cloud/tenants/hosts.ts";
import { connectApp } from "../../lib/cloud_client/app_channel.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { type BroughtCall, nextCall } from "../../lib/wire/signaling/answer_stream.ts";
import { Answerer } from "../../lib/wire/signaling/answerer.ts";
import { dialWebRtc } from "../../lib/wire/signaling/dialer.ts";
import { overChannel, unsigned } from "../support/bare_calls.ts";
import { echoTable } from "../support/echo.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { moving, until } from "../support/until.ts";
import { withManagedMachine } from "./managed.ts";
import { serveCloud } from "./program.ts";
import { sharedStoreTest, sqliteTest, storeTest, withDatabase } from "./stores.ts";
import { newKey, newWorld, type ServedCloud, withCloud, type World } from "./world.ts";

const clock = new SystemClock();
const WAIT_MS = 60_000;
const MONTH_MS = 31 * 24 * 3600 * 1000;
const logger = silentLogs(clock).logger("rdk");

storeTest(
  "a certificate names the machines of a single organization, and none if there are several",
  async (database) => {
    await withCloud(database, async ({ store }) => {
      assertEquals(await machineNames(store), []);
      const { location } = await newWorld(store);
      assertEquals(await machineNames(store), [`*.${location}.svc.internal`]);
      await newWorld(store);
      assertEquals(await machineNames(store), []);
    });
  },
);

storeTest(
  "a machine accepts calls to any of its names by its operators, and learns who they are",
  (database) =>
    withCloud(database, async (served) => {
      const mine = await inhabited(served);
      const { owner, operator } = mine.world;
      await answered(served, mine, async (entities) => {
        for (const host of [mine.fqdn, mine.localFqdn]) {
          for (const key of [owner, operator, mine.key]) {
            await echoes(served, key, host);
            assertEquals(entities.at(-1), key.id);
          }
        }
        assertEquals(entities.length, 6);
        const other = await newWorld(served.store);
        const refused = `permission_denied: this needs an API key that opens the machine "${mine.fqdn}"`;
        assertEquals(await outcome(echoes(served, other.owner, mine.fqdn)), refused);
        assertStringIncludes(await outcome(echoes(served, undefined, mine.fqdn)), "unauthenticated");
        assertStringIncludes(
          await outcome(echoes(served, owner, "rover.nowhere.svc.internal")),
          "permission_denied",
        );
        for (const wrong of [`https://${mine.fqdn}`, `${mine.fqdn}/`, "rover"]) {
          const found = `invalid_argument: found the host "${wrong}", wanted the DNS name of a machine`;
          assertStringIncludes(await outcome(echoes(served, owner, wrong)), found);
        }
        assertEquals(entities.length, 6);
      });
    }),
);

storeTest(
  "a machine token dials that machine only, until its API key is rotated",
  (database) =>
    withCloud(database, async (served) => {
      const mine = await inhabited(served);
      const { owner } = mine.world;
      const beside = await partIn(served, mine.world, "beside");
      await answered(served, mine, async (entities) => {
        const accessToken = await tokenFor(served, owner, mine.fqdn);
        const header = Metadata.from([["authorization", `Bearer ${accessToken}`]]);
        const signaling = await served.channel();
        const dial = async (host: string) => {
          const channel = await dialWebRtc({ signaling, host, header, clock });
          channel.close();
        };
        await dial(mine.fqdn);
        await dial(mine.localFqdn);
        assertStringIncludes(await outcome(dial(beside.fqdn)), "unauthenticated: invalid audience");
        await (await served.app(owner)).rotateKey({ id: owner.id });
        assertStringIncludes(await outcome(dial(mine.fqdn)), "has been replaced");
        assertEquals(entities.length, 0);
      });
    }),
);

sqliteTest("signaling refuses every bad token before it reaches the machine", async (database) => {
  let elsewhere = "";
  await withDatabase("sqlite", (other) =>
    withCloud(other, async (served) => {
      const { world, fqdn } = await inhabited(served);
      elsewhere = await tokenFor(served, world.owner, fqdn);
    }));
  const still = new FakeClock(Date.now());
  await withCloud(database, async (served) => {
    const mine = await inhabited(served);
    const beside = await partIn(served, mine.world, "beside");
    const { owner } = mine.world;
    const early = await tokenFor(served, owner, mine.fqdn);
    await still.advance(MONTH_MS);
    const good = await tokenFor(served, owner, mine.fqdn);
    const bad: Record<string, string | undefined> = {
      "no token": undefined,
      "an empty token": "",
      "a wrong token": "nonsense",
      "a token that has expired": early,
      "a token of another control plane": elsewhere,
      "a token that nobody has signed": unsigned(good),
    };
    await answered(served, mine, async (entities) => {
      const signaling = await served.channel();
      const dial = async (token: string | undefined) => {
        const header = new Metadata();
        if (token !== undefined) header.set("authorization", `Bearer ${token}`);
        return await dialWebRtc({ signaling, host: mine.fqdn, header, clock });
      };
      for (const [what, token] of Object.entries(bad)) {
        assertStringIncludes(await outcome(dial(token)), "unauthenticated", what);
        for (const method of SignalingService.methods) {
          const status = await overChannel(signaling)(method, token);
          assertEquals(status, CODES.unauthenticated, `${method.name} with ${what}`);
        }
      }
      const forAnother = await tokenFor(served, owner, beside.fqdn);
      assertStringIncludes(await outcome(dial(forAnother)), "unauthenticated");
      assertEquals(entities, []);
      const channel = await dial(good);
      await client(EchoService, channel).echo({ message: "hello" });
      channel.close();
      assertEquals(entities.length, 1);
    });
  }, { clock: still });
});

storeTest(
  "only a machine's own key may answer for it, with at most 8 streams",
  (database) =>
    withCloud(database, async (served) => {
      const mine = await inhabited(served);
      const beside = await partIn(served, mine.world, "beside");
      const over = new AbortController();
      const waiting = async (key: NewKey, ...hosts: string[]) => {
        const signaling = client(SignalingService, await served.channel(key));
        return await outcome(nextCall({ signaling, hosts, clock, call: { signal: over.signal } }));
      };
      assertStringIncludes(await waiting(mine.world.owner, mine.fqdn), "permission_denied");
      assertStringIncludes(await waiting(mine.key, beside.fqdn), "permission_denied");
      assertStringIncludes(await waiting(mine.key, mine.fqdn, beside.fqdn), "permission_denied");
      assertStringIncludes(await waiting(mine.key), "invalid_argument");
      const streams = Array.from({ length: 9 }, () => waiting(mine.key, mine.fqdn));
      assertStringIncludes(
        await race(Promise.race(streams), AbortSignal.timeout(WAIT_MS)),
        "answers_per_machine",
      );
      over.abort(new SvcError("canceled", "enough"));
      assertEquals((await Promise.all(streams)).filter((one) => one.startsWith("canceled")).length, 8);
    }),
);

sqliteTest(
  "a machine's answer stream ends when its key is deleted",
  (database) =>
    withCloud(database, async (served) => {
      const mine = await inhabited(served);
      const signaling = client(SignalingService, await served.channel(mine.key));
      const answering = outcome(nextCall({ signaling, hosts: [mine.fqdn], clock, call: {} }));
      await (await served.app(mine.world.owner)).deleteKey({ id: mine.key.id });
      assertStringIncludes(await answering, "unauthenticated");
    }),
);

sqliteTest(
  "a machine's answer stream ends when the part that it answers for is gone, though its key is good",
  (database) => {
    const still = new FakeClock(Date.now());
    return withCloud(database, async (served) => {
      const { world, key } = await inhabited(served);
      const app = await served.app(world.owner);
      const { partId } = await app.newRobotPart({ robotId: world.machine, partName: "gripper" });
      const { config } = await (await served.robot(world.owner)).config({ id: partId });
      const signaling = client(SignalingService, await served.channel(key));
      let [isWaiting, isOver] = [false, false];
      const alive = () => void (isWaiting = true);
      const answering = outcome(nextCall({ signaling, hosts: [config!.cloud!.fqdn], clock, call: {}, alive }))
        .finally(() => isOver = true);
      await until(() => isWaiting, { meanwhile: moving(still, 1_000) });
      await app.deleteRobotPart({ partId });
      await until(() => isOver, { meanwhile: moving(still, 1_000), withinMs: 20_000 });
      assertStringIncludes(await answering, "permission_denied");
      // Nobody gets a token for a key that is not good.
      await served.token(key);
    }, { clock: still });
  },
);

sharedStoreTest(
  "a caller at one control plane reaches a machine that answers at another control plane",
  (database) =>
    withCloud(database, async (there) => {
      const mine = await inhabited(there);
      await withCloud(database, (here) =>
        answered(there, mine, async (entities) => {
          for (let time = 0; time < 3; time++) await echoes(here, mine.world.owner, mine.fqdn);
          assertEquals(entities, Array(3).fill(mine.world.owner.id));
          // Both sides have each other's messages.
          await echoes(there, mine.world.operator, mine.fqdn);
          assertEquals(entities.length, 4);
        }));
    }),
);

Deno.test("a machine is reachable through its control plane, also after an outage, until the caller's key is deleted", () =>
  withManagedMachine({}, async ({ example, fqdn, flags, cloud, server, channel }) => {
    const dial = async () => {
      const key = new Secret(example.ownerKey.key);
      const signaling = connectApp({ address: cloud.url, keyId: example.ownerKey.id, key, clock });
      try {
        return await dialWebRtc({ signaling, host: fqdn, clock });
      } finally {
        signaling.close();
      }
    };
    // Its streams are there a moment after its configuration is.
    const dialed = () => until(() => dial().catch(() => undefined), { found: () => server.output() });
    const machine = await dialed();
    const { resourceNames } = client(MachineService, machine);
    assertGreater((await resourceNames({})).resources.length, 0);
    // The connection itself does not go through the control plane.
    await cloud.stop("SIGKILL");
    await resourceNames({});
    const again = await serveCloud(flags, { listen: new URL(cloud.url).host });
    try {
      const other = await dialed();
      await client(MachineService, other).resourceNames({});
      other.close();
      // The machine learns of the rotated key, and disconnects clients with the old one.
      await client(AppService, channel).rotateKey({ id: example.ownerKey.id });
      const isCut = async () => (await outcome(resourceNames({}))) !== "ok";
      await until(isCut, { found: () => server.output() });
    } finally {
      await again.stop();
    }
  }));

/** A machine with a key of its own. */
async function inhabited(served: ServedCloud) {
  const world = await newWorld(served.store);
  return await partIn(served, world, "rover-main");
}

async function partIn({ store, app, robot }: ServedCloud, world: World, name: string) {
  const own = name === "rover-main";
  const machine = own
    ? { id: world.machine }
    : await (await app(world.owner)).newRobot({ name, location: world.location });
  const { parts: [{ id }] } = await (await app(world.owner)).getRobotParts({ robotId: machine.id });
  const { config } = await (await robot(world.owner)).config({ id });
  const { fqdn, localFqdn } = config!.cloud!;
  return { world, fqdn, localFqdn, key: await newKey(store, "operator", "machine", machine.id) };
}

/** Answers for a machine while `work` runs; gives it the entities of the calls that come. */
async function answered(
  served: ServedCloud,
  { key, fqdn, localFqdn }: Awaited<ReturnType<typeof inhabited>>,
  work: (entities: (string | undefined)[]) => Promise<void>,
): Promise<void> {
  const entities: (string | undefined)[] = [];
  const { table } = echoTable([(ctx) => void entities.push(ctx.peer.entity)]);
  const answerer = new Answerer({ table, clock, logger });
  const over = new AbortController();
  const signaling = client(SignalingService, await served.channel(key));
  const streams: Promise<void>[] = [];
  const serve = async ({ call, iceServers, over }: BroughtCall) => {
    await answerer.answer(call, { iceServers });
    await over;
  };
  const head = async () => {
    while (!over.signal.aborted) {
      const options = { signaling, hosts: [fqdn, localFqdn], clock, call: { signal: over.signal } };
      const next = await nextCall(options).catch(() => undefined);
      if (next) streams.push(serve(next));
    }
  };
  const heads = [head(), head()];
  try {
    await work(entities);
  } finally {
    over.abort(new SvcError("canceled", "the test is over"));
    await Promise.all(heads);
    await answerer.close();
    await Promise.all(streams);
    await until(() => answerer.peers === 0);
  }
}

/** A token that opens a machine, by its owner's key. */
async function tokenFor(served: ServedCloud, key: NewKey, fqdn: string): Promise<string> {
  const { authenticateTo } = client(ExternalAuthService, await served.channel(key));
  return (await authenticateTo({ entity: fqdn })).accessToken;
}

async function echoes(served: ServedCloud, key: NewKey | undefined, host: string): Promise<void> {
  const signaling: Channel = await served.channel(key);
  const channel = await dialWebRtc({ signaling, host, clock });
  try {
    const { message } = await client(EchoService, channel).echo({ message: "hello" });
    assertEquals(message, "hello");
  } finally {
    channel.close();
  }
}

async function outcome(work: Promise<unknown>): Promise<string> {
  return await work.then(() => "ok", (error) => {
    const { code, message } = SvcError.from(error);
    return `${code}: ${message}`;
  });
}
