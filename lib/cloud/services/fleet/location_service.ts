/**
 * AppService, locations, with whom they are shared, and their secrets. Thin, as `fleet_service.ts`.
 *
 * A guest organization sees the location among its own, and nothing of other guests.
 */

import {
  type AppService,
  type LocationSchema,
  SharedSecret_State,
  type SharedSecretSchema,
} from "../../../../proto/gen/app_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import { SvcError } from "../../../base/error.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import type { CallContext, ServiceImpl } from "../../../wire/rpc/service.ts";
import { requireQuota } from "../../access/quota.ts";
import {
  type NewSharedSecret,
  newSharedSecret,
  type SharedSecret,
  SharedSecrets,
} from "../../access/shared_secrets.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import type { Sql } from "../../store/store.ts";
import { type Location, Locations } from "../../tenants/locations.ts";
import { Organizations } from "../../tenants/organizations.ts";
import { seenBy } from "./fleet_service.ts";
import { Shares } from "../../tenants/sharing.ts";

export function locationHandlers(cloud: CloudContext) {
  return { ...treeHandlers(cloud), ...shareHandlers(cloud), ...secretHandlers(cloud) };
}

function treeHandlers(cloud: CloudContext) {
  const { store, audit, limits } = cloud;
  const shown = async (id: string, ctx: CallContext) => ({
    location: (await locationMessages(cloud, [await new Locations(store).get(id)], ctx))[0],
  });
  return {
    async listLocations({ organizationId }, ctx) {
      const own = await new Locations(store).ofOrganization(organizationId);
      if (!await cloud.access.may(ctx.entity, "viewer", { kind: "organization", id: organizationId })) {
        const reached = await seenBy(cloud, ctx);
        return {
          locations: await locationMessages(cloud, own.filter(({ id }) => reached.hasLocation(id)), ctx),
        };
      }
      const shared = await new Shares(store).locationsFor(organizationId);
      return { locations: await locationMessages(cloud, [...own, ...shared], ctx) };
    },
    getLocation: ({ locationId }, ctx) => shown(locationId, ctx),
    async createLocation({ organizationId: on, name, parentLocationId = "" }, ctx) {
      const id = await audit.change(
        actorOf(ctx),
        { kind: "organization", id: on },
        async (sql, nowMs) => {
          const id = await new Locations(sql).create(on, name, parentLocationId, nowMs);
          await requireQuota(sql, limits, "locationsPerOrganization", on);
          return id;
        },
      );
      return await shown(id, ctx);
    },
    async updateLocation({ locationId: id, name, parentLocationId }, ctx) {
      await audit.change(actorOf(ctx), { kind: "location", id }, async (sql) => {
        // Published: an empty name changes nothing, and an empty parent means a location of the organization itself.
        if (name) await new Locations(sql).rename(id, name);
        if (parentLocationId === "") await requireOwnerAbove(cloud, sql, id, ctx);
        if (parentLocationId !== undefined) await new Locations(sql).move(id, parentLocationId);
      });
      return await shown(id, ctx);
    },
    async deleteLocation({ locationId: id }, ctx) {
      await audit.change(actorOf(ctx), { kind: "location", id }, (sql) => new Locations(sql).delete(id));
      return {};
    },
  } satisfies ServiceImpl<typeof AppService>;
}

/** Moving a location away from people with a role on its parent needs the same role as creating one at the top. */
async function requireOwnerAbove(
  { access }: CloudContext,
  sql: Sql,
  locationId: string,
  { entity }: CallContext,
): Promise<void> {
  const { organizationId: id, parentId } = await new Locations(sql).get(locationId);
  if (parentId === null || await access.may(entity, "owner", { kind: "organization", id })) return;
  throw new SvcError(
    "permission_denied",
    `only an owner of organization ${id} moves a location to its top level`,
  );
}

function shareHandlers(cloud: CloudContext) {
  const { store, audit, limits } = cloud;
  return {
    async shareLocation({ locationId: id, organizationId }, ctx) {
      await audit.change(actorOf(ctx), { kind: "location", id }, async (sql) => {
        await new Shares(sql).share(id, organizationId);
        await requireQuota(sql, limits, "guestsPerLocation", id);
      });
      return {};
    },
    async unshareLocation({ locationId: id, organizationId }, ctx) {
      await audit.change(
        actorOf(ctx),
        { kind: "location", id },
        (sql) => new Shares(sql).unshare(id, organizationId),
      );
      return {};
    },
    async getOrganizationsWithAccessToLocation({ locationId }, ctx) {
      const shown = await organizationsShown(cloud, [await new Locations(store).get(locationId)], ctx.entity);
      const found = await Promise.all(shown.get(locationId)!.map((id) => new Organizations(store).get(id)));
      return { organizationIdentities: found.map(({ id, name }) => ({ id, name })) };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function secretHandlers(cloud: CloudContext) {
  const { audit, limits } = cloud;
  return {
    locationAuth: async ({ locationId: id }) => ({ auth: await authMessage(cloud, id) }),
    async createLocationSecret({ locationId: id }, ctx) {
      const made = await newSharedSecret();
      await audit.change(actorOf(ctx), { kind: "location", id }, async (sql, nowMs) => {
        await new SharedSecrets(sql).add("location", id, made, nowMs);
        await requireQuota(sql, limits, "secretsPerLocation", id);
      });
      return { auth: await authMessage(cloud, id, made) };
    },
    async deleteLocationSecret({ locationId: id, secretId }, ctx) {
      await audit.change(
        actorOf(ctx),
        { kind: "location", id },
        (sql) => new SharedSecrets(sql).delete("location", id, secretId),
      );
      return {};
    },
  } satisfies ServiceImpl<typeof AppService>;
}

/** The secrets of a location, with the text of a new one only. */
async function authMessage({ store }: CloudContext, locationId: string, made?: NewSharedSecret) {
  const secrets = await new SharedSecrets(store).of("location", locationId);
  return { locationId, secret: made?.secret ?? "", secrets: secrets.map((one) => secretMessage(one, made)) };
}

export function secretMessage(
  { id, createdMs }: SharedSecret,
  made?: NewSharedSecret,
): MessageInitShape<typeof SharedSecretSchema> {
  const secret = made?.id === id ? made.secret : "";
  return { id, secret, createdOn: toTimestamp(createdMs), state: SharedSecret_State.ENABLED };
}

type LocationMessage = MessageInitShape<typeof LocationSchema>;

async function locationMessages(
  cloud: CloudContext,
  locations: readonly Location[],
  { entity }: CallContext,
): Promise<LocationMessage[]> {
  const { store, access } = cloud;
  const shown = await organizationsShown(cloud, locations, entity);
  const listed = new Set(locations.map(({ id }) => id));
  const names = new Map<string, string>();
  const messages: LocationMessage[] = [];
  for (const { id, name, createdMs, organizationId, parentId, machines } of locations) {
    if (!names.has(organizationId)) {
      names.set(organizationId, (await new Organizations(store).get(organizationId)).name);
    }
    const above = parentId !== null &&
      (listed.has(parentId) || await access.may(entity, "viewer", { kind: "location", id: parentId }));
    messages.push({
      id,
      name,
      parentLocationId: above ? parentId : "",
      createdOn: toTimestamp(createdMs),
      organizations: shown.get(id)!.map((one) => ({ organizationId: one, primary: one === organizationId })),
      robotCount: machines,
      primaryOrgIdentity: { id: organizationId, name: names.get(organizationId) },
    });
  }
  return messages;
}

/** The organization of each location, then its guests. A guest sees only organizations to which it belongs. */
async function organizationsShown(
  { store, access }: CloudContext,
  locations: readonly Location[],
  entity: string | undefined,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const guests = await new Shares(store).guestsIn(locations.map(({ id }) => id));
  const mine = guests.size > 0 ? await access.readOrganizations(entity) : [];
  return new Map(locations.map(({ id, organizationId }) => {
    const all = guests.get(id) ?? [];
    return [id, [
      organizationId,
      ...mine.includes(organizationId) ? all : all.filter((one) => mine.includes(one)),
    ]];
  }));
}
