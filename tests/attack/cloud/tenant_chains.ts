/**
 * Chains between tenants, and between people of one tenant: fragments that multiply, secrets of fragments, names of
 * machines, and machines that change hands.
 */

import { X509Certificate } from "node:crypto";
import { AppService } from "../../../proto/gen/app_pb.ts";
import { ExternalAuthService } from "../../../proto/gen/auth_pb.ts";
import { RobotService } from "../../../proto/gen/robot_config_pb.ts";
import { RolloutService } from "../../../proto/gen/rollouts_pb.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { client } from "../../../lib/wire/rpc/channel.ts";
import type { JsonObject } from "../../../lib/wire/rpc/proto.ts";
import { svcCloud } from "../../cloud/program.ts";
import type { Chain, ChainSetting } from "./chains.ts";
import { callAs, type Credentials } from "./tenant.ts";
import { awaitOutcome } from "../../support/outcome.ts";

export const TENANT_CHAINS: readonly Chain[] = [
  { name: "fragments that multiply, and variables that hold variables", play: multiplyFragments },
  { name: "the owner of one machine reads the secrets of a fragment", play: readFragment },
  { name: "a part is named like another's", play: takeName },
  { name: "a machine in another organization is still open to its former one", play: keepMachine },
  { name: "a rollout reaches for another's machines, fragments and modules", play: rollOut },
];

/** Whatever selects machines selects those of one's own alone, and what others have is not found. */
async function rollOut({ place, attacker, victim }: ChainSetting): Promise<string[]> {
  return await callAs(place, attacker.owner, async (channel) => {
    const rollouts = client(RolloutService, channel);
    const found: string[] = [];
    const own = { kind: "fragment", id: attacker.ids.fragment, version: "1" };
    const program = { kind: "svc-server", id: "", version: "stable" };
    const tries = {
      "their organization": { organizationId: victim.ids.organization, change: program },
      "their part": { partIds: [victim.ids.part], change: program },
      "their location": { locationIds: [victim.ids.location], change: program },
      "their fragment": { change: { ...own, id: victim.ids.fragment } },
      "their fragment's next revision": { change: { ...own, id: victim.ids.fragment }, fragmentConfig: "{}" },
      "their module": { change: { kind: "module", id: victim.ids.package, version: "1.0.0" } },
    };
    for (const [what, order] of Object.entries(tries)) {
      const started = rollouts.startRollout({ organizationId: attacker.ids.organization, ...order });
      const output = await started.then(() => "ok", (error) => SvcError.from(error).message);
      if (output === "ok") found.push(`a rollout to ${what} began`);
      if (output.includes(victim.secret)) found.push(`a rollout to ${what} was refused with: ${output}`);
    }
    const id = victim.ids.rollout;
    const calls = {
      shown: () => rollouts.getRollout({ id }),
      listed: () => rollouts.listRolloutParts({ id }),
      aborted: () => rollouts.abortRollout({ id, revert: true }),
      resumed: () => rollouts.resumeRollout({ id }),
    };
    for (const [what, call] of Object.entries(calls)) {
      if (await awaitOutcome(call()) === "ok") found.push(`another's rollout was ${what}`);
    }
    return found;
  });
}

async function multiplyFragments({ place, attacker, victim }: ChainSetting): Promise<string[]> {
  return await callAs(place, attacker.owner, async (channel) => {
    const app = client(AppService, channel);
    const organizationId = attacker.ids.organization;
    const found: string[] = [];
    const towers = {
      references: (id: string): JsonObject => ({
        fragments: Array.from({ length: 40 }, (_, index) => ({ id, variables: { index } })),
      }),
      variables: (id: string): JsonObject => ({
        fragments: [{ id, variables: { a: Array(80).fill({ $variable: { name: "a" } }) } }],
      }),
    };
    for (const [name, above] of Object.entries(towers)) {
      let config: JsonObject = { list: Array(40).fill({ $variable: { name: "a" } }) };
      let refused = "";
      for (let level = 0; level < 6 && refused === ""; level++) {
        const make = app.createFragment({ organizationId, name: `${name} ${level}`, config });
        const made = await make.catch((error) => {
          refused = SvcError.from(error).code;
          return undefined;
        });
        if (made) config = above(made.fragment!.id);
      }
      const robotConfig = refused === "" ? config : undefined;
      const saved = robotConfig &&
        await awaitOutcome(app.updateRobotPart({ id: attacker.ids.part, robotConfig }));
      if (saved === "ok") found.push(`a tower of ${name} was saved`);
    }
    const others = await awaitOutcome(
      callAs(
        place,
        victim.owner,
        (channel) => client(AppService, channel).getOrganization({ organizationId: victim.ids.organization }),
      ),
    );
    return others === "ok" ? found : [...found, `the victim was told: ${others}`];
  });
}

/** Here the attacker belongs to the victim's own people, and owns one machine alone. */
async function readFragment({ place, victim }: ChainSetting): Promise<string[]> {
  const secret = `sesame-${victim.secret}`;
  const { machine, part } = victim.neighbour;
  const [fragmentId, thief] = await callAs(place, victim.owner, async (channel) => {
    const app = client(AppService, channel);
    const { fragment } = await app.createFragment({
      organizationId: victim.ids.organization,
      name: `safe of ${victim.secret}`,
      config: {
        components: [{
          name: "a",
          api: "rdk:component:generic",
          model: "fake",
          attributes: { password: secret },
        }],
      },
    });
    const authorization = {
      authorizationType: "role",
      authorizationId: "robot_owner",
      resourceType: "robot",
      resourceId: machine,
    };
    return [
      fragment!.id,
      await app.createKey({ name: `thief of ${victim.secret}`, authorizations: [authorization] }),
    ];
  });
  return await callAs(place, thief, async (channel) => {
    const app = client(AppService, channel);
    const robotConfig = { fragments: [fragmentId] };
    const found = [];
    if (await awaitOutcome(app.updateRobotPart({ id: part, robotConfig })) === "ok") {
      found.push("the fragment was added");
    }
    const looks = [
      () => client(RobotService, channel).config({ id: part }),
      () => app.listMachineFragments({ machineId: machine, additionalFragmentIds: [fragmentId] }),
      () => app.getFragment({ id: fragmentId }),
      () =>
        app.updateRobotPart({
          id: part,
          robotConfig: { ...robotConfig, network: { bind_address: "nowhere" } },
        }),
    ];
    for (const [index, look] of looks.entries()) {
      const logged = await look().then(
        (answer) => JSON.stringify(answer, (_, one) => typeof one === "bigint" ? `${one}` : one),
        (error) => String(error),
      );
      if (logged.includes(secret)) found.push(`look ${index} showed it`);
    }
    return found;
  });
}

async function takeName({ place, victim }: ChainSetting): Promise<string[]> {
  const { part, machine, key } = victim.neighbour;
  return await callAs(place, victim.owner, async (channel) => {
    const app = client(AppService, channel);
    const held = (await app.getRobotPart({ id: victim.ids.part })).part!;
    const before = (await app.getRobot({ id: machine })).robot!;
    await app.updateRobot({ id: machine, location: victim.ids.location });
    await app.updateRobotPart({ id: part, name: held.name });
    const found: string[] = [];
    const taken = (await app.getRobotPart({ id: part })).part!;
    if (taken.fqdn === held.fqdn) found.push("two parts have one name");
    const { tlsCertificate } = await callAs(
      place,
      key,
      (own) => client(RobotService, own).certificate({ id: part }),
    );
    const names = new X509Certificate(tlsCertificate.split("\n\n")[0]).subjectAltName ?? "";
    if (names.includes(`DNS:${held.fqdn}`)) found.push(`a certificate for ${held.fqdn}`);
    const opened = await callAs(
      place,
      key,
      (own) => awaitOutcome(client(ExternalAuthService, own).authenticateTo({ entity: held.fqdn })),
    );
    if (opened === "ok") found.push("the other's name leads to the thief");
    await app.updateRobot({ id: machine, location: before.location });
    return found;
  });
}

/** The attacker gives a machine away with the consent of both, and comes back with the keys from before. */
async function keepMachine({ place, attacker, victim }: ChainSetting): Promise<string[]> {
  const host = async (...words: string[]) => JSON.parse(await svcCloud(...words, "--json", ...place.flags));
  const given = await host(
    "machine",
    "create",
    "gift",
    "--org",
    attacker.ids.organization,
    "--location",
    attacker.ids.location,
  );
  const own = given.key as Credentials;
  const mover = await host(
    "key",
    "create",
    "--role",
    "owner",
    "--on",
    `organization:${attacker.ids.organization}`,
  );
  const unmoved = await callAs(
    place,
    mover,
    (channel) =>
      awaitOutcome(client(AppService, channel).updateRobot({ id: given.id, location: victim.ids.location })),
  );
  if (unmoved === "ok") return ["a machine was moved into the victim's location"];
  await host("key", "grant", mover.id, "--role", "owner", "--on", `organization:${victim.ids.organization}`);
  return await callAs(place, own, async (held) => {
    await callAs(
      place,
      mover,
      (channel) => client(AppService, channel).updateRobot({ id: given.id, location: victim.ids.location }),
    );
    await callAs(place, victim.owner, (channel) =>
      client(AppService, channel).updateRobotPart({
        id: given.partId,
        robotConfig: { note: { password: victim.secret } },
      }));
    const robot = client(RobotService, held);
    const found: string[] = [];
    for (
      const [what, look] of Object.entries({
        configuration: () => robot.config({ id: given.partId }),
        "private key": () => robot.certificate({ id: given.partId }),
      })
    ) {
      if (await awaitOutcome(look()) === "ok") found.push(`the former key got the ${what}`);
    }
    await host("key", "revoke", mover.id);
    await callAs(place, victim.owner, (channel) => client(AppService, channel).deleteRobot({ id: given.id }));
    return found;
  });
}
