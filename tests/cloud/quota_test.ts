/**
 * Every list has an end: the limits of an organization's entries, and of one answer.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { DataService } from "../../proto/gen/data_pb.ts";
import { DatasetService } from "../../proto/gen/dataset_pb.ts";
import { MLTrainingService, ModelType } from "../../proto/gen/ml_training_pb.ts";
import { PackageService, PackageType } from "../../proto/gen/packages_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { BinaryData } from "../../lib/cloud/data/binary_data.ts";
import { Conditions } from "../../lib/cloud/capture/filter.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import { defaultLimits, type LimitName, type Limits, published } from "../../lib/cloud/access/limits.ts";
import { RULES } from "../../lib/cloud/access/rules.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { sqliteTest, storeTest } from "./stores.ts";
import { catsAndDogs, FakeExecutor, newDataset } from "./training_world.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "./world.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";

const clock = new SystemClock();

async function failing(call: Promise<unknown>): Promise<SvcError> {
  return await call.then(() => new SvcError("unknown", "it did not fail"), (error) => SvcError.from(error));
}

/** The bound of each answer with a list: a limit, its own pages, or the request. */
const BOUNDS: Record<
  string,
  LimitName | "pages" | "as asked" | "size of an answer" | "what is served" | "one thing"
> = {
  List: "what is served",
  ListOrganizations: "rolesPerKey",
  CheckPermissions: "as asked",
  SearchOrganizations: "rolesPerKey",
  ListLocations: "locationsPerOrganization",
  GetOrganizationsWithAccessToLocation: "guestsPerLocation",
  ListRobots: "machinesPerOrganization",
  ListRobotsForLocations: "as asked",
  ListRobotsForOrg: "machinesPerOrganization",
  ListMachineSummaries: "machinesPerOrganization",
  GetRobotParts: "partsPerMachine",
  GetRobotPartHistory: "pages",
  GetRobotPartLogs: "pages",
  TailRobotPartLogs: "pages",
  ListFragments: "fragmentLettersPerOrganization",
  GetFragment: "one thing",
  ListMachineFragments: "fragmentLettersPerOrganization",
  ListNestedFragments: "fragmentLettersPerOrganization",
  GetFragmentHistory: "pages",
  GetFragmentUsage: "machinesPerOrganization",
  SetFragmentTag: "tagsPerFragment",
  DeleteFragmentTag: "tagsPerFragment",
  ListOrganizationMembers: "membersPerOrganization",
  ListOrganizationsByUser: "rolesPerKey",
  ListAuthorizations: "rolesPerOrganization",
  ListKeys: "keysPerOrganization",
  GetRobotAPIKeys: "rolesPerOrganization",
  ListTrainingJobs: "trainingJobsPerOrganization",
  GetTrainingJobLogs: "pages",
  ListMappingSessions: "mappingSessionsPerOrganization",
  ListSupportedContainers: "what is served",
  ListContainers: "containersPerOrganization",
  ListPackages: "packagesPerOrganization",
  ListRegistryItems: "pages",
  ListModules: "modulesPerAnswer",
  DeviceAgentConfig: "one thing",
  BinaryDataByFilter: "pages",
  TabularDataByFilter: "pages",
  TabularDataByMQL: "size of an answer",
  TabularDataBySQL: "size of an answer",
  TagsByFilter: "labelsPerAnswer",
  BoundingBoxLabelsByFilter: "labelsPerAnswer",
  BinaryDataByIDs: "as asked",
  ExportTabularData: "one thing",
  ListDataPipelines: "pipelinesPerOrganization",
  ListDataPipelineRuns: "pages",
  ListSavedQueries: "savedQueriesPerOrganization",
  ListSequences: "pages",
  SequencesByDatasetID: "pages",
  GetSequenceBinaryData: "pages",
  ListDatasetsByOrganizationID: "datasetsPerOrganization",
  ListDatasetsByIDs: "datasetsPerOrganization",
};

Deno.test("every call that returns a list has a known limit", () => {
  const lists = RULES.filter(({ method }) =>
    method.parent.typeName.startsWith("viam.") || method.parent.name === "Health"
  ).filter(({ method }) =>
    method.output.fields.some(({ fieldKind }) => fieldKind === "list" || fieldKind === "map")
  );
  assertEquals(lists.map(({ method }) => method.name).sort(), Object.keys(BOUNDS).sort());
});

interface Setting extends World {
  readonly cloud: ServedCloud;
}

/** Adds something for the time with a number. */
type Add = (setting: Setting, number: number) => Promise<unknown>;

async function* moduleUpload(moduleId: string, version: string) {
  yield { moduleFile: { case: "moduleFileInfo" as const, value: { moduleId, version, platform: "any" } } };
  yield { moduleFile: { case: "file" as const, value: Uint8Array.of(0x1f, 0x8b, 8, 0) } };
}

async function* packageUpload(organizationId: string, version: string, metadata = {}) {
  const value = { organizationId, name: "tools", version, type: PackageType.MODULE, metadata };
  yield { package: { case: "info" as const, value } };
  yield { package: { case: "contents" as const, value: Uint8Array.of(0x1f, 0x8b, 8, 0) } };
}

const role = (resourceType: string, resourceId: string, identityId: string) => ({
  authorizationType: "role",
  authorizationId: `${resourceType}_operator`,
  resourceType,
  resourceId,
  identityId,
  identityType: "api-key",
});

/** Limited entries, and how often one more is accepted before the refusal. */
const ROOMS: readonly (readonly [LimitName, max: number, taken: number, Add])[] = [
  [
    "locationsPerOrganization",
    3,
    2,
    async ({ cloud, organization: organizationId, owner }, n) =>
      await (await cloud.app(owner)).createLocation({ organizationId, name: `place ${n}` }),
  ],
  [
    "machinesPerOrganization",
    3,
    2,
    async ({ cloud, location, owner }, n) =>
      await (await cloud.app(owner)).newRobot({ location, name: `rover ${n}` }),
  ],
  [
    "partsPerMachine",
    3,
    2,
    async ({ cloud, machine: robotId, owner }, n) =>
      await (await cloud.app(owner)).newRobotPart({ robotId, partName: `arm ${n}` }),
  ],
  [
    "keysPerOrganization",
    4,
    2,
    async ({ cloud, organization, owner }, n) =>
      await (await cloud.app(owner)).createKey({
        authorizations: [role("organization", organization, "")],
        name: `key ${n}`,
      }),
  ],
  [
    "keysPerOrganization",
    4,
    2,
    async ({ cloud, owner }) =>
      await (await cloud.app(owner)).createKeyFromExistingKeyAuthorizations({ id: owner.id }),
  ],
  [
    "rolesPerOrganization",
    4,
    2,
    async ({ cloud, machine, location, owner, operator }, n) =>
      await (await cloud.app(owner)).addRole({
        authorization: [role("robot", machine, operator.id), role("location", location, operator.id)][n] ??
          role("robot", machine, owner.id),
      }),
  ],
  [
    "rolesPerKey",
    2,
    1,
    async ({ cloud, machine, location, owner, operator }, n) =>
      await (await cloud.app(owner)).addRole({
        authorization: [role("robot", machine, operator.id)][n] ?? role("location", location, operator.id),
      }),
  ],
  [
    "fragmentsPerOrganization",
    2,
    2,
    async ({ cloud, organization: organizationId, owner }, n) =>
      await (await cloud.app(owner)).createFragment({ organizationId, name: `fragment ${n}`, config: {} }),
  ],
  [
    "fragmentLettersPerOrganization",
    100,
    2,
    async ({ cloud, organization: organizationId, owner }, n) =>
      await (await cloud.app(owner)).createFragment({
        organizationId,
        name: `fragment ${n}`,
        config: { a: "x".repeat(40) },
      }),
  ],
  [
    "registryItemsPerOrganization",
    2,
    2,
    async ({ cloud, organization: organizationId, owner }, n) =>
      await (await cloud.app(owner)).createModule({ organizationId, name: `module-${n}` }),
  ],
  [
    "registryItemsPerOrganization",
    2,
    2,
    async ({ cloud, organization: organizationId, owner }, n) =>
      await (await cloud.app(owner)).createRegistryItem({
        organizationId,
        name: `model-${n}`,
        type: PackageType.ML_MODEL,
      }),
  ],
  ["registryLettersPerOrganization", 150, 2, async ({ cloud, organization, owner }, n) => {
    const { createPackage } = client(PackageService, await cloud.channel(owner));
    return await createPackage(packageUpload(organization, `${n}.0.0`, { text: "x".repeat(40) }));
  }],
  ["packagesPerOrganization", 2, 2, async ({ cloud, organization, owner }, n) => {
    const { createPackage } = client(PackageService, await cloud.channel(owner));
    return await createPackage(packageUpload(organization, `${n}.0.0`));
  }],
  ["packageBytesPerOrganization", 8, 2, async ({ cloud, organization, owner }, n) => {
    const { createPackage } = client(PackageService, await cloud.channel(owner));
    return await createPackage(packageUpload(organization, `${n}.0.0`));
  }],
  ["packagesPerOrganization", 2, 2, async ({ cloud, organization: organizationId, owner }, n) => {
    const calls = client(AppService, await cloud.channel(owner));
    if (n === 0) await calls.createModule({ organizationId, name: "driver" });
    return await calls.uploadModuleFile(moduleUpload(`${organizationId}:driver`, `1.0.${n}`));
  }],
  ["datasetsPerOrganization", 2, 2, async ({ cloud, organization: organizationId, owner }, n) => {
    const { createDataset } = client(DatasetService, await cloud.channel(owner));
    return await createDataset({ organizationId, name: `dataset ${n}` });
  }],
  ["sequencesPerOrganization", 2, 2, async ({ cloud, part: partId, owner }) => {
    const { createSequence } = client(DataService, await cloud.channel(owner));
    const window = { startTime: toTimestamp(0), endTime: toTimestamp(1) };
    return await createSequence({ partId, resources: [{ resourceName: "cam" }], ...window });
  }],
];

for (const [at, [name, max, taken, add]] of ROOMS.entries()) {
  storeTest(
    `${published(name)} limits each organization by itself (${at + 1})`,
    (database) =>
      withCloud(database, async (cloud) => {
        const [mine, other] = [await newWorld(cloud.store), await newWorld(cloud.store)];
        for (let number = 0; number < taken; number++) await add({ ...mine, cloud }, number);
        const refused = await failing(add({ ...mine, cloud }, taken));
        assertEquals(refused.code, "resource_exhausted", refused.message);
        assertMatch(
          refused.message,
          new RegExp(`limit ${published(name)}: found .*, wanted at most ${max}; .*--limits`),
        );
        // Nothing of it has stayed, and others have room of their own.
        assertEquals((await failing(add({ ...mine, cloud }, taken))).message, refused.message);
        await add({ ...other, cloud }, 0);
      }, { limits: { ...defaultLimits(), [name]: max } }),
  );
}

sqliteTest(
  "an update obeys the same limits as a new fragment",
  (database) =>
    withCloud(database, async (cloud) => {
      const { organization: organizationId, owner } = await newWorld(cloud.store);
      const app = await cloud.app(owner);
      const { fragment } = await app.createFragment({ organizationId, name: "f", config: {} });
      const change = app.updateFragment({ id: fragment!.id, name: "f", config: { a: "x".repeat(100) } });
      assertMatch((await failing(change)).message, /limit fragment_letters_per_organization/);
      assertEquals((await app.getFragment({ id: fragment!.id })).fragment!.revision, fragment!.revision);
      const ids = Array(2000).fill("f");
      const robots = await app.listRobots({
        locationId: (await app.listLocations({ organizationId })).locations[0].id,
      });
      const asked = app.listMachineFragments({ machineId: robots.robots[0].id, additionalFragmentIds: ids });
      assertMatch((await failing(asked)).message, /limit fragments_per_organization: found 2000/);
    }, { limits: { ...defaultLimits(), fragmentLettersPerOrganization: 50 } }),
);

sqliteTest("models of training jobs count in the limits of packages", (database) => {
  const executor = new FakeExecutor();
  const limits: Limits = {
    ...defaultLimits(),
    packagesPerOrganization: 2,
    trainingJobsPerOrganization: 3,
    packageBytesPerOrganization: 1000,
  };
  return withCloud(database, async (cloud) => {
    const { store, files } = cloud;
    const world = await newWorld(store);
    const { organization: organizationId, owner } = world;
    const datasetId = await newDataset(store, files, world, catsAndDogs());
    const calls = client(MLTrainingService, await cloud.channel(owner));
    const submit = (modelVersion: string) =>
      calls.submitTrainingJob({
        organizationId,
        datasetId,
        modelName: "pets",
        modelVersion,
        modelType: ModelType.SINGLE_LABEL_CLASSIFICATION,
        tags: ["cat", "dog"],
      });
    const { id } = await submit("1");
    const noise = Array.from(
      crypto.getRandomValues(new Uint8Array(3000)),
      (byte) => String.fromCharCode(33 + byte % 90),
    );
    await (await executor.next()).finish(noise.join(""));
    const untilMs = clock.monotonicMs() + 30_000;
    for (;;) {
      const { metadata } = await calls.getTrainingJob({ id });
      assert(clock.monotonicMs() < untilMs, "the job goes on");
      if (!metadata!.trainingEnded) continue;
      assertMatch(
        metadata!.errorStatus!.message,
        /limit package_bytes_per_organization: found \d+ and \d+ more/,
      );
      break;
    }
    const { createPackage } = client(PackageService, await cloud.channel(owner));
    for (const version of ["1.0.0", "1.0.1"]) await createPackage(packageUpload(organizationId, version));
    // No job begins whose model there is no room for.
    assertMatch((await failing(submit("2"))).message, /limit packages_per_organization/);
  }, { limits, training: { managed: executor } });
});

sqliteTest(
  "the limit of training jobs includes ended ones",
  (database) =>
    withCloud(database, async (cloud) => {
      const { store, files } = cloud;
      const world = await newWorld(store);
      const datasetId = await newDataset(store, files, world, catsAndDogs());
      const calls = client(MLTrainingService, await cloud.channel(world.owner));
      const submit = (modelVersion: string) =>
        calls.submitTrainingJob({
          organizationId: world.organization,
          datasetId,
          modelName: "pets",
          modelVersion,
          modelType: ModelType.SINGLE_LABEL_CLASSIFICATION,
          tags: ["cat", "dog"],
        });
      const { id } = await submit("1");
      await calls.cancelTrainingJob({ id });
      await submit("2");
      assertMatch(
        (await failing(submit("3"))).message,
        /limit training_jobs_per_organization: found 3, wanted at most 2/,
      );
      await calls.deleteCompletedTrainingJob({ id });
      await submit("3");
    }, {
      limits: { ...defaultLimits(), trainingJobsPerOrganization: 2 },
      training: { managed: new FakeExecutor(0) },
    }),
);

sqliteTest(
  "a page of history ends at its size limit, and the oldest revisions are dropped",
  (database) =>
    withCloud(database, async (cloud) => {
      const { part: id, owner } = await newWorld(cloud.store);
      const app = await cloud.app(owner);
      const save = (letter: string, letters: number) =>
        app.updateRobotPart({ id, name: "", robotConfig: { note: letter.repeat(letters) } });
      for (const letter of "abcdef") await save(letter, 7 * 1024 * 1024);
      const revisions: string[] = [];
      let pages = 0;
      for (let pageToken = "";; pages++) {
        const page = await app.getRobotPartHistory({ id, pageToken });
        revisions.push(...page.history.map(({ old }) => String(old!.robotConfig?.note).slice(0, 1)));
        assertEquals(page.history.length <= 2, true, `${page.history.length} on a page`);
        if (page.nextPageToken === "") break;
        pageToken = page.nextPageToken;
      }
      // The oldest kept revision is the configuration before the fourth newest change.
      assertEquals([revisions, pages], [["e", "d", "c", "b"], 1]);
    }, { limits: { ...defaultLimits(), revisionsPerPart: 4 } }),
);

sqliteTest(
  "ListModules answers with the caller's own modules first, up to modulesPerAnswer",
  (database) =>
    withCloud(database, async (cloud) => {
      const [mine, other] = [await newWorld(cloud.store), await newWorld(cloud.store)];
      for (const [at, { organization: organizationId, owner }] of [other, mine].entries()) {
        const app = await cloud.app(owner);
        await app.updateOrganization({ organizationId, publicNamespace: `acme-${at}` });
        for (const name of ["a", "b"]) {
          const { moduleId } = await app.createModule({ organizationId, name });
          await app.updateModule({ moduleId, visibility: 2, description: "d", url: "" });
        }
      }
      const app = await cloud.app(mine.owner);
      const { modules } = await app.listModules({});
      assertEquals(modules.map(({ moduleId }) => moduleId), ["acme-1:a", "acme-1:b", "acme-0:a"]);
      assertEquals((await app.listRegistryItems({ organizationId: other.organization })).items.length, 2);
    }, { limits: { ...defaultLimits(), modulesPerAnswer: 3 } }),
);

storeTest("BinaryData.tags stops at the maximum number of tags of an answer", async (database) => {
  const store = await database.open();
  const world = await newWorld(store);
  const files = await FolderFiles.open(new SystemFiles(), `${database.folder}/files`, { olderThanMs: 0 });
  const images = ["a", "b", "c"].map((tag) => ({ bytes: new TextEncoder().encode(tag), tags: [tag] }));
  await newDataset(store, files, world, images);
  assertEquals(await new BinaryData(store).tags(new Conditions(), 2), ["a", "b"]);
});
