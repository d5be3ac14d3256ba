/**
 * Commands on the configurations of parts: a new one is checked before it is saved, and an earlier one can be restored.
 */

import { SvcError } from "../../lib/base/error.ts";
import { jsonDiff } from "../../lib/base/schema/json_secrets.ts";
import { parseJsonc } from "../../lib/base/schema/jsonc.ts";
import { isObject, type JsonObject } from "../../lib/base/schema/schema.ts";
import { personActing } from "../../lib/cloud/context.ts";
import { tryAgain } from "../../lib/cloud/config/fragments.ts";
import { Fleet } from "../../lib/cloud/fleet/fleet.ts";
import { PartConfigs } from "../../lib/cloud/config/part_config.ts";
import { checkForOperator, savePartConfig } from "../../lib/cloud/fleet/part_saving.ts";
import type { Sql } from "../../lib/cloud/store/store.ts";
import { atLeastOne, UsageError } from "../flags.ts";
import { shownMs } from "../table.ts";
import { type CloudCommand, cloudCommand, type Desk, partNamed } from "./desk.ts";
import { named, recordNames } from "./logs.ts";

const FORCE = {
  name: "force",
  type: "bool",
  default: false,
  help: "Save it with its errors, because another runtime than svc-server runs it.",
} as const;

export const CONFIGURATION_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "config show",
    ["PART"],
    "Prints a part's configuration.",
    [{ name: "revision", type: "int", default: -1, help: "An earlier one." }],
    async ({ store, print }, [given], { revision }) => {
      const { id: part } = await partNamed(store, given);
      const configs = new PartConfigs(store);
      const config = revision < 0 ? (await configs.get(part)).config : await configs.at(part, revision);
      print(config, [JSON.stringify(config, null, 2)]);
    },
  ),
  cloudCommand(
    "config set",
    ["PART", "FILE"],
    "Checks a configuration and saves it as the part's next revision.",
    [FORCE],
    async (desk, [given, file], { force }) => {
      const { id: part } = await partNamed(desk.store, given);
      const json = parseJsonc(await desk.host.readFile(file), { file });
      if (!isObject(json)) {
        throw new SvcError(
          "invalid_argument",
          `${file}: wanted an object such as {"components": []}`,
        );
      }
      await saveConfig(desk, "config set", { part, force }, () => Promise.resolve(json as JsonObject));
    },
  ),
  cloudCommand(
    "config history",
    ["PART"],
    "Lists who changed what and when, newest first.",
    [{ name: "limit", type: "int", default: 20, help: "How many changes." }],
    async ({ store, list }, [given], { limit }) => {
      const { id: part } = await partNamed(store, given);
      const configs = new PartConfigs(store);
      const changes = await Promise.all(
        (await configs.history(part, { limit: atLeastOne(limit, "--limit") })).map(async (
          { old, ...change },
        ) => ({
          ...change,
          diff: jsonDiff(old, await configs.at(part, change.revision)),
        })),
      );
      const names = await recordNames(store);
      const readable = changes.map((one) => ({ ...one, whoName: named(one.who, names) }));
      list("changes", readable, {
        columns: [
          { heading: "REVISION" },
          { heading: "AT (UTC)" },
          { heading: "WHO", cutTo: 12 },
          { heading: "CHANGE", cutTo: 20 },
        ],
        rows: readable.flatMap(({ revision, atMs, whoName, diff }) =>
          (diff.length === 0 ? [""] : diff).map((line, at) =>
            at === 0 ? [String(revision), shownMs(atMs), whoName, line] : ["", "", "", line]
          )
        ),
        empty: `${given} has its first configuration still: svc-cloud config set ${given} FILE changes it`,
      });
    },
  ),
  cloudCommand(
    "config restore",
    ["PART", "REVISION"],
    "Makes an earlier revision the next one.",
    [FORCE],
    async (desk, [given, revision], { force }) => {
      const { id: part } = await partNamed(desk.store, given);
      if (!/^\d+$/.test(revision)) {
        throw new UsageError(`"${revision}" is not a revision, wanted a number`);
      }
      await saveConfig(
        desk,
        "config restore",
        { part, force },
        (sql) => new PartConfigs(sql).at(part, Number(revision)),
      );
    },
  ),
];

async function saveConfig(
  desk: Desk,
  action: string,
  { part: id, force }: { readonly part: string; readonly force: boolean },
  config: (sql: Sql) => Promise<JsonObject>,
): Promise<void> {
  const who = personActing(desk.host.env("USER") || "unknown", action).who;
  const { revision, warnings } = await tryAgain(async () => {
    const text = JSON.stringify(await config(desk.store));
    const checked = await checkForOperator(desk, await new Fleet(desk.store).part(id), text, force);
    return await desk.change(action, { kind: "part", id }, async (sql, nowMs) => {
      await savePartConfig(sql, await new Fleet(sql).part(id), checked, who, nowMs);
      return { ...await new PartConfigs(sql).get(id), warnings: checked.warnings };
    });
  });
  for (const { path, message } of warnings) {
    desk.host.writeError(`svc-cloud ${action}: warning: ${path}: ${message}\n`);
  }
  desk.print({ id, revision }, [`revision ${revision}`]);
}
