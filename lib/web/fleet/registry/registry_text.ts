/** Items of the registry as people read them. Pure. */

import type { appApi } from "@viamrobotics/sdk";
import { millisOf } from "../../machine/link/wire.ts";
import type { ListedPackage } from "../maps/map_calls.ts";

export const TRAINING_SCRIPT = "training script";
export const MAP = "map";

/** By the numbers of the published PackageType. */
export const ITEM_KINDS: readonly (readonly [type: number, word: string])[] = [
  [3, "module"],
  [2, "model"],
  [5, TRAINING_SCRIPT],
  [4, MAP],
  [1, "archive"],
];

/** Of the published Visibility. */
const VISIBILITIES = ["", "private", "public", "public, not listed"];
export const PUBLIC = 2;

export interface ShownItem {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly kind: string;
  readonly visibility: string;
  readonly description: string;
  readonly url: string;
  readonly updatedMs: number;
  /** Newest first. */
  readonly versions: readonly ShownVersion[];
  /** `rdk:component:arm acme:arm:one` */
  readonly models: readonly string[];
}

export interface ShownVersion {
  readonly version: string;
  /** 0 for unknown. */
  readonly createdMs: number;
  readonly platforms: readonly string[];
}

export function shownItem(item: appApi.RegistryItem): ShownItem {
  const { itemId, organizationId, name, type, visibility, description, url, updatedAt, metadata } = item;
  const models = metadata.case === "moduleMetadata" ? metadata.value.models : [];
  return {
    id: itemId,
    organizationId,
    name,
    kind: ITEM_KINDS.find(([number]) => number === type)?.[1] ?? "package",
    visibility: VISIBILITIES[visibility] ?? "",
    description,
    url,
    updatedMs: millisOf(updatedAt),
    versions: versionsOf(metadata).toReversed(),
    models: models.map(({ api, model }) => `${api} ${model}`),
  };
}

function versionsOf(metadata: appApi.RegistryItem["metadata"]): readonly ShownVersion[] {
  switch (metadata.case) {
    case "moduleMetadata":
      return metadata.value.versions.map(({ version, files }) => ({
        version,
        createdMs: Math.max(0, ...files.map(({ uploadedAt }) => millisOf(uploadedAt))),
        platforms: files.map(({ platform }) => platform),
      }));
    case "mlModelMetadata":
      // The published library does not know when they were added.
      return metadata.value.versions.map((version) => ({ version, createdMs: 0, platforms: [] }));
    case "mlTrainingMetadata":
      return metadata.value.versions.map(dated);
  }
  return [];
}

/** Of packages that are listed oldest first, newest first. */
export function versionsOfPackages(packages: readonly ListedPackage[]): readonly ShownVersion[] {
  const found = new Map<string, ShownVersion>();
  for (const { info, createdOn } of packages.toReversed()) {
    if (!info) continue;
    const { version, platform } = info;
    const known = found.get(version) ?? { version, createdMs: millisOf(createdOn), platforms: [] };
    found.set(version, platform ? { ...known, platforms: [...known.platforms, platform] } : known);
  }
  return [...found.values()];
}

function dated(
  { version, createdOn }: { readonly version: string; readonly createdOn?: Parameters<typeof millisOf>[0] },
): ShownVersion {
  return { version, createdMs: millisOf(createdOn), platforms: [] };
}

/** The address of an item. */
export function itemHref(id: string): string {
  return `#/registry/${encodeURIComponent(id)}`;
}
