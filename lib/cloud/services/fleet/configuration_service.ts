/**
 * ConfigurationService: what configurations become, and who names a fragment or an item of the registry. Thin, as `fleet_service.ts`.
 *
 * A caller who may not see secrets gets stars for those of the part before the fragments are filled in, too: a variable
 * could carry one to a setting whose name does not say so.
 */

import type { ConfigurationService } from "../../../../proto/gen/configurations_pb.ts";
import { SvcError } from "../../../base/error.ts";
import { starred } from "../../../base/schema/json_secrets.ts";
import { isObject, type JsonObject } from "../../../base/schema/schema.ts";
import type { CallContext, ServiceImpl } from "../../../wire/rpc/service.ts";
import type { Ref } from "../../access/access.ts";
import { actorOf } from "../../access/context.ts";
import { Parts } from "../../tenants/parts.ts";
import { asItIs, ownsFragments } from "../../config/config_view.ts";
import { parsedConfig } from "../../config/config_jobs.ts";
import type { ConfigContext, FragmentDraft } from "../../config/config_threads.ts";
import { namedFragmentUses, namedPartUses } from "../../config/fragments/fragment_uses.ts";
import { Fragments } from "../../config/fragments/fragments.ts";
import { Packages } from "../../packages/packages.ts";
import { requireVisible } from "../../packages/downloads.ts";
import {
  BEFORE_ALL_USES,
  fragmentsWithPackage,
  namesOfItem,
  partsWithPackage,
  type UsingPartCursor,
} from "../../config/package_uses.ts";
import { PartConfigs } from "../../config/part_config.ts";

/** Parts on a page, and fragments beside them. */
const [PARTS_MAX, FRAGMENTS_MAX] = [500, 500];
/** The part after which a page begins, and its version. */
const PAGE_TOKEN = /^([\w-]{1,64}) ([\w.-]{0,60})$/;
/** The part, the fragment and the version after which a page begins. */
const PACKAGE_PAGE_TOKEN = /^([\w-]{1,64}) ([\w-]{0,64}) ([ -~]{0,128})$/;

export function configurationHandlers(cloud: ConfigContext) {
  const { store } = cloud;
  return {
    async resolveConfiguration({ partId, configJson, fragmentId, fragmentJson }, ctx) {
      const on: Ref = { kind: "part", id: partId };
      const isOwner = await cloud.access.may(ctx.entity, "owner", on);
      if (configJson !== "" && !isOwner) {
        await cloud.audit.refused(actorOf(ctx), [on]);
        throw new SvcError(
          "permission_denied",
          `only an owner of part "${partId}" may ask what another text becomes`,
        );
      }
      const { organizationId } = await new Parts(store).summary(partId);
      const text = await wantedText(cloud, organizationId, { partId, configJson, fragmentId });
      const draft = fragmentJson === "" ? undefined : await checkDraft(cloud, ctx, fragmentId, fragmentJson);
      return await resolvedFor(cloud, ctx, { organizationId, text, draft, isOwner });
    },
    async listFragmentUses({ fragmentId, pageToken }) {
      const found = await namedPartUses(store, fragmentId, pageAfter(pageToken), PARTS_MAX + 1);
      const parts = found.slice(0, PARTS_MAX);
      const last = parts.at(-1);
      return {
        parts,
        nextPageToken: last && found.length > PARTS_MAX ? `${last.partId} ${last.version}` : "",
        fragments: pageToken === "" ? await namedFragmentUses(store, fragmentId, FRAGMENTS_MAX) : [],
      };
    },
    async listPackageUses({ organizationId, itemId, pageToken }, ctx) {
      const item = await new Packages(store).item(itemId);
      await requireVisible(cloud, ctx.entity, item, itemId);
      const names = namesOfItem(item);
      const after = packagePageAfter(pageToken);
      const found = await partsWithPackage(store, organizationId, names, after, PARTS_MAX + 1);
      const parts = found.slice(0, PARTS_MAX);
      const last = parts.at(-1);
      return {
        parts,
        nextPageToken: last && found.length > PARTS_MAX ? packagePageToken(last) : "",
        fragments: pageToken === ""
          ? await fragmentsWithPackage(store, organizationId, names, FRAGMENTS_MAX)
          : [],
      };
    },
  } satisfies ServiceImpl<typeof ConfigurationService>;
}

function packagePageToken({ partId, fragmentId, version }: UsingPartCursor): string {
  return `${partId} ${fragmentId} ${version}`;
}

function packagePageAfter(token: string): UsingPartCursor {
  if (token === "") return BEFORE_ALL_USES;
  const [, partId, fragmentId, version] = PACKAGE_PAGE_TOKEN.exec(token) ?? [];
  if (partId !== undefined && fragmentId !== undefined && version !== undefined) {
    return { partId, fragmentId, version };
  }
  throw new SvcError("invalid_argument", `found page token "${token}", wanted one from an earlier page`);
}

function pageAfter(token: string): { readonly partId: string; readonly version: string } {
  if (token === "") return { partId: "", version: "" };
  const [, partId, version] = PAGE_TOKEN.exec(token) ?? [];
  if (partId !== undefined && version !== undefined) return { partId, version };
  throw new SvcError("invalid_argument", `found page token "${token}", wanted one from an earlier page`);
}

interface WantedConfig {
  readonly partId: string;
  readonly configJson: string;
  readonly fragmentId: string;
}

/** The text to fill in: the given or the saved one, or only what concerns a fragment in it. */
async function wantedText(
  { store, configs, limits }: ConfigContext,
  organizationId: string,
  { partId, configJson, fragmentId }: WantedConfig,
): Promise<string> {
  const { text } = configJson === "" ? await new PartConfigs(store).readText(partId) : { text: configJson };
  if (fragmentId === "" || text.length > limits.lettersPerConfiguration) return text;
  // A thread checks the depth and the size of a text from outside before anything recurses into it.
  if (configJson !== "") await configs.run(store, organizationId, { kind: "find", text });
  return JSON.stringify(onlyFragment(parsedConfig(text), fragmentId));
}

/** The text that an owner of a fragment has not saved, checked as a text that is saved. */
async function checkDraft(
  cloud: ConfigContext,
  ctx: CallContext,
  id: string,
  text: string,
): Promise<FragmentDraft> {
  const { store, access, audit, configs } = cloud;
  const on: Ref = { kind: "fragment", id };
  if (!await access.may(ctx.entity, "owner", on)) {
    await audit.refused(actorOf(ctx), [on]);
    throw new SvcError(
      "permission_denied",
      `only an owner of fragment "${id}" may ask what another text of it becomes`,
    );
  }
  const [owner] = await new Fragments(store).owners([id]);
  if (!owner) throw new SvcError("not_found", `there is no fragment "${id}"`);

  const { text: checked } = await configs.run(store, owner.organizationId, { kind: "find", text });
  return { id, text: checked };
}

/** The entries of a configuration that name a fragment, with their overrides. */
function onlyFragment({ fragments, fragment_mods: mods }: JsonObject, id: string): JsonObject {
  const named = Array.isArray(fragments)
    ? fragments.filter((one) => one === id || isObject(one) && one.id === id)
    : [];
  const own = Array.isArray(mods) ? mods.filter((one) => isObject(one) && one.fragment_id === id) : [];
  return { fragments: named, fragment_mods: own };
}

async function resolvedFor(
  cloud: ConfigContext,
  { entity }: CallContext,
  { organizationId, text, draft, isOwner }: {
    readonly organizationId: string;
    readonly text: string;
    readonly draft: FragmentDraft | undefined;
    readonly isOwner: boolean;
  },
) {
  const { store, configs } = cloud;
  const fill = (masked: boolean) => {
    const shown = masked && !isOwner ? JSON.stringify(starred(parsedConfig(text))) : text;
    return configs.run(store, organizationId, { kind: "fill", text: shown, masked, draft });
  };
  const own = await fill(!isOwner);
  const mayReveal = isOwner && await ownsFragments(cloud, entity, own.used.map(({ id }) => id));
  const done = isOwner && !mayReveal ? await fill(true) : own;
  const view = isOwner ? asItIs : starred;
  return {
    configJson: JSON.stringify(view(done.config ?? {})),
    problems: done.problems.map(({ path, message }) => ({ path, message })),
    fragments: done.used.map(({ id, revision }) => ({ fragmentId: id, revision: String(revision) })),
    isMasked: !mayReveal,
  };
}
