/**
 * Containers of training scripts: registered, listed, used by a job and removed; refused where no image may run.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { MLTrainingService, Visibility } from "../../proto/gen/ml_training_pb.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import type { Executors } from "../../lib/cloud/executors/executor.ts";
import { packed } from "../../lib/base/files/archive.ts";
import { client, type ServiceClient } from "../../lib/wire/rpc/channel.ts";
import { storeTest, type TestDatabase } from "./stores.ts";
import { catsAndDogs, FakeExecutor, newDataset, newScript } from "./training_world.ts";
import { newKey, newWorld, type ServedCloud, withCloud, type World } from "./world.ts";

const IMAGE = "registry.example.com/team/trainer:1.0";

type Api = ServiceClient<typeof MLTrainingService>;

function withTraining(
  database: TestDatabase,
  training: Executors,
  run: (served: ServedCloud, world: World, api: Api) => Promise<void>,
  limits = defaultLimits(),
): Promise<void> {
  return withCloud(database, async (served) => {
    const world = await newWorld(served.store);
    await run(served, world, client(MLTrainingService, await served.channel(world.owner)));
  }, { training, limits });
}

/** Runs images, as a cluster does. */
function imageRunner(images: readonly string[]): FakeExecutor {
  return Object.assign(new FakeExecutor(), { images });
}

async function refusal(run: Promise<unknown>): Promise<string> {
  return await run.then(() => "done", String);
}

storeTest("a training container is registered, listed, found and deleted", async (database) => {
  const custom = imageRunner(["registry.example.com/team/"]);
  await withTraining(database, { custom }, async ({ store, channel }, world, api) => {
    const { organization: organizationId } = world;
    const { id } = await api.registerCustomTrainingContainer({
      organizationId,
      imageUri: IMAGE,
      description: "ours",
    });
    const { container } = await api.getContainer({ id });
    assertEquals(
      [container?.uri, container?.description, container?.organizationId, container?.visibility],
      [IMAGE, "ours", organizationId, Visibility.PRIVATE],
    );
    const uris = async () => (await api.listContainers({ organizationId })).containers.map(({ uri }) => uri);
    assertEquals(await uris(), ["python3", "python2", IMAGE]);
    assertEquals((await api.getContainer({ id: "python:3" })).container?.visibility, Visibility.PUBLIC);
    assertEquals(Object.keys((await api.listSupportedContainers({})).containerMap), ["python:3", "python:2"]);

    const other = client(MLTrainingService, await channel((await newWorld(store)).owner));
    const hall = client(
      MLTrainingService,
      await channel(await newKey(store, "owner", "location", world.location)),
    );
    for (const stranger of [other, hall]) {
      assertMatch(await refusal(stranger.getContainer({ id })), /there is no container/);
      assertMatch(await refusal(stranger.deleteCustomTrainingContainer({ id })), /owner of container/);
    }
    await api.deleteCustomTrainingContainer({ id });
    assertMatch(await refusal(api.getContainer({ id })), /there is no container/);
    assertMatch(await refusal(api.deleteCustomTrainingContainer({ id })), /there is no container/);
    assertEquals(await uris(), ["python3", "python2"]);
  });
});

storeTest(
  "a job runs in a container of its own organization and is refused another organization's",
  async (database) => {
    const custom = imageRunner(["registry.example.com/team/"]);
    await withTraining(database, { custom }, async ({ store, files, channel }, world, api) => {
      const { organization: organizationId } = world;
      const dataset = async (of: World) => await newDataset(store, files, of, catsAndDogs());
      const script = async (of: World) => await newScript(store, files, of.organization, packed([]));
      const request = async (of: World) => ({
        organizationId: of.organization,
        datasetId: await dataset(of),
        registryItemId: await script(of),
        registryItemVersion: "1.0.0",
        modelName: "own",
      });
      const mine = await request(world);
      const { id: containerId } = await api.registerCustomTrainingContainer({
        organizationId,
        imageUri: IMAGE,
      });
      const { id } = await api.submitCustomTrainingJob({ ...mine, modelVersion: "1", containerId });
      const work = await custom.next();
      assertEquals([work.job.script?.container, work.job.script?.image], [containerId, IMAGE]);
      assertEquals((await api.getTrainingJob({ id })).metadata?.containerId, containerId);
      work.finish();
      const other = await newWorld(store);
      const stranger = client(MLTrainingService, await channel(other.owner));
      const theirs = { ...await request(other), modelVersion: "1", containerId };
      assertMatch(
        await refusal(stranger.submitCustomTrainingJob(theirs)),
        /found container_version ".+", wanted one of python:3, python:2, or the id of one/,
      );
    });
  },
);

storeTest("refuses invalid and disallowed images", async (database) => {
  const register = (api: Api, organizationId: string, imageUri: string, description = "") =>
    refusal(api.registerCustomTrainingContainer({ organizationId, imageUri, description }));
  const team = { custom: imageRunner(["registry.example.com/team/"]) };
  await withTraining(database, team, async (_, { organization }, api) => {
    const wrong = [
      "registry.example.com/team",
      "registry.example.com/teams/a",
      "other.example.com/registry.example.com/team/a",
    ];
    for (const uri of wrong) {
      assertMatch(
        await register(api, organization, uri),
        /wanted one whose name begins with registry.*team\//,
      );
    }
    for (const rest of ["../secret/a", "a b", "a:", "A", "", "a\n", `${"a".repeat(500)}`]) {
      assertMatch(
        await register(api, organization, `registry.example.com/team/${rest}`),
        /image_uri: found .*, wanted an image with its registry/,
      );
    }
    assertMatch(await register(api, organization, IMAGE, "a\x1bb"), /description: wanted/);
    assertEquals(await register(api, organization, `${IMAGE}@sha256:${"0".repeat(64)}`), "done");
  });
  await withTraining(database, { custom: imageRunner([]) }, async (_, { organization }, api) => {
    assertMatch(await register(api, organization, IMAGE), /svc-cloud serve --kubernetes-registries/);
  });
  await withTraining(database, { custom: new FakeExecutor() }, async (_, { organization }, api) => {
    assertMatch(await register(api, organization, IMAGE), /in the Pythons of its machine, not in containers/);
  });
  await withTraining(database, { noScripts: "no scripts here" }, async (_, { organization }, api) => {
    assertMatch(await register(api, organization, IMAGE), /no scripts here/);
  });
});

storeTest("each organization has its own limit of containers", async (database) => {
  const custom = imageRunner(["registry.example.com/"]);
  const limits = { ...defaultLimits(), containersPerOrganization: 2 };
  await withTraining(database, { custom }, async ({ store, channel }, { organization }, api) => {
    const register = (api: Api, organizationId: string) =>
      refusal(api.registerCustomTrainingContainer({ organizationId, imageUri: IMAGE }));
    assertEquals([await register(api, organization), await register(api, organization)], ["done", "done"]);
    assertMatch(await register(api, organization), /limit containers_per_organization: found 3/);
    const other = await newWorld(store);
    const theirs = client(MLTrainingService, await channel(other.owner));
    assertEquals(await register(theirs, other.organization), "done");
  }, limits);
});
