/**
 * Packages and modules that a configuration names and the registry does not have: a machine would keep what it has
 * installed, or wait for ever.
 *
 * These are warnings, because the version may be published after the configuration is saved.
 */

import { messageOf, SvcError } from "../../base/error.ts";
import type { Problem } from "../../base/schema/schema.ts";
import { Packages } from "../packages/packages.ts";
import type { Sql } from "../store/store.ts";
import type { PackageUse } from "./package_uses.ts";

const LOOKED_AT_MAX = 100;
const WARNINGS_MAX = 10;

/** What `organizationId` does not get from the registry; `platform` of the machine, empty if it is unknown. */
export async function missingPackages(
  sql: Sql,
  organizationId: string,
  uses: readonly PackageUse[],
  platform: string,
): Promise<Problem[]> {
  const packages = new Packages(sql);
  const warnings: Problem[] = [];

  for (const { item, version, path } of uses.slice(0, LOOKED_AT_MAX)) {
    // The machine fills in placeholders.
    if (path === undefined || version.includes("$") || warnings.length >= WARNINGS_MAX) continue;
    const found = await packages.itemIfAny(item);
    const isVisible = found && (found.visibility !== "private" || found.organizationId === organizationId);
    if (!isVisible) {
      const message =
        `the registry has no "${item}" for this organization: svc-cloud package upload publishes it`;
      warnings.push({ severity: "warning", path, message });
      continue;
    }

    try {
      await packages.find(item, version || "latest", platform || undefined);
    } catch (error) {
      if (SvcError.from(error).code !== "not_found") throw error;
      const wanted = 'wanted one of these, a range such as "^1.2", or "latest"';
      warnings.push({
        severity: "warning",
        path: `${path}.version`,
        message: `${messageOf(error)}; ${wanted}`,
      });
    }
  }
  return warnings;
}
