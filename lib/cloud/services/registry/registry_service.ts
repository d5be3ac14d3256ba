/**
 * AppService, the registry: items that organizations share, modules among them. Thin, as `fleet_service.ts`.
 *
 * The published id of an item is `namespace:name`, or `organization:name` if the organization has no public name yet;
 * both are accepted everywhere. An item that a caller may not see does not exist for this caller.
 *
 * The room owns the calls on what the control plane distributes, and on the jobs that make it: packages, releases,
 * training, and maps.
 */

import {
  type AppService,
  type ListRegistryItemsRequest,
  MLModelMetadataSchema,
  MLTrainingMetadataSchema,
  type ModuleFileInfo,
  ModuleMetadataSchema,
  type ModuleSchema,
  type RegistryItemSchema,
  RegistryItemStatus,
  UpdateMLModelMetadataSchema,
  UpdateMLTrainingMetadataSchema,
  UpdateModuleMetadataSchema,
  type UpdateRegistryItemRequest,
  type UploadModuleFileRequest,
  Visibility as VisibilityWord,
} from "../../../../proto/gen/app_pb.ts";
import type { PackageType } from "../../../../proto/gen/packages_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import { SvcError } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/schema/schema.ts";
import { parseVersion } from "../../../base/semver.ts";
import {
  create,
  type DescMessage,
  fromJson,
  type MessageInitShape,
  type MessageShape,
  toJson,
} from "../../../wire/rpc/proto.ts";
import type { CallContext, ServiceImpl } from "../../../wire/rpc/service.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import { requireVisible } from "../../packages/downloads.ts";
import { releaseFile } from "../../store/file_refs.ts";
import { requireQuota } from "../../access/quota.ts";
import { changeOf, kindOf, PACKAGE_TYPES, takePackage } from "./package_service.ts";
import { type ItemQuery, listItems } from "../../packages/item_pages.ts";
import { type ItemChange, Packages } from "../../packages/packages.ts";
import type { Sql } from "../../store/store.ts";
import {
  type Item,
  type Package,
  PACKAGE_KINDS,
  VISIBILITIES,
  type Visibility,
} from "../../packages/item.ts";

const WORDS: { readonly [K in Visibility]: VisibilityWord } = {
  private: VisibilityWord.PRIVATE,
  public: VisibilityWord.PUBLIC,
  public_unlisted: VisibilityWord.PUBLIC_UNLISTED,
};
const ITEMS_MAX = 1000;

export function registryHandlers(cloud: CloudContext) {
  return { ...itemHandlers(cloud), ...moduleHandlers(cloud), ...moduleLists(cloud) };
}

function itemHandlers(cloud: CloudContext) {
  const { store, files, audit, limits } = cloud;
  const packages = new Packages(store);
  return {
    async getRegistryItem({ itemId, includeMarkdownDocumentation: markdown = false }, ctx) {
      const item = await visible(cloud, itemId, ctx);
      return { item: itemMessage(item, await packages.versions(item), markdown) };
    },
    async createRegistryItem({ organizationId, name, type }, ctx) {
      const kind = kindOf(type);
      await audit.change(
        actorOf(ctx),
        { kind: "organization", id: organizationId },
        async (sql, nowMs) => {
          await new Packages(sql).createItem(organizationId, name, kind, nowMs);
          await requireQuota(sql, limits, "registryItemsPerOrganization", organizationId);
        },
      );
      return {};
    },
    async updateRegistryItem(request, ctx) {
      const { itemId, type, description, visibility, url, markdownDescription: markdown } = request;
      await changeItem(cloud, ctx, itemId, (item) => {
        if (type) requireType(item, type);
        return {
          description: description || item.description,
          visibility: visibilityOf(visibility) ?? item.visibility,
          url: url ?? item.url,
          markdown: markdown ?? item.markdown,
          details: { ...detailsOf(item, request) },
        };
      });
      return {};
    },
    async deleteRegistryItem({ itemId: id }, ctx) {
      const gone = await audit.change(actorOf(ctx), { kind: "package", id }, async (sql) => {
        const own = new Packages(sql);
        return await own.deleteItem(await own.item(id));
      });
      for (const sha256 of gone) await releaseFile(store, files, sha256);
      return {};
    },
    async listRegistryItems(request, ctx) {
      const query = queryOf(request, await cloud.access.readOrganizations(ctx.entity));
      const items = [];
      for await (const some of query ? listItems(store, query) : []) {
        for (const { item, packages } of some) items.push(itemMessage(item, packages, query!.markdown));
      }
      return { items };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function moduleHandlers(cloud: CloudContext) {
  const { store, audit, limits } = cloud;
  const packages = new Packages(store);
  return {
    async createModule({ organizationId, name }, ctx) {
      const item = await audit.change(
        actorOf(ctx),
        { kind: "organization", id: organizationId },
        async (sql, nowMs) => {
          const item = await new Packages(sql).createItem(organizationId, name, "module", nowMs);
          await requireQuota(sql, limits, "registryItemsPerOrganization", organizationId);
          return item;
        },
      );
      return { moduleId: publicId(item), url: item.url };
    },
    async updateModule(request, ctx) {
      const { moduleId, visibility, url, description, models, entrypoint, firstRun, apps } = request;
      const item = await changeItem(cloud, ctx, moduleId, (item) => ({
        description: description || item.description,
        visibility: visibilityOf(visibility) ?? item.visibility,
        url: url || item.url,
        markdown: request.markdownDescription ?? item.markdown,
        details: {
          ...kept(item, ["sourceType", "language", "minViamServerVersion"]),
          ...toJson(
            ModuleMetadataSchema,
            create(ModuleMetadataSchema, { models, entrypoint, firstRun, apps }),
          ) as JsonObject,
        },
      }));
      return { url: item.url };
    },
    async uploadModuleFile(requests, ctx) {
      const { info, contents } = await openedModule(requests);
      const { moduleId, version, platform } = info;
      const item = await packages.item(moduleId);
      requireModule(item);
      if (!parseVersion(version)) {
        throw new SvcError("invalid_argument", `found version "${version}", wanted one such as 1.2.3`);
      }
      // A version keeps its facts, whatever happens to its module.
      const metadata = { ...item.details, platformTags: info.platformTags };
      const { organizationId, name } = item;
      const whole = { organizationId, name, version, type: "module", platform, metadata } as const;
      await takePackage(cloud, changeOf(cloud, ctx), whole, contents, { signal: ctx.signal });
      return { url: item.url };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function moduleLists(cloud: CloudContext) {
  const packages = new Packages(cloud.store);
  return {
    async getModule({ moduleId, includeMarkdownDocumentation: markdown = false }, ctx) {
      const item = await visible(cloud, moduleId, ctx);
      requireModule(item);
      return { module: moduleMessage(item, await packages.versions(item), markdown) };
    },
    async listModules({ organizationId, includeMarkdownDocumentation: markdown = false }, ctx) {
      const modules = [];
      // This request has no pages; ListRegistryItems lists what others have shared.
      const pages = listItems(cloud.store, {
        mine: await cloud.access.readOrganizations(ctx.entity),
        organizationId,
        kinds: ["module"],
        markdown,
        ownFirst: true,
        limit: cloud.limits.modulesPerAnswer,
      });
      for await (const some of pages) {
        for (const { item, packages } of some) modules.push(moduleMessage(item, packages, markdown));
      }
      return { modules };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

/** The item if the caller may see it. */
async function visible(cloud: CloudContext, id: string, { entity }: CallContext): Promise<Item> {
  const item = await new Packages(cloud.store).item(id);
  await requireVisible(cloud, entity, item, id);
  return item;
}

/** The query of a request; `undefined` if it can match nothing. */
function queryOf(request: ListRegistryItemsRequest, mine: readonly string[]): ItemQuery | undefined {
  const { types, visibilities, statuses } = request;
  const isPublished = statuses.includes(RegistryItemStatus.PUBLISHED);
  const isInDevelopment = statuses.includes(RegistryItemStatus.IN_DEVELOPMENT);
  const kinds = PACKAGE_KINDS.filter((kind) => types.includes(PACKAGE_TYPES[kind]));
  const wanted = VISIBILITIES.filter((one) => visibilities.includes(WORDS[one]));
  if (types.length > 0 && kinds.length === 0) return undefined;
  if (visibilities.length > 0 && wanted.length === 0) return undefined;
  if (statuses.length > 0 && !isPublished && !isInDevelopment) return undefined;
  return {
    mine,
    organizationId: request.organizationId,
    kinds,
    visibilities: wanted,
    namespaces: request.publicNamespaces,
    platforms: request.platforms,
    isPublished: isPublished === isInDevelopment ? undefined : isPublished,
    search: request.searchTerm,
    after: request.pageToken,
    markdown: request.includeMarkdownDocumentation ?? false,
    limit: ITEMS_MAX,
  };
}

/** Throws `invalid_argument` for another type than the item's. */
function requireType(item: Item, type: PackageType): void {
  const found = kindOf(type);
  if (found === item.kind) return;
  const what = `${publicId(item)} is of the type ${item.kind}, found type ${found}`;
  throw new SvcError("invalid_argument", `${what}, wanted the same: types do not change`);
}

/** Changes the item's present state. */
async function changeItem(
  { audit, limits }: CloudContext,
  ctx: CallContext,
  id: string,
  change: (item: Item) => ItemChange,
): Promise<Item> {
  return await audit.change(actorOf(ctx), { kind: "package", id }, async (sql: Sql, nowMs) => {
    const packages = new Packages(sql);
    const item = await packages.item(id);
    await packages.updateItem(item, change(item), nowMs);
    await requireQuota(sql, limits, "registryLettersPerOrganization", item.organizationId);
    return await packages.item(id);
  });
}

function requireModule({ kind, name }: Item): void {
  if (kind !== "module") {
    throw new SvcError("invalid_argument", `"${name}" is of type ${kind}, wanted a module`);
  }
}

function publicId({ namespace, organizationId, name }: Item): string {
  return `${namespace ?? organizationId}:${name}`;
}

function visibilityOf(word: VisibilityWord): Visibility | undefined {
  return Object.entries(WORDS).find(([, one]) => one === word)?.[0] as Visibility | undefined;
}

/**
 * The details after an update: everything that the update can express, and for a module also what only `UpdateModule`
 * can express.
 */
function detailsOf(item: Item, { metadata: { case: kind, value } }: UpdateRegistryItemRequest): JsonObject {
  switch (kind) {
    case "updateModuleMetadata":
      return { ...kept(item, ["firstRun"]), ...toJson(UpdateModuleMetadataSchema, value) as JsonObject };
    case "updateMlModelMetadata":
      return toJson(UpdateMLModelMetadataSchema, value) as JsonObject;
    case "updateMlTrainingMetadata":
      return toJson(UpdateMLTrainingMetadataSchema, value) as JsonObject;
  }
  return item.details;
}

function kept({ details }: Item, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(details).filter(([name]) => names.includes(name)));
}

async function openedModule(
  requests: AsyncIterable<UploadModuleFileRequest>,
): Promise<{ info: ModuleFileInfo; contents: AsyncIterable<Uint8Array> }> {
  const messages = requests[Symbol.asyncIterator]();
  const { value, done } = await messages.next();
  if (done || value.moduleFile.case !== "moduleFileInfo") {
    throw new SvcError("invalid_argument", "an upload begins with the info of the module's file, found none");
  }
  const contents = async function* () {
    for (let next = await messages.next(); !next.done; next = await messages.next()) {
      const { case: kind, value } = next.value.moduleFile;
      if (kind !== "file") {
        throw new SvcError("invalid_argument", "after its info an upload has the file only");
      }
      yield value;
    }
  };
  return { info: value.moduleFile.value, contents: contents() };
}

// Messages.

function itemMessage(
  item: Item,
  packages: readonly Package[],
  markdown = false,
): MessageInitShape<typeof RegistryItemSchema> {
  const { organizationId, namespace, name, kind, visibility, url, description } = item;
  return {
    itemId: publicId(item),
    organizationId,
    publicNamespace: namespace ?? "",
    name,
    type: PACKAGE_TYPES[kind],
    visibility: WORDS[visibility],
    url,
    description,
    metadata: metadataMessage(item, packages, markdown),
    createdAt: toTimestamp(item.createdMs),
    updatedAt: toTimestamp(item.updatedMs),
  };
}

function metadataMessage(
  item: Item,
  packages: readonly Package[],
  markdown: boolean,
): MessageInitShape<typeof RegistryItemSchema>["metadata"] {
  const dated = versionsOf(packages).map(({ version, files }) => ({
    version,
    createdOn: toTimestamp(files[0]?.createdMs ?? 0),
  }));
  switch (item.kind) {
    case "module": {
      const about = read(ModuleMetadataSchema, item.details);
      const versions = moduleVersions(packages);
      return {
        case: "moduleMetadata",
        value: { ...about, versions, markdownDescription: markdown ? item.markdown : undefined },
      };
    }
    case "ml_model": {
      const about = read(MLModelMetadataSchema, item.details);
      const versions = dated.map(({ version }) => version);
      return { case: "mlModelMetadata", value: { ...about, versions, detailedVersions: dated } };
    }
    case "ml_training":
      return {
        case: "mlTrainingMetadata",
        value: { ...read(MLTrainingMetadataSchema, item.details), versions: dated },
      };
  }
  return { case: undefined };
}

function moduleMessage(
  item: Item,
  packages: readonly Package[],
  markdown: boolean,
): MessageInitShape<typeof ModuleSchema> {
  const { name, visibility, url, description, organizationId, namespace } = item;
  const { models, entrypoint, firstRun, apps } = read(ModuleMetadataSchema, item.details);
  return {
    moduleId: publicId(item),
    name,
    visibility: WORDS[visibility],
    versions: moduleVersions(packages),
    url,
    description,
    models,
    organizationId,
    entrypoint,
    publicNamespace: namespace ?? "",
    firstRun,
    markdownDescription: markdown ? item.markdown : undefined,
    apps,
  };
}

function moduleVersions(packages: readonly Package[]) {
  return versionsOf(packages).map(({ version, files }) => {
    const about = read(ModuleMetadataSchema, files[0]?.metadata ?? {});
    const { models, entrypoint, firstRun, apps } = about;
    return {
      version,
      models,
      entrypoint,
      firstRun,
      apps,
      files: files.map(({ platform, createdMs }) => ({
        platform: platform || "any",
        uploadedAt: toTimestamp(createdMs),
      })),
    };
  });
}

/** Versions in the order of their arrival, each with its contents. */
function versionsOf(packages: readonly Package[]): { version: string; files: Package[] }[] {
  const byVersion = Map.groupBy(packages, ({ version }) => version);
  return [...byVersion].map(([version, files]) => ({ version, files }));
}

/** Details as a message; leaves out members without a field in it. */
function read<D extends DescMessage>(desc: D, details: JsonObject) {
  const { $typeName: _, ...fields } = fromJson(desc, details, { ignoreUnknownFields: true });
  return fields as Omit<MessageShape<D>, "$typeName" | "$unknown">;
}
