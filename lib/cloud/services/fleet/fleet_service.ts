/**
 * AppService, the tree: organizations, locations, machines (published as robots) and parts.
 *
 * Thin: converts messages to calls of the tables in `tenants/` and back. `rules.ts` decides who may call.
 *
 * The room owns the calls of people, machines and agents on the tree of organizations and on configurations.
 */

import {
  type AppService,
  OnlineState,
  type OrganizationSchema,
  type PartSummarySchema,
  type RobotSchema,
  type UpdateOrganizationRequest,
} from "../../../../proto/gen/app_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import { SvcError } from "../../../base/error.ts";
import type { CallContext, ServiceImpl } from "../../../wire/rpc/service.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import { FragmentUses } from "../../config/fragments/fragment_uses.ts";
import { Shares } from "../../tenants/sharing.ts";
import { Locations, locationsWithin } from "../../tenants/locations.ts";
import { type FleetMachine, locationsOfMachines, Machines } from "../../tenants/machines.ts";
import { type Organization, Organizations } from "../../tenants/organizations.ts";
import { type Part, Parts } from "../../tenants/parts.ts";
import { Keys } from "../../access/keys.ts";
import { agentReports } from "../../fleet/agent_reports.ts";
import { type PartInfo, runningServer } from "../../fleet/part_reports.ts";
import { partNames } from "../../tenants/hosts.ts";
import { moveMachine } from "../../fleet/new_machine.ts";
import { Packages } from "../../packages/packages.ts";
import type { Online } from "../../tenants/presence.ts";
import { requireQuota } from "../../access/quota.ts";
import type { Store } from "../../store/store.ts";

const STATES: { readonly [K in Online]: OnlineState } = {
  online: OnlineState.ONLINE,
  offline: OnlineState.OFFLINE,
  never: OnlineState.AWAITING_SETUP,
};

/** Machines in an answer: the published default, and the limit. */
const SUMMARIES = 100;
const SUMMARIES_MAX = 20_000;

export function fleetHandlers(cloud: CloudContext) {
  return {
    ...organizationHandlers(cloud),
    ...machineHandlers(cloud),
    ...machinePartHandlers(cloud),
  };
}

/** The published texts for online and offline. */
export function onlineMessage({ presence, clock }: CloudContext, seenMs: number | undefined) {
  return {
    onlineState: STATES[presence.state(seenMs)],
    secondsSinceOnline: BigInt(
      seenMs === undefined ? 0 : Math.max(0, Math.floor((clock.nowMs() - seenMs) / 1000)),
    ),
    lastAccess: seenMs === undefined ? undefined : toTimestamp(seenMs),
  };
}

function organizationHandlers(cloud: CloudContext) {
  const { store, access, audit } = cloud;
  return {
    async listOrganizations(_request, ctx) {
      const mine = await access.readOrganizations(ctx.entity);
      return { organizations: (await new Organizations(store).among(mine)).map(organizationMessage) };
    },
    async getOrganization({ organizationId }) {
      return { organization: organizationMessage(await new Organizations(store).get(organizationId)) };
    },
    /** The creator of an organization owns it. */
    async createOrganization({ name }, ctx) {
      await requireMaker(cloud, ctx);
      const id = await audit.change(actorOf(ctx), { kind: "organization", id: name }, async (sql, nowMs) => {
        const made = await new Organizations(sql).create(name, nowMs);
        await new Keys(sql).grant(ctx.entity!, { role: "owner", kind: "organization", resourceId: made });
        await requireQuota(sql, cloud.limits, "rolesPerKey", ctx.entity!);
        return made;
      });
      return { organization: organizationMessage(await new Organizations(store).get(id)) };
    },
    async updateOrganization(request, ctx) {
      requireKept(request);
      const { organizationId: id, name, publicNamespace } = request;
      await audit.change(actorOf(ctx), { kind: "organization", id }, async (sql) => {
        if (name !== undefined) await new Organizations(sql).rename(id, name);
        if (publicNamespace) await new Packages(sql).setNamespace(id, publicNamespace);
      });
      return { organization: organizationMessage(await new Organizations(store).get(id)) };
    },
    async updateOrganizationNamespace({ organizationId: id, newPublicNamespace }, ctx) {
      await audit.change(
        actorOf(ctx),
        { kind: "organization", id },
        (sql) => new Packages(sql).setNamespace(id, newPublicNamespace),
      );
      return { organization: organizationMessage(await new Organizations(store).get(id)) };
    },
    async getOrganizationNamespaceAvailability({ publicNamespace }) {
      return { available: await new Packages(store).isNamespaceFree(publicNamespace) };
    },
    /** Among those within the caller's reach. */
    async searchOrganizations({ orgId, orgName, publicNamespace }, ctx) {
      const mine = await access.readOrganizations(ctx.entity);
      const found = (await new Organizations(store).among(mine)).filter(({ id, name, namespace }) =>
        (!orgId || id === orgId) &&
        (!orgName || name.toLowerCase().includes(orgName.toLowerCase())) &&
        (!publicNamespace || namespace === publicNamespace)
      );
      return {
        organizations: found.map(({ id, name, namespace }) => ({
          orgId: id,
          orgName: name,
          publicNamespace: namespace ?? undefined,
        })),
      };
    },
    async deleteOrganization({ organizationId: id }, ctx) {
      await audit.change(
        actorOf(ctx),
        { kind: "organization", id },
        (sql) => new Organizations(sql).delete(id),
      );
      return {};
    },
  } satisfies ServiceImpl<typeof AppService>;
}

/**
 * Throws `unimplemented` for settings that this control plane does not store, so that it does not seem to have
 * saved them.
 */
function requireKept(request: UpdateOrganizationRequest): void {
  const { region, cid, defaultFragments, allowedLoginMethods } = request;
  const given = {
    region: !!region,
    cid: !!cid,
    default_fragments: (defaultFragments?.fragments ?? []).length > 0,
    allowed_login_methods: allowedLoginMethods !== undefined,
  };
  const found = Object.entries(given).filter(([, isGiven]) => isGiven).map(([name]) => name);
  if (found.length === 0) return;
  const what = `found ${found.join(", ")}, which this control plane does not keep`;
  throw new SvcError("unimplemented", `${what}, wanted name or public_namespace; nothing is changed`);
}

/** Throws `permission_denied`, which the audit log records, if the caller may not create organizations. */
async function requireMaker(
  { access, audit, organizations = "operator" }: CloudContext,
  ctx: CallContext,
): Promise<void> {
  const isOperators = organizations === "operator";
  if (!isOperators && await access.isPersonal(ctx.entity)) return;
  const problem = isOperators
    ? "only the operator of this control plane creates organizations: svc-cloud org create NAME"
    : "the key of a machine or of a training job cannot create organizations: use a personal key";
  await audit.refused(actorOf(ctx), []);
  throw new SvcError("permission_denied", problem);
}

function machineHandlers(cloud: CloudContext) {
  const { store, access, audit, limits } = cloud;
  const robotMessage = async (id: string) =>
    (await machineMessages(cloud, [await new Machines(store).get(id)]))[0];
  const robotMessages = (machines: readonly FleetMachine[]) => machineMessages(cloud, machines);
  return {
    async listRobots({ locationId }) {
      return { robots: await robotMessages(await new Machines(store).inLocation(locationId)) };
    },
    async listRobotsForLocations({ locationIds }) {
      const lists = await Promise.all(
        [...new Set(locationIds)].map((id) => new Machines(store).inLocation(id)),
      );
      return { robots: await robotMessages(lists.flat()) };
    },
    async listRobotsForOrg({ orgId }, ctx) {
      if (!await access.may(ctx.entity, "viewer", { kind: "organization", id: orgId })) {
        const { hasMachine } = await seenBy(cloud, ctx);
        const all = await new Machines(store).ofOrganization(orgId);
        return {
          robots: await robotMessages(all.filter(({ id, locationId }) => hasMachine(id, locationId))),
        };
      }
      const shared = await new Shares(store).locationsFor(orgId);
      const own = await new Machines(store).ofOrganization(orgId);
      const lists = await Promise.all(shared.map(({ id }) => new Machines(store).inLocation(id)));
      return { robots: await robotMessages([...own, ...lists.flat()]) };
    },
    async getRobot({ id }) {
      return { robot: await robotMessage(id) };
    },
    async newRobot({ location, name }, ctx) {
      const { id } = await audit.change(
        actorOf(ctx),
        { kind: "location", id: location },
        async (sql, nowMs) => {
          const made = await new Machines(sql).create(location, name, nowMs);
          const { organizationId } = await new Locations(sql).get(location);
          await requireQuota(sql, limits, "machinesPerOrganization", organizationId);
          return made;
        },
      );
      return { id };
    },
    async updateRobot({ id, name, location }, ctx) {
      await audit.change(actorOf(ctx), { kind: "machine", id }, async (sql, nowMs) => {
        const machine = await new Machines(sql).get(id);
        const there = location || machine.locationId;
        await moveMachine(sql, id, { name: name || machine.name, locationId: there }, nowMs);
        if (there === machine.locationId) return;
        const { organizationId } = await new Locations(sql).get(there);
        await requireQuota(sql, limits, "machinesPerOrganization", organizationId);
        await requireQuota(sql, limits, "rolesPerOrganization", organizationId);
      });
      return { robot: await robotMessage(id) };
    },
    async deleteRobot({ id }, ctx) {
      await audit.change(
        actorOf(ctx),
        { kind: "machine", id },
        (sql, nowMs) => new Machines(sql).delete(id, nowMs),
      );
      return {};
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function machinePartHandlers(cloud: CloudContext) {
  const { store, audit, limits } = cloud;
  return {
    async newRobotPart({ robotId, partName }, ctx) {
      const partId = await audit.change(
        actorOf(ctx),
        { kind: "machine", id: robotId },
        async (sql, nowMs) => {
          const id = await new Parts(sql).create(robotId, partName, nowMs);
          await requireQuota(sql, limits, "partsPerMachine", robotId);
          return id;
        },
      );
      return { partId };
    },
    async deleteRobotPart({ partId: id }, ctx) {
      await audit.change(
        actorOf(ctx),
        { kind: "part", id },
        (sql, nowMs) => new Parts(sql).delete(id, nowMs),
      );
      return {};
    },
    async markPartAsMain({ partId: id }, ctx) {
      await audit.change(actorOf(ctx), { kind: "part", id }, (sql) => new Parts(sql).makeMain(id));
      return {};
    },
    async listMachineSummaries({ organizationId, locationIds, fragmentIds, limit }, ctx) {
      const { seen, single } = await findVisibleLocations(cloud, ctx, organizationId);
      const [at, using] = [new Set(locationIds), new Set(fragmentIds)];
      const locations = seen.filter(({ id }) => at.size === 0 || at.has(id));
      const ids = locations.map(({ id }) => id);
      const machines = using.size === 0 ? undefined : await new FragmentUses(store).machinesUsing(using, ids);
      const found = await partsWithin(store, ids, single);
      const parts = Map.groupBy(found, ({ machineId }) => machineId);
      const wanted = [...parts].filter(([id]) => machines?.has(id) ?? true);
      const byLocation = Map.groupBy(wanted, ([, [main]]) => main?.locationId);
      // The published library for Go sends 0 for no limit.
      let left = Math.min(limit || SUMMARIES, SUMMARIES_MAX);
      const shown = locations.map(({ id, name }) => {
        const own = (byLocation.get(id) ?? []).slice(0, Math.max(0, left));
        left -= own.length;
        return { id, name, own };
      });
      const summary = await partSummaries(
        cloud,
        shown.flatMap(({ own }) => own.flatMap(([, parts]) => parts)),
      );
      const locationSummaries = shown.map(({ id, name, own }) => ({
        locationId: id,
        locationName: name,
        machineSummaries: own.map(([machineId, parts]) => ({
          machineId,
          machineName: parts[0]?.machineName,
          partSummaries: parts.map(summary),
        })),
      }));
      return { locationSummaries };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

/** The locations and machines that the caller may see, in one organization or in all organizations of the caller. */
async function findVisibleLocations(
  cloud: CloudContext,
  ctx: CallContext,
  organizationId: string,
): Promise<VisibleLocations> {
  const { store, access } = cloud;
  if (organizationId === "") return await findLocationsIn(store, await readReach(cloud, ctx));
  if (await access.may(ctx.entity, "viewer", { kind: "organization", id: organizationId })) {
    return await findLocationsIn(store, { organizations: [organizationId] });
  }
  const own = new Set((await new Locations(store).ofOrganization(organizationId)).map(({ id }) => id));
  const { seen, single } = await findLocationsIn(store, await readReach(cloud, ctx));
  return { seen: seen.filter(({ id }) => own.has(id)), single };
}

/** The resources on which a caller has roles. */
interface Reached {
  readonly organizations?: readonly string[];
  readonly locations?: readonly string[];
  readonly machines?: readonly string[];
}

async function readReach({ access }: CloudContext, ctx: CallContext): Promise<Reached> {
  const held = await access.reach(ctx.entity, "viewer");
  const on = (wanted: string) =>
    held.filter(({ kind }) => kind === wanted).map(({ resourceId }) => resourceId);
  return { organizations: on("organization"), locations: on("location"), machines: on("machine") };
}

/** Everything that a caller's roles cover, including roles on shared locations, regardless of the call. */
export async function seenBy(cloud: CloudContext, ctx: CallContext) {
  const { seen, single } = await findLocationsIn(cloud.store, await readReach(cloud, ctx));
  const whole = new Set(seen.map(({ id }) => id).filter((id) => !single.has(id)));
  return {
    hasLocation: (id: string) => whole.has(id),
    hasMachine: (id: string, locationId: string) =>
      whole.has(locationId) || single.get(locationId)?.has(id) === true,
  };
}

/** The parts of all machines that the caller sees. */
export async function partsSeenBy(cloud: CloudContext, ctx: CallContext): Promise<Part[]> {
  const { seen, single } = await findVisibleLocations(cloud, ctx, "");
  return await partsWithin(cloud.store, seen.map(({ id }) => id), single);
}

/** The parts in these locations; where the caller sees only single machines, of those alone. */
async function partsWithin(
  store: Store,
  locationIds: readonly string[],
  single: VisibleLocations["single"],
): Promise<Part[]> {
  const parts = await new Parts(store).inLocations(locationIds);
  return parts.filter(({ locationId, machineId }) => single.get(locationId)?.has(machineId) ?? true);
}

interface VisibleLocations {
  /**
   * A location in which the caller sees only single machines has no name here, because the caller could not read it
   * otherwise.
   */
  readonly seen: readonly { readonly id: string; readonly name: string }[];
  /** These machines alone, by their location. */
  readonly single: ReadonlyMap<string, ReadonlySet<string>>;
}

async function findLocationsIn(store: Store, reached: Reached): Promise<VisibleLocations> {
  const { organizations = [], locations = [], machines = [] } = reached;
  const shares = new Shares(store);
  const [inside, own, ...each] = await Promise.all([
    locationsWithin(store, locations),
    locationsOfMachines(store, machines),
    ...organizations.map(async (
      id,
    ) => [...await new Locations(store).ofOrganization(id), ...await shares.locationsFor(id)]),
  ]);
  const whole = new Map([...each.flat(), ...inside].map((location) => [location.id, location]));
  const single = new Map<string, Set<string>>();
  for (const { machineId, locationId } of own) {
    if (whole.has(locationId)) continue;
    single.set(locationId, (single.get(locationId) ?? new Set()).add(machineId));
  }
  return { seen: [...whole.values(), ...[...single.keys()].map((id) => ({ id, name: "" }))], single };
}

async function machineMessages(
  cloud: CloudContext,
  machines: readonly FleetMachine[],
): Promise<MessageInitShape<typeof RobotSchema>[]> {
  const parts = await new Parts(cloud.store).inLocations([
    ...new Set(machines.map(({ locationId }) => locationId)),
  ]);
  const ofMachine = Map.groupBy(parts, ({ machineId }) => machineId);
  return machines.map(({ id, name, locationId: location, createdMs }) => {
    const seen = (ofMachine.get(id) ?? []).map((part) => cloud.presence.seenMs(part.id, part.seenMs) ?? 0);
    const online = onlineMessage(cloud, Math.max(0, ...seen) || undefined);
    return { id, name, location, createdOn: toTimestamp(createdMs), ...online };
  });
}

/** Reads what is known of parts; the result makes the message of one of them. */
async function partSummaries(
  cloud: CloudContext,
  parts: readonly Part[],
): Promise<(part: Part) => MessageInitShape<typeof PartSummarySchema>> {
  const ids = parts.map(({ id }) => id);
  const [agents, fragments] = await Promise.all([
    agentReports(cloud.store, ids),
    new FragmentUses(cloud.store).readNamed(ids),
  ]);
  return (part) => {
    const { id, name, main, seenMs } = part;
    const [agent, info] = [agents.get(id), JSON.parse(part.info) as PartInfo];
    const online = onlineMessage(cloud, cloud.presence.seenMs(id, seenMs));
    return {
      partId: id,
      partName: name,
      isMainPart: main === 1,
      ...online,
      lastOnline: online.lastAccess,
      viamServerVersion: versionMessage(runningServer({ agent, info })),
      viamAgentVersion: versionMessage(agent?.agentRunning),
      os: info.os,
      platform: agent?.platform || info.platform,
      dnsName: partNames(part, cloud.machineDomain).fqdn.split(".")[0],
      fragments: (fragments.get(id) ?? []).map((one) => ({ id: one.id, name: one.name })),
    };
  };
}

/** A whole version, in the first of the fields that the contract has for it. */
function versionMessage(version: string | undefined) {
  return version ? { version: { case: "major", value: version } as const } : undefined;
}

function organizationMessage(
  { id, name, createdMs, namespace }: Organization,
): MessageInitShape<typeof OrganizationSchema> {
  return { id, name, createdOn: toTimestamp(createdMs), publicNamespace: namespace ?? "" };
}
