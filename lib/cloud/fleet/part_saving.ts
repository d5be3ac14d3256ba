/**
 * Saves a part's configuration: checks it with all its fragments, and refuses it with every problem if there is an
 * error.
 *
 * The check runs in a thread of its own and outside of transactions. The saving transaction makes sure that the
 * checked fragments have not changed.
 *
 * Only a caller with a role on a fragment can add it to a configuration, and only an owner can add one with secrets,
 * because the machine, and everybody with its key, gets these.
 */

import { SvcError } from "../../base/error.ts";
import type { Json, JsonObject, Problem } from "../../base/schema/schema.ts";
import type { CallContext } from "../../wire/rpc/service.ts";
import { actorOf, type CloudContext } from "../access/context.ts";
import type { Sql, Store } from "../store/store.ts";
import type { ConfigJob } from "../config/config_jobs.ts";
import type { ConfigContext, ConfigThreads, FragmentStamps } from "../config/config_threads.ts";
import { ownsFragments, requireNoErrors } from "../config/config_view.ts";
import { ChangedMeanwhile, FragmentTexts } from "../config/fragments/fragment_texts.ts";
import { FragmentUses } from "../config/fragments/fragment_uses.ts";
import { Fragments } from "../config/fragments/fragments.ts";
import { missingPackages } from "../config/package_check.ts";
import { PartConfigs } from "../config/part_config.ts";
import type { ConfigText, FragmentImport } from "../config/resolution.ts";
import { agentReports } from "./agent_reports.ts";
import { versionProblems } from "./agent_versions.ts";
import type { Part } from "../tenants/parts.ts";
import { isOnlineAt } from "../tenants/presence.ts";
import { type CollectorRetention, keepCollectors } from "../capture/retention_policies.ts";
import { keepTriggers } from "../triggers/outbox.ts";

/** A configuration without errors. */
export interface CheckedPartConfig extends ConfigText {
  readonly organizationId: string;
  readonly warnings: readonly Problem[];
  /** The triggers, with those of fragments. */
  readonly triggers: Json | undefined;
  readonly collectors: readonly CollectorRetention[];
  readonly stamps: FragmentStamps;
}

/**
 * Checks a configuration for the operator of this control plane, who may use every fragment. `forced` saves it with
 * what svc-server cannot run, because another runtime is to run it.
 */
export async function checkForOperator(
  { configs, store }: { readonly configs: ConfigThreads; readonly store: Store },
  part: Part,
  text: string,
  forced = false,
): Promise<CheckedPartConfig> {
  const { checked, problems, platform } = await check({ configs, store }, part, text, { forced });
  requireNoErrors(problems);
  const missing = await missingPackages(store, part.organizationId, checked.packages, platform);
  return { ...checked, warnings: [...checked.warnings, ...missing] };
}

/** Checks a configuration for a caller. Throws `invalid_argument` with every problem in it. */
export async function checkPartConfig(
  cloud: ConfigContext,
  part: Part,
  text: string,
  ctx: CallContext,
): Promise<CheckedPartConfig> {
  const { checked, problems, used } = await check(cloud, part, text);
  await requireImports(cloud, part, checked.imports, ctx);
  const isGood = problems.every(({ severity }) => severity !== "error");
  if (!isGood && !await ownsFragments(cloud, ctx.entity, used)) {
    // Problems quote settings.
    requireNoErrors((await check(cloud, part, text, { masked: true })).problems);
    throw new SvcError(
      "invalid_argument",
      "the configuration is not saved: it has problems that only an owner of its fragments may see",
    );
  }
  requireNoErrors(problems);
  return checked;
}

/** Saves a checked configuration as the next revision. */
export async function savePartConfig(
  sql: Sql,
  { id, organizationId, seenMs }: Part,
  checked: CheckedPartConfig,
  who: string,
  nowMs: number,
  knownMs?: number,
): Promise<void> {
  if (organizationId !== checked.organizationId) {
    throw new ChangedMeanwhile(`part "${id}" was moved to another organization meanwhile: try again`);
  }
  await new FragmentTexts(sql).requireStamps(checked.stamps);
  await new PartConfigs(sql).set(id, checked, who, nowMs, knownMs);
  await keepCollectors(sql, id, checked.collectors);
  await keepTriggers(sql, id, checked.triggers, seenMs !== null && isOnlineAt(seenMs, nowMs));
}

async function check(
  { configs, store }: { readonly configs: ConfigThreads; readonly store: Store },
  { id, organizationId }: Part,
  text: string,
  how: Pick<ConfigJob, "masked" | "forced"> = {},
) {
  const stamps = new Map<string, number>();
  const done = await configs.run(store, organizationId, { kind: "check", text, ...how }, stamps);
  const platform = (await agentReports(store, [id])).get(id)?.platform ?? "";
  const agent: JsonObject = done.agent === undefined ? {} : { agent: done.agent };
  const problems = [...done.problems, ...await versionProblems(store, agent, platform)];
  const warnings = problems.filter(({ severity }) => severity === "warning");
  const { text: saved, imports, packages, triggers, collectors } = done;
  const checked = { text: saved, imports, packages, triggers, collectors, organizationId, stamps, warnings };
  return { checked, problems, platform, used: done.used.map(({ id }) => id) };
}

/** Throws `permission_denied`, and records it, if the caller adds a fragment without the role that this needs. */
async function requireImports(
  { store, access, audit }: CloudContext,
  { id: partId, organizationId }: Part,
  imports: readonly FragmentImport[],
  ctx: CallContext,
): Promise<void> {
  const fragments = new Fragments(store);
  const there = new Set(
    (await new FragmentUses(store).ofPart(partId)).map(({ id, version }) => `${id} ${version}`),
  );
  for (const { id, version, secret } of imports) {
    if (there.has(`${id} ${version}`)) continue;
    const found = await fragments.find(id);
    // The check reports a fragment that the organization may not use.
    if (found?.organizationId !== organizationId) continue;
    if (!secret && found.visibility !== "private") continue;
    const ref = { kind: "fragment", id } as const;
    if (await access.may(ctx.entity, secret ? "owner" : "operator", ref)) continue;
    await audit.refused(actorOf(ctx), [ref]);
    const needed = secret ? "owner of the fragment, because it holds secrets" : "operator of the fragment";
    throw new SvcError(
      "permission_denied",
      `to add fragment "${id}" to a configuration needs an API key that is ${needed}; nothing is changed`,
    );
  }
}
