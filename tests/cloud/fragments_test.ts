/**
 * Fragments over time: their history, versions that configurations name, tags, and who uses them.
 */

import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { FragmentVisibility } from "../../proto/gen/app_pb.ts";
import { UsageService } from "../../proto/gen/usage_pb.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { SvcError } from "../../lib/base/error.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "./world.ts";
import { storeTest } from "./stores.ts";
import { awaitOutcome } from "../support/outcome.ts";

const network = (bind_address: string): JsonObject => ({ network: { bind_address } });

storeTest(
  "the history of a fragment shows who changed what, page by page",
  (database) =>
    withCloud(database, async (served) => {
      const { owner, id, world } = await withFragment(served);
      for (const at of [2, 3, 4]) {
        await owner.updateFragment({ id, name: `shared ${at}`, config: network(`localhost:${at}`) });
      }
      const first = await owner.getFragmentHistory({ id, pageLimit: 2n });
      const row = (one: typeof first.history[number]) => [
        one.fragment === id,
        one.revision,
        one.old?.name,
        one.old?.revision,
        bindOf(one.old?.fragment),
        bindOf(one.config),
        one.editedBy?.value,
      ];
      const me = world.owner.id;
      assertEquals(first.history.map(row), [
        [true, "4", "shared 3", "3", "localhost:3", "localhost:4", me],
        [true, "3", "shared 2", "2", "localhost:2", "localhost:3", me],
      ]);
      const rest = await owner.getFragmentHistory({ id, pageLimit: 2n, pageToken: first.nextPageToken });
      assertEquals(rest.history.map(row), [[
        true,
        "2",
        "shared",
        "1",
        "localhost:1",
        "localhost:2",
        me,
      ]]);
      assertEquals(rest.nextPageToken, "");
      // Python's library sends an empty token for the first page.
      assertEquals((await owner.getFragmentHistory({ id, pageToken: "", pageLimit: 10n })).history.length, 3);
      assertEquals(await awaitOutcome(owner.getFragmentHistory({ id, pageToken: "x" })), "invalid_argument");
      const { fragment, revisions } = await owner.getFragment({ id });
      assertEquals([fragment?.revision, revisions.map(({ revision }) => revision)], ["4", [
        "4",
        "3",
        "2",
        "1",
      ]]);
    }),
);

storeTest(
  "a fragment's visibility decides who lists it, reads it and puts it into a machine",
  (database) =>
    withCloud(database, async (served) => {
      const { owner, id, world } = await withFragment(served);
      const { PRIVATE, PUBLIC, PUBLIC_UNLISTED } = FragmentVisibility;
      const other = await newWorld(served.store);
      const stranger = await served.app(other.owner);
      const listed = async (fragmentVisibility: FragmentVisibility[]) =>
        (await stranger.listFragments({ organizationId: other.organization, fragmentVisibility })).fragments
          .map((one) => one.id);
      const read = () => awaitOutcome(stranger.getFragment({ id }));
      const use = () =>
        awaitOutcome(stranger.updateRobotPart({ id: other.part, robotConfig: { fragments: [id] } }));
      assertEquals([await listed([PUBLIC]), await read(), await use()], [
        [],
        "permission_denied",
        "invalid_argument",
      ]);
      await owner.updateFragment({ id, visibility: PUBLIC_UNLISTED });
      assertEquals([await listed([PUBLIC]), await read(), await use()], [[], "ok", "ok"]);
      const { fragment } = await owner.updateFragment({ id, public: true });
      assertEquals([fragment?.visibility, fragment?.onlyUsedByOwner, fragment?.organizationCount], [
        PUBLIC,
        false,
        1,
      ]);
      assertEquals([await listed([PUBLIC]), await listed([]), await listed([PRIVATE])], [[id], [], []]);
      const machine = await served.robot(other.owner);
      const bound = async () => (await machine.config({ id: other.part })).config?.network?.bindAddress;
      assertEquals(await bound(), "localhost:1");
      // Nobody else decides about it: neither its content nor its history.
      for (
        const call of [
          () => stranger.updateFragment({ id, name: "mine" }),
          () => stranger.getFragmentHistory({ id }),
          () => stranger.deleteFragment({ id }),
        ]
      ) assertEquals(await awaitOutcome(call()), "permission_denied");

      const secret: JsonObject = { components: [{ name: "a", attributes: { password: "sesame" } }] };
      const shown = await assertRejects(
        () => owner.updateFragment({ id, config: secret }),
        SvcError,
        "secrets",
      );
      assertEquals(shown.code, "invalid_argument");
      const variable: JsonObject = { attributes: { password: { $variable: { name: "password" } } } };
      await owner.updateFragment({ id, config: { ...network("localhost:1"), note: variable } });
      await owner.updateFragment({ id, visibility: PRIVATE });
      assertEquals(await bound(), undefined);
      const second = await owner.createFragment({ organizationId: world.organization, name: "second" });
      const taken = 'there is a fragment "shared" in this organization already';
      await assertRejects(
        () => owner.updateFragment({ id: second.fragment!.id, name: "shared" }),
        SvcError,
        taken,
      );
      assertEquals(await awaitOutcome(owner.getFragmentHistory({ id, pageLimit: -1n })), "invalid_argument");
      // A stranger's use does not keep it.
      assertEquals(await awaitOutcome(owner.deleteFragment({ id })), "ok");
    }),
);

storeTest(
  "GetFragmentHistory hides secrets from operators and refuses other organizations",
  (database) =>
    withCloud(database, async (served) => {
      const { owner, id, world } = await withFragment(served);
      const secret: JsonObject = {
        components: [{ name: "a", api: "rdk:component:generic", attributes: { password: "sesame" } }],
      };
      await owner.updateFragment({ id, config: secret });
      await owner.updateFragment({ id, config: network("localhost:2") });
      const logged = async (key: World["owner"]) =>
        JSON.stringify(
          (await (await served.app(key)).getFragmentHistory({ id })).history.map((one) => one.old?.fragment),
        );
      assertMatch(await logged(world.owner), /sesame/);
      assertEquals((await logged(world.operator)).includes("sesame"), false);
      const stranger = await served.app((await newWorld(served.store)).owner);
      for (
        const call of [
          () => stranger.getFragmentHistory({ id }),
          () => stranger.getFragmentUsage({ fragmentId: id }),
          () => stranger.setFragmentTag({ fragmentId: id, tag: "mine", revision: "1" }),
          () => stranger.listNestedFragments({ fragmentId: id }),
          () => stranger.listNestedFragments({ additionalFragments: [{ fragmentId: id }] }),
        ]
      ) assertEquals(await awaitOutcome(call()), "permission_denied");
    }),
);

storeTest(
  "a configuration pins a fragment by revision or tag, and the machine gets that version",
  (database) =>
    withCloud(database, async (served) => {
      const { owner, id, world } = await withFragment(served);
      const robot = await served.robot(world.owner);
      const bound = async () => (await robot.config({ id: world.part })).config?.network?.bindAddress;
      const use = (version?: string) =>
        owner.updateRobotPart({
          id: world.part,
          robotConfig: { fragments: [version === undefined ? id : { id, version }] },
        });
      await use();
      await owner.updateFragment({ id, config: network("localhost:2") });
      assertEquals(await bound(), "localhost:2");
      await use("1");
      assertEquals(await bound(), "localhost:1");
      assertMatch(await use("stable").then(() => "saved", ({ message }) => message), /no version "stable"/);
      const { tags } = await owner.setFragmentTag({ fragmentId: id, tag: "stable", revision: "1" });
      assertEquals(tags.map(({ tag, revision }) => [tag, revision]), [["stable", "1"]]);
      await use("stable");
      assertEquals(await bound(), "localhost:1");
      // The machine hears of it when the tag moves.
      await owner.setFragmentTag({ fragmentId: id, tag: "stable", revision: "2" });
      assertEquals(await bound(), "localhost:2");
      await owner.updateFragment({ id, config: network("localhost:3") });
      assertEquals(await bound(), "localhost:2");
      const { fragment } = await owner.getFragment({ id, version: "stable" });
      assertEquals([fragment?.revision, bindOf(fragment?.fragment)], ["2", "localhost:2"]);
      const { versionUsages } = await owner.getFragmentUsage({ fragmentId: id });
      assertEquals(versionUsages.map(({ version, machines }) => [version, machines]), [["stable", 1]]);
      const untag = () => owner.deleteFragmentTag({ fragmentId: id, tag: "stable" });
      assertEquals(await awaitOutcome(untag()), "failed_precondition");
      await use();
      assertEquals((await untag()).tags, []);
      assertEquals(await awaitOutcome(untag()), "not_found");
      for (const tag of ["", "7", "a b", "x".repeat(61)]) {
        const wrong = owner.setFragmentTag({ fragmentId: id, tag, revision: "1" });
        assertEquals(await awaitOutcome(wrong), "invalid_argument");
      }
      const none = owner.setFragmentTag({ fragmentId: id, tag: "new", revision: "9" });
      assertEquals(await awaitOutcome(none), "not_found");
      assertEquals(await awaitOutcome(owner.getFragment({ id, version: "nothing" })), "not_found");
    }),
);

storeTest(
  "a fragment names its organization, in lists and alone",
  (database) =>
    withCloud(database, async (served) => {
      const { owner, id, world } = await withFragment(served);
      const { organization: organizationId, machine: machineId, part } = world;
      const { organization } = await owner.getOrganization({ organizationId });
      await owner.updateRobotPart({ id: part, robotConfig: { fragments: [id] } });
      const found = [
        (await owner.getFragment({ id })).fragment,
        (await owner.getFragment({ id, version: "1" })).fragment,
        (await owner.updateFragment({ id, name: "renamed" })).fragment,
        ...(await owner.listFragments({ organizationId })).fragments,
        ...(await owner.listMachineFragments({ machineId })).fragments,
      ];
      assertEquals(found.map((one) => one?.organizationName), Array(5).fill(organization!.name));
    }),
);

storeTest(
  "lists nested fragments, and those that a machine would have with other fragments",
  (database) =>
    withCloud(database, async (served) => {
      const { owner, id, world } = await withFragment(served);
      const make = async (name: string, config: JsonObject) =>
        (await owner.createFragment({ organizationId: world.organization, name, config })).fragment!.id;
      const middle = await make("middle", { fragments: [{ id, version: "1" }] });
      const outer = await make("outer", { fragments: [middle] });
      const nested = await owner.listNestedFragments({ fragmentId: outer });
      assertEquals(nested.fragments.map(({ name }) => name).sort(), ["middle", "shared"]);
      assertEquals(nested.resolvedFragments.length, 2);
      const added = await owner.listNestedFragments({ additionalFragments: [{ fragmentId: middle }] });
      assertEquals(added.fragments.map(({ name }) => name).sort(), ["middle", "shared"]);
      assertEquals(await awaitOutcome(owner.listNestedFragments({})), "invalid_argument");
      await owner.updateFragment({ id, config: network("localhost:2") });
      const { resolvedFragments } = await owner.listMachineFragments({
        machineId: world.machine,
        additionalFragments: [{ fragmentId: id, version: "1" }],
      });
      assertEquals(resolvedFragments.map((one) => [one.revision, bindOf(one.resolvedConfig)]), [[
        "1",
        "localhost:1",
      ]]);
      const { locationSummaries } = await owner.listMachineSummaries({
        organizationId: world.organization,
        fragmentIds: [id],
      });
      assertEquals(locationSummaries.flatMap(({ machineSummaries }) => machineSummaries), []);
    }),
);

storeTest(
  "old revisions are dropped, except tagged and used ones, and an answer has a size limit",
  (database) =>
    withCloud(database, async (served) => {
      const { owner, id, world } = await withFragment(served);
      const config = (at: number): JsonObject => ({ ...network(`localhost:${at}`), note: "x".repeat(2_000) });
      await owner.setFragmentTag({ fragmentId: id, tag: "first", revision: "1" });
      await owner.updateFragment({ id, config: config(2) });
      const fragments = [{ id, version: "2" }];
      await owner.updateRobotPart({ id: world.part, robotConfig: { fragments } });
      for (const at of [3, 4, 5, 6]) await owner.updateFragment({ id, config: config(at) });
      const { revisions } = await owner.getFragment({ id });
      assertEquals(revisions.map(({ revision }) => revision), ["6", "5", "2", "1"]);
      const asked = (...versions: string[]) =>
        owner.listNestedFragments({
          additionalFragments: versions.map((version) => ({ fragmentId: id, version })),
        });
      assertEquals((await asked("5")).fragments.length, 1);
      assertEquals(await awaitOutcome(asked("5", "6")), "resource_exhausted");
    }, { limits: { ...defaultLimits(), revisionsPerFragment: 2, lettersPerConfiguration: 3_000 } }),
);

storeTest(
  "changes of one fragment by many in the same moment all take place, beside machines that use it",
  (database) =>
    withCloud(database, async (served) => {
      const { owner, id, world } = await withFragment(served);
      const changes = Array.from({ length: 12 }, (_, at) =>
        owner.updateFragment({ id, config: network(`localhost:${10 + at}`) }));
      const saves = Array.from({ length: 6 }, (_, note) =>
        owner.updateRobotPart({ id: world.part, robotConfig: { fragments: [id], note } }));
      await Promise.all([...changes, ...saves]);
      const { fragment, revisions } = await owner.getFragment({ id });
      assertEquals([fragment!.revision, revisions.length], ["13", 13]);
    }),
);

/** A component whose readings are kept for so many days. */
const keptFor = (days: number): JsonObject => ({
  components: [{
    ...{ name: "wind", api: "rdk:component:sensor", model: "fake" },
    service_configs: [{
      type: "data_manager",
      attributes: { capture_methods: [{ method: "Readings", retention_policy: { days } }] },
    }],
  }],
});

storeTest(
  "a fragment says how long its machines' readings are kept, from the time that a machine has it",
  (database) =>
    withCloud(database, async (served) => {
      const { owner, id, world } = await withFragment(served);
      const { getUsage } = client(UsageService, await served.channel(world.owner));
      const robot = await served.robot(world.owner);
      const keptDays = async () => {
        await robot.config({ id: world.part });
        const { collectors } = await getUsage({ organizationId: world.organization });
        return collectors.map(({ componentName, retention }) => `${componentName} ${retention?.days}`);
      };
      await owner.updateFragment({ id, config: keptFor(5) });
      await owner.updateRobotPart({ id: world.part, robotConfig: { fragments: [id] } });
      assertEquals(await keptDays(), ["wind 5"]);
      await owner.updateFragment({ id, config: keptFor(9) });
      assertEquals(await keptDays(), ["wind 9"]);
      await owner.updateFragment({ id, config: network("localhost:1") });
      assertEquals(await keptDays(), []);
    }),
);

async function withFragment(served: ServedCloud) {
  const world = await newWorld(served.store);
  const owner = await served.app(world.owner);
  const config = network("localhost:1");
  const made = await owner.createFragment({ organizationId: world.organization, name: "shared", config });
  return { world, owner, id: made.fragment!.id };
}

function bindOf(config: unknown): unknown {
  return (config as { network?: { bind_address?: string } } | undefined)?.network?.bind_address;
}
