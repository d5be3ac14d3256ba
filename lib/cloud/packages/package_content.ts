/**
 * The only function that stores contents of packages, so that uploads, the command line and training jobs have the same
 * limits.
 */

import type { CloudContext } from "../access/context.ts";
import { keepFile } from "../store/file_refs.ts";
import type { StoredFile } from "../store/files.ts";
import { PACKAGE_BYTES_MAX } from "./packages.ts";

export type PackageKeeper = Pick<CloudContext, "store" | "files" | "usage">;

/** Throws `resource_exhausted` if the organization has reached its number of packages. */
export async function requirePackageQuota({ usage }: Pick<PackageKeeper, "usage">, organizationId: string) {
  await usage.take(organizationId, "packagesPerOrganization", 0);
  await usage.take(organizationId, "packageBytesPerOrganization", 0);
}

/**
 * Stores the content of a further version, uploaded by `key`; `use` refers to it. Throws `resource_exhausted` past the
 * limits.
 */
export async function keepPackage<T>(
  cloud: PackageKeeper,
  organizationId: string,
  contents: AsyncIterable<Uint8Array>,
  use: (file: StoredFile) => Promise<T>,
  key = "",
): Promise<T> {
  const { store, files, usage } = cloud;
  // An early check spares the user a long upload.
  await requirePackageQuota(cloud, organizationId);
  const open = await usage.upload(organizationId, key, [["packageBytesPerOrganization", organizationId]]);
  try {
    const value = await keepFile(store, files, open.counted(contents), PACKAGE_BYTES_MAX, async (file) => {
      await usage.take(organizationId, "packagesPerOrganization", 1);
      return await use(file);
    });
    open.end(true);
    return value;
  } finally {
    open.end(false);
  }
}
