/** What the registry knows of an item, and of its versions. */

import type { JsonObject } from "../../base/schema/schema.ts";

export const PACKAGE_KINDS = ["archive", "ml_model", "module", "slam_map", "ml_training"] as const;
export type PackageKind = typeof PACKAGE_KINDS[number];

/** Who can find an item: its organization; everybody; everybody who knows its name. */
export const VISIBILITIES = ["private", "public", "public_unlisted"] as const;
export type Visibility = typeof VISIBILITIES[number];

export interface Item {
  readonly id: string;
  readonly organizationId: string;
  /** The public name of the organization. */
  readonly namespace: string | null;
  readonly name: string;
  readonly kind: PackageKind;
  readonly visibility: Visibility;
  readonly description: string;
  readonly url: string;
  readonly markdown: string;
  /** Members that only some kinds of items have. */
  readonly details: JsonObject;
  readonly createdMs: number;
  readonly updatedMs: number;
}

/** One content: a version of an item for a platform. */
export interface Package {
  readonly id: string;
  readonly item: Item;
  readonly version: string;
  /** `linux/amd64`; empty for a content that fits every platform. */
  readonly platform: string;
  readonly sha256: string;
  readonly bytes: number;
  readonly metadata: JsonObject;
  readonly createdMs: number;
}
