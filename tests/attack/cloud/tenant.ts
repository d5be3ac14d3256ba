/**
 * A tenant of a control plane under attack: an organization with one of everything, made with the command line on the
 * host and the published calls.
 *
 * Everything that a tenant can name carries the tenant's mark, a unique text. An answer to another tenant that contains
 * a mark or one of the ids is a leak.
 */

import { AppService } from "../../../proto/gen/app_pb.ts";
import { RobotService } from "../../../proto/gen/robot_config_pb.ts";
import { CloudSLAMService } from "../../../proto/gen/cloud_slam_pb.ts";
import { AgentDeviceService } from "../../../proto/gen/agent_pb.ts";
import { AuthService } from "../../../proto/gen/auth_pb.ts";
import { DataService } from "../../../proto/gen/data_pb.ts";
import { DatasetService, DatasetType } from "../../../proto/gen/dataset_pb.ts";
import { DataSyncService, DataType } from "../../../proto/gen/datasync_pb.ts";
import { MLTrainingService, ModelType } from "../../../proto/gen/ml_training_pb.ts";
import { PackageService, PackageType } from "../../../proto/gen/packages_pb.ts";
import { toTimestamp } from "../../../lib/api/shared/time.ts";
import { packed } from "../../../lib/base/files/archive.ts";
import { SystemFiles } from "../../../lib/base/files/system_files.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import { newKeySecret } from "../../../lib/cloud/access/keys.ts";
import { MachineTags } from "../../../lib/cloud/tenants/machine_tags.ts";
import { FolderFiles } from "../../../lib/cloud/store/folder_files.ts";
import type { Store } from "../../../lib/cloud/store/store.ts";
import { TrainingContainers } from "../../../lib/cloud/executors/containers.ts";
import { type Channel, client } from "../../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../../lib/wire/rpc/metadata.ts";
import type { JsonObject } from "../../../lib/wire/rpc/proto.ts";
import { svcCloud } from "../../cloud/program.ts";
import {
  addPeople,
  addQueries,
  addRollout,
  moveReadings,
  startedExport,
  watchedPart,
} from "./tenant_work.ts";

/** Kinds of entities, by the ids of the published calls. */
export const KINDS = [
  "organization",
  "location",
  "machine",
  "part",
  "key",
  "fragment",
  "data",
  "sequence",
  "box",
  "dataset",
  "training_job",
  "container",
  "mapping_session",
  "pipeline",
  "saved_query",
  "sequence_export",
  "rollout",
  "package",
] as const;
export type Kind = typeof KINDS[number];

/** An API key, with what opens calls in its name. */
export interface Credentials {
  readonly id: string;
  readonly key: string;
}

export interface Tenant {
  /** Stands in the name of its package, by which others may ask for it. */
  readonly mark: string;
  /** Stands in the names that all machines of the organization may know, and is never said to anybody else. */
  readonly shared: string;
  /** Stands in everything else, and is never said to anybody. */
  readonly secret: string;
  /** Ids that are never said to anybody. */
  readonly hidden: readonly string[];
  readonly ids: { readonly [K in Kind]: string };
  /** Other forms of ids. */
  readonly words: readonly string[];
  readonly owner: Credentials;
  readonly operator: Credentials;
  /** The key of the machine itself. */
  readonly machine: Credentials;
  /** Another machine of the organization, in a location of its own, with its key. */
  readonly neighbour: { readonly machine: string; readonly part: string; readonly key: Credentials };
}

/** The means to make tenants: a serving control plane, and its host's command line. */
export interface Place {
  readonly address: string;
  /** Flags that lead the command line to the database: `--data FOLDER`. */
  readonly flags: readonly string[];
  /** The database, for what no call shows. */
  connect(): Store;
}

/** Images that a training job wants at least. */
const IMAGES = 15;

export async function connectAs({ address }: Place, key?: Credentials): Promise<Channel> {
  const clock = new SystemClock();
  if (!key) return connectGrpc(address, { clock });
  const door = connectGrpc(address, { clock });
  try {
    const credentials = { type: "api-key", payload: key.key };
    const { accessToken } = await client(AuthService, door).authenticate({ entity: key.id, credentials });
    return connectGrpc(address, {
      clock,
      header: Metadata.from([["authorization", `Bearer ${accessToken}`]]),
    });
  } finally {
    door.close();
  }
}

/** Makes calls with a key. */
export async function callAs<T>(
  place: Place,
  key: Credentials,
  run: (channel: Channel) => Promise<T>,
): Promise<T> {
  const channel = await connectAs(place, key);
  try {
    return await run(channel);
  } finally {
    channel.close();
  }
}

export async function newTenant(place: Place, name: string): Promise<Tenant> {
  const [mark, shared, secret] = [marked(name), marked("shared"), marked("secret")];
  const host = async (...words: string[]) => JSON.parse(await svcCloud(...words, "--json", ...place.flags));
  const organization = (await host("org", "create", `org of ${shared}`)).id;
  const on = ["--on", `organization:${organization}`];
  const owner = await host("key", "create", "--role", "owner", "--name", `owner of ${secret}`, ...on);
  const channel = await connectAs(place, owner);
  try {
    // Each command of the host opens the database anew, so the owner's own calls do what they can.
    const app = client(AppService, channel);
    const operator = await createKey(channel, `operator of ${secret}`, "organization", organization);
    const locationNamed = async (name: string) =>
      (await app.createLocation({ organizationId: organization, name })).location!.id;
    const location = await locationNamed(`hall of ${secret}`);
    const machine = await createMachine(channel, `rover-${mark}`, location);
    const other = await createMachine(channel, `barrow-${shared}`, await locationNamed(`shed of ${shared}`));
    const tree = { organization, location, machine: machine.id, part: machine.partId };
    await configure(channel, tree.part, secret);
    await serveAsMachine(place, machine.key, tree.part, secret);
    await note(channel, tree, secret);
    await app.createLocationSecret({ locationId: location });
    await app.createRobotPartSecret({ partId: tree.part });
    const guest = (await host("org", "create", `guest of ${secret}`)).id;
    await host("key", "grant", owner.id, "--role", "owner", "--on", `organization:${guest}`);
    await app.shareLocation({ locationId: location, organizationId: guest });
    const fragment = await addFragment(channel, organization, secret);
    await configure(channel, tree.part, secret, [fragment]);
    const key = (await createKey(channel, `third of ${secret}`, "location", location)).id;
    const packages = await addPackage(channel, organization, mark);
    const captured = await capture(channel, tree, secret);
    await moveSome(place, tree.part, secret);
    const watched = await watchedPart(channel, tree.machine, secret);
    const { account, ...registered } = await register(place, tree, secret);
    const trained = await train(channel, organization, captured.ids.dataset, secret);
    const session = await mapped(channel, tree, secret);
    return {
      mark,
      shared,
      secret,
      hidden: [owner.id, operator.id, machine.key.id, account, guest, watched, ...captured.others],
      ids: {
        ...tree,
        key,
        fragment,
        ...captured.ids,
        training_job: trained,
        mapping_session: session,
        ...registered,
        sequence_export: await startedExport(channel, captured.ofSequences),
        package: packages.id,
      },
      words: [packages.other],
      owner,
      operator,
      machine: machine.key,
      neighbour: { machine: other.id, part: other.partId, key: other.key },
    };
  } finally {
    channel.close();
  }
}

/** A key of an operator. */
async function createKey(
  channel: Channel,
  name: string,
  resourceType: "organization" | "location" | "robot",
  resourceId: string,
): Promise<Credentials> {
  const authorization = {
    authorizationType: "role",
    authorizationId: `${resourceType}_operator`,
    resourceType,
    resourceId,
  };
  return await client(AppService, channel).createKey({ name, authorizations: [authorization] });
}

/** A machine with its own key. */
async function createMachine(channel: Channel, name: string, location: string) {
  const app = client(AppService, channel);
  const { id } = await app.newRobot({ name, location });
  const { parts } = await app.getRobotParts({ robotId: id });
  return { id, partId: parts[0].id, key: await createKey(channel, `key of ${name}`, "robot", id) };
}

/** A mapping session over a time without data, which soon ends with its reason. */
async function mapped(channel: Channel, tree: Tree, mark: string): Promise<string> {
  const mapping = client(CloudSLAMService, channel);
  const { sessionId } = await mapping.startMappingSession({
    organizationId: tree.organization,
    locationId: tree.location,
    robotId: tree.machine,
    mapName: `map-${mark}`,
    captureInterval: { startTime: toTimestamp(1_000), endTime: toTimestamp(2_000) },
    sensors: [{ sourceComponentName: `lidar of ${mark}`, type: "camera" }],
  });
  return sessionId;
}

/** A word that stands nowhere else. */
function marked(name: string): string {
  return `${name}-${crypto.randomUUID().replaceAll("-", "").slice(0, 12)}`;
}

/** A configuration with a secret, saved twice for a history. */
async function configure(
  channel: Channel,
  id: string,
  mark: string,
  fragments: readonly string[] = [],
): Promise<void> {
  const app = client(AppService, channel);
  for (const turn of ["first", "second"]) {
    const attributes = { password: `${turn} secret of ${mark}` };
    const component = {
      name: `arm of ${mark}`.replace(/\W/g, "-"),
      api: "rdk:component:generic",
      model: "fake",
      attributes,
    };
    const packages = [{ name: "kept", package: `kept/${mark}`, version: "1", type: "archive" }];
    const robotConfig: JsonObject = { components: [component], packages, fragments: [...fragments] };
    await app.updateRobotPart({ id, name: `part of ${mark}`, robotConfig });
  }
}

async function note(channel: Channel, tree: Tree, mark: string): Promise<void> {
  const app = client(AppService, channel);
  const data = { note: `note of ${mark}` };
  await app.updateOrganizationMetadata({ organizationId: tree.organization, data });
  await app.updateLocationMetadata({ locationId: tree.location, data });
  await app.updateRobotMetadata({ id: tree.machine, data });
  await app.updateRobotPartMetadata({ id: tree.part, data });
}

/** What only the machine itself may do: its certificate, a log entry, the report of its agent. */
async function serveAsMachine(place: Place, key: Credentials, id: string, mark: string): Promise<void> {
  const channel = await connectAs(place, key);
  try {
    const robot = client(RobotService, channel);
    await robot.certificate({ id });
    const entry = { message: `log of ${mark}`, level: "info", loggerName: `logger of ${mark}` };
    await robot.log({ id, logs: [entry] });
    const hostInfo = { platform: `host of ${mark}` };
    await client(AgentDeviceService, channel).deviceAgentConfig({ id, hostInfo }).catch(() => {});
  } finally {
    channel.close();
  }
}

/** A fragment that uses another one. */
async function addFragment(channel: Channel, organizationId: string, mark: string): Promise<string> {
  const app = client(AppService, channel);
  const base = await app.createFragment({
    organizationId,
    name: `base of ${mark}`,
    config: { note: `base of ${mark}` },
  });
  const made = await app.createFragment({
    organizationId,
    name: `fragment of ${mark}`,
    config: {
      note: mark,
      packages: [{ name: "shared", package: `kept/${mark}`, version: "1", type: "archive" }],
      fragments: [base.fragment!.id],
    },
  });
  await app.setFragmentTag({ fragmentId: made.fragment!.id, tag: "stable", revision: "1" });
  return made.fragment!.id;
}

async function addPackage(channel: Channel, organizationId: string, mark: string) {
  const bytes = new TextEncoder().encode(`content of ${mark}`);
  const chunks: Uint8Array[] = [];
  for await (const chunk of packed([{ path: "note.txt", bytes: bytes.length, content: [bytes] }])) {
    chunks.push(chunk);
  }
  const name = `package-${mark}`;
  const info = { organizationId, name, version: "1.0.0", type: PackageType.SLAM_MAP };
  const made = await client(PackageService, channel).createPackage((async function* () {
    yield { package: { case: "info" as const, value: info } };
    for (const value of chunks) yield { package: { case: "contents" as const, value } };
  })());
  return { id: made.id, other: `${organizationId}:${name}` };
}

interface Tree {
  readonly organization: string;
  readonly location: string;
  readonly machine: string;
  readonly part: string;
}

/** Images with tags and boxes in a dataset, and readings. */
async function capture(channel: Channel, { organization, part }: Tree, mark: string) {
  const sync = client(DataSyncService, channel);
  const about = { partId: part, componentName: `eye of ${mark}`, tags: tagsOf(mark) };
  const metadata = { ...about, componentType: "rdk:component:camera", methodName: "GetImages" };
  const ids: string[] = [];
  for (let number = 0; number < IMAGES; number++) {
    const answer = await sync.dataCaptureUpload({
      metadata: { ...metadata, type: DataType.BINARY_SENSOR, fileExtension: ".png" },
      sensorContents: [{
        data: { case: "binary", value: new TextEncoder().encode(`image ${number} of ${mark}`) },
      }],
    });
    ids.push(answer.binaryDataId);
  }
  await sync.dataCaptureUpload({
    metadata: {
      ...about,
      componentType: "rdk:component:sensor",
      methodName: "Readings",
      type: DataType.TABULAR_SENSOR,
    },
    sensorContents: [{ data: { case: "struct", value: { readings: { note: `reading of ${mark}` } } } }],
  });
  const { id: dataset } = await client(DatasetService, channel).createDataset({
    organizationId: organization,
    name: `dataset of ${mark}`,
  });
  const data = client(DataService, channel);
  await data.addBinaryDataToDatasetByIDs({ binaryDataIds: ids, datasetId: dataset });
  const window = { startTime: toTimestamp(0), endTime: toTimestamp(1) };
  const resources = [{ resourceName: `eye of ${mark}`, methodName: "GetImages" }];
  const { id: sequence } = await data.createSequence({
    partId: part,
    resources,
    sequenceTags: tagsOf(mark),
    ...window,
  });
  const { id: ofSequences } = await client(DatasetService, channel).createDataset({
    organizationId: organization,
    name: `sequences of ${mark}`,
    type: DatasetType.SEQUENCE_DATA,
  });
  await data.addSequencesToDataset({ datasetId: ofSequences, sequenceIds: [sequence] });
  const box = { xMinNormalized: 0.1, yMinNormalized: 0.1, xMaxNormalized: 0.9, yMaxNormalized: 0.9 };
  const boxed = await data.addBoundingBoxToImageByID({
    binaryDataId: ids[0],
    label: `label of ${mark}`,
    ...box,
  });
  return {
    ids: { dataset, data: ids[0], sequence, box: boxed.bboxId },
    others: [...ids.slice(1), ofSequences],
    ofSequences,
  };
}

function tagsOf(mark: string): string[] {
  return [`tag of ${mark}`, `other tag of ${mark}`];
}

/**
 * Written into the database: no cluster is here that runs images, and queries are checked in a process that takes
 * seconds to start.
 */
async function register(
  { connect }: Place,
  { organization, machine, part }: Tree,
  secret: string,
) {
  const store = connect();
  const key = await newKeySecret();
  try {
    return await store.transaction(async (sql) => {
      const image = "registry.example.com/team/image";
      // Not of the neighbour, who may read what its own machine has.
      await new MachineTags(sql).add(machine, [`tag-of-${secret}`]);
      return {
        container: await new TrainingContainers(sql).register(
          organization,
          image,
          `container of ${secret}`,
          0,
        ),
        ...await addQueries(sql, organization, secret),
        rollout: await addRollout(sql, organization, part, secret),
        account: await addPeople(sql, organization, secret, key),
      };
    });
  } finally {
    await store.close();
  }
}

/** The control plane itself moves only readings whose hour is over. */
async function moveSome({ connect, flags }: Place, partId: string, secret: string): Promise<void> {
  const store = connect();
  try {
    const folder = `${flags[flags.indexOf("--data") + 1]}/files`;
    const files = await FolderFiles.open(new SystemFiles(), folder, { olderThanMs: 0 });
    await moveReadings(store, files, partId, secret, tagsOf(secret));
  } finally {
    await store.close();
  }
}

/** A job that soon comes to its end: no image here can be read. */
async function train(
  channel: Channel,
  organizationId: string,
  datasetId: string,
  mark: string,
): Promise<string> {
  const api = client(MLTrainingService, channel);
  const { id } = await api.submitTrainingJob({
    organizationId,
    datasetId,
    modelName: `model-${mark}`,
    modelVersion: "1",
    modelType: ModelType.MULTI_LABEL_CLASSIFICATION,
    tags: tagsOf(mark),
  });
  return id;
}
