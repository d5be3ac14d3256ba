import { assertRejects } from "@std/assert";
import { SystemClock } from "../../../base/clock.ts";
import { SvcError } from "../../../base/error.ts";
import { SqliteStore } from "./sqlite.ts";

Deno.test("SqliteStore: where no process can be started, statements and transactions fail instead of waiting", async () => {
  const start = () => {
    throw new SvcError("permission_denied", "no program may start here");
  };
  const store = new SqliteStore({ file: "nowhere.db", start, cpuMs: () => undefined }, new SystemClock());
  for (let again = 0; again < 2; again++) {
    await assertRejects(() => store.query("SELECT 1"), SvcError, "no program may start here");
    await assertRejects(
      () => store.transaction((sql) => sql.query("SELECT 1")),
      SvcError,
      "no program may start",
    );
  }
  await store.close();
});
