/**
 * Commands on the configurations of parts: a new one is checked before it is saved, and an earlier one can be restored.
 *
 * The room owns the commands of svc-cloud on configurations and on fragments of them.
 */

import { SvcError } from "../../../lib/base/error.ts";
import { jsonDiff } from "../../../lib/base/schema/json_secrets.ts";
import type { JsonObject } from "../../../lib/base/schema/schema.ts";
import { tryAgain } from "../../../lib/cloud/config/fragments/fragment_texts.ts";
import { type Part, Parts } from "../../../lib/cloud/tenants/parts.ts";
import { PartConfigs } from "../../../lib/cloud/config/part_config.ts";
import { checkForOperator, savePartConfig } from "../../../lib/cloud/fleet/part_saving.ts";
import type { Sql } from "../../../lib/cloud/store/store.ts";
import { atLeastOne, UsageError } from "../../flags.ts";
import { shownMs } from "../../table.ts";
import {
  type CloudCommand,
  cloudCommand,
  type CloudCommandContext,
  OF_ORG,
  partNamed,
  recordNames,
} from "../command_context.ts";
import { named } from "../logs.ts";
import { objectIn, tellWarnings } from "./documents.ts";
import { editableText, editText } from "./editing.ts";

const FORCE = {
  name: "force",
  type: "bool",
  default: false,
  help: "Save it with its errors, because another runtime than svc-server runs it.",
} as const;

const DRY_RUN = {
  name: "dry-run",
  type: "bool",
  default: false,
  help: "Only check it, and show what it would change.",
} as const;

const EXPECTED = {
  name: "expected",
  type: "string",
  default: "",
  value: "FILE",
  help:
    "Save it only if the present configuration is still the one in this file, as config show has printed it.",
} as const;

export const CONFIGURATION_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "config show",
    ["PART"],
    "Prints a part's configuration.",
    [
      OF_ORG,
      { name: "revision", type: "int", default: -1, help: "An earlier one." },
      {
        name: "resolved",
        type: "bool",
        default: false,
        help: "As the machine gets it, with its fragments filled in.",
      },
    ],
    async ({ store, configs: threads, printConfig }, [given], { org, revision, resolved }) => {
      const { id: part, organizationId } = await partNamed(store, given, org);
      const configs = new PartConfigs(store);
      const own = revision < 0 ? (await configs.get(part)).config : await configs.at(part, revision);
      const job = { kind: "fill", text: JSON.stringify(own) } as const;
      const config = resolved ? (await threads.run(store, organizationId, job)).config ?? own : own;
      printConfig(config, editableText(config).trimEnd());
    },
  ),
  cloudCommand(
    "config set",
    ["PART", "FILE"],
    "Checks a configuration and saves it as the part's next revision.",
    [OF_ORG, FORCE, DRY_RUN, EXPECTED],
    async (context, [given, file], { org, force, dryRun, expected: expectedFile }) => {
      const part = await partNamed(context.store, given, org);
      const config = await objectIn(context, "config set", file);
      const expected = expectedFile === "" ? undefined : await objectIn(context, "config set", expectedFile);
      const saving = { part: part.id, force, expected };
      if (dryRun) await printDifference(context, part, config, force);
      else await saveAndPrint(context, "config set", saving, () => Promise.resolve(config));
    },
  ),
  cloudCommand(
    "config diff",
    ["PART", "FILE"],
    "Shows what a file would change in a part's configuration, and checks it. Saves nothing.",
    [OF_ORG, FORCE],
    async (context, [given, file], { org, force }) => {
      await printDifference(
        context,
        await partNamed(context.store, given, org),
        await objectIn(context, "config diff", file),
        force,
      );
    },
  ),
  cloudCommand(
    "config edit",
    ["PART"],
    "Opens a part's configuration in $EDITOR, checks what comes back, and saves it.",
    [OF_ORG, FORCE],
    editConfig,
  ),
  cloudCommand(
    "config history",
    ["PART"],
    "Lists who changed what and when, newest first.",
    [OF_ORG, { name: "limit", type: "int", default: 20, help: "How many changes." }],
    async ({ store, list }, [given], { org, limit }) => {
      const { id: part } = await partNamed(store, given, org);
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
          { heading: "WHO", cutTo: 10 },
          { heading: "CHANGE", cutTo: 17 },
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
    [OF_ORG, FORCE],
    async (context, [given, revision], { org, force }) => {
      const { id: part } = await partNamed(context.store, given, org);
      if (!/^\d+$/.test(revision)) {
        throw new UsageError(`"${revision}" is not a revision, wanted a number`);
      }
      await saveAndPrint(
        context,
        "config restore",
        { part, force },
        (sql) => new PartConfigs(sql).at(part, Number(revision)),
      );
    },
  ),
];

/** What a configuration would change, after the same check as before saving it. */
async function printDifference(
  context: CloudCommandContext,
  part: Part,
  config: JsonObject,
  force: boolean,
): Promise<void> {
  const { config: now } = await new PartConfigs(context.store).get(part.id);
  const { warnings } = await checkForOperator(context, part, JSON.stringify(config), force);
  tellWarnings(context, "config diff", warnings);
  const diff = jsonDiff(now, config);
  context.print({ id: part.id, diff, warnings }, diff.length === 0 ? ["nothing changes"] : diff);
}

async function editConfig(
  context: CloudCommandContext,
  [given]: readonly [part: string],
  { org, force }: { readonly org: string; readonly force: boolean },
): Promise<void> {
  const { host, store } = context;
  const part = await partNamed(store, given, org);
  const { config } = await new PartConfigs(store).get(part.id);
  const isChanged = await editText(host, `${part.name}.json`, editableText(config), async (file) => {
    const changed = await objectIn(context, "config edit", file);
    await saveAndPrint(
      context,
      "config edit",
      { part: part.id, force, expected: config },
      () => Promise.resolve(changed),
    );
  });
  if (!isChanged) context.print({ id: part.id, diff: [] }, ["nothing changes"]);
}

interface Saving {
  readonly part: string;
  readonly force: boolean;
  /** What was edited; another configuration by now is not overwritten. */
  readonly expected?: JsonObject;
}

async function saveAndPrint(
  context: CloudCommandContext,
  action: string,
  saving: Saving,
  config: (sql: Sql) => Promise<JsonObject>,
): Promise<void> {
  const revision = await saveConfig(context, action, saving, config);
  context.print({ id: saving.part, revision }, [`revision ${revision}`]);
}

/** Checks and saves a configuration as the next revision; returns its number. */
export async function saveConfig(
  context: CloudCommandContext,
  action: string,
  { part: id, force, expected }: Saving,
  config: (sql: Sql) => Promise<JsonObject>,
): Promise<number> {
  const { who } = context;
  const { revision, warnings } = await tryAgain(context.clock, async () => {
    const text = JSON.stringify(await config(context.store));
    const checked = await checkForOperator(context, await new Parts(context.store).get(id), text, force);
    return await context.change(action, { kind: "part", id }, async (sql, nowMs) => {
      const { config: now } = await new PartConfigs(sql).get(id);
      if (expected && JSON.stringify(now) !== JSON.stringify(expected)) {
        throw new SvcError("failed_precondition", "somebody else has changed this configuration meanwhile");
      }
      await savePartConfig(sql, await new Parts(sql).get(id), checked, who, nowMs);
      return { ...await new PartConfigs(sql).get(id), warnings: checked.warnings };
    });
  });
  tellWarnings(context, action, warnings);
  return revision;
}
