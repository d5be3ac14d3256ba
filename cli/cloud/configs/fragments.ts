/**
 * Commands on fragments: pieces of configuration that many machines share.
 */

import { isObject, type Json, type JsonObject } from "../../../lib/base/schema/schema.ts";
import { missingPackages } from "../../../lib/cloud/config/package_check.ts";
import { checkFragment } from "../../../lib/cloud/config/fragment_check.ts";
import { FragmentTexts, tryAgain } from "../../../lib/cloud/config/fragments/fragment_texts.ts";
import { FragmentUses } from "../../../lib/cloud/config/fragments/fragment_uses.ts";
import { Fragments } from "../../../lib/cloud/config/fragments/fragments.ts";
import { PartConfigs } from "../../../lib/cloud/config/part_config.ts";
import type { Part } from "../../../lib/cloud/tenants/parts.ts";
import { shownMs } from "../../table.ts";
import { saveConfig } from "./configurations.ts";
import {
  chosenOrganization,
  type CloudCommand,
  cloudCommand,
  type CloudCommandContext,
  ORG,
} from "../command_context.ts";
import { fragmentNamed, selectedParts, SELECTION_FLAGS } from "../selection.ts";
import { counted } from "../../../lib/base/log/counted.ts";
import { objectIn, tellWarnings } from "./documents.ts";

export const FRAGMENT_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "fragment list",
    [],
    "Lists the fragments of an organization, and how many machines use each.",
    [ORG],
    async ({ store, list }, _, { org }) => {
      const fragments = new Fragments(store);
      const all = await fragments.list((await chosenOrganization(store, org)).id);
      const counts = await new FragmentUses(store).counts(all.map(({ id }) => id));
      const shown = all.map(({ id, name, revision, updatedMs, visibility }) => {
        return { id, name, revision, updatedMs, visibility, parts: counts.get(id)?.parts ?? 0 };
      });
      list("fragments", shown, {
        columns: [
          { heading: "FRAGMENT", cutTo: 14 },
          { heading: "REVISION" },
          { heading: "PARTS" },
          { heading: "CHANGED (UTC)", rank: 1 },
          { heading: "SEEN BY", rank: 2 },
          { heading: "ID", cutTo: 9 },
        ],
        rows: shown.map((one) => [
          one.name,
          String(one.revision),
          String(one.parts),
          shownMs(one.updatedMs),
          one.visibility,
          one.id,
        ]),
        empty: "there is no fragment yet: svc-cloud fragment set NAME FILE makes one",
      });
    },
  ),
  cloudCommand(
    "fragment show",
    ["FRAGMENT"],
    "Prints a fragment's configuration.",
    [ORG],
    async ({ store, printConfig }, [wanted], { org }) => {
      const { config } = await fragmentNamed(store, org, wanted);
      printConfig(config, JSON.stringify(config, null, 2));
    },
  ),
  cloudCommand(
    "fragment set",
    ["NAME", "FILE"],
    "Makes a fragment of a file, or the next revision of the one with this name.",
    [ORG],
    setFragment,
  ),
  cloudCommand(
    "fragment delete",
    ["FRAGMENT"],
    "Removes a fragment that nothing uses.",
    [ORG],
    async (context, [wanted], { org }) => {
      const { id, name } = await fragmentNamed(context.store, org, wanted);
      await context.change(
        "fragment delete",
        { kind: "fragment", id },
        (sql) => new Fragments(sql).delete(id),
      );
      context.print({ id, name }, []);
    },
  ),
  partsCommand(
    "fragment apply",
    "Adds a fragment to the configurations of parts.",
    (entries, id) => entries.some((one) => idOf(one) === id) ? entries : [...entries, id],
  ),
  partsCommand(
    "fragment drop",
    "Takes a fragment out of the configurations of parts.",
    (entries, id) => entries.filter((one) => idOf(one) !== id),
  ),
];

async function setFragment(
  context: CloudCommandContext,
  [name, file]: readonly [name: string, file: string],
  { org }: { readonly org: string },
): Promise<void> {
  const json = await objectIn(context, "fragment set", file);
  const { id: organizationId } = await chosenOrganization(context.store, org);
  const { who } = context;
  const text = JSON.stringify(json);
  const { id, revision, packages } = await tryAgain(context.clock, async () => {
    const old = (await new Fragments(context.store).list(organizationId)).find((one) => one.name === name);
    const owner = { organizationId, visibility: old?.visibility ?? "private" } as const;
    const checked = await checkFragment(context, owner, text, old?.id);
    const on = old
      ? { kind: "fragment", id: old.id } as const
      : { kind: "organization", id: organizationId } as const;
    return await context.change("fragment set", on, async (sql, nowMs) => {
      const own = new Fragments(sql);
      await new FragmentTexts(sql).requireStamps(
        new Map([...checked.stamps, ...old ? [[old.id, old.stamp] as const] : []]),
      );
      if (old) await own.update(old.id, name, checked, nowMs, { who });
      const id = old?.id ?? await own.create(organizationId, name, checked, nowMs, { who });
      return { ...await own.get(id), packages: checked.packages };
    });
  });
  const missing = await missingPackages(context.store, organizationId, packages, "");
  tellWarnings(context, "fragment set", missing);
  context.print({ id, name, revision }, [`${name} is at revision ${revision}`]);
}

/** A command that changes the list of fragments of parts, for the one fragment that it names. */
function partsCommand(
  name: string,
  summary: string,
  change: (entries: readonly Json[], id: string) => readonly Json[],
): CloudCommand {
  const words = ["FRAGMENT", "[PART...]"] as const;
  return cloudCommand(name, words, summary, SELECTION_FLAGS, async (context, [wanted, ...given], flags) => {
    const { id } = await fragmentNamed(context.store, flags.org, wanted);
    const parts = await selectedParts(context.store, given, flags);
    await changeEach(context, name, parts, (entries) => change(entries, id));
  });
}

/** Changes the list of fragments in the configuration of each part; what stays the same is not saved. */
async function changeEach(
  context: CloudCommandContext,
  action: string,
  parts: readonly Part[],
  change: (entries: readonly Json[]) => readonly Json[],
): Promise<void> {
  const changed = [];
  for (const part of parts) {
    const { config } = await new PartConfigs(context.store).get(part.id);
    const entries = Array.isArray(config.fragments) ? config.fragments : [];
    if (JSON.stringify(change(entries)) === JSON.stringify(entries)) continue;
    const revision = await saveConfig(context, action, { part: part.id, force: false }, async (sql) => {
      const { config } = await new PartConfigs(sql).get(part.id);
      const now = Array.isArray(config.fragments) ? config.fragments : [];
      return { ...config, fragments: [...change(now)] } as JsonObject;
    });
    changed.push({ id: part.id, name: part.name, revision });
  }
  const count = counted(changed.length, "part has", "parts have");
  context.print({ parts: changed }, [`${count} another configuration`]);
}

/** An entry is the id, or has it. */
function idOf(entry: Json): Json | undefined {
  return isObject(entry) ? (entry as JsonObject).id : entry;
}
