/** Filters of captured data with more values than a statement takes. */

import { assertEquals, assertMatch } from "@std/assert";
import { DataService, TagsFilterType } from "../../proto/gen/data_pb.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { storeTest } from "./stores.ts";
import { newWorld, withCloud } from "./world.ts";

storeTest(
  "a list in a filter has its limit, and what is beyond it is the caller's fault",
  (database) =>
    withCloud(database, async ({ store, channel }) => {
      const { owner, location } = await newWorld(store);
      const data = client(DataService, await channel(owner));
      const filters = (count: number) => {
        const many = Array.from({ length: count }, (_, index) => `x${index}`);
        return [
          { mimeType: many },
          { bboxLabels: many },
          { tagsFilter: { type: TagsFilterType.MATCH_BY_OR, tags: many } },
        ];
      };
      const answers = async (count: number) => {
        const found: string[] = [];
        for (const filter of filters(count)) {
          found.push(await data.binaryDataByFilter({ dataRequest: { filter } }).then(() => "taken", String));
        }
        return found;
      };
      for (const count of [1_001, 130_000]) {
        for (const answer of await answers(count)) {
          assertMatch(answer, /found a filter with a list of \d+ values, wanted at most 1000/);
        }
      }
      const places = async (locationIds: string[]) =>
        await data.binaryDataByFilter({ dataRequest: { filter: { locationIds } } }).then(
          () => "taken",
          String,
        );
      assertMatch(await places(Array(130_000).fill(location)), /found a filter with a list of 130000 values/);
      const strangers = Array.from({ length: 130_000 }, (_, index) => `x${index}`);
      assertMatch(await places(strangers), /found 130000 ids, wanted at most 10000 in one call/);
      // What names things that are not there finds nothing, or says so.
      const few = await answers(1_000);
      assertEquals(few.filter((answer) => /database|internal|unknown/.test(answer)), []);
    }),
);
