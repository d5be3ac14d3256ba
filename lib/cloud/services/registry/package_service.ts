/**
 * PackageService: uploads, versions and addresses of packages. Thin over `Packages`, except for uploads.
 *
 * An upload becomes a package only once it is complete and matches its description; an interrupted or wrong one leaves
 * nothing behind.
 */

import {
  type CreatePackageRequest,
  type PackageInfo,
  type PackageService,
  PackageType,
} from "../../../../proto/gen/packages_pb.ts";
import { ModelFramework, ModelType } from "../../../../proto/gen/ml_training_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import { unpacked } from "../../../base/files/archive.ts";
import { SvcError } from "../../../base/error.ts";
import type { Json, JsonObject } from "../../../base/schema/schema.ts";
import { type CallContext, type ServiceImpl } from "../../../wire/rpc/service.ts";
import type { Ref } from "../../access/access.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import { type Downloads, requireVisible } from "../../packages/downloads.ts";
import { releaseFile } from "../../store/file_refs.ts";
import type { StoredFile } from "../../store/files.ts";
import { keepPackage, type PackageKeeper } from "../../packages/package_content.ts";
import { checkPackage, type ItemChange, type NewPackage, Packages } from "../../packages/packages.ts";
import { requireQuota } from "../../access/quota.ts";
import type { Sql } from "../../store/store.ts";
import { type Package, type PackageKind, VISIBILITIES, type Visibility } from "../../packages/item.ts";

export const PACKAGE_TYPES: { readonly [K in PackageKind]: PackageType } = {
  archive: PackageType.ARCHIVE,
  ml_model: PackageType.ML_MODEL,
  module: PackageType.MODULE,
  slam_map: PackageType.SLAM_MAP,
  ml_training: PackageType.ML_TRAINING,
};

/** Unpacked. */
const LIMITS = { filesMax: 100_000, bytesMax: 32 * 1024 ** 3 };

export function packageHandlers(cloud: CloudContext, downloads: Downloads) {
  const { store, files, audit } = cloud;
  const packages = new Packages(store);
  const message = async (one: Package, ctx: CallContext, withUrl = false) => ({
    info: {
      organizationId: one.item.organizationId,
      name: one.item.name,
      version: one.version,
      type: PACKAGE_TYPES[one.item.kind],
      platform: one.platform || undefined,
      metadata: one.metadata,
    },
    url: withUrl ? await downloads.packageUrl(one, ctx.peer) : "",
    createdOn: toTimestamp(one.createdMs),
    checksum: one.sha256,
    id: `${one.item.organizationId}/${one.item.name}`,
  });
  return {
    async createPackage(requests, ctx) {
      const { info, contents } = await opened(requests);
      const more = { listed: info.files, key: ctx.entity, signal: ctx.signal };
      return await takePackage(cloud, changeOf(cloud, ctx), newPackage(info), contents, more);
    },
    async getPackage({ id, version, type, platform, includeUrl }, ctx) {
      const one = await packages.find(id, version, platform);
      await requireVisible(cloud, ctx.entity, one.item, id);
      if (type && type !== PACKAGE_TYPES[one.item.kind]) {
        throw new SvcError("not_found", `"${id}" is of type ${one.item.kind}, wanted ${nameOf(type)}`);
      }
      return { package: await message(one, ctx, includeUrl) };
    },
    async listPackages({ organizationId, name, version, type, includeUrl }, ctx) {
      const found = await packages.list(organizationId, {
        name: name || undefined,
        version: version || undefined,
        kind: type ? kindOf(type) : undefined,
      });
      return { packages: await Promise.all(found.map((one) => message(one, ctx, includeUrl))) };
    },
    async deletePackage({ id, version }, ctx) {
      const gone = await audit.change(
        actorOf(ctx),
        { kind: "package", id },
        (sql) => new Packages(sql).delete(id, version),
      );
      for (const sha256 of gone) await releaseFile(store, files, sha256);
      return {};
    },
  } satisfies ServiceImpl<typeof PackageService>;
}

/** Runs a change and records its author. */
export type Change = <T>(on: Ref, work: (sql: Sql, nowMs: number) => Promise<T>) => Promise<T>;

export function changeOf({ audit }: CloudContext, ctx: CallContext): Change {
  return (on, work) => audit.change(actorOf(ctx), on, work);
}

/**
 * Stores the content of a package, checks it and adds the package, or leaves nothing behind. `listed`: the files that
 * the description lists.
 */
export async function takePackage(
  cloud: PackageKeeper & Pick<CloudContext, "limits">,
  change: Change,
  info: Omit<NewPackage, "file">,
  contents: AsyncIterable<Uint8Array>,
  { listed = [], key, signal }: PackageUpload = {},
): Promise<{ id: string; version: string }> {
  const { store, files, limits } = cloud;
  const { organizationId, name, version, type, platform } = info;
  checkPackage(name, version, platform);
  const about = itemChange(info.metadata);
  // An early check spares the user a long upload; the database decides.
  await refuseKnown(new Packages(store), info);
  await new Packages(store).requireNamespace(info, about.visibility ?? "private");
  return await keepPackage(cloud, organizationId, contents, async (file) => {
    await checkContent(files.read(file.sha256), file, type, listed);
    signal?.throwIfAborted();
    return await change({ kind: "package", id: `${organizationId}:${name}` }, async (sql, nowMs) => {
      const packages = new Packages(sql);
      const added = await packages.add({ ...info, file }, nowMs);
      if (Object.keys(about).length > 0) {
        const item = await packages.item(added.id);
        await packages.updateItem(item, { ...about, details: { ...item.details, ...about.details } }, nowMs);
      }
      await requireQuota(sql, limits, "registryItemsPerOrganization", organizationId);
      await requireQuota(sql, limits, "registryLettersPerOrganization", organizationId);
      return added;
    });
  }, key);
}

export function kindOf(type: PackageType): PackageKind {
  const found = Object.entries(PACKAGE_TYPES).find(([, one]) => one === type);
  if (found) return found[0] as PackageKind;
  throw new SvcError(
    "invalid_argument",
    `found package type ${nameOf(type)}, wanted one of ${Object.keys(PACKAGE_TYPES).join(", ")}`,
  );
}

export interface PackageUpload {
  /** The files that the description lists. */
  readonly listed?: readonly ListedFile[];
  /** The key that uploads it. */
  readonly key?: string;
  readonly signal?: AbortSignal;
}

interface ListedFile {
  readonly name: string;
  readonly size: bigint;
  readonly isDirectory?: boolean;
}

/** The first message of an upload and the bytes after it. Throws `invalid_argument` for any other order. */
async function opened(
  requests: AsyncIterable<CreatePackageRequest>,
): Promise<{ info: PackageInfo; contents: AsyncIterable<Uint8Array> }> {
  const messages = requests[Symbol.asyncIterator]();
  const { value, done } = await messages.next();
  if (done || value.package.case !== "info") {
    throw new SvcError("invalid_argument", "an upload begins with the info of the package, found none");
  }
  const contents = async function* () {
    for (let next = await messages.next(); !next.done; next = await messages.next()) {
      const { case: kind, value } = next.value.package;
      if (kind !== "contents") {
        throw new SvcError("invalid_argument", "after its info an upload has contents only");
      }
      yield value;
    }
  };
  return { info: value.package.value, contents: contents() };
}

function newPackage({ organizationId, name, version, type, platform, metadata }: PackageInfo) {
  return {
    organizationId,
    name,
    version,
    type: kindOf(type),
    platform: platform ?? "",
    metadata: (metadata ?? {}) as JsonObject,
  };
}

async function refuseKnown(packages: Packages, info: Omit<NewPackage, "file">): Promise<void> {
  const { organizationId, name, version, type, platform } = info;
  const same = { name, version, kind: type, platform: platform === "any" ? "" : platform };
  if (await packages.has(organizationId, same)) {
    throw new SvcError(
      "already_exists",
      `there is version "${version}" of "${name}" already: versions do not change, take a new one`,
    );
  }
}

/** Metadata of the item, as opposed to the version. */
function itemChange({ visibility, url, description, draft, ...rest }: JsonObject): ItemChange {
  const modelType = wordOf("MODEL_TYPE_", rest.model_type, ModelType);
  const modelFramework = wordOf("MODEL_FRAMEWORK_", rest.model_framework, ModelFramework);
  const details = {
    ...(modelType ? { modelType } : {}),
    ...(modelFramework ? { modelFramework } : {}),
    ...(typeof draft === "boolean" ? { draft } : {}),
  };
  return {
    ...(typeof visibility === "string" ? { visibility: visibilityOf(visibility) } : {}),
    ...(typeof url === "string" ? { url } : {}),
    ...(typeof description === "string" ? { description } : {}),
    ...(Object.keys(details).length > 0 ? { details } : {}),
  };
}

/** The published word for a user's spelling, in any letter case, with or without the common prefix. */
function wordOf(prefix: string, text: Json | undefined, words: object): string | undefined {
  if (typeof text !== "string") return undefined;
  const word = text.toUpperCase().replaceAll("-", "_").replace(prefix, "");
  return word in words ? `${prefix}${word}` : undefined;
}

/** In the user's spelling: `public`, or the published `VISIBILITY_PUBLIC`. */
function visibilityOf(text: string): Visibility {
  const word = text.toLowerCase().replace(/^visibility_/, "");
  const found = VISIBILITIES.find((one) => one === word);
  if (found) return found;
  throw new SvcError(
    "invalid_argument",
    `found visibility ${JSON.stringify(text)}, wanted one of ${VISIBILITIES.join(", ")}`,
  );
}

/**
 * Throws `invalid_argument` if a content is not an archive, or not the described one. For modules it checks only the
 * compression: the machine unpacks them, and accepts links in them.
 */
async function checkContent(
  content: AsyncIterable<Uint8Array>,
  file: StoredFile,
  type: PackageKind,
  listed: readonly ListedFile[],
): Promise<void> {
  if (type === "module") {
    for await (const chunk of content) {
      if (chunk[0] === 0x1f && chunk[1] === 0x8b) return;
      break;
    }
    throw new SvcError("invalid_argument", `the module of ${file.bytes} bytes is no .tar.gz`);
  }
  const found = new Map<string, number>();
  for await (const { path, bytes } of unpacked(content, LIMITS)) found.set(path, bytes);
  if (found.size === 0) throw new SvcError("invalid_argument", "the archive is empty, wanted files in it");
  const wanted = listed.filter(({ isDirectory }) => !isDirectory);
  // Some clients list the archive itself.
  const [first, ...others] = wanted;
  const isArchive = first && others.length === 0 && first.size === BigInt(file.bytes);
  if (isArchive && !found.has(plain(first.name))) return;
  for (const { name, size } of wanted) {
    const bytes = found.get(plain(name));
    if (bytes !== undefined && BigInt(bytes) === size) continue;
    const there = bytes === undefined ? "is not in the archive" : `has ${bytes} bytes`;
    throw new SvcError("invalid_argument", `file "${name}" ${there}, its description says ${size} bytes`);
  }
}

function plain(name: string): string {
  return name.split("/").filter((part) => part !== "" && part !== ".").join("/");
}

function nameOf(type: PackageType): string {
  return PackageType[type] ?? String(type);
}
