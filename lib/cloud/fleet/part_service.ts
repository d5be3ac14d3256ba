/**
 * AppService, parts and what they run: configuration, history, fragments, restarts. Thin, as `app_fleet.ts`.
 *
 * A configuration is checked with all its fragments before it is saved: one with an error is refused, with everything
 * that is wrong with it.
 */

import type { AppService, FragmentSchema, RobotPartSchema } from "../../../proto/gen/app_pb.ts";
import { AuthenticationType, FragmentVisibility } from "../../../proto/gen/app_pb.ts";
import { toMs, toTimestamp } from "../../api/shared/time.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { starred } from "../../base/schema/json_secrets.ts";
import { isObject, type JsonObject, type Problem } from "../../base/schema/schema.ts";
import type { MessageInitShape } from "../../wire/proto.ts";
import type { CallContext, ServiceImpl } from "../../wire/service.ts";
import type { Ref } from "../access/access.ts";
import { agentReports } from "./agent_service.ts";
import { versionProblems } from "./agent_versions.ts";
import { onlineMessage } from "./fleet_service.ts";
import { type NewSharedSecret, newSharedSecret, SharedSecrets } from "../access/shared_secrets.ts";
import { actorOf, type CloudContext, isPerson, pageStart } from "../context.ts";
import { secretMessage } from "./location_service.ts";
import { Fleet, type Part } from "./fleet.ts";
import { type Fragment, Fragments } from "./fragments.ts";
import { requireWithin } from "../access/limits.ts";
import { type PartChange, PartConfigs } from "./part_config.ts";
import { partNames } from "./robot_service.ts";
import { requireRoom } from "../access/room.ts";
import type { Sql } from "../store/store.ts";

const HISTORY_PAGE = 100;
/** Of the configurations on a page, unless one alone has more. */
const HISTORY_LETTERS = 16 * 1024 ** 2;
const PROBLEMS_SHOWN = 50;

type PartMessage = MessageInitShape<typeof RobotPartSchema>;

export function partHandlers(cloud: CloudContext) {
  return { ...readHandlers(cloud), ...writeHandlers(cloud), ...fragmentHandlers(cloud) };
}

function readHandlers(cloud: CloudContext) {
  const { store } = cloud;
  const fleet = new Fleet(store);
  const configs = new PartConfigs(store);
  return {
    async getRobotParts({ robotId }, ctx) {
      const parts = await fleet.parts(robotId);
      const show = await viewOf(cloud, ctx, { kind: "machine", id: robotId });
      return { parts: await Promise.all(parts.map((part) => partMessage(cloud, part, show))) };
    },
    async getRobotPart({ id }, ctx) {
      const show = await viewOf(cloud, ctx, { kind: "part", id });
      const part = await partMessage(cloud, await fleet.part(id), show);
      return { part, configJson: part.robotConfigJson };
    },
    async getRobotPartByNameAndLocation({ name, locationId }, ctx) {
      const found = (await fleet.partsIn([locationId])).find((part) => part.name === name);
      if (!found) throw new SvcError("not_found", `there is no part "${name}" in location ${locationId}`);
      const show = await viewOf(cloud, ctx, { kind: "part", id: found.id });
      return { part: await partMessage(cloud, found, show) };
    },
    async getRobotPartHistory({ id, pageToken, pageLimit, start, end }, ctx) {
      const part = await fleet.part(id);
      const show = await viewOf(cloud, ctx, { kind: "part", id });
      const asked = Math.min(Math.max(Number(pageLimit ?? 0n), 0) || HISTORY_PAGE, HISTORY_PAGE);
      const query = {
        before: pageToken ? pageStart(pageToken) : undefined,
        fromMs: start && toMs(start),
        untilMs: end && toMs(end),
      };
      const limit = await configs.fitting(id, { ...query, limit: asked }, HISTORY_LETTERS);
      const changes = await configs.history(id, { ...query, limit: limit + 1 });
      const page = changes.slice(0, limit);
      const nextPageToken = changes.length > limit ? String(page[page.length - 1].revision) : "";
      return { history: page.map((change) => historyMessage(part, change, show)), nextPageToken };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function writeHandlers(cloud: CloudContext) {
  const { store, audit, limits } = cloud;
  const fleet = new Fleet(store);
  return {
    async updateRobotPart({ id, name, robotConfig, robotConfigJson, lastKnownUpdate }, ctx) {
      const json = configOf(robotConfigJson, robotConfig);
      const actor = actorOf(ctx);
      await audit.change(actor, { kind: "part", id }, async (sql, nowMs) => {
        const part = await new Fleet(sql).part(id);
        if (json) {
          await savePartConfig(
            cloud,
            sql,
            part,
            json,
            actor.who,
            nowMs,
            lastKnownUpdate && toMs(lastKnownUpdate),
          );
          await new PartConfigs(sql).keepNewest(id, cloud.limits.revisionsPerPart);
        }
        if (name !== "" && name !== part.name) await new Fleet(sql).renamePart(id, name);
      });
      return { part: await partMessage(cloud, await fleet.part(id), asItIs) };
    },
    async createRobotPartSecret({ partId: id }, ctx) {
      const made = await newSharedSecret();
      await audit.change(actorOf(ctx), { kind: "part", id }, async (sql, nowMs) => {
        await new SharedSecrets(sql).add("part", id, made, nowMs);
        await requireRoom(sql, limits, "secretsPerPart", id);
      });
      return { part: await partMessage(cloud, await fleet.part(id), asItIs, made) };
    },
    async deleteRobotPartSecret({ partId: id, secretId }, ctx) {
      await audit.change(
        actorOf(ctx),
        { kind: "part", id },
        (sql) => new SharedSecrets(sql).delete("part", id, secretId),
      );
      return {};
    },
    async markPartForRestart({ partId: id }, ctx) {
      await audit.change(
        actorOf(ctx),
        { kind: "part", id },
        (sql) => new Fleet(sql).orderRestart(id),
      );
      return {};
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function fragmentHandlers(cloud: CloudContext) {
  const { store, audit, limits } = cloud;
  const fragments = new Fragments(store);
  const message = async (fragment: Fragment, show = asItIs) =>
    fragmentMessage(
      { ...fragment, config: show(fragment.config) },
      (await fragments.users(fragment.id)).length,
    );
  const messages = (list: readonly Fragment[], show: View) =>
    Promise.all(list.map((one) => message(one, show)));
  const onFragment = (id: string): Ref => ({ kind: "fragment", id });
  return {
    async listFragments({ organizationId }, ctx) {
      const show = await viewOf(cloud, ctx, { kind: "organization", id: organizationId });
      return { fragments: await messages(await fragments.list(organizationId), show) };
    },
    async getFragment({ id }, ctx) {
      const show = await viewOf(cloud, ctx, onFragment(id));
      return { fragment: await message(await fragments.get(id), show) };
    },
    async createFragment({ organizationId, name, config = {} }, ctx) {
      const on: Ref = { kind: "organization", id: organizationId };
      const id = await audit.change(
        actorOf(ctx),
        on,
        async (sql, nowMs) => {
          const id = await new Fragments(sql).create(organizationId, name, config, nowMs);
          await requireRoom(sql, limits, "fragmentsPerOrganization", organizationId);
          await requireRoom(sql, limits, "fragmentLettersPerOrganization", organizationId);
          return id;
        },
      );
      return { fragment: await message(await fragments.get(id)) };
    },
    async updateFragment({ id, name, config, fragmentConfigJson, lastKnownUpdate }, ctx) {
      const json = configOf(fragmentConfigJson, config);
      await audit.change(actorOf(ctx), onFragment(id), async (sql, nowMs) => {
        const old = await new Fragments(sql).get(id);
        if (lastKnownUpdate && old.updatedMs > toMs(lastKnownUpdate)) {
          throw new SvcError("aborted", `fragment "${old.name}" was changed after you last read it`);
        }
        await new Fragments(sql).update(id, name || old.name, json ?? old.config, nowMs);
        await requireRoom(sql, limits, "fragmentLettersPerOrganization", old.organizationId);
      });
      return { fragment: await message(await fragments.get(id)) };
    },
    async deleteFragment({ id }, ctx) {
      await audit.change(actorOf(ctx), onFragment(id), (sql) => new Fragments(sql).delete(id));
      return {};
    },
    async listMachineFragments({ machineId, additionalFragmentIds }, ctx) {
      const on: Ref = { kind: "machine", id: machineId };
      // What a machine does not run is not its own to see.
      requireWithin(limits, "fragmentsPerOrganization", additionalFragmentIds.length);
      const need = additionalFragmentIds.length > 0 ? "owner" : "insider";
      const show = await viewOf(cloud, ctx, on, need);
      const list = await fragmentsUsedBy(store, machineId, additionalFragmentIds);
      return {
        fragments: await messages(list, show),
        resolvedFragments: list.map(({ id: fragmentId, config, revision }) => ({
          fragmentId,
          resolvedConfig: show(config),
          revision: String(revision),
        })),
      };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

/** The fragments of the parts of a machine, and `more` as if each part had them too. */
async function fragmentsUsedBy(store: Sql, machineId: string, more: readonly string[]): Promise<Fragment[]> {
  const used = new Map<string, Fragment>();
  for (const { id, organizationId } of await new Fleet(store).parts(machineId)) {
    const { config } = await new PartConfigs(store).get(id);
    const own = Array.isArray(config.fragments) ? config.fragments : [];
    const all = { ...config, fragments: [...own, ...more] };
    for (const one of (await new Fragments(store).resolve(all, organizationId)).fragments) {
      used.set(one.id, one);
    }
  }
  return [...used.values()];
}

/** Checks and saves a configuration. Throws `invalid_argument` with everything that is wrong with it. */
export async function savePartConfig(
  { validate }: Pick<CloudContext, "validate">,
  sql: Sql,
  { id, organizationId }: Part,
  json: JsonObject,
  who: string,
  nowMs: number,
  knownMs?: number,
): Promise<void> {
  const { config, problems } = await new Fragments(sql).resolve(json, organizationId);
  const platform = (await agentReports(sql, [id])).get(id)?.platform ?? "";
  const all = [...problems, ...validate(config), ...await versionProblems(sql, config, platform)];
  const errors = all.filter(({ severity }) => severity === "error");
  if (errors.length > 0) {
    throw new SvcError("invalid_argument", `the configuration is not saved: ${listed(errors)}`);
  }
  await new PartConfigs(sql).set(id, json, who, nowMs, knownMs);
}

function listed(problems: readonly Problem[]): string {
  const lines = problems.slice(0, PROBLEMS_SHOWN).map(({ path, message }) =>
    path ? `${path}: ${message}` : message
  );
  const more = problems.length > lines.length ? [`and ${problems.length - lines.length} more problems`] : [];
  return [...lines, ...more].join("; ");
}

/** A configuration as text where there is one: numbers and their order stay as they are written. */
function configOf(text: string | undefined, message: JsonObject | undefined): JsonObject | undefined {
  if (!text) return message;
  try {
    const json = JSON.parse(text);
    if (isObject(json)) return json as JsonObject;
  } catch (cause) {
    throw new SvcError("invalid_argument", `the configuration is not JSON: ${messageOf(cause)}`, { cause });
  }
  throw new SvcError(
    "invalid_argument",
    'the configuration is no object, wanted one such as {"components": []}',
  );
}

/** How a caller gets to see configurations. */
type View = (config: JsonObject) => JsonObject;

const asItIs: View = (config) => config;

/** Owners, and machines their own, see configurations as they are; operators see them with stars for secrets. */
async function viewOf(
  { access }: CloudContext,
  { entity }: CallContext,
  on: Ref,
  need: "owner" | "insider" = "insider",
): Promise<View> {
  return await access.may(entity, need, on) ? asItIs : starred;
}

/** The text of a secret is known once, when it has been `made`. */
async function partMessage(
  cloud: CloudContext,
  part: Part,
  show: View,
  made?: NewSharedSecret,
): Promise<PartMessage> {
  const { config: real, updatedMs } = await new PartConfigs(cloud.store).get(part.id);
  const config = show(real);
  const seenMs = cloud.presence.seenMs(part.id, part.seenMs);
  return {
    ...plainPart(part, part.name, config),
    secret: made?.secret ?? "",
    secrets: show === asItIs
      ? (await new SharedSecrets(cloud.store).of("part", part.id)).map((one) => secretMessage(one, made))
      : [],
    robotConfigJson: JSON.stringify(config),
    lastUpdated: toTimestamp(updatedMs || part.createdMs),
    userSuppliedInfo: JSON.parse(part.info),
    ...onlineMessage(cloud, seenMs),
  };
}

function plainPart(part: Part, name: string, robotConfig: JsonObject) {
  const { id, machineId: robot, locationId, main, createdMs } = part;
  const { fqdn, localFqdn } = partNames(part);
  return {
    id,
    name,
    robot,
    locationId,
    robotConfig,
    mainPart: main === 1,
    fqdn,
    localFqdn,
    dnsName: fqdn.split(".")[0],
    createdOn: toTimestamp(createdMs),
  };
}

function historyMessage(part: Part, { atMs, who, oldName, old: real }: PartChange, show: View) {
  const old = show(real);
  return {
    part: part.id,
    robot: part.machineId,
    when: toTimestamp(atMs),
    old: { ...plainPart(part, oldName, old), robotConfigJson: JSON.stringify(old) },
    editedBy: {
      type: isPerson(who) ? AuthenticationType.UNSPECIFIED : AuthenticationType.API_KEY,
      value: who,
    },
  };
}

function fragmentMessage(
  fragment: Fragment,
  robotPartCount: number,
): MessageInitShape<typeof FragmentSchema> {
  const { id, name, config, organizationId, createdMs, updatedMs, revision } = fragment;
  return {
    id,
    name,
    fragment: config,
    fragmentConfigJson: JSON.stringify(config),
    organizationOwner: organizationId,
    createdOn: toTimestamp(createdMs),
    lastUpdated: toTimestamp(updatedMs),
    revision: String(revision),
    robotPartCount,
    onlyUsedByOwner: true,
    visibility: FragmentVisibility.PRIVATE,
  };
}
