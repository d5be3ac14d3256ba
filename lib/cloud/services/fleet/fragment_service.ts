/**
 * AppService, fragments: their texts, history, versions and who uses them. Thin, as `fleet_service.ts`.
 */

import type { AdditionalFragment, AppService, FragmentSchema } from "../../../../proto/gen/app_pb.ts";
import { FragmentVisibility } from "../../../../proto/gen/app_pb.ts";
import { toMs, toTimestamp } from "../../../api/shared/time.ts";
import { SvcError } from "../../../base/error.ts";
import { starred } from "../../../base/schema/json_secrets.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import type { CallContext, ServiceImpl } from "../../../wire/rpc/service.ts";
import type { Ref } from "../../access/access.ts";
import { requireWithin } from "../../access/limits.ts";
import { requireQuota } from "../../access/quota.ts";
import { requireConfigQuota } from "../../access/usage.ts";
import { actorOf } from "../../access/context.ts";
import { cutPage, pageStart } from "../context.ts";
import { asItIs, chooseConfigView, type ConfigView, editorOf, textOf } from "../../config/config_view.ts";
import { checkFragment } from "../../config/fragment_check.ts";
import type { ConfigContext } from "../../config/config_threads.ts";
import { Parts } from "../../tenants/parts.ts";
import { type FragmentChange, FragmentRevisions } from "../../config/fragments/fragment_revisions.ts";
import { FragmentTexts, tryAgain } from "../../config/fragments/fragment_texts.ts";
import { type FragmentCounts, type FragmentUse, FragmentUses } from "../../config/fragments/fragment_uses.ts";
import {
  type Fragment,
  FRAGMENT_VISIBILITIES,
  type FragmentAudience,
  Fragments,
} from "../../config/fragments/fragments.ts";
import { configText, type FragmentVersion } from "../../config/resolution.ts";

/** Default and largest number of changes on a page. */
const [HISTORY_PAGE, HISTORY_PAGE_MAX] = [10, 100];
/** Limit for the texts on a page, unless a single change exceeds it. */
const HISTORY_LETTERS = 16 * 1024 ** 2;
/** Public fragments of other organizations in one answer, and their characters. */
const [PUBLIC_MAX, PUBLIC_LETTERS] = [1_000, 4 * 1024 ** 2];

export function fragmentHandlers(cloud: ConfigContext) {
  return { ...readHandlers(cloud), ...useHandlers(cloud), ...writeHandlers(cloud), ...tagHandlers(cloud) };
}

const onFragment = (id: string): Ref => ({ kind: "fragment", id });

function readHandlers(cloud: ConfigContext) {
  const fragments = new Fragments(cloud.store);
  const revisions = new FragmentRevisions(cloud.store);
  return {
    async listFragments({ organizationId, fragmentVisibility: wanted, showPublic }, ctx) {
      const own = await fragments.list(organizationId);
      const isWanted = ({ visibility }: Fragment) =>
        wanted.length === 0 || wanted.includes(VISIBILITY[visibility]);
      const others = showPublic || wanted.includes(FragmentVisibility.PUBLIC)
        ? await fragments.published(organizationId, PUBLIC_MAX, PUBLIC_LETTERS)
        : [];
      return { fragments: await messages(cloud, [...own.filter(isWanted), ...others], ctx) };
    },
    async getFragment({ id, version = "" }, ctx) {
      await requireSeen(cloud, await fragments.get(id), ctx);
      const found = await fragments.at(id, version);
      if (!found) throw new SvcError("not_found", `there is no version "${version}" of fragment "${id}"`);
      const [kept, tags] = [await revisions.all(id), await revisions.tags(id)];
      return {
        fragment: (await messages(cloud, [found], ctx))[0],
        revisions: kept.map(({ revision, atMs }) => ({
          revision: String(revision),
          createdAt: toTimestamp(atMs),
        })),
        tags: tags.map(tagMessage),
      };
    },
    async getFragmentHistory({ id, pageToken, pageLimit }, ctx) {
      const now = await fragments.get(id);
      const show = await chooseConfigView(cloud, ctx, onFragment(id));
      if (pageLimit !== undefined && pageLimit < 0n) {
        throw new SvcError("invalid_argument", `found page limit ${pageLimit}, wanted 0 or more`);
      }
      const asked = Math.min(Number(pageLimit ?? 0n) || HISTORY_PAGE, HISTORY_PAGE_MAX);
      const before = pageToken ? pageStart(pageToken) : undefined;
      const limit = await revisions.fitting(id, asked, HISTORY_LETTERS, before);
      const changes = await revisions.history(id, limit + 1, before);
      const { page, nextPageToken } = cutPage(changes, limit, ({ revision }) => String(revision));
      return { history: page.map((change) => historyMessage(now, change, show)), nextPageToken };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function useHandlers(cloud: ConfigContext) {
  const { store, limits } = cloud;
  const fragments = new Fragments(store);
  const answer = async (list: readonly Fragment[], view: (one: Fragment) => Promise<ConfigView>) => {
    const views = await Promise.all(list.map(view));
    const counts = await new FragmentUses(store).counts(list.map(({ id }) => id));
    const shown = list.map((one, index) => ({ ...one, config: views[index]!(one.config) }));
    return {
      fragments: shown.map((one) => fragmentMessage(one, counts.get(one.id))),
      resolvedFragments: shown.map(({ id: fragmentId, config: resolvedConfig, revision }) => ({
        fragmentId,
        resolvedConfig,
        revision: String(revision),
      })),
    };
  };
  return {
    async listMachineFragments({ machineId, additionalFragmentIds, additionalFragments }, ctx) {
      const asked = [
        ...additionalFragmentIds.map((id) => ({ id, version: "" })),
        ...additionalFragments.map(versionOf),
      ];
      requireWithin(limits, "fragmentsPerOrganization", asked.length);
      const more = await seenAmong(cloud, asked, ctx);
      const list = await fragmentsUsedBy(cloud, machineId, more);
      // A machine sees only the fragments that it runs.
      const isMachine = await cloud.access.may(ctx.entity, "machine", { kind: "machine", id: machineId });
      const ofOwner = viewer(cloud, ctx);
      return await answer(list, isMachine && asked.length === 0 ? () => Promise.resolve(asItIs) : ofOwner);
    },
    /** The fragments nested in the requested one, or in others added to it. */
    async listNestedFragments({ fragmentId = "", additionalFragments }, ctx) {
      requireWithin(limits, "fragmentsPerOrganization", additionalFragments.length);
      const first = fragmentId || (additionalFragments[0]?.fragmentId ?? "");
      const { organizationId } = await fragments.get(first);
      const asked = [
        ...(fragmentId ? [{ id: fragmentId, version: "" }] : []),
        ...additionalFragments.map(versionOf),
      ];
      const found = await foundIn(cloud, organizationId, asked);
      return await answer(found.filter(({ id }) => id !== fragmentId), viewer(cloud, ctx));
    },
    async getFragmentUsage({ fragmentId }) {
      const { organizationId } = await fragments.get(fragmentId);
      const versions = Map.groupBy(await new FragmentUses(store).parts(fragmentId), ({ version }) => version);
      const machinesIn = (uses: readonly FragmentUse[]) =>
        new Set(uses.map(({ machineId }) => machineId)).size;
      return {
        versionUsages: [...versions].map(([version, uses]) => ({
          fragmentId,
          version,
          machines: machinesIn(uses),
          machinesInCurrentOrg: machinesIn(uses.filter((one) => one.organizationId === organizationId)),
          organizations: new Set(uses.map((one) => one.organizationId)).size,
        })),
      };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function writeHandlers(cloud: ConfigContext) {
  const { store, clock, audit, limits } = cloud;
  const fragments = new Fragments(store);
  return {
    async createFragment({ organizationId, name, config = {}, visibility: asked }, ctx) {
      const visibility = visibilityOf(asked) ?? "private";
      const actor = actorOf(ctx);
      const on: Ref = { kind: "organization", id: organizationId };
      await requireConfigQuota(cloud, organizationId, JSON.stringify(config).length);
      const id = await tryAgain(clock, async () => {
        const checked = await checkFragment(cloud, { organizationId, visibility }, JSON.stringify(config));
        return await audit.change(actor, on, async (sql, nowMs) => {
          const own = new Fragments(sql);
          await new FragmentTexts(sql).requireStamps(checked.stamps);
          const id = await own.create(organizationId, name, checked, nowMs, { who: actor.who, visibility });
          await requireQuota(sql, limits, "fragmentsPerOrganization", organizationId);
          await requireQuota(sql, limits, "fragmentLettersPerOrganization", organizationId);
          return id;
        });
      });
      return { fragment: fragmentMessage(await fragments.get(id)) };
    },
    async updateFragment(request, ctx) {
      const { id, name, config, fragmentConfigJson, lastKnownUpdate } = request;
      const asked = visibilityOf(request.visibility) ??
        (request.public === undefined ? undefined : PUBLIC[`${request.public}`]);
      const text = textOf(fragmentConfigJson, config);
      const actor = actorOf(ctx);
      await tryAgain(clock, async () => {
        const old = await fragments.get(id);
        if (text !== undefined) await requireConfigQuota(cloud, old.organizationId, text.length);
        const visibility = asked ?? old.visibility;
        // A fragment with unchanged content may be renamed and hidden without a check.
        const checked = text === undefined && (visibility === old.visibility || visibility === "private")
          ? { ...configText(old.config), stamps: new Map<string, number>() }
          : await checkFragment(cloud, { ...old, visibility }, text ?? JSON.stringify(old.config), id);
        await audit.change(actor, onFragment(id), async (sql, nowMs) => {
          const own = new Fragments(sql);
          const now = await own.get(id);
          if (lastKnownUpdate && now.updatedMs > toMs(lastKnownUpdate)) {
            throw new SvcError("aborted", `fragment "${now.name}" was changed after you last read it`);
          }
          await new FragmentTexts(sql).requireStamps(new Map([...checked.stamps, [id, old.stamp]]));
          await own.update(id, name || old.name, checked, nowMs, { who: actor.who, visibility });
          await new FragmentRevisions(sql).keepNewest(
            id,
            limits.revisionsPerFragment,
            limits.configBytesPerPart,
          );
          await requireQuota(sql, limits, "fragmentLettersPerOrganization", old.organizationId);
        });
      });
      return { fragment: (await messages(cloud, [await fragments.get(id)], ctx))[0] };
    },
    async deleteFragment({ id }, ctx) {
      await audit.change(actorOf(ctx), onFragment(id), (sql) => new Fragments(sql).delete(id));
      return {};
    },
  } satisfies ServiceImpl<typeof AppService>;
}

const VISIBILITY: { readonly [V in FragmentAudience]: FragmentVisibility } = {
  private: FragmentVisibility.PRIVATE,
  public: FragmentVisibility.PUBLIC,
  public_unlisted: FragmentVisibility.PUBLIC_UNLISTED,
};

/** Visibility in the older field. */
const PUBLIC: { readonly [isPublic: string]: FragmentAudience } = { true: "public", false: "private" };

function visibilityOf(asked: FragmentVisibility | undefined): FragmentAudience | undefined {
  return FRAGMENT_VISIBILITIES.find((one) => VISIBILITY[one] === asked);
}

function tagHandlers({ store, audit, limits }: ConfigContext) {
  const answer = async (id: string) => ({
    tags: (await new FragmentRevisions(store).tags(id)).map(tagMessage),
  });
  return {
    async setFragmentTag({ fragmentId: id, tag, revision }, ctx) {
      await audit.change(actorOf(ctx), onFragment(id), async (sql) => {
        await new Fragments(sql).tag(id, tag, revision);
        await requireQuota(sql, limits, "tagsPerFragment", id);
      });
      return await answer(id);
    },
    async deleteFragmentTag({ fragmentId: id, tag }, ctx) {
      await audit.change(actorOf(ctx), onFragment(id), (sql) => new Fragments(sql).untag(id, tag));
      return await answer(id);
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function versionOf({ fragmentId: id, version = "" }: AdditionalFragment): FragmentVersion {
  return { id, version };
}

/** Throws `permission_denied`, and records it, for a fragment that the caller may not see. */
async function requireSeen(
  cloud: ConfigContext,
  { id, visibility }: Fragment,
  ctx: CallContext,
): Promise<void> {
  const ref = onFragment(id);
  if (visibility !== "private" || await cloud.access.may(ctx.entity, "viewer", ref)) return;
  await cloud.audit.refused(actorOf(ctx), [ref]);
  throw new SvcError("permission_denied", `this needs an API key that is operator of fragment "${id}"`);
}

/** The fragments among these that the caller may see. */
async function seenAmong(
  { store, access }: ConfigContext,
  asked: readonly FragmentVersion[],
  { entity }: CallContext,
): Promise<FragmentVersion[]> {
  const fragments = await new Fragments(store).owners([...new Set(asked.map(({ id }) => id))]);
  const may = new Map<string, boolean>();
  const seen = new Set<string>();
  for (const { id, organizationId, visibility } of fragments) {
    if (!may.has(organizationId)) {
      may.set(
        organizationId,
        await access.may(entity, "viewer", { kind: "organization", id: organizationId }),
      );
    }
    if (visibility !== "private" || may.get(organizationId)) seen.add(id);
  }
  return asked.filter(({ id }) => seen.has(id));
}

/** Owners of a fragment see its secrets. */
function viewer({ access }: ConfigContext, { entity }: CallContext): (one: Fragment) => Promise<ConfigView> {
  const owns = new Map<string, Promise<boolean>>();
  return async ({ organizationId: id }) => {
    const isOwner = owns.getOrInsertComputed(
      id,
      () => access.may(entity, "owner", { kind: "organization", id }),
    );
    return await isOwner ? asItIs : starred;
  };
}

/** The fragments of a machine's parts, as if each part had `more` too. */
async function fragmentsUsedBy(
  cloud: ConfigContext,
  machineId: string,
  more: readonly FragmentVersion[],
): Promise<Fragment[]> {
  const used: Fragment[] = [];
  for (const { id, organizationId } of await new Parts(cloud.store).ofMachine(machineId)) {
    const own = await new FragmentUses(cloud.store).ofPart(id);
    used.push(...await foundIn(cloud, organizationId, [...own, ...more]));
  }
  return [...new Map(used.map((one) => [`${one.id} ${one.revision}`, one])).values()];
}

/** The fragments that an organization gets with these, nested ones included. */
async function foundIn(
  { store, configs }: ConfigContext,
  organizationId: string,
  asked: readonly FragmentVersion[],
): Promise<Fragment[]> {
  if (asked.length === 0) return [];
  const text = JSON.stringify({ fragments: asked });
  const { used } = await configs.run(store, organizationId, { kind: "find", text });
  return await new Fragments(store).many(used);
}

async function messages(cloud: ConfigContext, list: readonly Fragment[], ctx: CallContext) {
  const [view, counts] = [
    viewer(cloud, ctx),
    await new FragmentUses(cloud.store).counts(list.map(({ id }) => id)),
  ];
  return await Promise.all(list.map(async (one) => {
    const show = await view(one);
    return fragmentMessage({ ...one, config: show(one.config) }, counts.get(one.id));
  }));
}

function fragmentMessage(
  fragment: Fragment,
  { parts, organizations, others }: FragmentCounts = { parts: 0, organizations: 0, others: 0 },
): MessageInitShape<typeof FragmentSchema> {
  const { id, name, config, organizationId, createdMs, updatedMs, revision, visibility } = fragment;
  return {
    id,
    name,
    fragment: config,
    fragmentConfigJson: JSON.stringify(config),
    organizationOwner: organizationId,
    organizationName: fragment.organizationName,
    createdOn: toTimestamp(createdMs),
    lastUpdated: toTimestamp(updatedMs),
    revision: String(revision),
    robotPartCount: parts,
    organizationCount: organizations,
    onlyUsedByOwner: others === 0,
    public: visibility === "public",
    visibility: VISIBILITY[visibility],
  };
}

function historyMessage(now: Fragment, change: FragmentChange, show: ConfigView) {
  const { revision, atMs, who, config, oldName, old } = change;
  const before = { ...now, name: oldName, config: show(old), revision: revision - 1 };
  return {
    fragment: now.id,
    editedOn: toTimestamp(atMs),
    old: fragmentMessage(before),
    editedBy: editorOf(who),
    revision: String(revision),
    config: show(config),
  };
}

function tagMessage({ tag, revision }: { tag: string; revision: number }) {
  return { tag, revision: String(revision) };
}
