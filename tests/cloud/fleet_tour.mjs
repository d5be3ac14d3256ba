/**
 * A tour of calls about the whole fleet with the published TypeScript SDK: metadata, secrets, shared locations.
 *
 * Use: fleet_tour.mjs URL KEY_ID KEY. The key owns two organizations, `example` and `guest`.
 */

import process from "node:process";

// Where there are workers the library takes itself to be in a browser and starts one of a kind that Deno has not.
delete globalThis.Worker;

const { appApi, createViamClient } = await import("@viamrobotics/sdk");
const [serviceHost, authEntity, payload] = process.argv.slice(2);
const { appClient: app } = await createViamClient({
  serviceHost,
  credentials: { type: "api-key", authEntity, payload },
});
const seen = {};

const organizations = await app.listOrganizations();
const [example, guest] = ["example", "guest"].map((wanted) =>
  organizations.find(({ name }) => name === wanted)
);
const location = await app.createLocation(example.id, "yard");
const machineId = await app.newRobot(location.id, "barrow");
const [part] = await app.getRobotParts(machineId);

const notes = { shelf: 7, keys: ["a", "b"] };
await app.updateOrganizationMetadata(example.id, notes);
await app.updateLocationMetadata(location.id, notes);
await app.updateRobotMetadata(machineId, notes);
await app.updateRobotPartMetadata(part.id, notes);
seen.metadata = [
  await app.getOrganizationMetadata(example.id),
  await app.getLocationMetadata(location.id),
  await app.getRobotMetadata(machineId),
  await app.getRobotPartMetadata(part.id),
];

const made = await app.createLocationSecret(location.id);
const known = await app.locationAuth(location.id);
seen.locationSecret = [made.secrets.length, made.secrets[0].secret !== "", known.secrets[0].secret];
await app.deleteLocationSecret(location.id, made.secrets[0].id);
seen.locationSecretsLeft = (await app.locationAuth(location.id)).secrets.length;
const withSecret = await app.createRobotPartSecret(part.id);
seen.partSecret = [withSecret.secrets.length, withSecret.secret === withSecret.secrets[0].secret];
await app.deleteRobotPartSecret(part.id, withSecret.secrets[0].id);
seen.partSecretsLeft = (await app.getRobotPart(part.id)).part.secrets.length;

await app.shareLocation(guest.id, location.id);
seen.access = (await app.getOrganizationsWithAccessToLocation(location.id)).map(({ name }) => name).sort();
seen.guests = (await app.listLocations(guest.id)).map(({ name }) => name);
await app.unshareLocation(guest.id, location.id);
seen.guestsLeft = (await app.listLocations(guest.id)).length;

seen.free = await app.getOrganizationNamespaceAvailability("orchard");
const codeOf = (call) => call.then(() => "done", ({ code }) => code);
const ann = "ann@example.com";
const role = (resourceType, resourceId, word) =>
  new appApi.Authorization({
    authorizationType: "role",
    authorizationId: `${resourceType}_${word}`,
    resourceType,
    resourceId,
  });
await app.createOrganizationInvite(example.id, ann, [role("organization", example.id, "owner")], false);
await app.updateOrganizationInviteAuthorizations(
  example.id,
  ann,
  [role("location", location.id, "operator")],
  [role("organization", example.id, "owner")],
);
await app.resendOrganizationInvite(example.id, ann);
const { members, invites } = await app.listOrganizationMembers(example.id);
seen.invited = [
  members.length,
  ...invites.map(({ email, authorizations }) => [email, ...authorizations.map((one) => one.authorizationId)]),
];
await app.deleteOrganizationInvite(example.id, ann);
seen.invitedLeft = (await app.listOrganizationMembers(example.id)).invites.length;
seen.nobody = [
  await codeOf(app.getUserIDByEmail("nobody@example.com")),
  await codeOf(app.deleteOrganizationMember(example.id, "nobody")),
  (await app.listOrganizationsByUser("nobody")).length,
];
seen.unserved = await codeOf(app.getRoverRentalRobots(example.id));
await app.deleteRobot(machineId);
await app.deleteLocation(location.id);

console.log(JSON.stringify(seen));
process.exit(0);
