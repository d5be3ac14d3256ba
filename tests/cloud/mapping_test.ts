/**
 * Mapping sessions: a simulated robot's scans and odometry, captured and stored, become a map in the registry, whether
 * they come meanwhile or were there before, over a restart, and with unusable data among them.
 */

import { Buffer } from "node:buffer";
import { assert, assertEquals, assertGreater, assertRejects, assertStringIncludes } from "@std/assert";
import { CloudSLAMService, EndStatus } from "../../proto/gen/cloud_slam_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { unpacked } from "../../lib/base/files/archive.ts";
import { collectBytes } from "../../lib/base/files/byte_reader.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { CapturedData } from "../../lib/cloud/mapping/captured.ts";
import { Packages } from "../../lib/cloud/packages/packages.ts";
import { readPcd } from "../../lib/geometry/cloud/pcd.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { readMap } from "../../lib/slam/pbstream/map_file.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { Secret } from "../../lib/base/secret.ts";
import { connectApp } from "../../lib/cloud_client/app_channel.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { BaseService } from "../../proto/gen/base_pb.ts";
import { SLAMService } from "../../proto/gen/slam_pb.ts";
import { withManagedMachine } from "./managed.ts";
import { svcCloud } from "./program.ts";
import { type Arrival, pieces, Rover, SENSORS } from "./rover.ts";
import { until } from "../support/until.ts";
import { storeTest } from "./stores.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "./world.ts";

const ENDS_MS = 120_000;

/** In another order, the same at every run. */
function shuffled<T>(values: readonly T[], seed: number): T[] {
  const random = randomFrom(seed);
  return values.map((value) => ({ value, at: random() })).sort((a, b) => a.at - b.at)
    .map(({ value }) => value);
}

/** A caller's view of mapping the machine of a world. */
async function mappingOf(
  { channel, store, files }: ServedCloud,
  { owner, organization, location, machine }: World,
) {
  const calls = client(CloudSLAMService, await channel(owner));
  const about = { organizationId: organization, locationId: location, robotId: machine, sensors: SENSORS };
  return {
    ...calls,
    start: async (request: Parameters<typeof calls.startMappingSession>[0]) =>
      (await calls.startMappingSession({ ...about, ...request })).sessionId,
    metadata: async (sessionId: string) =>
      (await calls.getMappingSessionMetadataByID({ sessionId })).sessionMetadata!,
    /** How a session has ended. */
    ended: async (sessionId: string) => {
      let found = (await calls.getMappingSessionMetadataByID({ sessionId })).sessionMetadata!;
      await until(async () => {
        found = (await calls.getMappingSessionMetadataByID({ sessionId })).sessionMetadata!;
        return found.timeCloudRunJobEnded !== undefined;
      }, { withinMs: ENDS_MS });
      return found;
    },
    /** The files of a map in the registry. */
    async map(name: string, version: string) {
      const { sha256 } = await new Packages(store).find(`${organization}/${name}`, version);
      const found = new Map<string, Uint8Array>();
      for await (
        const { path, bytes, content } of unpacked(files.read(sha256), { filesMax: 9, bytesMax: 1e9 })
      ) {
        found.set(path, await collectBytes(content, bytes));
      }
      return found;
    },
  };
}

storeTest(
  "svc-cloud builds a map from a machine's data: during the capture, later, and to extend a map",
  (database) =>
    withCloud(database, async (cloud) => {
      const world = await newWorld(cloud.store);
      const mapping = await mappingOf(cloud, world);
      const rover = new Rover(cloud, world);
      const startTime = rover.now;
      await rover.drive(4);
      const sessionId = await mapping.start({ mapName: "hall", captureInterval: { startTime } });
      const { robotId } = await mapping.metadata(sessionId);
      assertEquals(robotId, world.machine);
      assertEquals((await mapping.getActiveMappingSessionsForRobot({ robotId })).sessionId, sessionId);

      // The first map may have only the first scans.
      const { x, y } = rover.pose;
      let offM = Infinity;
      const shown = await until(async () => {
        const map = await mapping.getMappingSessionPointCloud({ sessionId }, { timeoutMs: ENDS_MS });
        offM = Math.hypot(map.pose!.x / 1000 - x, map.pose!.y / 1000 - y);
        return offM < 0.2 && map;
      }, { withinMs: ENDS_MS, found: () => `${offM} m from the rover` });
      const answer = await fetch(shown.mapUrl);
      assertEquals(answer.status, 200);
      assertGreater(readPcd(new Uint8Array(await answer.arrayBuffer())).x.length, 100);

      await rover.drive(4, (arrivals) => shuffled(arrivals, 3));
      await rover.file(8.1, new TextEncoder().encode("this is no scan"));
      await rover.readings(8.1, "Position", { coordinate: { latitude: "somewhere" } });
      await rover.readings(8.1, "Orientation", {});
      const endTime = rover.now;
      const { packageId, version } = await mapping.stopMappingSession({ sessionId });
      assertEquals(packageId, `${world.organization}/hall`);
      const { endStatus, errorMsg } = await mapping.ended(sessionId);
      assertEquals([endStatus, errorMsg], [EndStatus.SUCCESS, "2 captured values were unusable"]);
      assertEquals((await mapping.getActiveMappingSessionsForRobot({ robotId })).sessionId, "");
      const files = await mapping.map("hall", version);
      assertEquals([...files.keys()].sort(), ["internalState.pbstream", "map.pcd"]);
      const state = files.get("internalState.pbstream")!;
      const { nodes } = await readMap(pieces(state));

      // The same data give the same map, when they are all there already and nothing arrives out of order.
      const interval = { startTime, endTime };
      const again = await mapping.start({ mapName: "hall-again", captureInterval: interval });
      assertEquals((await mapping.ended(again)).endStatus, EndStatus.SUCCESS);
      const same = (await mapping.map("hall-again", "latest")).get("internalState.pbstream")!;
      assert(Buffer.from(same).equals(state), `maps of ${same.length} and ${state.length} bytes differ`);

      const more = {
        mapName: "hall",
        existingMapVersion: version,
        captureInterval: { startTime: rover.now },
      };
      await rover.drive(2);
      const further = await mapping.start(more);
      await mapping.stopMappingSession({ sessionId: further });
      assertEquals((await mapping.ended(further)).endStatus, EndStatus.SUCCESS);
      const extended = (await mapping.map("hall", "latest")).get("internalState.pbstream")!;
      assertGreater((await readMap(pieces(extended))).nodes.length, nodes.length);
      const { session } = await mapping.listMappingSessions({ organizationId: world.organization });
      assertEquals(session.map(({ mapName }) => mapName), ["hall", "hall-again", "hall"]);
    }),
);

storeTest(
  "captured data come by their times and contents, in whatever order they arrived",
  async (database) => {
    const store = await database.open();
    const files = undefined as never;
    /** What a reader gets at the end, and whether one that looked meanwhile noticed the disorder. */
    const taken = async (order: (arrivals: Arrival[]) => Arrival[], lookEvery = 1) => {
      const world = await newWorld(store);
      const rover = new Rover({ store, files }, world);
      const scan = (atS: number, sha256: string): Arrival => () => rover.stored(atS, { sha256, bytes: 1 });
      const arrivals = [0, 1, 2].flatMap((step): Arrival[] => [
        () => rover.readings(step, "Orientation", { orientation: { o_x: 0, o_y: 0, o_z: 1, theta: step } }),
        () => rover.readings(step, "Position", { coordinate: { latitude: 0, longitude: step / 1e6 } }),
        scan(step, `a${step}`),
        // Two values of one time.
        scan(step, `b${step}`),
      ]);
      const source = {
        organizationId: world.organization,
        machineId: world.machine,
        camera: "lidar",
        movementSensor: "wheels",
        fromUs: 0,
      };
      const untilUs = Date.now() * 1000;
      const live = new CapturedData(store, files, source);
      for (const [n, arrive] of order(arrivals).entries()) {
        await arrive();
        while ((n + 1) % lookEvery === 0 && await live.next(untilUs));
      }
      const later = new CapturedData(store, files, source), inputs: unknown[] = [];
      for (let input; (input = await later.next(untilUs));) {
        const { capturedUs, kind } = input;
        inputs.push([kind, capturedUs - rover.startUs, kind === "scan" ? input.sha256 : ""]);
      }
      assertEquals(await later.cameOutOfOrder(untilUs), false);
      return { inputs, isLiveWrong: await live.cameOutOfOrder(untilUs) };
    };
    const inOrder = await taken((arrivals) => arrivals, 4);
    assertEquals(inOrder.isLiveWrong, false);
    assertEquals(inOrder.inputs.length, 9);
    for (const seed of [1, 2, 3]) {
      const { inputs, isLiveWrong } = await taken((arrivals) => shuffled(arrivals, seed));
      assertEquals([inputs, isLiveWrong], [inOrder.inputs, true]);
    }
    // Only the scan is before the movements of its time: each sensor's values by themselves are in order.
    const swapped = await taken((all) => [all[2], all[0], all[1], all[3], ...all.slice(4)]);
    assertEquals([swapped.inputs, swapped.isLiveWrong], [inOrder.inputs, true]);
  },
);

storeTest("a mapping session continues after a restart of the control plane", async (database) => {
  let begun: { readonly world: World; readonly sessionId: string } | undefined;
  await withCloud(database, async (cloud) => {
    const world = await newWorld(cloud.store);
    const mapping = await mappingOf(cloud, world);
    const rover = new Rover(cloud, world);
    const startTime = rover.now;
    await rover.drive(2);
    const sessionId = await mapping.start({ mapName: "hall", captureInterval: { startTime } });
    await mapping.getMappingSessionPointCloud({ sessionId }, { timeoutMs: ENDS_MS });
    begun = { world, sessionId };
  });
  await withCloud(database, async (cloud) => {
    const { world, sessionId } = begun!;
    const mapping = await mappingOf(cloud, world);
    const { version } = await mapping.stopMappingSession({ sessionId });
    assertEquals((await mapping.ended(sessionId)).endStatus, EndStatus.SUCCESS);
    assert((await mapping.map("hall", version)).has("internalState.pbstream"));
  });
});

storeTest(
  "data captured before the stop and synced after it is in the map",
  (database) =>
    withCloud(database, async (cloud) => {
      const world = await newWorld(cloud.store);
      const mapping = await mappingOf(cloud, world);
      const rover = new Rover(cloud, world, 20);
      const startTime = rover.now;
      await rover.drive(4);
      const sessionId = await mapping.start({ mapName: "hall", captureInterval: { startTime } });
      const { version } = await mapping.stopMappingSession({ sessionId });
      // By the second picture the session knows of the stop; it waits for what comes now.
      for (let picture = 0; picture < 2; picture++) {
        await mapping.getMappingSessionPointCloud({ sessionId }, { timeoutMs: ENDS_MS });
      }
      await rover.drive(8);
      const { pose } = rover;
      await rover.drive(14);
      assertEquals((await mapping.ended(sessionId)).endStatus, EndStatus.SUCCESS);
      const file = (await mapping.map("hall", version)).get("internalState.pbstream")!;
      const { nodes } = await readMap(pieces(file));
      const reached = Math.max(...nodes.map(({ globalPose }) => Math.hypot(globalPose.x, globalPose.y)));
      assertGreater(reached, Math.hypot(pose.x, pose.y) - 0.3);
    }),
);

storeTest(
  "the mapping sessions of two organizations give way to a third's, and continue after it",
  (database) =>
    withCloud(database, async (cloud) => {
      const { store } = cloud;
      const running = async (organization: string) => {
        const text = `SELECT COUNT(*) AS amount FROM mapping_sessions
          WHERE organization_id = ? AND ended_ms IS NULL AND runner IS NOT NULL`;
        return (await store.query<{ amount: number }>(text, organization))[0].amount;
      };
      const request = { captureInterval: { startTime: toTimestamp(Date.now()) } };
      const holders = [await newWorld(store), await newWorld(store)];
      for (const world of holders) {
        const mapping = await mappingOf(cloud, world);
        const { id } = await store.transaction((sql) => {
          return new Machines(sql).create(world.location, "second", Date.now());
        });
        await mapping.start({ mapName: "hall", ...request });
        await mapping.start({ mapName: "yard", robotId: id, ...request });
        await until(async () => await running(world.organization) === 2, { withinMs: ENDS_MS });
      }
      const late = await newWorld(store);
      const mapping = await mappingOf(cloud, late);
      const sessionId = await mapping.start({ mapName: "hall", ...request });
      await until(async () => await running(late.organization) === 1, { withinMs: ENDS_MS });
      const counts = () => Promise.all(holders.map(({ organization }) => running(organization)));
      await until(async () => (await counts()).sort().join() === "1,2", { withinMs: ENDS_MS });
      await mapping.stopMappingSession({ sessionId });
      await mapping.ended(sessionId);
      await until(async () => (await counts()).join() === "2,2", { withinMs: ENDS_MS });
    }),
);

storeTest(
  "StartMappingSession refuses bad requests, and a session without scans fails with the reason",
  (database) =>
    withCloud(database, async (cloud) => {
      const world = await newWorld(cloud.store);
      const other = await newWorld(cloud.store);
      const mapping = await mappingOf(cloud, world);
      const refused = async (request: Parameters<typeof mapping.start>[0]) => {
        const error = await mapping.start({ mapName: "hall", ...request }).then(() => "none", SvcError.from);
        return error instanceof SvcError ? `${error.code}: ${error.message}` : error;
      };
      const [lidar, wheels] = SENSORS;
      const sensors = "wanted one camera that is the lidar, and at most one movement_sensor";
      assertStringIncludes(await refused({ sensors: [wheels] }), sensors);
      assertStringIncludes(await refused({ sensors: [lidar, lidar] }), sensors);
      assertStringIncludes(await refused({ sensors: [lidar, { ...wheels, type: "board" }] }), sensors);
      assertStringIncludes(await refused({ mapName: "../hall" }), "invalid_argument: found map_name");
      assertStringIncludes(
        await refused({ slamConfig: { num_range_data: -1 } }),
        "slam_config: num_range_data: found -1, wanted an integer of at least 1",
      );
      assertStringIncludes(await refused({ slamConfig: { mode: "3d" } }), "slam_config: mode");
      assertStringIncludes(await refused({ existingMapVersion: "1" }), "not_found: there is no package");
      assertStringIncludes(await refused({ robotId: other.machine }), "permission_denied");
      const captureInterval = { startTime: toTimestamp(2_000), endTime: toTimestamp(1_000) };
      assertStringIncludes(await refused({ captureInterval }), "end_time is not after start_time");
      await cloud.store.transaction((sql) => {
        return new Packages(sql).createItem(world.organization, "reader", "module", 0);
      });
      assertStringIncludes(
        await refused({ mapName: "reader" }),
        "already_exists: map_name: there is a module",
      );

      const sessionId = await mapping.start({ mapName: "hall" });
      assertStringIncludes(
        await refused({}),
        `already_exists: the machine is mapped already, in session ${sessionId}`,
      );
      await mapping.stopMappingSession({ sessionId });
      const { endStatus, errorMsg } = await mapping.ended(sessionId);
      assertEquals(endStatus, EndStatus.FAIL);
      assertStringIncludes(
        errorMsg,
        'no scan of the lidar "lidar" arrived: its machine captures NextPointCloud',
      );
      const again = await mapping.stopMappingSession({ sessionId }).catch(SvcError.from);
      assertStringIncludes(String(again), "has ended already: no scan");
      const picture = await mapping.getMappingSessionPointCloud({ sessionId }).catch(SvcError.from);
      assertStringIncludes(String(picture), "has no picture of its map");
    }),
);

Deno.test("svc-cloud maps the captures of a machine, and the machine localizes on that map", async () => {
  const capture_methods = [{ method: "NextPointCloud", capture_frequency_hz: 10 }];
  const slam = (attributes: object) => ({
    network: { bind_address: "localhost:0" },
    components: [
      {
        name: "rover",
        api: "rdk:component:base",
        model: "fake",
        attributes: { building: "hall", people: 0 },
      },
      {
        name: "lidar",
        api: "rdk:component:camera",
        model: "svc:lidar:fake",
        attributes: { base: "rover", beams: 180 },
        service_configs: [{ type: "data_manager", attributes: { capture_methods } }],
      },
    ],
    services: [
      {
        name: "data",
        api: "rdk:service:data_manager",
        model: "builtin",
        attributes: { sync_interval_mins: 0.002 },
      },
      {
        name: "slam",
        api: "rdk:service:slam",
        model: "svc:slam:cartographer",
        attributes: { camera: { name: "lidar", data_frequency_hz: 5 }, ...attributes },
      },
    ],
  });
  await withManagedMachine(
    slam({ use_cloud_slam: true }),
    async ({ example, server, data, folder, ca, channel }) => {
      const { organizationId, machineId, partId, ownerKey } = example;
      const calls = client(CloudSLAMService, channel);
      const command = async (...words: string[]) =>
        JSON.parse(await svcCloud("map", ...words, ...data, "--json"));
      await assertRejects(() => command("start", machineId, "hall"), Error, "--lidar");
      const { id: sessionId } = await command("start", machineId, "hall", "--lidar", "lidar");
      await assertRejects(() => command("start", machineId, "hall", "--lidar", "lidar"), Error, sessionId);
      const key = new Secret(ownerKey.key);
      const machine = connectApp({
        address: server.url,
        ca,
        keyId: ownerKey.id,
        key,
        clock: new SystemClock(),
      });
      try {
        const base = client(BaseService, machine);
        await base.moveStraight({ name: "rover", distanceMm: 1200n, mmPerSec: 400 }, { timeoutMs: ENDS_MS });
        await until(
          () =>
            calls.getMappingSessionPointCloud({ sessionId }).then(({ mapUrl }) => mapUrl !== "", () => false),
          { withinMs: ENDS_MS, found: () => server.output() },
        );
        const { version } = await command("stop", sessionId);
        await until(async () => (await command("list")).sessions[0].state === "success", {
          withinMs: ENDS_MS,
          found: () => server.output(),
        });
        assert(!server.output().includes("is not captured"));

        const map = { name: "hall", package: `${organizationId}/hall`, version, type: "slam_map" };
        const existing_map = "${packages.slam_map.hall}/internalState.pbstream";
        const config = {
          packages: [map],
          ...slam({ use_cloud_slam: false, enable_mapping: false, existing_map }),
        };
        await Deno.writeTextFile(`${folder}/config.json`, JSON.stringify(config));
        await svcCloud("config", "set", partId, `${folder}/config.json`, ...data);
        const service = client(SLAMService, machine);
        // Its position is 0 until it has found itself.
        const isFound = async () =>
          Math.abs((await service.getPosition({ name: "slam" })).pose!.x - 1200) < 150;
        await until(() => isFound().catch(() => false), { withinMs: ENDS_MS, found: () => server.output() });
      } finally {
        machine.close();
      }
    },
  );
});
