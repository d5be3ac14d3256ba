/**
 * Chains of allowed steps that once led from a weak key to the property of others or of the host.
 *
 * One tenant plays each chain against another on a serving control plane, with the published calls and plain HTTP. A
 * chain reports its loot, and nothing if it was stopped.
 */

import { AppService } from "../../../proto/gen/app_pb.ts";
import { RobotService } from "../../../proto/gen/robot_config_pb.ts";
import { AuthService } from "../../../proto/gen/auth_pb.ts";
import { DataSyncService, DataType } from "../../../proto/gen/datasync_pb.ts";
import { MLInferenceService } from "../../../proto/gen/ml_inference_pb.ts";
import { MLTrainingService } from "../../../proto/gen/ml_training_pb.ts";
import { PackageService, PackageType } from "../../../proto/gen/packages_pb.ts";
import { type ArchiveFile, packed } from "../../../lib/base/files/archive.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { encodePng } from "../../../lib/geometry/image/png.ts";
import { client } from "../../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../../lib/wire/grpc/grpc_channel.ts";
import { scriptArchive } from "../../cloud/training_world.ts";
import { endlessModel, fileReaders } from "../hostile_models.ts";
import { bombPictures } from "../hostile_pictures.ts";
import { HOSTILE_SCRIPT } from "../hostile_script.ts";
import { connectAs, type Credentials, type Place, type Tenant } from "./tenant.ts";
import { awaitOutcome } from "../../support/outcome.ts";

export interface ChainSetting {
  readonly place: Place;
  /** `http://host:port` */
  readonly url: string;
  /** Where the control plane keeps everything. */
  readonly folder: string;
  readonly attacker: Tenant;
  readonly victim: Tenant;
}

export interface Chain {
  readonly name: string;
  /** The attacker's loot; empty if it was stopped. */
  play(setting: ChainSetting): Promise<string[]>;
}

/** What every file of SQLite begins with, and every key that is written down. */
const TREASURES = ["SQLite format 3", "PRIVATE KEY"];
const CALL_MS = 120_000;
const WRONG_KEYS = 300;

export const CHAINS: readonly Chain[] = [
  { name: "a key makes itself an owner of a new organization", play: makeOrganization },
  { name: "a model reads the files of the control plane", play: readByModel },
  { name: "models that never end keep others from theirs", play: hangModels },
  { name: "pictures that are large in memory", play: sendBombs },
  { name: "a training script runs where nobody allowed any", play: runScript },
  { name: "a token outlives its key", play: keepToken },
  { name: "a role in another organization takes a key from its owner", play: adoptKey },
  { name: "an operator reads the secrets of a configuration", play: readSecrets },
  { name: "one machine asks for the certificate of another", play: takeCertificate },
  { name: "the installer repeats what a Host header says", play: poisonInstaller },
  { name: "figures of all tenants without a key", play: readMetrics },
  { name: "keys are tried one after the other", play: guessKeys },
  { name: "names that do something to the terminal", play: paintTerminal },
  { name: "keys in the database file", play: readDatabase },
];

async function makeOrganization({ place, attacker }: ChainSetting): Promise<string[]> {
  const found: string[] = [];
  for (const who of ["machine", "operator", "owner"] as const) {
    const made = await codeOf(
      place,
      attacker[who],
      (channel) => client(AppService, channel).createOrganization({ name: `castle of ${attacker[who].id}` }),
    );
    if (made === "ok") found.push(`${who} made one`);
  }
  return found;
}

async function readByModel(setting: ChainSetting): Promise<string[]> {
  const found: string[] = [];
  const image = await capture(setting, encodePng(DOT));
  const locations = [`${setting.folder}/cloud.db`, "../cloud.db"];
  for (const [place, location] of locations.entries()) {
    for (const [index, { name, model }] of fileReaders(location, 16).entries()) {
      const id = await upload(setting, `reader-${place}-${index}`, model);
      const answer = await infer(setting, id, image);
      const got = TREASURES.filter((one) => answer.includes(one));
      if (answer.startsWith("ok") || got.length > 0) {
        found.push(`${name} of ${location}: ${answer.slice(0, 200)}`);
      }
    }
  }
  return found;
}

async function hangModels(setting: ChainSetting): Promise<string[]> {
  const image = await capture(setting, encodePng(DOT));
  const id = await upload(setting, "endless", endlessModel());
  const given = new AbortController();
  const [first, second] = [infer(setting, id, image), infer(setting, id, image, given.signal)];
  // The victim's own image is no picture: being told so takes a turn like any other answer.
  const victims = { ...setting, attacker: setting.victim };
  const other = await upload(victims, "endless", endlessModel());
  const answer = await infer(victims, other, setting.victim.ids.data);
  // The second has waited for the first all the while; its own time would only be spent once more.
  given.abort();
  const [ended, left] = await Promise.all([first, second]);
  const found: string[] = [];
  if (!ended.startsWith("deadline_exceeded")) found.push(ended);
  if (!left.startsWith("canceled")) found.push(left);
  if (!answer.startsWith("invalid_argument")) found.push(`the victim was told: ${answer}`);
  return found;
}

async function sendBombs(setting: ChainSetting): Promise<string[]> {
  const id = await upload(setting, "viewer", endlessModel());
  const found: string[] = [];
  for (const { name, bytes } of bombPictures()) {
    const answer = await infer(setting, id, await capture(setting, bytes));
    if (!answer.startsWith("invalid_argument")) found.push(`${name}: ${answer.slice(0, 200)}`);
  }
  return found;
}

async function runScript({ place, attacker }: ChainSetting): Promise<string[]> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of scriptArchive(HOSTILE_SCRIPT)) chunks.push(chunk);
  const organizationId = attacker.ids.organization;
  const info = {
    organizationId,
    name: "script",
    version: "1",
    type: PackageType.ML_TRAINING,
    metadata: { model_type: "single_label_classification", model_framework: "tensorflow" },
  };
  const channel = await connectAs(place, attacker.owner);
  try {
    await client(PackageService, channel).createPackage(pieces(info, chunks));
    const { id } = await client(MLTrainingService, channel).submitCustomTrainingJob({
      organizationId,
      datasetId: attacker.ids.dataset,
      registryItemId: `${organizationId}:script`,
      registryItemVersion: "1",
      modelName: "stolen",
      modelVersion: "1",
    });
    return [`job ${id} was taken`];
  } catch (error) {
    const { code } = SvcError.from(error);
    return ["failed_precondition", "unimplemented", "permission_denied"].includes(code)
      ? []
      : [String(error)];
  } finally {
    channel.close();
  }
}

async function keepToken({ place, attacker }: ChainSetting): Promise<string[]> {
  const owner = await connectAs(place, attacker.owner);
  const app = client(AppService, owner);
  try {
    const authorization = {
      authorizationType: "role",
      authorizationId: "organization_owner",
      resourceType: "organization",
      resourceId: attacker.ids.organization,
    };
    const stolen = await app.createKey({ name: "stolen", authorizations: [authorization] });
    const thief = await connectAs(place, stolen);
    const ask = async () => {
      const call = client(AppService, thief).getOrganization({ organizationId: attacker.ids.organization });
      return await awaitOutcome(call);
    };
    try {
      const before = await ask();
      await app.rotateKey({ id: stolen.id });
      const after = await ask();
      const found = before === "ok" ? [] : [`the key was of no use: ${before}`];
      return after === "unauthenticated" ? found : [...found, `after the key was rotated: ${after}`];
    } finally {
      thief.close();
    }
  } finally {
    owner.close();
  }
}

async function adoptKey({ place, attacker, victim }: ChainSetting): Promise<string[]> {
  const authorization = {
    authorizationType: "role",
    authorizationId: "organization_operator",
    resourceType: "organization",
    resourceId: attacker.ids.organization,
    identityId: victim.ids.key,
    identityType: "api-key",
  };
  const added = await codeOf(
    place,
    attacker.owner,
    (channel) => client(AppService, channel).addRole({ authorization }),
  );
  const found = added === "ok" ? ["a stranger's key was given a role"] : [];
  const shown = await codeOf(place, attacker.owner, async (channel) => {
    const { apiKeys } = await client(AppService, channel).listKeys({ orgId: attacker.ids.organization });
    if (JSON.stringify(apiKeys, bigints).includes(victim.secret)) {
      found.push("the name of a stranger's key was shown");
    }
  });
  if (shown !== "ok") found.push(`keys cannot be listed: ${shown}`);
  const renamed = await codeOf(
    place,
    victim.owner,
    (channel) =>
      client(AppService, channel).renameKey({ id: victim.ids.key, name: `still of ${victim.secret}` }),
  );
  return renamed === "ok" ? found : [...found, `its owner may no longer rename it: ${renamed}`];
}

/** Here the attacker belongs to the victim's own people, and looks further than allowed. */
async function readSecrets({ place, victim }: ChainSetting): Promise<string[]> {
  const found: string[] = [];
  const id = victim.ids.part;
  for (const [who, key] of [["operator", victim.operator], ["neighbour", victim.neighbour.key]] as const) {
    const channel = await connectAs(place, key);
    try {
      const app = client(AppService, channel);
      const robot = client(RobotService, channel);
      for (
        const ask of [
          () => app.getRobotPart({ id }),
          () => app.getRobotPartHistory({ id }),
          () => app.getRobotParts({ robotId: victim.ids.machine }),
          () => robot.config({ id }),
        ]
      ) {
        const logged = await ask().then((answer) => JSON.stringify(answer, bigints), () => "");
        if (/(first|second) secret of/.test(logged)) found.push(`${who}: ${logged.slice(0, 300)}`);
      }
    } finally {
      channel.close();
    }
  }
  return found;
}

async function takeCertificate({ place, attacker, victim }: ChainSetting): Promise<string[]> {
  const found: string[] = [];
  const keys = { attacker: attacker.machine, neighbour: victim.neighbour.key, operator: victim.operator };
  for (const [who, key] of Object.entries(keys)) {
    const code = await codeOf(place, key, async (channel) => {
      const { tlsPrivateKey } = await client(RobotService, channel).certificate({ id: victim.ids.part });
      if (tlsPrivateKey !== "") found.push(`${who} has the machine's key`);
    });
    if (code === "ok") found.push(`${who} was answered`);
  }
  return found;
}

async function poisonInstaller({ url }: ChainSetting): Promise<string[]> {
  const found: string[] = [];
  for (const host of ["$(touch /tmp/owned)", "`id`", "a';id;'", 'a";id;"', "evil.example"]) {
    for (const path of ["/install.sh", "/install.ps1"]) {
      const answer = await rawGet(url, path, host);
      if (answer.includes(host)) found.push(`${path} says ${host}`);
    }
  }
  return found;
}

async function readMetrics({ url, attacker, place }: ChainSetting): Promise<string[]> {
  const found: string[] = [];
  const door = connectGrpc(place.address, { clock: new SystemClock() });
  const { accessToken } = await client(AuthService, door).authenticate({
    entity: attacker.owner.id,
    credentials: { type: "api-key", payload: attacker.owner.key },
  }).finally(() => door.close());
  const guises: Record<string, string>[] = [
    {},
    { authorization: `Bearer ${accessToken}` },
    { "x-forwarded-for": "127.0.0.1" },
  ];
  for (const headers of guises) {
    const answer = await fetch(`${url}/metrics`, { headers });
    const text = await answer.text();
    if (answer.ok) found.push(text.slice(0, 200));
  }
  return found;
}

/** All attempts come from one shared address: the right keys of others must keep working. */
async function guessKeys({ place, attacker, victim }: ChainSetting): Promise<string[]> {
  const door = connectGrpc(place.address, { clock: new SystemClock() });
  const codes: string[] = [];
  try {
    for (let number = 0; number < WRONG_KEYS; number++) {
      const payload = `guess-${number}`;
      const call = client(AuthService, door).authenticate({
        entity: attacker.ids.key,
        credentials: { type: "api-key", payload },
      }, { timeoutMs: CALL_MS });
      const code = await awaitOutcome(call);
      codes.push(code);
      if (code === "resource_exhausted") break;
    }
  } finally {
    door.close();
  }
  const found = codes.includes("resource_exhausted")
    ? []
    : [`${codes.length} keys were tried and nobody minded`];
  const honest = await connectAs(place, victim.owner).then(
    (channel) => channel.close(),
    (error) => error as Error,
  );
  if (honest) found.push(`the right key of another is not taken: ${honest.message}`);
  return found;
}

async function paintTerminal({ place, attacker }: ChainSetting): Promise<string[]> {
  const name = "rover\x1b]0;owned\x07\x1b[2J";
  const found: string[] = [];
  const made = await codeOf(
    place,
    attacker.owner,
    (channel) => client(AppService, channel).newRobot({ name, location: attacker.ids.location }),
  );
  if (made === "ok") found.push("a machine has such a name");
  return found;
}

/** A copy of the database, such as a backup, contains no keys. */
async function readDatabase({ folder }: ChainSetting): Promise<string[]> {
  const found: string[] = [];
  for (const name of ["cloud.db", "cloud.db-wal"]) {
    const bytes = await Deno.readFile(`${folder}/${name}`).catch(() => new Uint8Array());
    if (new TextDecoder("latin1").decode(bytes).includes("BEGIN PRIVATE KEY")) {
      found.push(`${name} has a private key`);
    }
  }
  return found;
}

const DOT = { width: 6, height: 4, channels: 3, samples: new Uint8Array(72) } as const;

async function upload({ place, attacker }: ChainSetting, name: string, model: Uint8Array): Promise<string> {
  const file: ArchiveFile = { path: "model.onnx", bytes: model.length, content: [model] };
  const chunks: Uint8Array[] = [];
  for await (const chunk of packed([file])) chunks.push(chunk);
  const organizationId = attacker.ids.organization;
  const info = { organizationId, name, version: "1", type: PackageType.ML_MODEL };
  const channel = await connectAs(place, attacker.owner);
  try {
    return (await client(PackageService, channel).createPackage(pieces(info, chunks))).id;
  } finally {
    channel.close();
  }
}

async function* pieces(info: Record<string, unknown>, chunks: readonly Uint8Array[]) {
  yield { package: { case: "info" as const, value: info } };
  for (const value of chunks) yield { package: { case: "contents" as const, value } };
}

async function capture({ place, attacker }: ChainSetting, value: Uint8Array): Promise<string> {
  const channel = await connectAs(place, attacker.owner);
  try {
    const { binaryDataId } = await client(DataSyncService, channel).dataCaptureUpload({
      metadata: {
        partId: attacker.ids.part,
        componentType: "rdk:component:camera",
        componentName: "eye",
        methodName: "GetImages",
        type: DataType.BINARY_SENSOR,
        fileExtension: ".png",
      },
      sensorContents: [{ data: { case: "binary", value } }],
    });
    return binaryDataId;
  } finally {
    channel.close();
  }
}

/** `ok: …` with all that the model gave, or the error. */
async function infer(
  { place, attacker }: ChainSetting,
  id: string,
  image: string,
  signal?: AbortSignal,
): Promise<string> {
  const channel = await connectAs(place, attacker.owner);
  try {
    const answer = await client(MLInferenceService, channel).getInference({
      registryItemId: id,
      registryItemVersion: "1",
      binaryDataId: image,
      organizationId: attacker.ids.organization,
    }, { timeoutMs: CALL_MS, signal });
    const tensors = Object.values(answer.outputTensors?.tensors ?? {});
    return `ok: ${JSON.stringify(tensors, bigints)}`;
  } catch (error) {
    const { code, message } = SvcError.from(error);
    return `${code}: ${message}`;
  } finally {
    channel.close();
  }
}

async function codeOf(
  place: Place,
  key: Credentials,
  call: (channel: Awaited<ReturnType<typeof connectAs>>) => Promise<unknown>,
): Promise<string> {
  const channel = await connectAs(place, key);
  try {
    return await awaitOutcome(call(channel));
  } finally {
    channel.close();
  }
}

function bigints(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}

/** A GET with a Host header that no client library would send. */
async function rawGet(url: string, path: string, host: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const connection = await Deno.connect({ hostname, port: Number(port) });
  const request = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
  await connection.write(new TextEncoder().encode(request));
  return await new Response(connection.readable).text();
}
