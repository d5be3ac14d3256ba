/**
 * AppService, API keys and roles. Thin, as `fleet_service.ts`.
 *
 * Published words: a role is `<resource type>_owner`, `<resource type>_operator` or (ours) `<resource type>_viewer`, a machine is a `robot`.
 */

import type { APIKeyWithAuthorizations, AppService, Authorization } from "../../../../proto/gen/app_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import { SvcError } from "../../../base/error.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import { type Ref, RESOURCE_TYPES } from "../../access/access.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import { Accounts } from "../../accounts/accounts.ts";
import { Locations } from "../../tenants/locations.ts";
import { Machines } from "../../tenants/machines.ts";
import type { Limits } from "../../access/limits.ts";
import {
  type ApiKey,
  findOrganization,
  type Grant,
  GRANT_KINDS,
  Keys,
  type KeySecret,
  type NewKey,
  newKeySecret,
  type Role,
  ROLES,
} from "../../access/keys.ts";
import { requireQuota } from "../../access/quota.ts";
import type { Sql, Store } from "../../store/store.ts";

const API_KEY = "api-key";
/** A person with an account. */
const USER = "user";
/** Limit of the resources in one request about permissions, because each is looked up. */
const PERMISSIONS_MAX = 1_000;
/** Permissions to view things, and to operate them; owners have all others, too. */
const READING = /^(?:read|view|list|get|download|tail)(?:_|$)/;
const OPERATING = /^(?:control|operate|restart)(?:_|$)/;

export function keyHandlers(cloud: CloudContext) {
  return { ...apiKeyHandlers(cloud), ...roleHandlers(cloud), ...authorizationHandlers(cloud) };
}

function apiKeyHandlers({ store, audit, access, limits }: CloudContext) {
  const keys = new Keys(store);
  const onKey = (id: string): Ref => ({ kind: "key", id });
  return {
    async createKey({ authorizations, name }, ctx) {
      const grants = authorizations.map(grantOf);
      const secret = await newKeySecret(actorOf(ctx).who);
      const on: Ref = onFirst(grants);
      return await audit.change(
        actorOf(ctx),
        on,
        (sql, nowMs) => createWithin(sql, limits, secret, name, grants, nowMs),
      );
    },
    async createKeyFromExistingKeyAuthorizations({ id }, ctx) {
      const secret = await newKeySecret(actorOf(ctx).who);
      return await audit.change(actorOf(ctx), onKey(id), async (sql, nowMs) => {
        const { name, grants, organizationId } = await new Keys(sql).get(id);
        // Roles that other organizations gave the old key do not pass to its copy.
        const own = await Promise.all(grants.map((one) => findOrganization(sql, one)));
        const copied = grants.filter((_, at) => own[at] === organizationId);
        return await createWithin(sql, limits, secret, `${name} (again)`, copied, nowMs);
      });
    },
    async rotateKey({ id }, ctx) {
      const secret = await newKeySecret();
      return await audit.change(actorOf(ctx), onKey(id), (sql) => new Keys(sql).rotate(id, secret));
    },
    async renameKey({ id, name }, ctx) {
      await audit.change(actorOf(ctx), onKey(id), (sql) => new Keys(sql).rename(id, name));
      return { id, name };
    },
    async deleteKey({ id }, ctx) {
      await audit.change(actorOf(ctx), onKey(id), (sql) => new Keys(sql).delete(id));
      return {};
    },
    async listKeys({ orgId }) {
      const ids = await within(store, orgId);
      const found = await keys.of(ids, orgId);
      return {
        apiKeys: found.map((key) =>
          keyMessage(key.organizationId === orgId ? key : seenFromOutside(key, ids), orgId)
        ),
      };
    },
    async getRobotAPIKeys({ robotId }, ctx) {
      const found = await keys.of([robotId]);
      const shown = found.map(async (key) =>
        await access.may(ctx.entity, "owner", onKey(key.id)) ? key : seenFromOutside(key, [robotId])
      );
      return { apiKeys: (await Promise.all(shown)).map((key) => keyMessage(key, "")) };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function roleHandlers(cloud: CloudContext) {
  const { audit, limits } = cloud;
  return {
    async addRole({ authorization }, ctx) {
      const grant = grantOf(authorization!);
      const id = identityOf(authorization!);
      const on: Ref = { kind: grant.kind, id: grant.resourceId };
      await requireConsent(cloud, ctx.entity, id, grant);
      await audit.change(actorOf(ctx), on, async (sql) => {
        // A role on the same thing takes the place of the former one.
        await requireOwnerLeft(sql, id, { ...grant, role: "owner" }, grant);
        await new Keys(sql).grant(id, grant);
        await requireRoles(sql, limits, id, [grant]);
      }, id);
      return {};
    },
    async removeRole({ authorization }, ctx) {
      const grant = grantOf(authorization!);
      const id = identityOf(authorization!);
      const on: Ref = { kind: grant.kind, id: grant.resourceId };
      await audit.change(actorOf(ctx), on, async (sql) => {
        await requireOwnerLeft(sql, id, grant);
        await new Keys(sql).revoke(id, grant);
      }, id);
      return {};
    },
    async changeRole({ oldAuthorization, newAuthorization }, ctx) {
      const [before, after] = [grantOf(oldAuthorization!), grantOf(newAuthorization!)];
      const id = identityOf(oldAuthorization!);
      if (identityOf(newAuthorization!) !== id) {
        throw new SvcError(
          "invalid_argument",
          "the two authorizations are of different identities, wanted one",
        );
      }
      const on: Ref = { kind: after.kind, id: after.resourceId };
      await requireConsent(cloud, ctx.entity, id, after);
      await audit.change(actorOf(ctx), on, async (sql) => {
        await requireOwnerLeft(sql, id, before, after);
        await new Keys(sql).revoke(id, before);
        await new Keys(sql).grant(id, after);
        await requireRoles(sql, limits, id, [after]);
      }, id);
      return {};
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function authorizationHandlers({ store, access }: CloudContext) {
  const keys = new Keys(store);
  return {
    async checkPermissions({ permissions: asked }, ctx) {
      if (asked.length === 0) {
        throw new SvcError("invalid_argument", "permissions is empty, wanted one or more");
      }
      if (asked.length > PERMISSIONS_MAX) {
        const most = `wanted at most ${PERMISSIONS_MAX} in one call`;
        throw new SvcError("invalid_argument", `permissions: found ${asked.length} resources, ${most}`);
      }
      const authorizedPermissions = [];
      for (const { resourceType, resourceId, permissions } of asked) {
        const kind = GRANT_KINDS.find((one) => RESOURCE_TYPES[one] === resourceType);
        if (!kind) throw unknownType(resourceType, resourceId);
        const may = { viewer: false, operator: false, owner: false };
        for (const role of ROLES) may[role] = await access.may(ctx.entity, role, { kind, id: resourceId });
        const granted = permissions.filter((word) => may[roleFor(word)]);
        if (granted.length > 0) {
          authorizedPermissions.push({ resourceType, resourceId, permissions: granted });
        }
      }
      return { authorizedPermissions };
    },
    async listAuthorizations({ organizationId, resourceIds }) {
      const ids = await within(store, organizationId);
      requireAmong(ids, resourceIds, organizationId);
      const wanted = resourceIds.length === 0 ? ids : resourceIds;
      const found = [
        ...(await keys.of(wanted)).map((key) => ({ ...key, identityType: API_KEY })),
        ...(await new Accounts(store).members(organizationId)).map((one) => ({ ...one, identityType: USER })),
      ];
      const authorizations = found.flatMap(({ id, grants, identityType }) =>
        grants.filter(({ resourceId }) => wanted.includes(resourceId)).map((grant) => ({
          ...authorizationMessage(grant),
          organizationId,
          identityId: id,
          identityType,
        }))
      );
      return { authorizations };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

/** The subject of the first role of a new key, in whose organization the key will be. */
function onFirst([first]: readonly Grant[]): { readonly kind: Grant["kind"]; readonly id: string } {
  if (first) return { kind: first.kind, id: first.resourceId };
  throw new SvcError("invalid_argument", "found a key without roles, wanted at least one role");
}

/** Throws `failed_precondition` if the organization would have no owner left. */
export async function requireOtherOwner(sql: Sql, organizationId: string, accountId: string): Promise<void> {
  const rows = await sql.query<{ id: string }>(
    "SELECT key_id AS id FROM grants WHERE kind = 'organization' AND resource_id = ? AND role = 'owner'",
    organizationId,
  );
  const isOwner = rows.some(({ id }) => id === accountId);
  if (!isOwner || rows.length > 1) return;
  throw new SvcError(
    "failed_precondition",
    "this is the only owner of the organization, wanted another one first",
  );
}

/** A person who is the only owner stays one: the way out is another owner first. A key may be given up at any time. */
async function requireOwnerLeft(sql: Sql, id: string, before: Grant, after?: Grant): Promise<void> {
  const { role, kind, resourceId } = before;
  if (role !== "owner" || kind !== "organization" || !await new Accounts(sql).find(id)) return;
  if (after?.role === "owner" && after.resourceId === resourceId) return;
  await requireOtherOwner(sql, resourceId, id);
}

/** Checks that the organization may have another key, and the key that many roles. */
async function createWithin(
  sql: Sql,
  limits: Limits,
  secret: KeySecret,
  name: string,
  grants: readonly Grant[],
  nowMs: number,
): Promise<NewKey> {
  const made = await new Keys(sql).create(secret, name, grants, nowMs);
  const { kind, id } = onFirst(grants);
  const organizationId = await findOrganization(sql, { kind, resourceId: id });
  await requireQuota(sql, limits, "keysPerOrganization", organizationId);
  await requireRoles(sql, limits, made.id, grants);
  return made;
}

async function requireRoles(
  sql: Sql,
  limits: Limits,
  keyId: string,
  grants: readonly Grant[],
): Promise<void> {
  await requireQuota(sql, limits, "rolesPerKey", keyId);
  const organizations = await Promise.all(grants.map((grant) => findOrganization(sql, grant)));
  for (const id of new Set(organizations)) await requireQuota(sql, limits, "rolesPerOrganization", id);
}

/**
 * A key's first role in a foreign organization needs the consent of both sides. With the consent of one side alone,
 * anybody could appear, under a name of their choice, among the organizations of a stranger. Throws
 * `permission_denied`.
 */
async function requireConsent(
  { store, access }: CloudContext,
  caller: string | undefined,
  keyId: string,
  grant: Grant,
): Promise<void> {
  const organization = await findOrganization(store, grant);
  const { organizationId } = await new Keys(store).get(keyId);
  if (organizationId === organization) return;
  if ((await access.readOrganizations(keyId)).includes(organization)) return;
  if (await access.may(caller, "owner", { kind: "key", id: keyId })) return;
  throw new SvcError(
    "permission_denied",
    `key "${keyId}" is not one of this organization: give the role to a key of your own, or ask the operator of the ` +
      "control plane: svc-cloud key grant ID --role ROLE --on KIND:ID",
  );
}

/** The facts about a key that a foreign organization sees: its existence, and its roles there. */
function seenFromOutside(key: ApiKey, ids: readonly string[]): ApiKey {
  return {
    ...key,
    name: "",
    creator: "",
    createdMs: undefined,
    usedMs: null,
    grants: key.grants.filter(({ resourceId }) => ids.includes(resourceId)),
  };
}

/** Throws `not_found` for an id that is not among those of an organization. */
function requireAmong(ids: readonly string[], wanted: readonly string[], organizationId: string): void {
  const unknown = wanted.find((id) => !ids.includes(id));
  if (unknown === undefined) return;
  throw new SvcError(
    "not_found",
    `there is no location or machine "${unknown}" in organization ${organizationId}`,
  );
}

/** The ids of an organization and of everything in it that can have roles. */
async function within(store: Store, organizationId: string): Promise<string[]> {
  const locations = await new Locations(store).ofOrganization(organizationId);
  const machines = await Promise.all(locations.map(({ id }) => new Machines(store).inLocation(id)));
  return [organizationId, ...locations.map(({ id }) => id), ...machines.flat().map(({ id }) => id)];
}

function keyMessage({ id, name, createdMs, grants }: ApiKey, orgId: string) {
  return {
    apiKey: { id, name, createdOn: createdMs === undefined ? undefined : toTimestamp(createdMs) },
    authorizations: grants.map((grant) => ({ ...authorizationMessage(grant), orgId })),
  } satisfies Partial<{ [K in keyof APIKeyWithAuthorizations]: unknown }>;
}

/** A role in the published form. */
export function authorizationMessage({ role, kind, resourceId }: Grant) {
  const resourceType = RESOURCE_TYPES[kind];
  return { authorizationType: "role", authorizationId: `${resourceType}_${role}`, resourceType, resourceId };
}

function identityOf({ identityId, identityType }: Authorization): string {
  if (identityType === "" || identityType === API_KEY || identityType === USER) return identityId;
  throw new SvcError(
    "invalid_argument",
    `found identity_type "${identityType}", wanted "${API_KEY}" or "${USER}"`,
  );
}

/** The least role with a permission. */
function roleFor(permission: string): Role {
  if (READING.test(permission)) return "viewer";
  return OPERATING.test(permission) ? "operator" : "owner";
}

function unknownType(resourceType: string, resourceId: string): SvcError {
  const known = Object.values(RESOURCE_TYPES).join(", ");
  return new SvcError(
    "invalid_argument",
    `found resource_type "${resourceType}" for "${resourceId}", wanted one of ${known}`,
  );
}

/** The role that a published authorization means. Throws `invalid_argument`. */
export function grantOf(
  { authorizationId, authorizationType, resourceType, resourceId }: Authorization,
): Grant {
  const kind = GRANT_KINDS.find((kind) => RESOURCE_TYPES[kind] === resourceType);
  // SDKs send either the whole word or the role alone.
  const role =
    ROLES.find((role) => authorizationId === role || authorizationId === `${resourceType}_${role}`) ??
      ROLES.find((role) => authorizationType === role);
  if (kind && role && resourceId) return { role, kind, resourceId };
  throw new SvcError(
    "invalid_argument",
    `found authorization "${authorizationId}" on ${resourceType} "${resourceId}", wanted for example ` +
      `"robot_operator" on robot "<its id>"`,
  );
}
