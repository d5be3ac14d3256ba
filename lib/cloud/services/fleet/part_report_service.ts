/** PartReportService. Thin, as `fleet_service.ts`. */

import type { PartReportSchema, PartReportService } from "../../../../proto/gen/part_reports_pb.ts";
import { SvcError } from "../../../base/error.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import type { ConfigContext } from "../../config/config_threads.ts";
import { Parts } from "../../tenants/parts.ts";
import { partsSeenBy } from "./fleet_service.ts";
import { Releases } from "../../packages/releases.ts";
import {
  configState,
  missingReleases,
  type PartReport,
  partReports,
  readWanted,
  runningServer,
} from "../../fleet/part_reports.ts";

const MACHINES_MAX = 200;
/** Unhealthy resources of each part in a list of all machines. */
const UNHEALTHY_SHOWN = 3;

export function partReportHandlers(cloud: ConfigContext) {
  const { store, configs } = cloud;
  return {
    async listPartReports({ machineIds }, ctx) {
      if (machineIds.length > MACHINES_MAX) {
        const found = `found ${machineIds.length} machine ids`;
        throw new SvcError("invalid_argument", `${found}, wanted at most ${MACHINES_MAX} in a call`);
      }
      if (machineIds.length === 0) {
        const reports = await partReports(store, await partsSeenBy(cloud, ctx));
        return { reports: reports.map((one) => reportMessage(one, UNHEALTHY_SHOWN)) };
      }

      const reports = await partReports(
        store,
        await new Parts(store).ofMachines([...new Set(machineIds)]),
      );
      const releases = await new Releases(store).list();
      const messages: MessageInitShape<typeof PartReportSchema>[] = [];
      for (const one of reports) {
        const { organizationId, id } = one.part;
        const { versions, revision } = await readWanted(store, configs, organizationId, id);
        messages.push({
          ...reportMessage(one),
          wantedServer: versions.server,
          wantedAgent: versions.agent,
          missing: missingReleases(releases, one, versions),
          configState: configState(revision, one.health).state,
        });
      }
      return { reports: messages };
    },
  } satisfies ServiceImpl<typeof PartReportService>;
}

function reportMessage(
  { part, info, tags, unhealthy, health, agent }: PartReport,
  shown?: number,
): MessageInitShape<typeof PartReportSchema> {
  return {
    partId: part.id,
    machineId: part.machineId,
    serverVersion: runningServer({ agent, info }),
    agentVersion: agent?.agentRunning ?? "",
    platform: agent?.platform || (info.platform ?? ""),
    machineTags: [...tags],
    unhealthy: unhealthy.slice(0, shown),
    unhealthyCount: unhealthy.length,
    hasReported: health !== undefined,
    refused: [...agent?.refused ?? []],
  };
}
