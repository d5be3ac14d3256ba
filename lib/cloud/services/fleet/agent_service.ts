/**
 * AgentDeviceService: the calls of agents. The versions to run, and the settings of the device.
 *
 * A missing version is reported in the part's logs and left out of the answer, so that the agent keeps its version.
 * Reports of agents about themselves are stored for the fleet's telemetry.
 */

import {
  type DeviceAgentConfigRequest,
  PackageFormat,
  type UpdateInfoSchema,
} from "../../../../proto/gen/agent_pb.ts";
import type { AgentDeviceService } from "../../../../proto/gen/agent_pb.ts";
import { LogEntrySchema } from "../../../../proto/gen/common_pb.ts";
import { toDuration, toMs, toTimestamp } from "../../../api/shared/time.ts";
import { messageOf, SvcError } from "../../../base/error.ts";
import { shownUrlsIn } from "../../../base/log/shown_url.ts";
import { isObject, type Json, type JsonObject } from "../../../base/schema/schema.ts";
import { parseVersion } from "../../../base/semver.ts";
import { create, type MessageInitShape } from "../../../wire/rpc/proto.ts";
import { type Peer, type ServiceImpl } from "../../../wire/rpc/service.ts";
import type { AgentReport } from "../../fleet/agent_reports.ts";
import type { SharedCredentials } from "../../fleet/shared_credentials.ts";
import { isUrl, versionOf } from "../../fleet/agent_versions.ts";
import type { CloudContext } from "../../access/context.ts";
import type { Downloads } from "../../packages/downloads.ts";
import type { ConfigMessages } from "../../config/config_messages.ts";
import type { LoggingPart, LogStore } from "../../logs/logs.ts";
import { type ReleasedProgram, releaseFileName, Releases } from "../../packages/releases.ts";
import type { Store } from "../../store/store.ts";

/** Interval of agents' polls. */
const CHECK_MS = 10_000;
/** How often a report is stored in which only the uptimes have changed. */
const SAVE_MS = 60_000;
/** Limit of parts whose last report is kept in memory. */
const KEPT_MAX = 10_000;
/** Limit of refused versions in a report. */
const REFUSED_MAX = 8;
const REFUSED_CHARS_MAX = 200;
const PROCESSORS: { readonly [name: string]: string } = { x86_64: "amd64", aarch64: "arm64" };

export function agentHandlers(
  cloud: CloudContext,
  downloads: Downloads,
  logs: LogStore,
  messages: ConfigMessages,
  devices: SharedCredentials,
) {
  const { store, clock, access, presence } = cloud;
  const reports = new Reports(store);
  const complaints = new Complaints(logs);
  return {
    async deviceAgentConfig(request, ctx) {
      const { peer, entity } = ctx;
      const { id } = request;
      const admission = access.admissionOf(ctx);
      const isMachine = admission.has("machine");
      const nowMs = clock.nowMs();
      const report = reportOf(request);
      if (isMachine) {
        presence.saw(id);
        devices.sawRequest({ id, organizationId: admission.organizationId }, ctx);
        await reports.save(id, report, nowMs);
      }
      const agent = section(await messages.agentFor(id, { entity, isMachine })) ?? {};
      const lacks = lackedPrograms(report, agent);
      const problems: string[] = [];
      const update = async (name: ReleasedProgram) => {
        try {
          const info = await updateInfo(
            store,
            downloads,
            name,
            versionOf(agent, name),
            report.platform,
            peer,
          );
          if (!info && lacks.includes(name)) problems.push(nothingToRun(name, report.platform));
          return info;
        } catch (error) {
          problems.push(shownUrlsIn(`${name}: ${messageOf(error)}`));
          return undefined;
        }
      };
      const agentUpdateInfo = await update("svc-agent");
      const viamServerUpdateInfo = await update("svc-server");
      await complaints.tell({ id, organizationId: admission.organizationId }, problems, nowMs);
      return {
        checkInterval: toDuration(CHECK_MS),
        agentUpdateInfo,
        viamServerUpdateInfo,
        advancedSettings: section(agent.advanced_settings),
        networkConfiguration: section(agent.network_configuration),
        additionalNetworks: section(agent.additional_networks),
        systemConfiguration: section(agent.system_configuration),
        versionProblems: problems,
        deviceProblems: devices.problems(id),
      };
    },
  } satisfies ServiceImpl<typeof AgentDeviceService>;
}

/** The programs that a device should run but lacks. */
function lackedPrograms(report: AgentReport, agent: JsonObject): readonly ReleasedProgram[] {
  const isDisabled = section(agent.advanced_settings)?.disable_viam_server === true;
  return report.serverInstalled === "" && report.serverRunning === "" && !isDisabled ? ["svc-server"] : [];
}

/** For the log of the part and for the status of the agent. */
function nothingToRun(name: ReleasedProgram, platform: string): string {
  const command = `svc-cloud release publish ${name} VERSION FILE --platform ${platform} --channel stable`;
  return `${name}: this control plane has no release for ${platform || "this device"} to run yet: ${command}`;
}

async function updateInfo(
  store: Store,
  downloads: Downloads,
  name: ReleasedProgram,
  version: string | undefined,
  platform: string,
  peer: Peer,
): Promise<MessageInitShape<typeof UpdateInfoSchema> | undefined> {
  if (version !== undefined && isUrl(version)) {
    // Only the device can check an address.
    const filename = new URL(version).pathname.split("/").at(-1) || name;
    return { filename, url: version, version: "customURL", format: PackageFormat.EXECUTABLE, pinned: true };
  }
  try {
    const wanted = version ?? "stable";
    const release = await new Releases(store).find(name, wanted, platform);
    const pinned = version !== undefined && parseVersion(version) !== undefined;
    return {
      filename: releaseFileName(release),
      url: await downloads.releaseUrl(release, peer),
      version: release.version,
      sha256: Uint8Array.fromHex(release.sha256),
      format: PackageFormat.EXECUTABLE,
      pinned,
      wanted: pinned ? "" : wanted,
    };
  } catch (error) {
    // No version was requested, and there may be no releases here at all.
    if (version === undefined && SvcError.from(error).code === "not_found") return undefined;
    throw error;
  }
}

function section(value: Json | undefined): JsonObject | undefined {
  return isObject(value) ? value as JsonObject : undefined;
}

function reportOf(
  { hostInfo, versionInfo, agentUptime, viamServerUptime, refusedVersions }: DeviceAgentConfigRequest,
): AgentReport {
  const [system = "", processor = ""] = (hostInfo?.platform ?? "").split("/");
  return {
    platform: processor === "" ? system : `${system}/${PROCESSORS[processor] ?? processor}`,
    distro: hostInfo?.distro ?? "",
    tags: hostInfo?.tags ?? [],
    agentRunning: versionInfo?.agentRunning ?? "",
    agentInstalled: versionInfo?.agentInstalled ?? "",
    serverRunning: versionInfo?.viamServerRunning ?? "",
    serverInstalled: versionInfo?.viamServerInstalled ?? "",
    agentUptimeMs: agentUptime ? toMs(agentUptime) : null,
    serverUptimeMs: viamServerUptime ? toMs(viamServerUptime) : null,
    refused: refusedVersions.slice(0, REFUSED_MAX).map((one) => one.slice(0, REFUSED_CHARS_MAX)),
  };
}

/** Stores reports that have changed. */
class Reports {
  readonly #written = new Map<string, { readonly logged: string; readonly atMs: number }>();

  constructor(private readonly store: Store) {}

  async save(partId: string, report: AgentReport, nowMs: number): Promise<void> {
    const logged = JSON.stringify({
      ...report,
      agentUptimeMs: null,
      serverUptimeMs: report.serverUptimeMs !== null,
    });
    const written = this.#written.get(partId);
    if (written?.logged === logged && nowMs - written.atMs < SAVE_MS) return;
    await this.store.transaction((sql) =>
      sql.query(
        `INSERT INTO agents (part_id, report, at_ms) VALUES (?, ?, ?)
         ON CONFLICT (part_id) DO UPDATE SET report = excluded.report, at_ms = excluded.at_ms`,
        partId,
        JSON.stringify(report),
        nowMs,
      )
    );
    keep(this.#written, partId, { logged, atMs: nowMs });
  }
}

/** Logs a problem in a part's logs, once as long as it stays the same. */
class Complaints {
  readonly #logged = new Map<string, string>();

  constructor(private readonly logs: LogStore) {}

  async tell(part: LoggingPart, problems: readonly string[], nowMs: number): Promise<void> {
    const all = problems.join("\n");
    if ((this.#logged.get(part.id) ?? "") === all) return;
    const entries = problems.map((message) =>
      create(LogEntrySchema, {
        host: "svc-cloud",
        loggerName: "svc-cloud.releases",
        level: "error",
        time: toTimestamp(nowMs),
        message,
      })
    );
    if (entries.length > 0) await this.logs.add(part, entries, nowMs);
    keep(this.#logged, part.id, all);
  }
}

function keep<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  if (map.size >= KEPT_MAX) map.delete(map.keys().next().value!);
  map.set(key, value);
}
