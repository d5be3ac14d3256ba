/**
 * AppService, fragments: their texts, history, versions and who uses them. Thin, as `fleet_service.ts`.
 */

import type { AdditionalFragment, AppService, FragmentSchema } from "../../../proto/gen/app_pb.ts";
import { FragmentVisibility } from "../../../proto/gen/app_pb.ts";
import { toMs, toTimestamp } from "../../api/shared/time.ts";
import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { MessageInitShape } from "../../wire/proto.ts";
import type { ServiceImpl } from "../../wire/service.ts";
import type { Ref } from "../access/access.ts";
import { type Limits, requireWithin } from "../access/limits.ts";
import { requireRoom } from "../access/room.ts";
import { actorOf, type CloudContext, pageStart } from "../context.ts";
import type { Sql } from "../store/store.ts";
import { asItIs, configOf, type ConfigView, editorOf, viewOf } from "./config_view.ts";
import { Fleet } from "../fleet/fleet.ts";
import { type Fragment, type FragmentChange, Fragments } from "./fragments.ts";
import { PartConfigs } from "./part_config.ts";

/** Default and largest number of changes on a page. */
const [HISTORY_PAGE, HISTORY_PAGE_MAX] = [10, 100];
/** Limit for the texts on a page, unless a single change exceeds it. */
const HISTORY_LETTERS = 16 * 1024 ** 2;

export function fragmentHandlers(cloud: CloudContext) {
  return { ...readHandlers(cloud), ...useHandlers(cloud), ...writeHandlers(cloud), ...tagHandlers(cloud) };
}

const onFragment = (id: string): Ref => ({ kind: "fragment", id });

function readHandlers(cloud: CloudContext) {
  const fragments = new Fragments(cloud.store);
  return {
    async listFragments({ organizationId, fragmentVisibility: wanted }, ctx) {
      const show = await viewOf(cloud, ctx, { kind: "organization", id: organizationId });
      // All are private. Whoever names no visibility gets them all the same: there is nothing else to list.
      if (wanted.length > 0 && !wanted.includes(FragmentVisibility.PRIVATE)) return { fragments: [] };
      return { fragments: await messages(cloud, await fragments.list(organizationId), show) };
    },
    async getFragment({ id, version = "" }, ctx) {
      const show = await viewOf(cloud, ctx, onFragment(id));
      const found = await fragments.at(id, version);
      if (!found) throw new SvcError("not_found", `there is no version "${version}" of fragment "${id}"`);
      const [revisions, tags] = [await fragments.revisions(id), await fragments.tags(id)];
      return {
        fragment: await message(cloud, found, show),
        revisions: revisions.map(({ revision, atMs }) => ({
          revision: String(revision),
          createdAt: toTimestamp(atMs),
        })),
        tags: tags.map(tagMessage),
      };
    },
    async getFragmentHistory({ id, pageToken, pageLimit }, ctx) {
      const now = await fragments.get(id);
      const show = await viewOf(cloud, ctx, onFragment(id));
      if (pageLimit !== undefined && pageLimit < 0n) {
        throw new SvcError("invalid_argument", `found page limit ${pageLimit}, wanted 0 or more`);
      }
      const asked = Math.min(Number(pageLimit ?? 0n) || HISTORY_PAGE, HISTORY_PAGE_MAX);
      const before = pageToken ? pageStart(pageToken) : undefined;
      const limit = await fragments.fitting(id, asked, HISTORY_LETTERS, before);
      const changes = await fragments.history(id, limit + 1, before);
      const page = changes.slice(0, limit);
      return {
        history: page.map((change) => historyMessage(now, change, show)),
        nextPageToken: changes.length > limit ? String(page[page.length - 1].revision) : "",
      };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function useHandlers(cloud: CloudContext) {
  const { store, limits } = cloud;
  const fragments = new Fragments(store);
  const answer = async (list: readonly Fragment[], show: ConfigView) => ({
    fragments: await messages(cloud, list, show),
    resolvedFragments: list.map(({ id: fragmentId, config, revision }) => ({
      fragmentId,
      resolvedConfig: show(config),
      revision: String(revision),
    })),
  });
  return {
    async listMachineFragments({ machineId, additionalFragmentIds, additionalFragments }, ctx) {
      const on: Ref = { kind: "machine", id: machineId };
      const more = [...additionalFragmentIds, ...additionalFragments.map(importOf)];
      requireWithin(limits, "fragmentsPerOrganization", more.length);
      await requireLetters(fragments, limits, additionalFragments);
      // A machine sees only the fragments that it runs.
      const show = await viewOf(cloud, ctx, on, more.length > 0 ? "owner" : "insider");
      return await answer(await fragmentsUsedBy(store, machineId, more), show);
    },
    /** Those nested in the requested one, or in others added to it. */
    async listNestedFragments({ fragmentId = "", additionalFragments }, ctx) {
      requireWithin(limits, "fragmentsPerOrganization", additionalFragments.length);
      await requireLetters(fragments, limits, additionalFragments);
      const first = fragmentId || additionalFragments[0].fragmentId;
      const { organizationId } = await fragments.get(first);
      const show = await viewOf(cloud, ctx, onFragment(first));
      const asked = [...(fragmentId ? [fragmentId] : []), ...additionalFragments.map(importOf)];
      const found = (await fragments.resolve({ fragments: asked }, organizationId)).fragments;
      return await answer(unique(found.filter(({ id }) => id !== fragmentId)), show);
    },
    async getFragmentUsage({ fragmentId }) {
      const versions = Map.groupBy(await fragments.uses(fragmentId), ({ version }) => version);
      return {
        versionUsages: [...versions].map(([version, uses]) => {
          const machines = new Set(uses.map(({ machineId }) => machineId)).size;
          // A fragment belongs to its organization.
          return { fragmentId, version, machines, machinesInCurrentOrg: machines, organizations: 1 };
        }),
      };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function writeHandlers(cloud: CloudContext) {
  const { store, audit, limits } = cloud;
  const fragments = new Fragments(store);
  return {
    async createFragment({ organizationId, name, config = {}, visibility }, ctx) {
      requirePrivate(visibility);
      const actor = actorOf(ctx);
      const on: Ref = { kind: "organization", id: organizationId };
      const id = await audit.change(actor, on, async (sql, nowMs) => {
        const id = await new Fragments(sql).create(organizationId, name, config, nowMs, actor.who);
        await requireRoom(sql, limits, "fragmentsPerOrganization", organizationId);
        await requireRoom(sql, limits, "fragmentLettersPerOrganization", organizationId);
        return id;
      });
      return { fragment: await message(cloud, await fragments.get(id), asItIs) };
    },
    async updateFragment(request, ctx) {
      const { id, name, config, fragmentConfigJson, lastKnownUpdate } = request;
      requirePrivate(request.public ? FragmentVisibility.PUBLIC : request.visibility);
      const json = configOf(fragmentConfigJson, config);
      const actor = actorOf(ctx);
      await audit.change(actor, onFragment(id), async (sql, nowMs) => {
        const own = new Fragments(sql);
        const old = await own.get(id);
        if (lastKnownUpdate && old.updatedMs > toMs(lastKnownUpdate)) {
          throw new SvcError("aborted", `fragment "${old.name}" was changed after you last read it`);
        }
        await own.update(id, name || old.name, json ?? old.config, nowMs, actor.who);
        await own.keepNewest(id, limits.revisionsPerFragment);
        await requireRoom(sql, limits, "fragmentLettersPerOrganization", old.organizationId);
      });
      return { fragment: await message(cloud, await fragments.get(id), asItIs) };
    },
    async deleteFragment({ id }, ctx) {
      await audit.change(actorOf(ctx), onFragment(id), (sql) => new Fragments(sql).delete(id));
      return {};
    },
  } satisfies ServiceImpl<typeof AppService>;
}

/** Throws `unimplemented` for a fragment that others should see: it would seem to be so. */
function requirePrivate(visibility: FragmentVisibility | undefined): void {
  const isPrivate = [undefined, FragmentVisibility.UNSPECIFIED, FragmentVisibility.PRIVATE].includes(
    visibility,
  );
  if (isPrivate) return;
  const kept = "this control plane keeps fragments private to their organization";
  throw new SvcError(
    "unimplemented",
    `found visibility ${FragmentVisibility[visibility!]}: ${kept}; nothing is changed`,
  );
}

function tagHandlers({ store, audit, limits }: CloudContext) {
  const answer = async (id: string) => ({ tags: (await new Fragments(store).tags(id)).map(tagMessage) });
  return {
    async setFragmentTag({ fragmentId: id, tag, revision }, ctx) {
      await audit.change(actorOf(ctx), onFragment(id), async (sql) => {
        await new Fragments(sql).tag(id, tag, revision);
        await requireRoom(sql, limits, "tagsPerFragment", id);
      });
      return await answer(id);
    },
    async deleteFragmentTag({ fragmentId: id, tag }, ctx) {
      await audit.change(actorOf(ctx), onFragment(id), (sql) => new Fragments(sql).untag(id, tag));
      return await answer(id);
    },
  } satisfies ServiceImpl<typeof AppService>;
}

/** No limit counts old versions: an answer has at most as many as an organization may have fragments. */
async function requireLetters(
  fragments: Fragments,
  limits: Limits,
  asked: readonly AdditionalFragment[],
): Promise<void> {
  let letters = 0;
  for (const { fragmentId, version = "" } of asked) {
    letters += JSON.stringify((await fragments.at(fragmentId, version))?.config ?? "").length;
    requireWithin(limits, "fragmentLettersPerOrganization", letters);
  }
}

/** A fragment of a request, in the form of a configuration's entry. */
function importOf({ fragmentId: id, version = "" }: AdditionalFragment): JsonObject {
  return { id, version };
}

/** The fragments of a machine's parts, as if each part had `more` too. */
async function fragmentsUsedBy(
  store: Sql,
  machineId: string,
  more: readonly (string | JsonObject)[],
): Promise<Fragment[]> {
  const used: Fragment[] = [];
  for (const { id, organizationId } of await new Fleet(store).parts(machineId)) {
    const { config } = await new PartConfigs(store).get(id);
    const own = Array.isArray(config.fragments) ? config.fragments : [];
    const all = { ...config, fragments: [...own, ...more] };
    used.push(...(await new Fragments(store).resolve(all, organizationId)).fragments);
  }
  return unique(used);
}

/** Each revision once. */
function unique(fragments: readonly Fragment[]): Fragment[] {
  return [...new Map(fragments.map((one) => [`${one.id} ${one.revision}`, one])).values()];
}

function messages(cloud: CloudContext, list: readonly Fragment[], show: ConfigView) {
  return Promise.all(list.map((one) => message(cloud, one, show)));
}

async function message({ store }: CloudContext, fragment: Fragment, show: ConfigView) {
  const users = await new Fragments(store).users(fragment.id);
  return fragmentMessage({ ...fragment, config: show(fragment.config) }, users.length);
}

function fragmentMessage(
  fragment: Fragment,
  robotPartCount: number,
): MessageInitShape<typeof FragmentSchema> {
  const { id, name, config, organizationId, createdMs, updatedMs, revision } = fragment;
  return {
    id,
    name,
    fragment: config,
    fragmentConfigJson: JSON.stringify(config),
    organizationOwner: organizationId,
    createdOn: toTimestamp(createdMs),
    lastUpdated: toTimestamp(updatedMs),
    revision: String(revision),
    robotPartCount,
    onlyUsedByOwner: true,
    visibility: FragmentVisibility.PRIVATE,
  };
}

function historyMessage(now: Fragment, change: FragmentChange, show: ConfigView) {
  const { revision, atMs, who, config, oldName, old } = change;
  const before = { ...now, name: oldName, config: show(old), revision: revision - 1 };
  return {
    fragment: now.id,
    editedOn: toTimestamp(atMs),
    old: fragmentMessage(before, 0),
    editedBy: editorOf(who),
    revision: String(revision),
    config: show(config),
  };
}

function tagMessage({ tag, revision }: { tag: string; revision: number }) {
  return { tag, revision: String(revision) };
}
