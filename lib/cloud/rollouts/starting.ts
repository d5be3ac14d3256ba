/**
 * Starts a rollout: checks its change and plan, finds its machines, and divides them among the steps.
 *
 * With a new revision of a fragment, the parts that follow its newest revision are pinned to the present one before, so
 * that no part gets the new one before its turn. They are pinned a few at a time, because others wait for each
 * transaction; the revision is made only once nobody follows the newest one.
 */

import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { counted } from "../../base/log/counted.ts";
import { requireQuota } from "../access/quota.ts";
import type { Audit } from "../access/audit.ts";
import type { Limits } from "../access/limits.ts";
import type { ConfigThreads } from "../config/config_threads.ts";
import { requireNoErrors } from "../config/config_view.ts";
import { checkFragment } from "../config/fragment_check.ts";
import { ChangedMeanwhile, FragmentTexts, tryAgain } from "../config/fragments/fragment_texts.ts";
import { FragmentUses } from "../config/fragments/fragment_uses.ts";
import { type Fragment, Fragments } from "../config/fragments/fragments.ts";
import { PartConfigs } from "../config/part_config.ts";
import { configText } from "../config/resolution.ts";
import { versionProblems } from "../fleet/agent_versions.ts";
import { locationsAbove } from "../tenants/locations.ts";
import { Packages } from "../packages/packages.ts";
import type { Sql, Store } from "../store/store.ts";
import { placeholders } from "../store/store.ts";
import { changed, checkedChange, type RolloutChange } from "./change.ts";
import { checkedPlan, dividedParts, type GivenPlan, type PlannedPart } from "./plan.ts";
import { newRolloutId, Rollouts } from "./rollouts.ts";

export interface RolloutOrder {
  readonly organizationId: string;
  readonly name: string;
  readonly change: { readonly kind: string; readonly id: string; readonly version: string };
  readonly plan: GivenPlan;
  /** All three empty: every machine of the organization. */
  readonly locationIds: readonly string[];
  readonly tags: readonly string[];
  readonly partIds: readonly string[];
  /** A new revision of the fragment, or empty. */
  readonly fragmentConfig: string;
}

interface StartParts {
  readonly store: Store;
  readonly configs: ConfigThreads;
  readonly audit: Audit;
  readonly clock: Clock;
  /** Absent for the operator, who is not limited. */
  readonly limits?: Limits;
}

/** Limit of parts that one rollout pins, and of those that one transaction pins. */
const FOLLOWERS_MAX = 2_000;
const PINNED_AT_ONCE = 10;
const NAME_CHARS_MAX = 200;
const SELECTED_MAX = 1_000;

/** Starts a rollout; returns its id. */
export async function startRollout(parts: StartParts, order: RolloutOrder, who: string): Promise<string> {
  const { organizationId } = order;
  if (order.name.length > NAME_CHARS_MAX) {
    throw new SvcError("invalid_argument", `name: wanted at most ${NAME_CHARS_MAX} characters`);
  }
  for (const list of [order.locationIds, order.tags, order.partIds]) {
    if (list.length <= SELECTED_MAX) continue;
    throw new SvcError(
      "invalid_argument",
      `found ${list.length} selectors of one kind, wanted at most ${SELECTED_MAX}`,
    );
  }
  const plan = checkedPlan(order.plan);
  const id = newRolloutId();
  const actor = { who, action: "StartRollout" };
  return await tryAgain(parts.clock, async () => {
    const fragment = await checkedRevision(parts, order);
    const given = checkedChange({ ...order.change, ...fragment && { version: String(fragment.next) } });
    const change = fragment ? given : await existing(parts.store, organizationId, given);
    if (fragment) {
      const chosen = await candidates(parts.store, order, change);
      await new Rollouts(parts.store).requireFree(chosen.map((one) => one.id));
      await pinFollowers(parts, fragment, chosen, who);
    }

    await parts.audit.change(actor, { kind: "organization", id: organizationId }, async (sql, nowMs) => {
      const found = await candidates(sql, order, change);
      if (found.length === 0) throw new SvcError("failed_precondition", await noMachines(sql, change));
      if (fragment) await addRevision(sql, { ...fragment, who, nowMs, limits: parts.limits });
      const made = { id, organizationId, name: order.name || nameOf(change), change, plan, who };
      await new Rollouts(sql).add(made, dividedParts(plan, found, id), nowMs);
      if (parts.limits) await requireQuota(sql, parts.limits, "rolloutsAtOnce", organizationId);
    });
    return id;
  });
}

interface NextRevision {
  readonly fragment: Fragment;
  readonly next: number;
  readonly checked: Awaited<ReturnType<typeof checkFragment>>;
}

/** The new revision of a fragment that comes with the rollout. */
async function checkedRevision(
  parts: StartParts,
  { change, fragmentConfig, organizationId }: RolloutOrder,
): Promise<NextRevision | undefined> {
  if (fragmentConfig === "") return undefined;
  if (change.kind !== "fragment") {
    throw new SvcError(
      "invalid_argument",
      `a new revision comes with a change of a fragment, not of ${change.kind}`,
    );
  }
  const fragment = await new Fragments(parts.store).find(change.id);
  if (fragment?.organizationId !== organizationId) {
    throw new SvcError("not_found", `the organization has no fragment "${change.id}"`);
  }
  const checked = await checkFragment(parts, fragment, fragmentConfig, fragment.id);
  if (JSON.stringify(fragment.config) === checked.text) {
    throw new SvcError(
      "failed_precondition",
      `the fragment has this configuration already at revision ${fragment.revision}`,
    );
  }
  return { fragment, next: fragment.revision + 1, checked };
}

/** The change with the exact version that it selects. Throws `not_found` if there is none. */
async function existing(sql: Sql, organizationId: string, change: RolloutChange): Promise<RolloutChange> {
  const { kind, id, version } = change;
  if (kind === "fragment") {
    const { found } = await new FragmentTexts(sql).texts([{ id, version }], organizationId, 0);
    const [text] = found;
    if (text) return { ...change, version: String(text.revision) };
    throw new SvcError(
      "not_found",
      `the organization has no fragment "${id}" with revision or tag "${version}"`,
    );
  }
  if (kind === "module") {
    const packages = new Packages(sql);
    const item = await packages.item(id).catch(() => undefined);
    // Versions of a private item are hidden from other organizations.
    if (!item || item.visibility === "private" && item.organizationId !== organizationId) {
      throw new SvcError("not_found", `the organization has no module "${id}"`);
    }
    return { ...change, version: (await packages.find(id, version)).version };
  }
  requireNoErrors(await versionProblems(sql, { agent: { version_control: { [kind]: version } } }, ""));
  return change;
}

/** The parts that a change may concern, and their locations. */
async function candidates(sql: Sql, order: RolloutOrder, change: RolloutChange): Promise<PlannedPart[]> {
  const { organizationId, locationIds, tags, partIds } = order;
  const selected: [string, ...string[]][] = [];
  if (partIds.length > 0) selected.push([`p.id IN (${placeholders(partIds)})`, ...partIds]);
  if (locationIds.length > 0) {
    const inside = `WITH RECURSIVE inside (id) AS (SELECT id FROM locations WHERE id IN (${
      placeholders(locationIds)
    })
      UNION SELECT c.id FROM locations c JOIN inside i ON c.parent_id = i.id) SELECT id FROM inside`;
    selected.push([`m.location_id IN (${inside})`, ...locationIds]);
  }
  if (tags.length > 0) {
    selected.push([
      `m.id IN (SELECT machine_id FROM machine_tags WHERE tag IN (${placeholders(tags)}))`,
      ...tags,
    ]);
  }
  const [concerns, ...values] = concerned(change);
  const where = [
    concerns,
    ...selected.length > 0 ? [`(${selected.map(([text]) => text).join(" OR ")})`] : [],
  ];
  const rows = await sql.query<{ id: string; machineId: string; locationId: string }>(
    `SELECT p.id, m.id AS "machineId", m.location_id AS "locationId" FROM parts p
     JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id
     WHERE l.organization_id = ? AND ${where.join(" AND ")} ORDER BY p.id`,
    organizationId,
    ...values,
    ...selected.flatMap(([, ...of]) => of),
  );
  const tagged = await tagsIn(sql, organizationId);
  const above = new Map<string, string[]>();
  for (const { locationId } of rows) {
    if (!above.has(locationId)) above.set(locationId, await locationsAbove(sql, locationId));
  }
  return rows.map(({ id, machineId, locationId }) => {
    return { id, locationIds: above.get(locationId)!, tags: tagged.get(machineId) ?? [] };
  });
}

/** The condition on parts, and its values. */
function concerned({ kind, id, version }: RolloutChange): [string, ...string[]] {
  if (kind === "fragment") {
    return [
      `EXISTS (SELECT 1 FROM part_fragments f WHERE f.part_id = p.id AND f.fragment_id = ? AND f.version <> ?
         AND NOT (f.version = '' AND CAST(? AS TEXT) = (SELECT CAST(revision AS TEXT) FROM fragments WHERE id = f.fragment_id)))`,
      id,
      version,
      version,
    ];
  }
  if (kind !== "module") return ["1 = 1"];
  const text = JSON.stringify(id).replaceAll(/[\\%_]/g, "\\$&");
  return [`p.config LIKE ? ESCAPE '\\'`, `%"module_id":${text}%`];
}

async function tagsIn(sql: Sql, organizationId: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const rows = await sql.query<{ id: string; tag: string }>(
    `SELECT t.machine_id AS id, t.tag FROM machine_tags t JOIN machines m ON m.id = t.machine_id
     JOIN locations l ON l.id = m.location_id WHERE l.organization_id = ? ORDER BY t.machine_id, t.tag`,
    organizationId,
  );
  const tags = new Map<string, string[]>();
  for (const { id, tag } of rows) tags.getOrInsertComputed(id, () => []).push(tag);
  return tags;
}

/** Pins the followers of a fragment to its present revision, unless others than the chosen parts follow it, too. */
async function pinFollowers(
  { store, clock }: Pick<StartParts, "store" | "clock">,
  { fragment: { id, name, revision } }: NextRevision,
  chosen: readonly PlannedPart[],
  who: string,
): Promise<void> {
  const followers = await findFollowers(store, id);
  const wanted = new Set(chosen.map((one) => one.id));
  const others = followers.filter((partId) => !wanted.has(partId)).length;
  const around = (await new FragmentUses(store).fragments(id)).length;
  if (others > 0 || around > 0) {
    const both = `${counted(others, "other part")} and ${counted(around, "fragment")}`;
    const found = `${both} follow the newest revision of "${name}"`;
    const wanted = "wanted a rollout to all of them, or a version in their configurations";
    throw new SvcError("failed_precondition", `${found} and would get it at once, ${wanted}`);
  }
  if (followers.length > FOLLOWERS_MAX) {
    throw new SvcError(
      "resource_exhausted",
      `${followers.length} parts follow the newest revision of "${name}", wanted at most ${FOLLOWERS_MAX}`,
    );
  }

  const pin = { kind: "fragment", id, version: String(revision) } as const;
  for (let at = 0; at < followers.length; at += PINNED_AT_ONCE) {
    const some = followers.slice(at, at + PINNED_AT_ONCE);
    const nowMs = clock.nowMs();
    await store.transaction(async (sql) => {
      const configs = new PartConfigs(sql);
      for (const partId of some) {
        const made = changed((await configs.get(partId)).config, pin);
        if (typeof made !== "string") await configs.set(partId, configText(made.config), who, nowMs);
      }
    });
  }
}

/** The parts that follow the newest revision of a fragment. */
async function findFollowers(sql: Sql, id: string): Promise<string[]> {
  const parts = await new FragmentUses(sql).parts(id);
  return parts.filter(({ version }) => version === "").map(({ partId }) => partId);
}

interface AddedRevision extends NextRevision {
  readonly who: string;
  readonly nowMs: number;
  readonly limits: Limits | undefined;
}

/** Makes the next revision of a fragment. Throws `ChangedMeanwhile` if somebody follows its newest one again. */
async function addRevision(
  sql: Sql,
  { fragment, checked, who, nowMs, limits }: AddedRevision,
): Promise<void> {
  const { id, name, stamp, organizationId } = fragment;
  await new FragmentTexts(sql).requireStamps(new Map([...checked.stamps, [id, stamp]]));
  const around = (await new FragmentUses(sql).fragments(id)).length;
  if (around > 0 || (await findFollowers(sql, id)).length > 0) {
    throw new ChangedMeanwhile(`another part or fragment follows the newest revision of "${name}" since`);
  }
  await new Fragments(sql).update(id, name, checked, nowMs, { who });
  if (limits) await requireQuota(sql, limits, "fragmentLettersPerOrganization", organizationId);
}

async function noMachines(sql: Sql, { kind, id, version }: RolloutChange): Promise<string> {
  if (kind === "fragment") {
    const { name } = await new Fragments(sql).get(id);
    return `no chosen machine names fragment "${name}" itself at another revision than ${version}`;
  }
  if (kind === "module") return `no chosen machine names module "${id}" in its own configuration`;
  return "nothing chooses any machine";
}

function nameOf({ kind, id, version }: RolloutChange): string {
  return `${id === "" ? kind : `${kind} ${id}`} ${version}`;
}
