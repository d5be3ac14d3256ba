/**
 * A tour of a control plane with the published TypeScript SDK, as a program of its own: it runs in Node and in Deno.
 * It prints one JSON object of what it saw; the test that started it judges.
 *
 * Use: cloud_tour.mjs URL KEY_ID KEY [grpc|grpc-web]
 */

import process from "node:process";

// Where there are workers the library takes itself to be in a browser and starts one of a kind that Deno has not.
delete globalThis.Worker;

const { appApi, createViamClient, Struct } = await import("@viamrobotics/sdk");
const [serviceHost, authEntity, payload, transport = "grpc-web"] = process.argv.slice(2);

if (transport === "grpc") {
  const { createGrpcTransport } = await import("@connectrpc/connect-node");
  globalThis.VIAM = {
    GRPC_TRANSPORT_FACTORY: (options) => createGrpcTransport({ httpVersion: "2", ...options }),
  };
}

const connect = (credentials) =>
  createViamClient({ serviceHost, credentials: { type: "api-key", ...credentials } });
const { appClient: app } = await connect({ authEntity, payload });
const seen = {};

const [organization] = await app.listOrganizations();
seen.organization = organization.name;
seen.same = (await app.getOrganization(organization.id)).id === organization.id;
const location = await app.createLocation(organization.id, `hall ${transport}`);
seen.locations = (await app.listLocations(organization.id)).map(({ name }) => name).includes(location.name);

const machineId = await app.newRobot(location.id, "rover");
const machine = await app.getRobot(machineId);
seen.machine = { name: machine.name, here: machine.location === location.id };
const [part] = await app.getRobotParts(machineId);
seen.part = { name: part.name, main: part.mainPart, fqdn: part.fqdn };

const config = (maxRpm) =>
  Struct.fromJson({
    components: [{ name: "m", api: "rdk:component:motor", model: "fake", attributes: { max_rpm: maxRpm } }],
  });
await app.updateRobotPart(part.id, "renamed", config(10));
await app.updateRobotPart(part.id, "renamed", config(20));
const { part: changed, configJson } = await app.getRobotPart(part.id);
seen.changed = { name: changed.name, maxRpm: JSON.parse(configJson).components[0].attributes.max_rpm };
const history = await app.getRobotPartHistory(part.id);
seen.history = history.map(({ old, editedBy }) => ({
  maxRpm: old.robotConfig.toJson().components?.[0].attributes.max_rpm ?? null,
  mine: editedBy.value === authEntity,
}));
seen.bad = await app.updateRobotPart(part.id, "renamed", config("fast")).then(
  () => "saved",
  ({ message }) => message,
);

const fragment = await app.createFragment(organization.id, `shared ${transport}`, config(1));
seen.fragments = (await app.listFragments(organization.id)).map(({ id }) => id).includes(fragment.id);
seen.ofMachine = (await app.listMachineFragments(machineId, [fragment.id])).map(({ id }) =>
  id === fragment.id
);

const authorization = new appApi.Authorization({
  authorizationType: "role",
  authorizationId: "robot_operator",
  organizationId: organization.id,
  resourceType: "robot",
  resourceId: machineId,
});
const { id: keyId, key } = await app.createKey([authorization], "operator's");
seen.keys = (await app.listKeys(organization.id)).map(({ apiKey }) => apiKey.id).includes(keyId);
const operator = await connect({ authEntity: keyId, payload: key });
seen.operator = (await operator.appClient.getRobot(machineId)).name;
seen.denied = await operator.appClient.deleteRobot(machineId).then(() => "done", ({ code }) => code);
await app.deleteKey(keyId);
seen.revoked = await operator.appClient.getRobot(machineId).then(() => "done", ({ code }) => code);
seen.wrong = await connect({ authEntity, payload: "wrong" }).then(() => "done", ({ code }) => code);

await app.markPartForRestart(part.id);
seen.logs = (await app.getRobotPartLogs(part.id)).logs.length;
seen.summaries = (await app.listMachineSummaries(organization.id, [], [location.id]))
  .flatMap(({ machineSummaries }) => machineSummaries.map(({ machineName }) => machineName));
await app.deleteRobot(machineId);
seen.robotsLeft = (await app.listRobots(location.id)).length;

console.log(JSON.stringify(seen));
process.exit(0);
