/**
 * A tour of the registry with the published TypeScript SDK, as `cloud_tour.mjs` is one of the rest.
 *
 * Use: registry_tour.mjs URL KEY_ID KEY
 */

import process from "node:process";

// Where there are workers the library takes itself to be in a browser and starts one of a kind that Deno has not.
delete globalThis.Worker;

const { appApi, createViamClient } = await import("@viamrobotics/sdk");
const [serviceHost, authEntity, payload] = process.argv.slice(2);
const credentials = { type: "api-key", authEntity, payload };
const { appClient: app } = await createViamClient({ serviceHost, credentials });
const { Visibility, RegistryItemStatus } = appApi;
/** Of `viam.app.packages.v1.PackageType`, which the library does not export. */
const [ML_MODEL, MODULE] = [2, 3];
const seen = {};

const [{ id: organization }] = await app.listOrganizations();
await app.createRegistryItem(organization, "fruit", ML_MODEL);
const publish = (visibility) =>
  app.updateRegistryItem(`${organization}:fruit`, ML_MODEL, "Apples", visibility);
seen.refused = await publish(Visibility.PUBLIC).then(() => "done", ({ code }) => code);
const { publicNamespace } = await app.updateOrganization(organization, undefined, "orchard");
seen.namespace = publicNamespace;
await publish(Visibility.PUBLIC);
const item = await app.getRegistryItem("orchard:fruit");
seen.item = { id: item.itemId, description: item.description, kind: item.metadata.case };

const { moduleId } = await app.createModule(organization, "arms");
const models = [new appApi.Model({ api: "rdk:component:arm", model: "orchard:arm:two" })];
await app.updateModule(moduleId, Visibility.PRIVATE, "https://example.com", "Arms", models, "run.sh");
const module = await app.getModule(moduleId);
seen.module = { id: module.moduleId, url: module.url, models: module.models.map(({ model }) => model) };
seen.modules = (await app.listModules(organization)).map(({ name }) => name);

const list = async (types, visibilities, statuses) =>
  (await app.listRegistryItems(organization, types, visibilities, [], statuses)).map(({ name }) => name);
seen.lists = [
  await list([], [], []),
  await list([MODULE], [], []),
  await list([], [Visibility.PUBLIC], []),
  await list([], [], [RegistryItemStatus.PUBLISHED]),
];
const asked = { resourceType: "organization", resourceId: organization, permissions: ["read_organization"] };
const [granted] = await app.checkPermissions([new appApi.AuthorizedPermissions(asked)]);
seen.permissions = granted.permissions;
await app.deleteRegistryItem("orchard:fruit");
seen.gone = await app.getRegistryItem("orchard:fruit").then(() => "there", ({ code }) => code);

console.log(JSON.stringify(seen));
process.exit(0);
