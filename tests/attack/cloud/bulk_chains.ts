/**
 * Chains in which one allowed call changes or reads much: tags of many images, a rollout to many machines, lists of ids,
 * long addresses. While each is played, the victim's own calls must be answered.
 */

import { AppService } from "../../../proto/gen/app_pb.ts";
import { DataService } from "../../../proto/gen/data_pb.ts";
import { DatasetService } from "../../../proto/gen/dataset_pb.ts";
import { DataSyncService, DataType } from "../../../proto/gen/datasync_pb.ts";
import { RolloutService } from "../../../proto/gen/rollouts_pb.ts";
import { type Channel, client } from "../../../lib/wire/rpc/channel.ts";
import { awaitOutcome } from "../../support/outcome.ts";
import type { Chain, ChainSetting } from "./chains.ts";
import { besideVictim } from "./flood_chains.ts";
import { callAs } from "./tenant.ts";

export const BULK_CHAINS: readonly Chain[] = [
  { name: "one call with many tags for many images", play: tagMany },
  { name: "one call with many ids of images", play: nameMany },
  { name: "a rollout to many machines", play: rollOutToMany },
  { name: "a fragment that many machines follow changes again and again", play: changeFollowed },
  { name: "addresses of many slashes, without a key", play: askLongPaths },
];

const IMAGES = 300;
/** What one image may have, less those that it has. */
const TAGS = 90;
const TAGS_TOO_MANY = 1_000;
const IDS = 5_000;
const MACHINES = 200;
const CHANGES = 10;
const PATH_LENGTH = 60_000;
const PATHS = 20;
const DEADLINE_MS = 120_000;
const LIMITS = { timeoutMs: DEADLINE_MS };

function numbered(word: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${word} ${index}`);
}

/** Runs calls, some at once. */
async function inTurns(count: number, run: (index: number) => Promise<unknown>): Promise<void> {
  const atOnce = 10;
  for (let at = 0; at < count; at += atOnce) {
    const some = Array.from({ length: Math.min(atOnce, count - at) }, (_, index) => run(at + index));
    await Promise.all(some);
  }
}

async function tagMany(setting: ChainSetting): Promise<string[]> {
  const { place, attacker } = setting;
  const { part: partId, organization } = attacker.ids;
  const about = {
    partId,
    componentName: "bulk",
    componentType: "rdk:component:camera",
    methodName: "GetImages",
  };
  const metadata = { ...about, type: DataType.BINARY_SENSOR, fileExtension: ".png" };
  await callAs(place, attacker.machine, (channel) => {
    const sync = client(DataSyncService, channel);
    return inTurns(IMAGES, (index) => {
      const value = new TextEncoder().encode(`bulk ${index} of ${attacker.secret}`);
      return sync.dataCaptureUpload({ metadata, sensorContents: [{ data: { case: "binary", value } }] });
    });
  });
  return await callAs(place, attacker.owner, async (channel) => {
    const data = client(DataService, channel);
    const filter = { organizationIds: [organization], componentName: "bulk" };
    const [some, many] = [numbered("bulk", TAGS), numbered("more", TAGS_TOO_MANY)];
    const rounds = [
      () => data.addTagsToBinaryDataByFilter({ filter, tags: some }, LIMITS),
      () => data.addTagsToBinaryDataByFilter({ filter, tags: many }, LIMITS),
      () => data.removeTagsFromBinaryDataByFilter({ filter, tags: [...some, ...many] }, LIMITS),
      () => data.deleteBinaryDataByFilter({ filter }, LIMITS),
    ];
    const found: string[] = [];
    for (const ask of rounds) found.push(...await besideVictim(setting, [awaitOutcome(ask())]));
    return found;
  });
}

/** Ids that name nothing, in every call that takes a list of them. */
function nameMany(setting: ChainSetting): Promise<string[]> {
  const { place, attacker } = setting;
  const { organization: organizationId } = attacker.ids;
  const binaryDataIds = Array.from({ length: IDS }, (_, index) => `${attacker.ids.data}${index}`);
  return callAs(place, attacker.owner, async (channel) => {
    const data = client(DataService, channel);
    const { id: datasetId } = await client(DatasetService, channel).createDataset({
      organizationId,
      name: `bulk of ${attacker.secret}`,
    });
    const tags = numbered("bulk", TAGS);
    const questions = [
      data.binaryDataByIDs({ binaryDataIds }, LIMITS),
      data.addTagsToBinaryDataByIDs({ binaryDataIds, tags }, LIMITS),
      data.removeTagsFromBinaryDataByIDs({ binaryDataIds, tags }, LIMITS),
      data.addBinaryDataToDatasetByIDs({ binaryDataIds, datasetId }, LIMITS),
      data.removeBinaryDataFromDatasetByIDs({ binaryDataIds, datasetId }, LIMITS),
      data.deleteBinaryDataByIDs({ binaryDataIds }, LIMITS),
    ];
    const answers = questions.map(async (question) => {
      const answer = await awaitOutcome(question);
      return answer === "not_found" ? "ok" : answer;
    });
    return await besideVictim(setting, answers);
  });
}

/** Machines of the attacker that follow a fragment, in a location of their own; the caller removes them. */
async function addFollowers(channel: Channel, { attacker }: ChainSetting) {
  const app = client(AppService, channel);
  const organizationId = attacker.ids.organization;
  const { location } = await app.createLocation({ organizationId, name: `bulk of ${attacker.secret}` });
  const { fragment } = await app.createFragment({ organizationId, name: "bulk", config: { turn: 0 } });
  const machines: string[] = [];
  await inTurns(MACHINES, async (index) => {
    const { id } = await app.newRobot({ name: `bulk-${index}`, location: location!.id });
    machines.push(id);
    const { parts: [part] } = await app.getRobotParts({ robotId: id });
    await app.updateRobotPart({ id: part.id, name: part.name, robotConfig: { fragments: [fragment!.id] } });
  });
  const remove = async () => {
    await inTurns(machines.length, (index) => app.deleteRobot({ id: machines[index] }));
    await app.deleteLocation({ locationId: location!.id });
    await app.deleteFragment({ id: fragment!.id });
  };
  return { fragment: fragment!.id, location: location!.id, remove };
}

function rollOutToMany(setting: ChainSetting): Promise<string[]> {
  const { place, attacker } = setting;
  const { organization: organizationId } = attacker.ids;
  return callAs(place, attacker.owner, async (channel) => {
    const { fragment, location, remove } = await addFollowers(channel, setting);
    const rollouts = client(RolloutService, channel);
    const order = {
      organizationId,
      change: { kind: "fragment", id: fragment },
      plan: { steps: ["1%"], soakSeconds: 3600, takeSeconds: 3600 },
      locationIds: [location],
      fragmentConfig: JSON.stringify({ turn: 1 }),
    };
    let id = "";
    const start = async () => id = (await rollouts.startRollout(order, LIMITS)).rollout!.id;
    const found = await besideVictim(setting, [awaitOutcome(start())]);
    found.push(...await besideVictim(setting, [awaitOutcome(rollouts.abortRollout({ id }, LIMITS))]));
    found.push(...await besideVictim(setting, [awaitOutcome(remove())]));
    return found;
  });
}

function changeFollowed(setting: ChainSetting): Promise<string[]> {
  return callAs(setting.place, setting.attacker.owner, async (channel) => {
    const { fragment, remove } = await addFollowers(channel, setting);
    const app = client(AppService, channel);
    const changes = Array.from({ length: CHANGES }, (_, turn) => {
      const config = { turn: turn + 1, note: "n".repeat(10_000) };
      return awaitOutcome(app.updateFragment({ id: fragment, name: "bulk", config }, LIMITS));
    });
    const found = await besideVictim(setting, changes);
    found.push(...await besideVictim(setting, [awaitOutcome(remove())]));
    return found;
  });
}

async function askLongPaths(setting: ChainSetting): Promise<string[]> {
  const beginnings = ["", "account", "package", "robot", "release"];
  const asked = Array.from({ length: PATHS }, async (_, index) => {
    const path = `/${beginnings[index % beginnings.length]}${"/".repeat(PATH_LENGTH)}%`;
    const answer = await fetch(setting.url + path, { redirect: "manual" }).catch(() => undefined);
    await answer?.body?.cancel();
    // Refused, or the connection closed.
    return !answer || answer.status >= 400 ? "ok" : `status ${answer.status} at ${path.slice(0, 20)}…`;
  });
  return await besideVictim(setting, asked);
}
