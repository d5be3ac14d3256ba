/**
 * AppService, parts: configuration, history, restarts. Thin, as `fleet_service.ts`.
 */

import type { AppService, RobotPartSchema } from "../../../../proto/gen/app_pb.ts";
import { toMs, toTimestamp } from "../../../api/shared/time.ts";
import { SvcError } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/schema/schema.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import { onlineMessage } from "./fleet_service.ts";
import { type NewSharedSecret, newSharedSecret, SharedSecrets } from "../../access/shared_secrets.ts";
import { requireConfigQuota } from "../../access/usage.ts";
import { actorOf } from "../../access/context.ts";
import type { ConfigContext } from "../../config/config_threads.ts";
import { boundMs, cutPage, pageStart } from "../context.ts";
import { secretMessage } from "./location_service.ts";
import { type Part, Parts } from "../../tenants/parts.ts";
import { asItIs, chooseConfigView, type ConfigView, editorOf, textOf } from "../../config/config_view.ts";
import { tryAgain } from "../../config/fragments/fragment_texts.ts";
import { type PartChange, PartConfigs } from "../../config/part_config.ts";
import { partNames } from "../../tenants/hosts.ts";
import { hostWordOf } from "../../tenants/names.ts";
import { checkPartConfig, savePartConfig } from "../../fleet/part_saving.ts";
import { requireQuota } from "../../access/quota.ts";

const HISTORY_PAGE = 100;
/** Limit for the configurations on a page, unless a single one exceeds it. */
const HISTORY_LETTERS = 16 * 1024 ** 2;

type PartMessage = MessageInitShape<typeof RobotPartSchema>;

export function partHandlers(cloud: ConfigContext) {
  return { ...readHandlers(cloud), ...writeHandlers(cloud) };
}

function readHandlers(cloud: ConfigContext) {
  const { store } = cloud;
  const configs = new PartConfigs(store);
  return {
    async getRobotParts({ robotId }, ctx) {
      const parts = await new Parts(store).ofMachine(robotId);
      const show = await chooseConfigView(cloud, ctx, { kind: "machine", id: robotId });
      return { parts: await Promise.all(parts.map((part) => partMessage(cloud, part, show))) };
    },
    async getRobotPart({ id }, ctx) {
      const show = await chooseConfigView(cloud, ctx, { kind: "part", id });
      const part = await partMessage(cloud, await new Parts(store).get(id), show);
      return { part, configJson: part.robotConfigJson };
    },
    async getRobotPartByNameAndLocation({ name, locationId }, ctx) {
      const named = (await new Parts(store).inLocations([locationId])).filter((part) => part.name === name);
      // If several machines have parts of this name, the one that had it first.
      const found = named.find(({ id, hostWord }) => hostWord === hostWordOf(name, id)) ?? named[0];
      if (!found) throw new SvcError("not_found", `there is no part "${name}" in location ${locationId}`);
      const show = await chooseConfigView(cloud, ctx, { kind: "part", id: found.id });
      return { part: await partMessage(cloud, found, show) };
    },
    async getRobotPartHistory({ id, pageToken, pageLimit, start, end }, ctx) {
      const part = await new Parts(store).get(id);
      const show = await chooseConfigView(cloud, ctx, { kind: "part", id });
      const asked = Math.min(Math.max(Number(pageLimit ?? 0n), 0) || HISTORY_PAGE, HISTORY_PAGE);
      const query = {
        before: pageToken ? pageStart(pageToken) : undefined,
        fromMs: boundMs(start),
        untilMs: boundMs(end),
      };
      const limit = await configs.fitting(id, { ...query, limit: asked }, HISTORY_LETTERS);
      const changes = await configs.history(id, { ...query, limit: limit + 1 });
      const { page, nextPageToken } = cutPage(changes, limit, ({ revision }) => String(revision));
      return { history: page.map((change) => historyMessage(cloud, part, change, show)), nextPageToken };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function writeHandlers(cloud: ConfigContext) {
  const { store, clock, audit, limits } = cloud;
  return {
    async updateRobotPart({ id, name, robotConfig, robotConfigJson, lastKnownUpdate }, ctx) {
      const text = textOf(robotConfigJson, robotConfig);
      const actor = actorOf(ctx);
      const knownMs = lastKnownUpdate && toMs(lastKnownUpdate);
      if (text !== undefined) {
        await requireConfigQuota(cloud, (await new Parts(store).get(id)).organizationId, text.length);
      }
      await tryAgain(clock, async () => {
        const checked = text === undefined
          ? undefined
          : await checkPartConfig(cloud, await new Parts(store).get(id), text, ctx);
        await audit.change(actor, { kind: "part", id }, async (sql, nowMs) => {
          const part = await new Parts(sql).get(id);
          if (checked) {
            await savePartConfig(sql, part, checked, actor.who, nowMs, knownMs);
            await new PartConfigs(sql).keepNewest(id, limits.revisionsPerPart, limits.configBytesPerPart);
          }
          if (name !== "" && name !== part.name) await new Parts(sql).rename(id, name, nowMs);
        });
      });
      return { part: await partMessage(cloud, await new Parts(store).get(id), asItIs) };
    },
    async createRobotPartSecret({ partId: id }, ctx) {
      const made = await newSharedSecret();
      await audit.change(actorOf(ctx), { kind: "part", id }, async (sql, nowMs) => {
        await new SharedSecrets(sql).add("part", id, made, nowMs);
        await requireQuota(sql, limits, "secretsPerPart", id);
      });
      return { part: await partMessage(cloud, await new Parts(store).get(id), asItIs, made) };
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
        (sql) => new Parts(sql).orderRestart(id),
      );
      return {};
    },
  } satisfies ServiceImpl<typeof AppService>;
}

/** A secret's text is known only when it has just been `made`. */
async function partMessage(
  cloud: ConfigContext,
  part: Part,
  show: ConfigView,
  made?: NewSharedSecret,
): Promise<PartMessage> {
  const { config: real, updatedMs } = await new PartConfigs(cloud.store).get(part.id);
  const config = show(real);
  const seenMs = cloud.presence.seenMs(part.id, part.seenMs);
  return {
    ...plainPart(cloud, part, part.name, config),
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

function plainPart({ machineDomain }: ConfigContext, part: Part, name: string, robotConfig: JsonObject) {
  const { id, machineId: robot, locationId, main, createdMs } = part;
  const { fqdn, localFqdn } = partNames(part, machineDomain);
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

function historyMessage(
  cloud: ConfigContext,
  part: Part,
  { atMs, who, oldName, old: real }: PartChange,
  show: ConfigView,
) {
  const old = show(real);
  return {
    part: part.id,
    robot: part.machineId,
    when: toTimestamp(atMs),
    old: { ...plainPart(cloud, part, oldName, old), robotConfigJson: JSON.stringify(old) },
    editedBy: editorOf(who),
  };
}
