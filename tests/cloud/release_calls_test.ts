/** The call on releases: every version of the programs, for everybody who has signed in. */

import { assertEquals, assertRejects } from "@std/assert";
import { ReleaseService } from "../../proto/gen/releases_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import { ReleaseKeys } from "../../lib/cloud/packages/release_keys.ts";
import { Releases } from "../../lib/cloud/packages/releases.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { storeTest } from "./stores.ts";
import { newWorld, ownKey, withCloud } from "./world.ts";

storeTest(
  "releases are listed by program and version with the key that signs, for callers with a key",
  (database) => {
    return withCloud(database, async ({ store, secrets, channel }) => {
      const world = await newWorld(store);
      const file = { sha256: "0".repeat(64), bytes: 5_000_000_000 };
      await store.transaction(async (sql) => {
        for (const version of ["1.10.0", "1.9.0"]) {
          const about = { name: "svc-server", version, platform: "linux/arm64", channel: "stable" } as const;
          await new Releases(sql).add({ ...about, file }, 1000);
        }
      });
      const { releases, keyId } = await client(ReleaseService, await channel(await ownKey(store, world)))
        .listReleases({});
      assertEquals(releases.map(({ version }) => version), ["1.9.0", "1.10.0"]);
      const { name, platform, bytes, created, sha256 } = releases[0];
      assertEquals([name, platform, releases[0].channel, bytes, sha256, created?.seconds], [
        "svc-server",
        "linux/arm64",
        "stable",
        5_000_000_000n,
        file.sha256,
        1n,
      ]);
      assertEquals(keyId, new ReleaseKeys(secrets).list().at(-1)?.id);
      const nobody = client(ReleaseService, await channel());
      await assertRejects(() => nobody.listReleases({}), SvcError);
    });
  },
);
