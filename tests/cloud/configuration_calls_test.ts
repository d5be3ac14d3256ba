/** The calls on what configurations become, and on who names a fragment: by role and tenant. */

import { assertEquals, assertRejects } from "@std/assert";
import { ConfigurationService } from "../../proto/gen/configurations_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { storeTest } from "./stores.ts";
import { newWorld, withCloud } from "./world.ts";

const HIDDEN = "hidden-word";
const CONFIG = {
  components: [{
    name: "arm",
    api: "rdk:component:arm",
    model: "fake",
    attributes: { speed: { $variable: { name: "speed", default_value: 5 } }, api_key: HIDDEN },
  }],
};

storeTest(
  "a configuration is shown as it becomes, as a whole and for one fragment, with secrets for owners alone",
  (database) => {
    return withCloud(database, async ({ store, channel, app }) => {
      const [world, other] = [await newWorld(store), await newWorld(store)];
      const { organization: organizationId, part: partId } = world;
      const owner = await app(world.owner);
      const { fragment } = await owner.createFragment({ name: "arm", organizationId, config: CONFIG });
      const fragmentId = fragment!.id;
      const robotConfig = {
        components: [{
          name: "own",
          api: "rdk:component:motor",
          model: "fake",
          attributes: { token: HIDDEN },
        }],
        fragments: [{ id: fragmentId, variables: { speed: 7 } }],
        fragment_mods: [{
          fragment_id: fragmentId,
          mods: [{ $set: { "components.arm.attributes.limit": 9 } }],
        }],
      };
      await owner.updateRobotPart({ id: partId, name: "rover-main", robotConfig });
      const calls = client(ConfigurationService, await channel(world.owner));
      const whole = await calls.resolveConfiguration({ partId });
      const found = JSON.parse(whole.configJson);
      assertEquals(found.components.map(({ name }: { name: string }) => name), ["own", "arm"]);
      assertEquals(found.components[1].attributes, { speed: 7, api_key: HIDDEN, limit: 9 });
      assertEquals([whole.problems, whole.isMasked], [[], false]);
      assertEquals(whole.fragments.map(({ fragmentId: id, revision }) => [id, revision]), [[
        fragmentId,
        "1",
      ]]);

      const inner = await calls.resolveConfiguration({ partId, fragmentId });
      assertEquals(JSON.parse(inner.configJson).components.length, 1);
      const configJson = JSON.stringify({ fragments: [{ id: fragmentId, version: "99" }, fragmentId] });
      const draft = await calls.resolveConfiguration({ partId, configJson });
      assertEquals(JSON.parse(draft.configJson).components[0].attributes, { speed: 5, api_key: HIDDEN });
      assertEquals(draft.problems.map(({ path }) => path), [`fragments.${fragmentId}`]);

      const fragmentJson =
        '{"components": [{"name": "hand", "api": "rdk:component:gripper", "model": "fake"}]}';
      const unsaved = await calls.resolveConfiguration({ partId, fragmentId, fragmentJson });
      assertEquals(JSON.parse(unsaved.configJson).components[0].name, "hand");
      const pinned = JSON.stringify({ fragments: [{ id: fragmentId, version: "1" }] });
      const former = await calls.resolveConfiguration({
        partId,
        fragmentId,
        fragmentJson,
        configJson: pinned,
      });
      assertEquals(JSON.parse(former.configJson).components[0].name, "arm");

      const operator = client(ConfigurationService, await channel(world.operator));
      for (const [asked, refused] of [[operator, "only an owner of fragment"], [calls, "JSON"]] as const) {
        const text = asked === calls ? "[" : fragmentJson;
        await assertRejects(
          () => asked.resolveConfiguration({ partId, fragmentId, fragmentJson: text }),
          SvcError,
          refused,
        );
      }
      const starred = await operator.resolveConfiguration({ partId });
      assertEquals([starred.configJson.includes(HIDDEN), starred.isMasked], [false, true]);
      await assertRejects(() => operator.resolveConfiguration({ partId, configJson }), SvcError, "owner");
      const stranger = client(ConfigurationService, await channel(other.owner));
      await assertRejects(() => stranger.resolveConfiguration({ partId }), SvcError);
      const theirs = await stranger.resolveConfiguration({ partId: other.part, configJson });
      assertEquals(JSON.parse(theirs.configJson), {});
      await assertRejects(() => calls.resolveConfiguration({ partId, configJson: "[" }), SvcError, "JSON");
    });
  },
);

storeTest(
  "who names a fragment is listed by page: parts with their versions, and fragments, of its organization",
  (database) => {
    return withCloud(database, async ({ store, channel, app }) => {
      const [world, other] = [await newWorld(store), await newWorld(store)];
      const { organization: organizationId, part: id } = world;
      const owner = await app(world.owner);
      const made = await owner.createFragment({ name: "arm", organizationId, visibility: 2, config: {} });
      const fragmentId = made.fragment!.id;
      const around = { name: "around", organizationId, config: { fragments: [fragmentId] } };
      await owner.createFragment(around);
      const robotConfig = { fragments: [{ id: fragmentId, version: "1" }, fragmentId] };
      await owner.updateRobotPart({ id, name: "rover-main", robotConfig });
      await (await app(other.owner)).updateRobotPart({ id: other.part, name: "rover-main", robotConfig });
      const calls = client(ConfigurationService, await channel(world.operator));
      const { parts, fragments, nextPageToken } = await calls.listFragmentUses({ fragmentId });
      assertEquals(parts.map(({ partId, machineName, version }) => [partId, machineName, version]), [
        [id, "rover", ""],
        [id, "rover", "1"],
      ]);
      assertEquals([fragments.map(({ name }) => name), nextPageToken], [["around"], ""]);
      const rest = await calls.listFragmentUses({ fragmentId, pageToken: `${id} ` });
      assertEquals([rest.parts.map(({ version }) => version), rest.fragments], [["1"], []]);
      await assertRejects(() => calls.listFragmentUses({ fragmentId, pageToken: "a b\0" }), SvcError, "page");
      const stranger = client(ConfigurationService, await channel(other.owner));
      await assertRejects(() => stranger.listFragmentUses({ fragmentId }), SvcError);
    });
  },
);
