/**
 * Chains with which one weak key once kept svc-cloud from everybody: searches, filters and lists that take long, and
 * shared places that one caller holds. While each is played, the victim's own calls must be answered.
 */

import { AppService } from "../../../proto/gen/app_pb.ts";
import { DataService, TagsFilterType } from "../../../proto/gen/data_pb.ts";
import { DataSyncService, DataType } from "../../../proto/gen/datasync_pb.ts";
import { RobotService } from "../../../proto/gen/robot_config_pb.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { type Channel, client } from "../../../lib/wire/rpc/channel.ts";
import { until } from "../../support/until.ts";
import type { Chain, ChainSetting } from "./chains.ts";
import { callAs, type Place } from "./tenant.ts";
import { awaitOutcome } from "../../support/outcome.ts";

export const FLOOD_CHAINS: readonly Chain[] = [
  { name: "a search of logs that takes long", play: searchLogs },
  { name: "a filter of many tags over readings with many tags", play: filterTags },
  { name: "many lists of the registry at once", play: listRegistry },
  { name: "one key follows logs as often as it can", play: holdFollowers },
  { name: "one key begins as many uploads as it can", play: holdUploads },
];

const LINES = 4;
const LINE_LENGTH = 1_000_000;
const PATTERN_LENGTH = 10_000;
const READINGS = 4_000;
const TAGS = 100;
const FILTER_TAGS = 900;
const ITEMS = 10;
const DOCUMENTATION_LENGTH = 100_000;
const LISTS = 100;
/** More than one key's share. */
const FOLLOWERS = 130;
const UPLOADS = 40;
const DEADLINE_MS = 120_000;
/** Good ends of a slow question: an answer, or a word about what is too much of it. */
const FAIR = ["ok", "invalid_argument", "resource_exhausted"];

/** The findings of these questions, and of the victim, whose calls are answered before them or among them. */
export async function besideVictim(
  { place, victim }: ChainSetting,
  questions: readonly Promise<string>[],
): Promise<string[]> {
  const organizationId = victim.ids.organization;
  const reads = callAs(
    place,
    victim.owner,
    (channel) => awaitOutcome(client(AppService, channel).getOrganization({ organizationId })),
  );
  const logs = [{ message: "beside", level: "info", loggerName: "victim" }];
  const writes = callAs(
    place,
    victim.machine,
    (channel) => awaitOutcome(client(RobotService, channel).log({ id: victim.ids.part, logs })),
  );
  const [read, written, ...answers] = await Promise.all([reads, writes, ...questions]);
  return [
    ...answers.filter((answer) => !FAIR.includes(answer)).map((answer) => `the answer was: ${answer}`),
    ...[read, written].filter((answer) => answer !== "ok").map((answer) =>
      `the victim's answer was: ${answer}`
    ),
  ];
}

/** By the key of a machine alone. */
function searchLogs(setting: ChainSetting): Promise<string[]> {
  const { place, attacker } = setting;
  const id = attacker.ids.part;
  return callAs(place, attacker.machine, async (channel) => {
    const robot = client(RobotService, channel);
    for (let line = 0; line < LINES; line++) {
      const entry = { message: `${line}${"a".repeat(LINE_LENGTH)}`, level: "info", loggerName: "flood" };
      await robot.log({ id, logs: [entry] });
    }
    const app = client(AppService, channel);
    const filters = [
      "a".repeat(PATTERN_LENGTH),
      "a".repeat(250) + "b",
      "%a".repeat(120) + "%b",
      "_".repeat(250),
    ];
    return await besideVictim(
      setting,
      filters.map((filter) => awaitOutcome(app.getRobotPartLogs({ id, filter }, { timeoutMs: DEADLINE_MS }))),
    );
  });
}

function filterTags(setting: ChainSetting): Promise<string[]> {
  const { place, attacker } = setting;
  const partId = attacker.ids.part;
  const numbered = (word: string, count: number) =>
    Array.from({ length: count }, (_, index) => `${word} ${index}`);
  return callAs(place, attacker.machine, async (channel) => {
    await client(DataSyncService, channel).dataCaptureUpload({
      metadata: {
        partId,
        componentType: "rdk:component:sensor",
        componentName: "flood",
        methodName: "Readings",
        type: DataType.TABULAR_SENSOR,
        tags: numbered("tag", TAGS),
      },
      sensorContents: Array.from({ length: READINGS }, (_, index) => ({
        data: { case: "struct" as const, value: { readings: { index } } },
      })),
    });
    const data = client(DataService, channel);
    const questions = [TagsFilterType.MATCH_BY_OR, TagsFilterType.UNTAGGED].flatMap((type) => {
      const tagsFilter = { type, tags: numbered("other", FILTER_TAGS) };
      const filter = { partId, tagsFilter };
      const dataRequest = { filter, limit: 10n };
      return [
        data.tabularDataByFilter({ dataRequest, countOnly: true }, { timeoutMs: DEADLINE_MS }),
        data.tabularDataByFilter({ dataRequest }, { timeoutMs: DEADLINE_MS }),
        data.binaryDataByFilter({ dataRequest }, { timeoutMs: DEADLINE_MS }),
        data.tagsByFilter({ filter }, { timeoutMs: DEADLINE_MS }),
      ];
    });
    return await besideVictim(setting, questions.map(awaitOutcome));
  });
}

async function listRegistry(setting: ChainSetting): Promise<string[]> {
  const { place, attacker } = setting;
  const organizationId = attacker.ids.organization;
  await callAs(place, attacker.owner, async (channel) => {
    const app = client(AppService, channel);
    for (let item = 0; item < ITEMS; item++) {
      const { moduleId } = await app.createModule({ organizationId, name: `flood-${item}` });
      const markdownDescription = "m".repeat(DOCUMENTATION_LENGTH);
      await awaitOutcome(
        app.updateModule({ moduleId, markdownDescription, description: "flood", models: [] }),
      );
    }
  });
  return await callAs(place, attacker.machine, async (channel) => {
    const app = client(AppService, channel);
    const options = { timeoutMs: DEADLINE_MS };
    const questions = Array.from({ length: LISTS }, (_, index) => {
      const includeMarkdownDocumentation = true;
      if (index % 2 === 0) return app.listModules({ includeMarkdownDocumentation }, options);
      return app.listRegistryItems({ includeMarkdownDocumentation, searchTerm: "m" }, options);
    });
    return await besideVictim(setting, questions.map(awaitOutcome));
  });
}

function holdFollowers({ place, attacker, victim }: ChainSetting): Promise<string[]> {
  return callAs(place, attacker.operator, async (channel) => {
    const app = client(AppService, channel);
    let refused = 0;
    const held = Array.from({ length: FOLLOWERS }, async () => {
      try {
        for await (const _ of app.tailRobotPartLogs({ id: attacker.ids.part })) { /* follows */ }
      } catch (error) {
        if (SvcError.from(error).code === "resource_exhausted") refused++;
      }
    });
    await until(() => refused > 0, { withinMs: DEADLINE_MS });
    const heard = await callAs(place, victim.operator, (channel) => hearsLogs(place, channel, victim));
    channel.close();
    await Promise.all(held);
    return heard ? [] : ["the victim cannot follow its own log"];
  });
}

/** Whether a follower hears of a line that the machine logs. */
async function hearsLogs(
  place: Place,
  channel: Channel,
  { machine, ids }: ChainSetting["victim"],
): Promise<boolean> {
  let hasHeard = false;
  const following = (async () => {
    const tail = client(AppService, channel).tailRobotPartLogs({ id: ids.part });
    for await (const _ of tail) {
      hasHeard = true;
      return;
    }
  })().catch(() => {});
  // An entry without a time is stored once, so each try sends another one.
  let tries = 0;
  await callAs(place, machine, (own) =>
    until(async () => {
      const message = `heard ${tries++}?`;
      await client(RobotService, own).log({ id: ids.part, logs: [{ message, level: "info" }] });
      return hasHeard;
    }, { withinMs: DEADLINE_MS })).catch(() => {});
  channel.close();
  await following;
  return hasHeard;
}

function holdUploads({ place, attacker, victim }: ChainSetting): Promise<string[]> {
  return callAs(place, attacker.machine, async (channel) => {
    const sync = client(DataSyncService, channel);
    const over = Promise.withResolvers<void>();
    let refused = 0;
    const held = Array.from({ length: UPLOADS }, () => {
      const upload = sync.fileUpload(slowly(attacker.ids.part, over.promise), { timeoutMs: DEADLINE_MS });
      return upload.catch((error) => {
        if (SvcError.from(error).code === "resource_exhausted") refused++;
      });
    });
    await until(() => refused > 0, { withinMs: DEADLINE_MS });
    const code = await callAs(place, victim.machine, (own) => {
      const upload = client(DataSyncService, own).fileUpload(slowly(victim.ids.part, Promise.resolve()));
      return awaitOutcome(upload);
    });
    over.resolve();
    channel.close();
    await Promise.all(held);
    return code === "ok" ? [] : [`the victim cannot upload: ${code}`];
  });
}

/** An upload whose end comes with `end`. */
async function* slowly(partId: string, end: Promise<void>) {
  const metadata = { partId, fileName: "flood.bin", fileExtension: ".bin", type: DataType.FILE };
  yield { uploadPacket: { case: "metadata" as const, value: metadata } };
  yield { uploadPacket: { case: "fileContents" as const, value: { data: new Uint8Array(10) } } };
  await end;
}
