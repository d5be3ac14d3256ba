/**
 * Calls from the table of rules: about an existing entity, as the connected caller.
 */

import { assert } from "@std/assert";
import { serialize } from "bson";
import { AuthorizationSchema } from "../../proto/gen/app_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Rule } from "../../lib/cloud/access/access.ts";
import { BinaryData } from "../../lib/cloud/data/binary_data.ts";
import { Datasets } from "../../lib/cloud/data/datasets.ts";
import { Sequences } from "../../lib/cloud/data/sequences.ts";
import { SequenceExports } from "../../lib/cloud/exports/sequence_exports.ts";
import { DataPipelines } from "../../lib/cloud/pipelines/pipelines.ts";
import { SavedQueries } from "../../lib/cloud/pipelines/saved_queries.ts";
import { checkedPlan } from "../../lib/cloud/rollouts/plan.ts";
import { NO_PLAN } from "../../lib/cloud/services/fleet/rollout_service.ts";
import { newRolloutId, Rollouts } from "../../lib/cloud/rollouts/rollouts.ts";
import { Parts } from "../../lib/cloud/tenants/parts.ts";
import { Fragments } from "../../lib/cloud/config/fragments/fragments.ts";
import { configText } from "../../lib/cloud/config/resolution.ts";
import { Packages } from "../../lib/cloud/packages/packages.ts";
import type { Sql } from "../../lib/cloud/store/store.ts";
import { MappingSessions, type NewSession } from "../../lib/cloud/mapping/sessions.ts";
import { TrainingContainers } from "../../lib/cloud/executors/containers.ts";
import { TrainingJobs } from "../../lib/cloud/training/training.ts";
import type { Channel } from "../../lib/wire/rpc/channel.ts";
import { create, type DescMessage, type Message, toBinary } from "../../lib/wire/rpc/proto.ts";
import { newJob } from "./training_world.ts";
import { newKey, newWorld, type ServedCloud, type World } from "./world.ts";

const DEADLINE_MS = 60_000;

/** Names of new things to call about. */
export async function somethingIn({ store }: ServedCloud, { organization, owner }: World) {
  const world = await newWorld(store);
  await store.transaction(async (sql) => {
    await sql.query(
      "UPDATE locations SET organization_id = ?, name = ? WHERE id = ?",
      organization,
      world.location,
      world.location,
    );
  });
  const key = (await newKey(store, "operator", "organization", organization)).id;
  const fragment = await store.transaction((sql) =>
    new Fragments(sql).create(organization, world.part, configText({}), 0)
  );
  const training_job = await store.transaction(async (sql) => {
    const jobs = new TrainingJobs(sql);
    const id = await jobs.add(newJob(organization), [], 0);
    // One that may be deleted; that it cannot be cancelled is no refusal.
    await jobs.cancel(id, 0);
    return id;
  });
  const item = await store.transaction((sql) =>
    new Packages(sql).createItem(organization, `item-${world.part}`, "module", 0)
  );
  const container = await store.transaction((sql) =>
    new TrainingContainers(sql).register(organization, "registry.example.com/team/trainer", "", 0)
  );
  const mapping_session = await store.transaction(async (sql) => {
    const id = await new MappingSessions(sql).add(newSession({ ...world, organization }), 0);
    // Nobody works on one that has ended.
    await sql.query("UPDATE mapping_sessions SET ended_ms = 0 WHERE id = ?", id);
    return id;
  });
  const sequence_export = await store.transaction(async (sql) => {
    const dataset = await new Datasets(sql).create(organization, `export ${world.part}`, "sequences", 0);
    return await new SequenceExports(sql).start(dataset, organization, 0);
  });
  const { pipeline, saved_query } = await store.transaction((sql) =>
    queriesIn(sql, organization, world.part)
  );
  const rollout = newRolloutId();
  await store.transaction(async (sql) => {
    const change = { kind: "svc-server", id: "", version: "stable" } as const;
    const plan = { ...checkedPlan(NO_PLAN), steps: [] };
    const made = { id: rollout, organizationId: organization, name: "", change, plan, who: "" };
    await new Rollouts(sql).add(made, [], 0);
    await new Rollouts(sql).turn(rollout, ["running"], "paused", "", 0);
  });
  const { data, dataset, sequence } = await store.transaction((sql) => capturedIn(sql, organization, world));
  return {
    ...world,
    organization,
    key,
    fragment,
    data,
    dataset,
    sequence,
    owner,
    training_job,
    container,
    mapping_session,
    pipeline,
    saved_query,
    sequence_export,
    rollout,
    package: `${organization}:${item.name}`,
  };
}

/** A data pipeline and a saved query. */
async function queriesIn(sql: Sql, organizationId: string, name: string) {
  const mql = [serialize({ $limit: 1 })];
  // A run of one that is due would start a process for each thing.
  const made = { organizationId, name, mql, schedule: "0 0 1 1 *", hasBackfill: false, sourceType: 1 };
  return {
    pipeline: await new DataPipelines(sql).create(made, new SystemClock().nowMs()),
    saved_query: await new SavedQueries(sql).create(organizationId, name, mql, 0),
  };
}

/** A session that maps a machine from the beginning of time on. */
export function newSession({ organization, location, machine }: World): NewSession {
  return {
    organizationId: organization,
    locationId: location,
    machineId: machine,
    mapName: "hall",
    existingVersion: "",
    version: "1",
    camera: "lidar",
    movementSensor: "",
    fromUs: 0,
    config: {},
    slamVersion: "stable",
    serverVersion: "stable",
  };
}

/** An image of a machine, a dataset and a sequence. */
async function capturedIn(sql: Sql, organizationId: string, { location, machine, part }: World) {
  const origin = {
    organizationId,
    locationId: location,
    machineId: machine,
    machineName: "rover",
    partId: part,
    partName: "rover-main",
    componentType: "camera",
    componentName: "cam",
    methodName: "GetImages",
    parameters: "{}",
  };
  const image = {
    origin,
    fileName: "",
    fileExt: ".jpg",
    mimeType: "image/jpeg",
    tags: [],
    datasetIds: [],
    boxes: [],
    classifications: [],
  };
  const window = { resources: [{ resourceName: "cam", methodName: "" }], tags: [], startUs: 0, endUs: 1 };
  return {
    data: await new BinaryData(sql).add(image, { sha256: "0".repeat(64), bytes: 0 }, 0),
    dataset: await new Datasets(sql).create(organizationId, part, "images", 0),
    sequence: await new Sequences(sql).create(await new Parts(sql).get(part), window, 0),
  };
}

export async function codeOf(
  channel: Channel,
  { method, on }: Rule,
  something: Awaited<ReturnType<typeof somethingIn>>,
): Promise<string> {
  const authorization = create(AuthorizationSchema, {
    authorizationId: "organization_operator",
    resourceType: "organization",
    resourceId: something.organization,
    identityId: something.key,
  });
  const message = create(method.input as DescMessage);
  for (const { kind, field } of on) {
    const value = kind === "authorized" ? authorization : something[kind as keyof typeof something];
    put(method.input, message, field, value);
  }
  const request = toBinary(method.input, message);
  try {
    const requests = async function* () {
      yield request;
    };
    for await (const _ of channel.call(method, requests(), { timeoutMs: DEADLINE_MS })) break;
    return "ok";
  } catch (error) {
    assert(error instanceof SvcError);
    return error.code;
  }
}

/** Sets a field, as an entry if it is a list; `metadata.partId` is in a nested message. */
function put(desc: DescMessage, message: Message, path: string, value: unknown): void {
  const [name, ...rest] = path.split("|")[0].split(".");
  const field = desc.field[name];
  const there = (message as unknown as Record<string, unknown>)[name] as Message | undefined;
  const inside = rest.length > 0 ? there ?? create(field.message!) : undefined;
  if (inside) put(field.message!, inside, rest.join("."), value);
  const set = inside ?? (field.fieldKind === "list" ? [value] : value);
  const target = message as unknown as Record<string, unknown>;
  if (field.oneof) target[field.oneof.localName] = { case: name, value: set };
  else target[name] = set;
}
