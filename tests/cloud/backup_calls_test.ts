/** The call on the last backup: its age for everybody who has signed in, where it is for administrators. */

import { assertEquals, assertRejects } from "@std/assert";
import { BackupService } from "../../proto/gen/backups_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Administrators } from "../../lib/cloud/access/administrators.ts";
import { newKeySecret } from "../../lib/cloud/access/keys.ts";
import { noteBackup, noteFailedBackup } from "../../lib/cloud/retention/last_backup.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { storeTest } from "./stores.ts";
import { newWorld, withCloud } from "./world.ts";

storeTest(
  "the last backup is told to callers with a key, and where it is to administrators alone",
  (database) => {
    return withCloud(database, async ({ store, channel }) => {
      const world = await newWorld(store);
      const owner = client(BackupService, await channel(world.owner));
      const none = await owner.getLastBackup({});
      assertEquals([none.made, none.failed], [undefined, undefined]);

      const place = "s3://copies/cloud";
      await noteFailedBackup(store, { timeMs: 1000, place, reason: "before" });
      await noteBackup(store, { timeMs: 2000, place, contents: 3, missing: 1 });
      const { made, failed } = await owner.getLastBackup({});
      assertEquals([made?.time?.seconds, made?.contents, made?.missing, made?.place], [2n, 3n, 1n, ""]);
      assertEquals(failed, undefined);

      const secret = await newKeySecret();
      const pager = await store.transaction((sql) => new Administrators(sql).newKey("pager", secret, 1));
      await noteFailedBackup(store, { timeMs: 3000, place, reason: "no disk" });
      const all = await client(BackupService, await channel(pager)).getLastBackup({});
      assertEquals([all.made?.place, all.failed?.place, all.failed?.reason], [place, place, "no disk"]);
      const hidden = (await owner.getLastBackup({})).failed;
      assertEquals([hidden?.time?.seconds, hidden?.place, hidden?.reason], [3n, "", ""]);
      const nobody = client(BackupService, await channel());
      await assertRejects(() => nobody.getLastBackup({}), SvcError);
    });
  },
);
