/** Roles as people read them. Pure. */

import type { appApi } from "@viamrobotics/sdk";

export const ROLE_WORDS = ["viewer", "operator", "owner"] as const;
export type RoleWord = typeof ROLE_WORDS[number];

/** A thing that roles are given on. */
export interface RoleResource {
  readonly resourceType: "organization" | "location" | "robot";
  readonly resourceId: string;
  /** `location hall` */
  readonly title: string;
}

type Authorization = Pick<appApi.Authorization, "authorizationId" | "resourceType" | "resourceId">;

/** `operator of location hall` */
export function roleText(
  { authorizationId, resourceType, resourceId }: Authorization,
  places: readonly RoleResource[],
): string {
  const role = authorizationId.replace(/^.*_/, "");
  const place = places.find((one) => one.resourceId === resourceId);
  const kind = resourceType === "robot" ? "machine" : resourceType;
  return `${role} of ${place?.title ?? `${kind} ${resourceId}`}`;
}

/** The message for a role. */
export function authorizationOf(
  role: RoleWord,
  place: RoleResource,
  organizationId: string,
  identityId = "",
) {
  return {
    authorizationType: "role",
    authorizationId: `${place.resourceType}_${role}`,
    resourceType: place.resourceType,
    resourceId: place.resourceId,
    identityId,
    organizationId,
    identityType: identityId === "" ? "" : "user",
  };
}
