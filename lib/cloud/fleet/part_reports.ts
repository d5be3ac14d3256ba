/**
 * What the control plane knows of parts: what they run, want and have refused, and what in them does not work.
 *
 * The room owns the state of a fleet as people look at it.
 */

import { shownUrl } from "../../base/log/shown_url.ts";
import { isObject, type JsonObject } from "../../base/schema/schema.ts";
import type { ConfigThreads } from "../config/config_threads.ts";
import { PartConfigs, revisionText } from "../config/part_config.ts";
import { type PartHealth, readPartHealths } from "./part_health.ts";
import { hasRelease, plainVersion, type PublishedRelease } from "../packages/releases.ts";
import type { Store } from "../store/store.ts";
import { type AgentReport, agentReports } from "./agent_reports.ts";
import { isUrl, versionOf } from "./agent_versions.ts";
import { MachineTags } from "../tenants/machine_tags.ts";
import type { Part } from "../tenants/parts.ts";

/** A machine's report about itself, as it is stored. */
export interface PartInfo {
  readonly os?: string;
  readonly version?: string;
  readonly platform?: string;
  readonly git_revision?: string;
}

export interface PartReport {
  readonly part: Part;
  readonly info: PartInfo;
  /** Of the machine. */
  readonly tags: readonly string[];
  /** The resources that do not work, `rdk:component:motor/left: it has no board`. */
  readonly unhealthy: readonly string[];
  readonly health: PartHealth | undefined;
  readonly agent: AgentReport | undefined;
}

/** The last reports of parts. */
export async function partReports(store: Store, parts: readonly Part[]): Promise<PartReport[]> {
  const ids = parts.map(({ id }) => id);
  const [agents, healths, tags] = await Promise.all([
    agentReports(store, ids),
    readPartHealths(store, ids),
    new MachineTags(store).ofMachines([...new Set(parts.map(({ machineId }) => machineId))]),
  ]);
  return parts.map((part) => {
    const health = healths.get(part.id);
    return {
      part,
      info: JSON.parse(part.info),
      tags: tags.get(part.machineId) ?? [],
      unhealthy: health?.unhealthy ?? [],
      health,
      agent: agents.get(part.id),
    };
  });
}

/** The version that svc-server runs in, by its agent or by itself; empty if unknown. */
export function runningServer({ agent, info }: Pick<PartReport, "agent" | "info">): string {
  return agent?.serverRunning || (info.version ?? "");
}

interface WantedVersions {
  readonly server: string;
  readonly agent: string;
}

interface Wanted {
  readonly versions: WantedVersions;
  /** Of the configuration, with those of the fragments in it. */
  readonly revision: string;
}

/** What a part's configuration chooses, fragments included: the versions, `stable` by default, and its revision. */
export async function readWanted(
  store: Store,
  configs: ConfigThreads,
  organizationId: string,
  partId: string,
): Promise<Wanted> {
  const { config: own, revision } = await new PartConfigs(store).get(partId);
  const found = own.fragments === undefined
    ? undefined
    : await configs.run(store, organizationId, { kind: "fill", text: JSON.stringify(own) });
  const filled = found?.config ?? own;
  const agent = isObject(filled.agent) ? filled.agent as JsonObject : {};
  const chosen = (name: "svc-server" | "svc-agent") => {
    try {
      return shownUrl(versionOf(agent, name) ?? "stable");
    } catch {
      return "unusable";
    }
  };
  return {
    versions: { server: chosen("svc-server"), agent: chosen("svc-agent") },
    revision: revisionText(revision, found?.used ?? []),
  };
}

/**
 * The wanted versions that an agent does not run and cannot get: `svc-server 1.2.3 for linux/arm64`. Nothing for a part
 * without an agent, and for addresses, which only the device can check.
 */
export function missingReleases(
  releases: readonly PublishedRelease[],
  { agent, info }: Pick<PartReport, "agent" | "info">,
  wanted: WantedVersions,
): string[] {
  const platform = agent?.platform || (info.platform ?? "");
  if (!agent || platform === "") return [];
  const chosen = [
    { name: "svc-server", version: wanted.server, running: runningServer({ agent, info }) },
    { name: "svc-agent", version: wanted.agent, running: agent.agentRunning },
  ];
  return chosen.filter(({ name, version, running }) =>
    plainVersion(version) !== plainVersion(running) && !isUrl(version) &&
    !hasRelease(releases, { name, version, platform })
  ).map(({ name, version }) => `${name} ${version} for ${platform}`);
}

/** Whether a machine runs its configuration: of one that has reported nothing that is unknown. */
export interface ConfigState {
  readonly state: "applied" | "behind" | "held back" | "unknown";
  readonly wanted: string;
  readonly running: string | null;
}

/** `wanted` is the revision as a machine gets it, save for the packages whose version floats. */
export function configState(wanted: string, health: PartHealth | undefined): ConfigState {
  const running = health?.revision || null;
  const common = { wanted, running };
  if (!health || running === null) return { state: "unknown", ...common };
  if (running === wanted || running.startsWith(`${wanted}+`)) return { state: "applied", ...common };
  return { state: health.heldBack ? "held back" : "behind", ...common };
}
