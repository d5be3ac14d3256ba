/**
 * Packages and the registry as clients see them: uploads that come whole or not at all, and who finds what.
 */

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import {
  AppService,
  ModuleLanguage,
  ModuleSourceType,
  RegistryItemStatus,
  Visibility,
} from "../../proto/gen/app_pb.ts";
import { ModelFramework, ModelType } from "../../proto/gen/ml_training_pb.ts";
import { PackageService, PackageType } from "../../proto/gen/packages_pb.ts";
import { packed } from "../../lib/base/files/archive.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { NewKey } from "../../lib/cloud/access/keys.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { newKey, newWorld, type ServedCloud, withCloud, type World } from "./world.ts";
import { storeTest } from "./stores.ts";
import { until } from "../support/until.ts";

const LABELS = new TextEncoder().encode("apple\npear\n");

async function archive(): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  const file = { path: "model/labels.txt", bytes: LABELS.length, content: [LABELS] };
  for await (const chunk of packed([file])) chunks.push(chunk);
  return new Uint8Array(await new Blob(chunks as Uint8Array<ArrayBuffer>[]).arrayBuffer());
}

async function packagesOf({ channel }: ServedCloud, key: NewKey) {
  return client(PackageService, await channel(key));
}

type Info = Record<string, unknown>;

async function* upload(info: Info, ...contents: (Uint8Array | Error)[]) {
  yield { package: { case: "info", value: info } } as never;
  for (const value of contents) {
    if (value instanceof Error) throw value;
    yield { package: { case: "contents", value } } as never;
  }
}

function fruit({ organization }: World, more: Info = {}): Info {
  return {
    organizationId: organization,
    name: "fruit",
    version: "1.0.0",
    type: PackageType.ML_MODEL,
    ...more,
  };
}

async function failing(run: Promise<unknown>): Promise<SvcError> {
  return await assertRejects(() => run, SvcError);
}

/** The names of all contents that are kept, half ones included. */
function filesIn(folder: string): string[] {
  const files = [...Deno.readDirSync(`${folder}/files`)].flatMap(({ name, isDirectory }) =>
    isDirectory ? [...Deno.readDirSync(`${folder}/files/${name}`)].map((one) => one.name) : [name]
  );
  return files;
}

storeTest(
  "CreatePackage takes a package in pieces, and it is found, listed and deleted",
  (database) =>
    withCloud(database, async (served) => {
      const world = await newWorld(served.store);
      const packages = await packagesOf(served, world.owner);
      const whole = await archive();
      const info = fruit(world, {
        files: [{ name: "model", size: 0n, isDirectory: true }, {
          name: "model/labels.txt",
          size: BigInt(LABELS.length),
        }],
        metadata: { model_type: "object_detection", model_framework: "onnx", note: "first" },
      });
      const id = `${world.organization}/fruit`;
      const made = await packages.createPackage(upload(info, whole.slice(0, 10), whole.slice(10)));
      assertEquals([made.id, made.version], [id, "1.0.0"]);
      const { package: found } = await packages.getPackage({ id, version: "latest" });
      assertEquals([found?.info?.version, found?.url, found?.info?.type], [
        "1.0.0",
        "",
        PackageType.ML_MODEL,
      ]);
      assertEquals(found?.info?.metadata?.note, "first");
      assertEquals(filesIn(database.folder), [found?.checksum]);
      const wrongType = packages.getPackage({ id, version: "1.0.0", type: PackageType.MODULE });
      assertEquals((await failing(wrongType)).code, "not_found");
      const { item } = await (await served.app(world.operator)).getRegistryItem({
        itemId: `${world.organization}:fruit`,
      });
      assertEquals(item?.metadata.case, "mlModelMetadata");
      const about = item?.metadata.value as {
        modelType: ModelType;
        modelFramework: ModelFramework;
        versions: string[];
      };
      assertEquals([about.modelType, about.modelFramework], [
        ModelType.OBJECT_DETECTION,
        ModelFramework.ONNX,
      ]);
      assertEquals(about.versions, ["1.0.0"]);
      const again = await failing(packages.createPackage(upload(info, whole)));
      assertEquals(again.code, "already_exists");
      assertStringIncludes(again.message, "1.0.0");
      const { packages: listed } = await packages.listPackages({ organizationId: world.organization });
      assertEquals(listed.map((one) => one.id), [id]);
      await packages.deletePackage({ id, version: "1.0.0" });
      assertEquals((await failing(packages.getPackage({ id, version: "1.0.0" }))).code, "not_found");
      assertEquals(filesIn(database.folder), []);
    }),
);

storeTest(
  "a broken or inconsistent upload is refused and leaves no files behind",
  (database) =>
    withCloud(database, async (served) => {
      const world = await newWorld(served.store);
      const packages = await packagesOf(served, world.owner);
      const whole = await archive();
      const listing = (name: string, size: number) => ({ files: [{ name, size: BigInt(size) }] });
      const cases: [what: string, requests: AsyncIterable<never>, code: string][] = [
        ["breaks off", upload(fruit(world), whole.slice(0, 20), new SvcError("aborted", "gone")), "any"],
        ["half an archive", upload(fruit(world), whole.slice(0, 20)), "invalid_argument"],
        ["no archive", upload(fruit(world), LABELS), "invalid_argument"],
        ["nothing", upload(fruit(world)), "invalid_argument"],
        ["another size", upload(fruit(world, listing("model/labels.txt", 3)), whole), "invalid_argument"],
        ["another file", upload(fruit(world, listing("model/other.txt", 11)), whole), "invalid_argument"],
        ["no type", upload(fruit(world, { type: 0 }), whole), "invalid_argument"],
        ["a bad name", upload(fruit(world, { name: "../../etc" }), whole), "invalid_argument"],
        [
          "a bad visibility",
          upload(fruit(world, { metadata: { visibility: "secret" } }), whole),
          "invalid_argument",
        ],
        [
          "seen by all, from an organization without a public name",
          upload(fruit(world, { metadata: { visibility: "public" } }), whole),
          "failed_precondition",
        ],
      ];
      for (const [what, requests, code] of cases) {
        const error = await failing(packages.createPackage(requests));
        if (code !== "any") assertEquals(error.code, code, what);
        // A call that was cut off may still be on its way out.
        await until(() => filesIn(database.folder).length === 0, { found: () => what });
      }
      const { packages: listed } = await packages.listPackages({ organizationId: world.organization });
      assertEquals(listed, []);
      const app = await served.app(world.owner);
      assertEquals((await app.listRegistryItems({})).items, []);
      // Of two at once one wins, and the other one's content goes.
      const both = await Promise.allSettled(
        [1, 2].map(() => packages.createPackage(upload(fruit(world), whole))),
      );
      assertEquals(both.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
      assertEquals(filesIn(database.folder).length, 1);
    }),
);

storeTest(
  "private items are visible to their organization, public ones to everybody, under both names",
  (database) =>
    withCloud(database, async (served) => {
      const { store, app } = served;
      const [mine, other] = [await newWorld(store), await newWorld(store)];
      const [owner, stranger] = [await app(mine.owner), await app(other.owner)];
      const organizationId = mine.organization;
      const machine = await packagesOf(served, await newKey(store, "operator", "machine", mine.machine));
      const foreign = await packagesOf(served, other.owner);
      await (await packagesOf(served, mine.owner)).createPackage(upload(fruit(mine), await archive()));
      const itemId = `${organizationId}:fruit`;
      const reached = async () => {
        const listed = (await stranger.listRegistryItems({})).items.some(({ name }) => name === "fruit");
        const code = await foreign.getPackage({ id: itemId, version: "latest" }).then(
          () => "ok",
          (error) => error.code,
        );
        return [listed, code];
      };
      assertEquals(await reached(), [false, "not_found"]);
      // A machine reads the packages of its organization.
      assertEquals(
        (await machine.getPackage({ id: itemId, version: "latest" })).package?.info?.name,
        "fruit",
      );
      const publish = (visibility: Visibility) =>
        owner.updateRegistryItem({
          itemId,
          type: PackageType.ML_MODEL,
          description: "Apples and pears",
          visibility,
        });
      assertEquals((await failing(publish(Visibility.PUBLIC))).code, "failed_precondition");
      const { organization } = await owner.updateOrganization({ organizationId, publicNamespace: "orchard" });
      assertEquals(organization?.publicNamespace, "orchard");
      await publish(Visibility.PUBLIC_UNLISTED);
      assertEquals(await reached(), [false, "ok"]);
      await publish(Visibility.PUBLIC);
      assertEquals(await reached(), [true, "ok"]);
      const [item] = (await stranger.listRegistryItems({ searchTerm: "PEARS" })).items;
      assertEquals([item.itemId, item.publicNamespace], ["orchard:fruit", "orchard"]);
      assertEquals(
        (await stranger.getRegistryItem({ itemId: "orchard:fruit" })).item?.description,
        "Apples and pears",
      );
      const turned = owner.updateRegistryItem({ itemId: "orchard:fruit", type: PackageType.MODULE });
      assertStringIncludes((await failing(turned)).message, "found type module, wanted the same");
      const theft = stranger.updateRegistryItem({ itemId: "orchard:fruit", description: "mine" });
      assertEquals((await failing(theft)).code, "permission_denied");
      assertEquals((await stranger.listRegistryItems({ types: [PackageType.MODULE] })).items, []);
      await owner.deleteRegistryItem({ itemId: "orchard:fruit" });
      assertEquals(await reached(), [false, "not_found"]);
      assertEquals(filesIn(database.folder), []);
    }),
);

storeTest(
  "modules: versions for each platform, each with the module's models at its upload",
  (database) =>
    withCloud(database, async (served) => {
      const { store, app, channel } = served;
      const world = await newWorld(store);
      const owner = await app(world.owner);
      const { moduleId } = await owner.createModule({ organizationId: world.organization, name: "arms" });
      assertEquals(moduleId, `${world.organization}:arms`);
      const model = { api: "rdk:component:arm", model: "acme:arm:two" };
      await owner.updateModule({ moduleId, description: "Arms", models: [model], entrypoint: "run.sh" });
      const gzip = Uint8Array.of(0x1f, 0x8b, 8, 0);
      const send = async (version: string, platform: string, bytes = gzip) => {
        const calls = client(AppService, await channel(world.owner));
        return await calls.uploadModuleFile((async function* () {
          const value = { moduleId, version, platform };
          yield { moduleFile: { case: "moduleFileInfo" as const, value } };
          yield { moduleFile: { case: "file" as const, value: bytes } };
        })());
      };
      await send("1.0.0", "linux/amd64");
      await send("1.0.0", "linux/arm64", Uint8Array.of(0x1f, 0x8b, 8, 1));
      await owner.updateRegistryItem({
        itemId: moduleId,
        type: PackageType.MODULE,
        visibility: Visibility.UNSPECIFIED,
        metadata: {
          case: "updateModuleMetadata",
          value: {
            models: [],
            entrypoint: "main.py",
            sourceType: ModuleSourceType.EXTERNAL,
            language: ModuleLanguage.PYTHON,
          },
        },
      });
      await send("1.1.0", "any");
      const { module } = await owner.getModule({ moduleId });
      assertEquals([module?.description, module?.entrypoint, module?.models.length], ["Arms", "main.py", 0]);
      assertEquals(
        module?.versions.map(({ version, entrypoint, models, files }) => ({
          version,
          entrypoint,
          models: models.map((one) => one.model),
          platforms: files.map(({ platform }) => platform),
        })),
        [
          {
            version: "1.0.0",
            entrypoint: "run.sh",
            models: ["acme:arm:two"],
            platforms: ["linux/amd64", "linux/arm64"],
          },
          { version: "1.1.0", entrypoint: "main.py", models: [], platforms: ["any"] },
        ],
      );
      assertEquals((await failing(send("1.0.0", "linux/amd64"))).code, "already_exists");
      assertEquals((await failing(send("first", "any"))).code, "invalid_argument");
      assertEquals((await failing(send("2.0.0", "any", LABELS))).code, "invalid_argument");
      assertEquals((await owner.listModules({})).modules.length, 1);
      const { items } = await owner.listRegistryItems({ platforms: ["linux/arm64"] });
      assertEquals(items.map(({ name }) => name), ["arms"]);
      const unready = { statuses: [RegistryItemStatus.IN_DEVELOPMENT] };
      assertEquals((await owner.listRegistryItems(unready)).items, []);
      const packages = await packagesOf(served, world.owner);
      const platform = "linux/arm64";
      const found = await packages.getPackage({ id: moduleId, version: "1.0.0", platform });
      assertEquals(found.package?.info?.platform, platform);
    }),
);

storeTest(
  "an operator creates an organization if serve allows anybody, and only owners change roles",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const world = await newWorld(store);
      const [owner, operator] = [await app(world.owner), await app(world.operator)];
      const { organization } = await operator.createOrganization({ name: `of ${world.part}` });
      const organizationId = organization!.id;
      await operator.updateOrganization({ organizationId, name: `still of ${world.part}` });
      assertEquals((await failing(owner.getOrganization({ organizationId }))).code, "permission_denied");
      const ask = async () => {
        const permissions = ["control_machine", "configure_machine"];
        const { authorizedPermissions } = await operator.checkPermissions({
          permissions: [{ resourceType: "robot", resourceId: world.machine, permissions }, {
            resourceType: "robot",
            resourceId: "nothing",
            permissions,
          }],
        });
        return authorizedPermissions.map((one) => one.permissions);
      };
      assertEquals(await ask(), [["control_machine"]]);
      const role = (word: string) => ({
        authorizationType: "role",
        authorizationId: `organization_${word}`,
        resourceType: "organization",
        resourceId: world.organization,
        identityId: world.operator.id,
        identityType: "api-key",
      });
      const change = { oldAuthorization: role("operator"), newAuthorization: role("owner") };
      assertEquals((await failing(operator.changeRole(change))).code, "permission_denied");
      await owner.changeRole(change);
      assertEquals(await ask(), [["control_machine", "configure_machine"]]);
      assertEquals((await failing(owner.changeRole(change))).code, "not_found");
    }, { organizations: "anybody" }),
);
