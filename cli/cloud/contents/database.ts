/** `svc-cloud database move`: copies the database in the data folder into PostgreSQL. */

import { SystemClock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { copyDatabase } from "../../../lib/cloud/store/moving/database_move.ts";
import { UsageError } from "../../flags.ts";
import { withBar } from "../../progress/progress_bar.ts";
import { type CloudCommand, cloudCommand, locateDatabase } from "../command_context.ts";
import { noteMoved } from "../data_folder.ts";
import { shownUrl } from "../../../lib/base/log/shown_url.ts";
import { counted } from "../../../lib/base/log/counted.ts";
import { openStore } from "../../../lib/cloud/store/open_store.ts";

export const DATABASE_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "database move",
    [],
    "Copies the database in the data folder into an empty PostgreSQL database, and checks the copy. The old one stays, " +
      "and commands without --database refuse it. Stop serve first; run it again after a break.",
    [{
      name: "to",
      type: "string",
      default: "",
      value: "URL",
      env: "SVC_CLOUD_MOVE_TO",
      help:
        "The PostgreSQL database, as for --database; the variable hides a password in it from other users.",
    }],
    async ({ store, folder, host, clock, print }, _, { to }) => {
      if (!/^postgres(ql)?:\/\//.test(to)) {
        throw new UsageError("--to: found no postgres:// URL, wanted the database to move to");
      }
      if (store.notices.shared) {
        throw new UsageError("--database: wanted none, because the database in the data folder is moved");
      }
      // What is written while it is copied would be missing.
      const leave = await host.lock(`${folder}/serve.lock`);
      if (!leave) {
        throw new SvcError("failed_precondition", `svc-cloud serves ${folder}: stop it, and move then`);
      }
      try {
        const place = await locateDatabase({ data: folder, database: to, keys: "", files: "" }, host);
        const target = await openStore(place, new SystemClock());
        try {
          const tables = await withBar({ host, clock }, { what: "rows copied" }, (bar) => {
            return copyDatabase(store, target, ({ done, total, checking }) => {
              if (checking === undefined) bar.show(done, total);
              else bar.phase(`checking table ${checking}`);
            });
          });
          await noteMoved(folder, shownUrl(to), clock.nowMs(), host);
          const rows = tables.reduce((sum, one) => sum + one.rows, 0);
          print({ tables }, [
            `${counted(rows, "row")} in ${
              counted(tables.length, "table")
            } copied and checked; serve with --database and the same --data from now on`,
          ]);
        } finally {
          await target.close();
        }
      } finally {
        leave();
      }
    },
  ),
];
