/**
 * Configuration of machines: saving by people, polling by machines, and the history.
 */

import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { X509Certificate } from "node:crypto";
import { OnlineState } from "../../proto/gen/app_pb.ts";
import { MODELS } from "../../drivers/mod.ts";
import { APIS } from "../../lib/api/mod.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { AgentDeviceService } from "../../proto/gen/agent_pb.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { Fragments } from "../../lib/cloud/config/fragments/fragments.ts";
import { PartConfigs } from "../../lib/cloud/config/part_config.ts";
import { configText } from "../../lib/cloud/config/resolution.ts";
import { Registry } from "../../lib/resource/registry.ts";
import { decodeConfig } from "../../lib/machine/config/config.ts";
import type { NewKey } from "../../lib/cloud/access/keys.ts";
import { svcCloud } from "./program.ts";
import { storeTest } from "./stores.ts";
import { newKey, newWorld, ownKey, withCloud } from "./world.ts";

const registry = new Registry(APIS, MODELS);
const validate = async (json: unknown) => (await decodeConfig(json, registry, { env: () => "" })).problems;

function motor(name: string, attributes: JsonObject = {}): JsonObject {
  return { name, api: "rdk:component:motor", model: "fake", attributes };
}

storeTest(
  "UpdateRobotPart saves a configuration, and the machine receives it as typed messages",
  (database) =>
    withCloud(database, async ({ store, app, robot }) => {
      const { owner, part: id, machine, location, organization } = await newWorld(store);
      const [people, rover] = [
        await app(owner),
        await robot(await newKey(store, "operator", "machine", machine)),
      ];
      const empty = (await rover.config({ id })).config!;
      assertEquals([empty.components, empty.revision], [[], "0"]);
      const robotConfig: JsonObject = {
        components: [{
          ...motor("left", { max_rpm: 90.5, pins: { a: "1" } }),
          depends_on: ["board"],
          frame: {
            parent: "world",
            translation: { x: 1, y: 2, z: 3 },
            orientation: { type: "ov_degrees", value: { x: 0, y: 0, z: 1, th: 90 } },
            geometry: { type: "box", x: 4, y: 5, z: 6 },
          },
          log_configuration: { level: "debug" },
          service_configs: [{ type: "data_manager", attributes: { capture: true } }],
        }, { name: "board", api: "rdk:component:board", model: "fake", attributes: { fail_new: false } }],
        network: { bind_address: ":9090", sessions: { heartbeat_window: "5s" } },
        remotes: [{ name: "other", address: "host:1", insecure: true }],
        maintenance: { sensor_name: "rdk:component:sensor/door", maintenance_allowed_key: "open" },
        log: [{ pattern: "rdk.*", level: "warn" }],
        jobs: [{ name: "j", schedule: "5m", resource: "left", method: "DoCommand", command: { a: 1 } }],
        debug: true,
      };
      await people.updateRobotPart({ id, name: "rover-main", robotConfig });
      const { config } = await rover.config({ id });
      const [left] = config!.components;
      assertEquals([left.name, left.api, left.model, left.type], [
        "left",
        "rdk:component:motor",
        "rdk:builtin:fake",
        "motor",
      ]);
      assertEquals(left.attributes, { max_rpm: 90.5, pins: { a: "1" } });
      assertEquals([left.dependsOn, left.logConfiguration?.level], [["board"], "debug"]);
      assertEquals(left.frame?.orientation?.type.case, "vectorDegrees");
      assertEquals(left.frame?.geometry?.geometryType.case, "box");
      assertEquals(left.serviceConfigs.map(({ type }) => type), ["rdk:service:data_manager"]);
      assertEquals(config!.network?.sessions?.heartbeatWindow?.seconds, 5n);
      assertEquals(config!.maintenance?.sensorName?.name, "door");
      assertEquals([config!.debug, config!.jobs[0].command, config!.remotes[0].insecure], [
        true,
        { a: 1 },
        true,
      ]);
      assertEquals(config!.revision, "1");
      const { cloud } = config!;
      assertEquals(
        [cloud?.id, cloud?.machineId, cloud?.locationId, cloud?.primaryOrgId, cloud?.fqdn],
        [id, machine, location, organization, `rover-main.${location}.svc.internal`],
      );
    }, { validate }),
);

storeTest(
  "UpdateRobotPart refuses a bad configuration, lists every error and changes nothing",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const { owner, part: id } = await newWorld(store);
      const people = await app(owner);
      const robotConfig: JsonObject = {
        components: [motor("a", { max_rpm: "fast" }), motor("b", { encoder: 5 })],
        network: { bind_address: "nowhere" },
      };
      const error = await failing(people.updateRobotPart({ id, name: "", robotConfig }));
      assertEquals(error.code, "invalid_argument");
      for (
        const path of ["components.0.attributes.max_rpm", "components.1.attributes", "network.bind_address"]
      ) {
        assertMatch(error.message, new RegExp(path.replaceAll(".", "\\.")));
      }
      assertEquals((await people.getRobotPart({ id })).configJson, "{}");
      assertEquals((await people.getRobotPartHistory({ id })).history, []);
    }, { validate }),
);

storeTest("the history shows who changed what and when, and every revision can be restored", (database) => {
  const clock = new FakeClock();
  return withCloud(database, async ({ store, app }) => {
    const { owner, part: id } = await newWorld(store);
    const people = await app(owner);
    const configs = [1, 2, 3].map((number) => ({ components: [motor("m", { max_rpm: number })] }));
    for (const robotConfig of configs) {
      await clock.advance(1000);
      await people.updateRobotPart({ id, name: "", robotConfig });
    }
    await people.updateRobotPart({ id, name: "", robotConfig: configs[2] });
    const { history } = await people.getRobotPartHistory({ id });
    assertEquals(history.map(({ old }) => old?.robotConfig), [configs[1], configs[0], {}]);
    assertEquals(history.map(({ editedBy }) => editedBy?.value), [owner.id, owner.id, owner.id]);
    assertEquals(new Set(history.map(({ when }) => when?.seconds)).size, 3);
    const page = await people.getRobotPartHistory({ id, pageLimit: 2n });
    const rest = await people.getRobotPartHistory({ id, pageToken: page.nextPageToken });
    assertEquals([page.history.length, rest.history.map(({ old }) => old?.robotConfig)], [2, [{}]]);
    const stored = new PartConfigs(store);
    assertEquals(await stored.at(id, 2), configs[1]);
    assertEquals(await stored.at(id, 0), {});
    assertEquals((await failing(stored.at(id, 9))).code, "not_found");
  }, { clock });
});

storeTest(
  "of two concurrent changes the second fails",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const { owner, part: id } = await newWorld(store);
      const people = await app(owner);
      const { part } = await people.getRobotPart({ id });
      const lastKnownUpdate = part!.lastUpdated;
      await people.updateRobotPart({ id, name: "", robotConfig: { debug: true }, lastKnownUpdate });
      const late = people.updateRobotPart({ id, name: "", robotConfig: { debug: false }, lastKnownUpdate });
      assertEquals((await failing(late)).code, "aborted");
    }),
);

storeTest(
  "configurations include nested fragments with variables and mods, and follow changes of fragments",
  (database) =>
    withCloud(database, async ({ store, app, robot }) => {
      const { owner, organization: organizationId, part: id, machine: machineId } = await newWorld(store);
      const [people, rover] = [await app(owner), await robot(owner)];
      const config = {
        components: [motor("shared", { max_rpm: { $variable: { name: "rpm", default_value: 5 } } })],
      };
      const inner = (await people.createFragment({ organizationId, name: "inner", config })).fragment!.id;
      const outerConfig = { fragments: [{ id: inner, variables: { rpm: 7 } }], components: [motor("outer")] };
      const outer = await people.createFragment({ organizationId, name: "outer", config: outerConfig });
      const robotConfig: JsonObject = {
        components: [motor("own")],
        fragments: [outer.fragment!.id],
        fragment_mods: [{
          fragment_id: outer.fragment!.id,
          mods: [{ $set: { "components.outer.attributes.max_rpm": 3 } }, {
            $unset: { "components.shared.model": "" },
          }],
        }],
      };
      await people.updateRobotPart({ id, name: "", robotConfig });
      const before = (await rover.config({ id })).config!;
      assertEquals(before.components.map(({ name, model }) => [name, model]), [
        ["own", "rdk:builtin:fake"],
        ["outer", "rdk:builtin:fake"],
        ["shared", ""],
      ]);
      assertEquals(before.components.map(({ attributes }) => attributes?.max_rpm), [undefined, 3, 7]);
      assertEquals((await rover.config({ id })).config!.revision, before.revision);
      await people.updateFragment({ id: inner, name: "", config: { components: [motor("new")] } });
      const after = (await rover.config({ id })).config!;
      assertEquals(after.components.map(({ name }) => name), ["own", "outer", "new"]);
      assertNotEquals(after.revision, before.revision);
      assertMatch(after.overwriteFragmentStatus[0].error, /nothing named "shared"/);
      const { fragments } = await people.listMachineFragments({ machineId });
      assertEquals(fragments.map(({ name }) => name).sort(), ["inner", "outer"]);
      assertEquals(
        (await failing(people.deleteFragment({ id: outer.fragment!.id }))).code,
        "failed_precondition",
      );
    }),
);

storeTest(
  "reports a fragment in itself, a missing one, and one of another organization",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const [mine, other] = [await newWorld(store), await newWorld(store)];
      const people = await app(mine.owner);
      const { fragment } = await people.createFragment({ organizationId: mine.organization, name: "ring" });
      const ring = fragment!.id;
      const inItself = people.updateFragment({ id: ring, name: "", config: { fragments: [ring] } });
      assertMatch((await failing(inItself)).message, /is in itself/);
      // As an earlier version of this program saved it.
      await store.transaction(async (sql) => {
        await new Fragments(sql).update(ring, "ring", configText({ fragments: [ring] }), 0);
      });
      const strange = (await (await app(other.owner)).createFragment({
        organizationId: other.organization,
        name: "theirs",
        config: { debug: true },
      })).fragment!.id;
      for (
        const [id, message] of [[ring, /is in itself/], ["none", /no such fragment/], [
          strange,
          /no such/,
        ]] as const
      ) {
        const robotConfig = { fragments: [id] };
        assertMatch(
          (await failing(people.updateRobotPart({ id: mine.part, name: "", robotConfig }))).message,
          message,
        );
      }
      const polluting = {
        fragments: [ring],
        fragment_mods: [{ fragment_id: ring, mods: [{ $set: { "__proto__.polluted": 1 } }] }],
      };
      await people.updateFragment({ id: ring, name: "", config: { debug: true } });
      await failing(people.updateRobotPart({ id: mine.part, name: "", robotConfig: polluting }));
      assertEquals(({} as { polluted?: number }).polluted, undefined);
    }),
);

storeTest(
  "NeedsRestart answers true once for each restart order",
  (database) =>
    withCloud(database, async ({ store, app, robot }) => {
      const { owner, operator, machine, part: id } = await newWorld(store);
      const rover = await robot(await ownKey(store, { machine }));
      // Nobody else takes the machine's order, writes its log, or makes it look online.
      for (const key of [owner, operator]) {
        const person = await robot(key);
        assertEquals((await failing(person.needsRestart({ id }))).code, "permission_denied");
        assertEquals((await failing(person.log({ id, logs: [{ message: "m" }] }))).code, "permission_denied");
      }
      assertEquals((await rover.needsRestart({ id })).mustRestart, false);
      await (await app(owner)).markPartForRestart({ partId: id });
      assertEquals((await rover.needsRestart({ id })).mustRestart, true);
      assertEquals((await rover.needsRestart({ id })).mustRestart, false);
    }),
);

storeTest("Certificate gives a part the same local certificate until it is 61 days old", (database) => {
  const clock = new FakeClock();
  return withCloud(database, async ({ store, cloud, robot }) => {
    const { owner, operator, machine, location, part: id } = await newWorld(store);
    const own = await newKey(store, "operator", "machine", machine);
    const rover = await robot(own);
    const { tlsCertificate, tlsPrivateKey } = await rover.certificate({ id });
    const certificate = new X509Certificate(tlsCertificate);
    const authority = new X509Certificate(cloud.authority.certificate);
    assert(certificate.verify(authority.publicKey));
    assertMatch(certificate.subjectAltName!, /DNS:rover-main\.\w+\.svc\.internal/);
    assertEquals(/localhost|127\.0\.0\.1/.test(certificate.subjectAltName!), false);
    // Entries of people do not count against machines.
    const [elsewhere, above] = [await newWorld(store), await newKey(store, "owner", "location", location)];
    const strange = await newKey(store, "owner", "machine", elsewhere.machine);
    for (const key of [owner, operator, above, strange]) {
      assertEquals((await failing((await robot(key)).certificate({ id }))).code, "permission_denied");
    }
    assertMatch(tlsPrivateKey, /BEGIN PRIVATE KEY/);
    assertEquals((await rover.certificate({ id })).tlsCertificate, tlsCertificate);
    await clock.advance(61 * 24 * 3600 * 1000);
    // The token of the first days is over.
    assertNotEquals((await (await robot(own)).certificate({ id })).tlsCertificate, tlsCertificate);
  }, { clock });
});

storeTest("a machine is online while it polls, and offline 66 seconds after its last poll", (database) => {
  const clock = new FakeClock();
  return withCloud(database, async ({ store, app, channel, robot }) => {
    const { owner, part: id, machine, organization: organizationId } = await newWorld(store);
    const [people, rover] = [await app(owner), await robot(await ownKey(store, { machine }))];
    const state = async () => (await people.getRobot({ id: machine })).robot!.onlineState;
    await (await robot(owner)).config({ id, agentInfo: { host: "of a person" } });
    const { deviceAgentConfig } = client(AgentDeviceService, await channel(owner));
    await deviceAgentConfig({ id });
    assertEquals(await state(), OnlineState.AWAITING_SETUP);
    await rover.config({ id, agentInfo: { host: "pi", version: "1.2.3" } });
    assertEquals(await state(), OnlineState.ONLINE);
    await clock.advance(6_000);
    assertEquals((await people.getRobotPart({ id })).part?.onlineState, OnlineState.ONLINE);
    await clock.advance(60_000);
    const { part } = await people.getRobotPart({ id });
    assertEquals([part?.onlineState, part?.secondsSinceOnline], [OnlineState.OFFLINE, 66n]);
    const { locationSummaries } = await people.listMachineSummaries({ organizationId });
    assertEquals(locationSummaries[0].machineSummaries[0].partSummaries[0].onlineState, OnlineState.OFFLINE);
  }, { clock });
});

storeTest(
  "certificates are valid for localhost on request",
  (database) =>
    withCloud(database, async ({ store, robot }) => {
      const { machine, part: id } = await newWorld(store);
      const rover = await robot(await newKey(store, "operator", "machine", machine));
      const { tlsCertificate } = await rover.certificate({ id });
      assertMatch(
        new X509Certificate(tlsCertificate).subjectAltName!,
        /DNS:localhost, IP Address:127\.0\.0\.1$/,
      );
    }, { localhostCertificates: true }),
);

storeTest(
  "owners and the machine see its secrets, operators see stars; a restore brings the real values back",
  (database) =>
    withCloud(database, async ({ store, app, robot }) => {
      const world = await newWorld(store);
      const { part: id, machine, organization: organizationId } = world;
      const people = await app(world.owner);
      const motor = (wifi_password: string) => ({
        components: [{
          name: "a",
          api: "rdk:component:motor",
          model: "fake",
          attributes: { wifi_password, speed: 1 },
        }],
        modules: [{ name: "m", executable_path: "/m", env: { HOME: "hunter-home" } }],
      });
      await people.updateRobotPart({ id, name: "", robotConfig: motor("hunter2") });
      await people.updateRobotPart({ id, name: "", robotConfig: motor("hunter3") });
      const { fragment } = await people.createFragment({
        organizationId,
        name: "f",
        config: motor("hunter4"),
      });
      const ownKey = await newKey(store, "operator", "machine", machine);
      const seen = async (key: NewKey) => {
        const service = await app(key);
        const answers = [
          await service.getRobotPart({ id }),
          await service.getRobotPartHistory({ id }),
          ...(key === ownKey ? [] : [
            await service.getFragment({ id: fragment!.id }),
            await service.listFragments({ organizationId }),
            await service.listMachineFragments({ machineId: machine, additionalFragmentIds: [fragment!.id] }),
          ]),
          await service.getRobotParts({ robotId: machine }),
        ];
        return answers.map((one) =>
          JSON.stringify(one, (_, value) => typeof value === "bigint" ? `${value}` : value)
        );
      };
      for (const text of await seen(world.operator)) {
        assertEquals([text.includes("hunter"), text.includes("******"), text.includes("speed")], [
          false,
          true,
          true,
        ]);
      }
      for (const key of [world.owner, ownKey]) {
        for (const text of await seen(key)) {
          assertEquals([text.includes("hunter"), text.includes("******")], [true, false]);
        }
      }
      // A fragment that the machine does not run is not shown to it.
      const machines = await app(ownKey);
      const others = await machines.listMachineFragments({
        machineId: machine,
        additionalFragmentIds: [fragment!.id],
      });
      assertEquals(others.fragments, []);
      assertEquals((await failing((await robot(world.operator)).config({ id }))).code, "permission_denied");

      const shown = await svcCloud("config", "history", id, ...database.flags);
      assertEquals([shown.includes("hunter"), /wifi_password: \*{6} -> \*{6}/.test(shown)], [false, true]);
      assertEquals(
        (await svcCloud("config", "history", id, "--json", ...database.flags)).includes("hunter"),
        false,
      );
      await svcCloud("config", "restore", id, "1", ...database.flags);
      assertEquals((await svcCloud("config", "show", id, ...database.flags)).includes("hunter2"), true);
      const { history } = await people.getRobotPartHistory({ id });
      await people.updateRobotPart({ id, name: "", robotConfigJson: history[0].old!.robotConfigJson });
      const { config } = await (await robot(ownKey)).config({ id });
      assertEquals(config!.components[0].attributes?.wifi_password, "hunter3");
    }),
);

async function failing(run: Promise<unknown>): Promise<SvcError> {
  try {
    await run;
  } catch (error) {
    return SvcError.from(error);
  }
  throw new Error("it did not fail");
}
