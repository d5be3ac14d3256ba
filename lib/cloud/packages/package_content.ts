/**
 * The one way by which contents of packages come into the file store, whoever brings them: uploads, the command line
 * and training jobs are held against the same limits.
 */

import type { CloudContext } from "../context.ts";
import { keepFile } from "../store/file_refs.ts";
import type { StoredFile } from "../store/files.ts";
import { PACKAGE_BYTES_MAX } from "./packages.ts";

export type PackageKeeper = Pick<CloudContext, "store" | "files" | "usage">;

/** Throws `resource_exhausted` where an organization has as many packages as it may. */
export async function requirePackageRoom({ usage }: Pick<PackageKeeper, "usage">, organizationId: string) {
  await usage.take(organizationId, "packagesPerOrganization", 0);
  await usage.take(organizationId, "packageBytesPerOrganization", 0);
}

/** Keeps the content of one more version, which `use` refers to. Throws `resource_exhausted` where that is too much. */
export async function keepPackage<T>(
  cloud: PackageKeeper,
  organizationId: string,
  contents: AsyncIterable<Uint8Array>,
  use: (file: StoredFile) => Promise<T>,
): Promise<T> {
  const { store, files, usage } = cloud;
  // Better told before a long upload than after it.
  await requirePackageRoom(cloud, organizationId);
  return await keepFile(store, files, contents, PACKAGE_BYTES_MAX, async (file) => {
    await usage.take(organizationId, "packageBytesPerOrganization", file.bytes);
    await usage.take(organizationId, "packagesPerOrganization", 1);
    return await use(file);
  });
}
