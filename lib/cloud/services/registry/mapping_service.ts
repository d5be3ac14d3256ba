/** CloudSLAMService: mapping sessions as their callers see them. */

import {
  type CloudSLAMService,
  EndStatus,
  type MappingMetadataSchema,
  type StartMappingSessionRequest,
} from "../../../../proto/gen/cloud_slam_pb.ts";
import { mapperOptions } from "../../../../drivers/slam/mapper/settings.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import { SvcError } from "../../../base/error.ts";
import { worldPose } from "../../../slam/pose2d.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import type { Ref } from "../../access/access.ts";
import { requireQuota } from "../../access/quota.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import { keptMicros } from "../../capture/filter.ts";
import type { DataLinks } from "../../data/links.ts";
import { Locations } from "../../tenants/locations.ts";
import { Machines } from "../../tenants/machines.ts";
import { requirePackageQuota } from "../../packages/package_content.ts";
import { checkNamed, Packages } from "../../packages/packages.ts";
import type { Sql } from "../../store/store.ts";
import type { MappingRunner } from "../../mapping/runner.ts";
import { type MappingSession, MappingSessions, type NewSession } from "../../mapping/sessions.ts";

/** How long a caller waits for a picture of the map, and the interval of checks for it. */
const PICTURE_MS = 30_000;
const LOOK_MS = 200;

const END_STATUS = {
  success: EndStatus.SUCCESS,
  timeout: EndStatus.TIMEOUT,
  fail: EndStatus.FAIL,
} as const;

/** `runner` is absent in a process that makes no maps but still shows sessions. */
export function mappingHandlers(context: CloudContext, links: DataLinks, runner?: MappingRunner) {
  const { store, audit, clock, limits } = context;
  const sessions = new MappingSessions(store);
  return {
    async startMappingSession(request, ctx) {
      if (!runner) throw new SvcError("unimplemented", "this control plane makes no maps");
      const { organizationId } = request;
      // An early check spares the user the mapping.
      await requirePackageQuota(context, organizationId);
      const on: Ref = { kind: "machine", id: request.robotId };
      const sessionId = await audit.change(actorOf(ctx), on, async (sql, nowMs) => {
        const id = await new MappingSessions(sql).add(await newSession(sql, request, nowMs), nowMs);
        await requireQuota(sql, limits, "mappingSessionsAtOnce", organizationId);
        await requireQuota(sql, limits, "mappingSessionsPerOrganization", organizationId);
        return id;
      });
      runner.wake();
      return { sessionId };
    },
    async getActiveMappingSessionsForRobot({ robotId }) {
      const { locationId } = await new Machines(store).get(robotId);
      const { organizationId } = await new Locations(store).get(locationId);
      const active = await sessions.active({ machineId: robotId, organizationId });
      return { sessionId: active?.id ?? "" };
    },
    async getMappingSessionPointCloud({ sessionId }, { peer, signal }) {
      const askedMs = clock.nowMs();
      await store.transaction((sql) => new MappingSessions(sql).ask(sessionId, askedMs));
      runner?.wake();
      const untilMs = clock.monotonicMs() + PICTURE_MS;
      for (;;) {
        const { endedMs, pictureMs, sha256, pose } = await sessions.get(sessionId);
        const isNew = pictureMs >= askedMs || endedMs !== undefined || clock.monotonicMs() >= untilMs;
        if (sha256 && isNew) {
          const { url } = await links.make(sessionId, undefined, peer);
          return { mapUrl: url, pose: pose && worldPose(pose) };
        }
        if (isNew) {
          throw new SvcError(
            "unavailable",
            `mapping session ${sessionId} has no picture of its map: no scan has been taken in`,
          );
        }
        await clock.sleep(LOOK_MS, signal);
      }
    },
    async listMappingSessions({ organizationId, locationId }) {
      return { session: (await sessions.list(organizationId, locationId)).map(metadataOf) };
    },
    async stopMappingSession({ sessionId }, ctx) {
      const on: Ref = { kind: "mapping_session", id: sessionId };
      const session = await audit.change(actorOf(ctx), on, (sql, nowMs) => {
        return new MappingSessions(sql).stop(sessionId, nowMs);
      });
      runner?.wake();
      return { packageId: `${session.organizationId}/${session.mapName}`, version: session.version };
    },
    async getMappingSessionMetadataByID({ sessionId }) {
      return { sessionMetadata: metadataOf(await sessions.get(sessionId)) };
    },
  } satisfies ServiceImpl<typeof CloudSLAMService>;
}

/** The session of a request, after all checks. */
export async function newSession(
  sql: Sql,
  request: StartMappingSessionRequest,
  nowMs: number,
): Promise<NewSession> {
  const { organizationId, locationId, robotId, mapName, existingMapVersion } = request;
  // The names of versions become names of folders.
  const version = new Date(nowMs).toISOString().replace(/[:.]/g, "-");
  checkNamed(mapName, version, { nameField: "map_name" });
  const machine = await new Machines(sql).get(robotId);
  if (locationId !== "" && machine.locationId !== locationId) {
    throw new SvcError("invalid_argument", `location_id: machine "${robotId}" is not in "${locationId}"`);
  }
  const location = await new Locations(sql).get(machine.locationId);
  if (location.organizationId !== organizationId) {
    throw new SvcError(
      "invalid_argument",
      `organization_id: machine "${robotId}" is not in "${organizationId}"`,
    );
  }
  const config = { ...request.slamConfig };
  mapperOptions(config);
  await checkMap(sql, organizationId, mapName, existingMapVersion);
  const { startTime, endTime } = request.captureInterval ?? {};
  const fromUs = startTime ? keptMicros("capture_interval.start_time", startTime) : nowMs * 1000;
  const untilUs = endTime && keptMicros("capture_interval.end_time", endTime);
  if (untilUs !== undefined && untilUs <= fromUs) {
    throw new SvcError("invalid_argument", "capture_interval: end_time is not after start_time");
  }
  return {
    organizationId,
    locationId: machine.locationId,
    machineId: robotId,
    mapName,
    existingVersion: existingMapVersion,
    version,
    ...sensorsOf(request),
    fromUs,
    untilUs,
    config,
    slamVersion: request.slamVersion || "stable",
    serverVersion: request.viamServerVersion || "stable",
  };
}

async function checkMap(sql: Sql, organizationId: string, name: string, existingVersion: string) {
  const packages = new Packages(sql);
  const id = `${organizationId}/${name}`;
  const item = existingVersion === ""
    ? await packages.itemIfAny(id)
    : (await packages.find(id, existingVersion)).item;
  if (!item || item.kind === "slam_map") return;
  throw new SvcError("already_exists", `map_name: there is a ${item.kind} "${name}" already, wanted a map`);
}

/** The lidar, and the movement sensor if there is one. */
function sensorsOf({ sensors }: StartMappingSessionRequest): Pick<NewSession, "camera" | "movementSensor"> {
  const named = (type: string) => {
    return sensors.filter((one) => one.type.split(":").at(-1) === type).map((one) => one.sourceComponentName);
  };
  const cameras = named("camera"), movementSensors = named("movement_sensor");
  const other = sensors.length - cameras.length - movementSensors.length;
  const [camera, ...otherCameras] = cameras;
  if (camera && otherCameras.length === 0 && movementSensors.length <= 1 && other === 0) {
    return { camera, movementSensor: movementSensors[0] ?? "" };
  }
  const found = sensors.map(({ sourceComponentName, type }) => `${type} "${sourceComponentName}"`).join(", ");
  throw new SvcError(
    "invalid_argument",
    `sensors: found ${found || "none"}, wanted one camera that is the lidar, and at most one movement_sensor`,
  );
}

function metadataOf(session: MappingSession): MessageInitShape<typeof MappingMetadataSchema> {
  const at = (ms: number | undefined) => ms === undefined ? undefined : toTimestamp(ms);
  return {
    orgId: session.organizationId,
    locationId: session.locationId,
    robotId: session.machineId,
    timeStartSubmitted: toTimestamp(session.createdMs),
    timeCloudRunJobStarted: at(session.startedMs),
    timeEndSubmitted: at(session.stoppedMs),
    timeCloudRunJobEnded: at(session.endedMs),
    endStatus: session.end ? END_STATUS[session.end] : EndStatus.UNSPECIFIED,
    cloudRunJobId: session.id,
    viamServerVersion: session.serverVersion,
    mapName: session.mapName,
    slamVersion: session.slamVersion,
    config: JSON.stringify(session.config),
    errorMsg: session.error,
  };
}
