/**
 * Commands on mapping sessions: maps of what machines have captured.
 */

import { toTimestamp } from "../../lib/api/shared/time.ts";
import { Locations } from "../../lib/cloud/tenants/locations.ts";
import { newSession } from "../../lib/cloud/services/registry/mapping_service.ts";
import { type MappingSession, MappingSessions } from "../../lib/cloud/mapping/sessions.ts";
import { create } from "../../lib/wire/rpc/proto.ts";
import { StartMappingSessionRequestSchema } from "../../proto/gen/cloud_slam_pb.ts";
import { sinceMs, UsageError } from "../flags.ts";
import { shownMs } from "../table.ts";
import {
  chosenOrganization,
  type CloudCommand,
  cloudCommand,
  fleetNames,
  machineNamed,
  OF_ORG,
  ORG,
} from "./command_context.ts";
import { objectIn } from "./configs/documents.ts";

export const MAP_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "map start",
    ["MACHINE", "NAME"],
    "Builds a map from a machine's captured data until map stop, as the package NAME.",
    [
      OF_ORG,
      {
        name: "lidar",
        type: "string",
        default: "",
        value: "CAMERA",
        help: "The camera that is the lidar.",
      },
      {
        name: "movement-sensor",
        type: "string",
        default: "",
        value: "SENSOR",
        help: "The movement sensor, if there is one.",
      },
      {
        name: "extend",
        type: "string",
        default: "",
        value: "VERSION",
        help: "The version of the map to extend; by default the map is new.",
      },
      {
        name: "since",
        type: "string",
        default: "",
        value: "TIME",
        help: "Start of the data, such as 10m ago or 2024-01-02T03:04:05Z; by default now.",
      },
      {
        name: "until",
        type: "string",
        default: "",
        value: "TIME",
        help: "End of the data, such as 1m ago or a time; by default map stop.",
      },
      {
        name: "parameters",
        type: "string",
        default: "",
        value: "FILE",
        help: "The parameters of config_params (JSON): see docs/slam.md.",
      },
    ],
    async (context, [given, mapName], { org, lidar, movementSensor, extend, since, until, parameters }) => {
      if (lidar === "") throw new UsageError("--lidar: name the camera that is the lidar");
      const { id: machine, locationId } = await machineNamed(context.store, given, org);
      const { organizationId } = await new Locations(context.store).get(locationId);
      const nowMs = context.clock.nowMs();
      const at = (flag: string, text: string) =>
        text === "" ? undefined : toTimestamp(sinceMs(flag, text, nowMs));
      const sensors = [
        { sourceComponentName: lidar, type: "camera" },
        { sourceComponentName: movementSensor, type: "movement_sensor" },
      ].filter(({ sourceComponentName }) => sourceComponentName !== "");
      const request = create(StartMappingSessionRequestSchema, {
        organizationId,
        robotId: machine,
        mapName,
        existingMapVersion: extend,
        sensors,
        slamConfig: parameters === ""
          ? {}
          : await objectIn(context, "map start", parameters, "an object of parameters"),
        captureInterval: { startTime: at("since", since), endTime: at("until", until) },
      });
      const on = { kind: "machine", id: machine } as const;
      const made = await context.change("map start", on, async (sql, nowMs) => {
        const session = await newSession(sql, request, nowMs);
        return { id: await new MappingSessions(sql).add(session, nowMs), version: session.version };
      });
      context.print(made, [`${made.id} ${mapName} ${made.version}`]);
    },
  ),
  cloudCommand(
    "map list",
    [],
    "Lists the mapping sessions of an organization, newest first.",
    [ORG],
    async (context, _, { org }) => {
      const { id } = await chosenOrganization(context.store, org);
      const all = await new MappingSessions(context.store).list(id);
      const names = await fleetNames(context.store);
      const nameOf = (machineId: string) => names.get(machineId) ?? machineId;
      const sessions = all.map(({ id, machineId, mapName, version, createdMs, endedMs, error, ...one }) => ({
        ...{ id, machineId, machine: nameOf(machineId), mapName, version, createdMs, endedMs, error },
        state: stateOf(one),
      }));
      context.list("sessions", sessions, {
        columns: [
          { heading: "MAP", cutTo: 10 },
          { heading: "VERSION", cutTo: 10, rank: 2 },
          { heading: "MACHINE", cutTo: 10 },
          { heading: "STATE", isState: true },
          { heading: "BEGAN (UTC)", rank: 1 },
          { heading: "ID", cutTo: 9 },
          { heading: "ERROR", cutTo: 10, rank: 3 },
        ],
        rows: all.map((one) => [
          one.mapName,
          one.version,
          nameOf(one.machineId),
          stateOf(one),
          shownMs(one.createdMs),
          one.id,
          one.error,
        ]),
        empty: "there is no mapping session yet: svc-cloud map start MACHINE NAME begins one",
      });
    },
  ),
  cloudCommand(
    "map stop",
    ["SESSION"],
    "Ends a mapping session now; its map becomes a package soon after.",
    [],
    async (context, [id]) => {
      const on = { kind: "mapping_session", id } as const;
      const { mapName, version } = await context.change(
        "map stop",
        on,
        (sql, nowMs) => new MappingSessions(sql).stop(id, nowMs),
      );
      context.print({ id, mapName, version }, [`${mapName} ${version}`]);
    },
  ),
];

function stateOf({ end, startedMs, stoppedMs }: Pick<MappingSession, "end" | "startedMs" | "stoppedMs">) {
  if (end) return end;
  if (startedMs === undefined) return "waits";
  return stoppedMs === undefined ? "maps" : "ends";
}
