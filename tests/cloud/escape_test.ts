/**
 * Names and log lines that would do something to the terminal of who reads them.
 */

import { assertEquals } from "@std/assert";
import { hasHidden } from "../../lib/base/escape.ts";
import { svcCloud } from "./program.ts";
import { storeTest } from "./stores.ts";
import { newKey, newWorld, withCloud } from "./world.ts";
import { awaitOutcome } from "../support/outcome.ts";

const HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\u202Egnp\u2066\x9b31m";

/** Whether a text is harmless on a terminal, line ends aside. */
function isHarmless(text: string): boolean {
  return !hasHidden(text.replace(/[\n\t]/g, ""));
}

storeTest(
  "AppService refuses names with control characters",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const { owner, organization: organizationId, location, machine, part: id } = await newWorld(store);
      const people = await app(owner);
      const [name, grant] = [`rover${HOSTILE}`, { resourceType: "robot", resourceId: machine }];
      const authorizations = [{ ...grant, authorizationId: "robot_operator" }];
      const { id: keyId } = await people.createKey({ name: "key", authorizations });
      const calls = [
        people.updateOrganization({ organizationId, name }),
        people.createLocation({ organizationId, name }),
        people.updateLocation({ locationId: location, name }),
        people.newRobot({ location, name }),
        people.updateRobot({ id: machine, location, name }),
        people.newRobotPart({ robotId: machine, partName: name }),
        people.updateRobotPart({ id, name }),
        people.createFragment({ organizationId, name, config: {} }),
        people.createKey({ name, authorizations }),
        people.renameKey({ id: keyId, name }),
      ];
      assertEquals(await Promise.all(calls.map(awaitOutcome)), calls.map(() => "invalid_argument"));
    }),
);

storeTest(
  "existing names, and log lines of machines, are shown with escapes",
  (database) =>
    withCloud(database, async ({ store, robot }) => {
      const { organization, location, machine, part: id } = await newWorld(store);
      await store.transaction(async (sql) => {
        await sql.query("UPDATE organizations SET name = ? WHERE id = ?", `o\n${HOSTILE}`, organization);
        await sql.query("UPDATE locations SET name = ? WHERE id = ?", HOSTILE, location);
        await sql.query("UPDATE machines SET name = ? WHERE id = ?", `m\n${HOSTILE}`, machine);
      });
      const rover = await robot(await newKey(store, "operator", "machine", machine));
      await rover.log({
        id,
        logs: [{ message: `one\n${HOSTILE}`, level: HOSTILE, loggerName: `l\n${HOSTILE}` }],
      });
      for (
        const words of [["machine", "list"], ["org", "list"], ["location", "list"], ["logs", id], ["audit"]]
      ) {
        const text = await svcCloud(...words, ...database.flags);
        assertEquals([words, isHarmless(text)], [words, true]);
      }
      const lines = (await svcCloud("machine", "list", ...database.flags)).trimEnd().split("\n");
      assertEquals([lines.length, lines[1].includes("m\\n\\u001b]0;owned\\u0007")], [2, true]);
      const { entries: [entry] } = JSON.parse(await svcCloud("logs", id, "--json", ...database.flags));
      assertEquals(entry.message, `one\n${HOSTILE}`);
      const [first, second] = (await svcCloud("logs", id, ...database.flags)).split("\n");
      assertEquals([first.startsWith(entry.time), second.startsWith("\t")], [true, true]);
    }),
);
