/**
 * Commands on the packages of organizations: models, modules, scripts and other files for machines.
 *
 * The room owns the registry by command: what is uploaded, looked into, shown, updated and removed, releases
 * of the programs among it.
 */

import { Packages } from "../../../lib/cloud/packages/packages.ts";
import {
  BEFORE_ALL_USES,
  fragmentsWithPackage,
  namesOfItem,
  partsWithPackage,
} from "../../../lib/cloud/config/package_uses.ts";
import { UsageError } from "../../flags.ts";
import { namedOne } from "../../lookup.ts";
import { shownMs, sizeText } from "../../table.ts";
import {
  chosenOrganization,
  type CloudCommand,
  cloudCommand,
  type CloudCommandContext,
  ORG,
  removeContents,
  unknown,
} from "../command_context.ts";
import { shownPackage, UPLOAD, VISIBILITY } from "./upload.ts";
import { VISIBILITIES } from "../../../lib/cloud/packages/item.ts";

const USES_MAX = 10_000;

export const PACKAGE_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "package list",
    [],
    "Lists the packages of an organization.",
    [ORG],
    async (context, _, { org }) => {
      const { id } = await chosenOrganization(context.store, org);
      const all = await new Packages(context.store).list(id);
      const packages = all.map(({ item, ...one }) => ({
        ...one,
        name: item.name,
        namespace: item.namespace,
        type: item.kind,
        visibility: item.visibility,
      }));
      context.list("packages", packages, {
        columns: [
          { heading: "PACKAGE", cutTo: 18 },
          { heading: "TYPE", rank: 2 },
          { heading: "VERSION", cutTo: 10 },
          { heading: "PLATFORM", rank: 3 },
          { heading: "SEEN BY", rank: 4 },
          { heading: "SIZE", rank: 5 },
          { heading: "ADDED (UTC)", rank: 1 },
        ],
        rows: all.map(({ item, version, platform, bytes, createdMs }) => [
          shownPackage(item.namespace, item.name),
          item.kind,
          version,
          platform || "any",
          item.visibility,
          sizeText(bytes),
          shownMs(createdMs),
        ]),
        empty: "there is no package yet: svc-cloud package upload VERSION FILE adds one",
      });
    },
  ),
  UPLOAD,
  cloudCommand(
    "package delete",
    ["PACKAGE", "[VERSION]"],
    "Removes a version of a package, or with --all the whole item, whose name is free again. PACKAGE is a name, or " +
      "NAMESPACE:NAME.",
    [ORG, { name: "all", type: "bool", default: false, help: "Remove the item with all its versions." }],
    async (context, [given, version], { org, all }) => {
      if ((version === undefined) !== all) {
        throw new UsageError("package delete takes either a VERSION or --all, which removes every version");
      }
      const id = await findId(context, given, org);
      const on = { kind: "package", id } as const;
      const gone = await context.change("package delete", on, async (sql) => {
        const packages = new Packages(sql);
        return version === undefined
          ? await packages.deleteItem(await packages.item(id))
          : await packages.delete(id, version);
      });
      await removeContents(context, gone);
      context.print({ id, ...(version === undefined ? { all } : { version }) }, []);
    },
  ),
  cloudCommand(
    "package uses",
    ["PACKAGE"],
    "Lists the parts and fragments of an organization that name a package: a module, a model or another one.",
    [ORG],
    async (context, [given], { org }) => {
      const { id } = await chosenOrganization(context.store, org);
      const item = await new Packages(context.store).item(await findId(context, given, org));
      const names = namesOfItem(item);
      const parts = await partsWithPackage(context.store, id, names, BEFORE_ALL_USES, USES_MAX);
      const fragments = await fragmentsWithPackage(context.store, id, names, USES_MAX);
      const named = fragments.map(({ name, ...one }) => ({ ...one, fragmentName: name }));
      context.list("uses", [...named, ...parts], {
        columns: [
          { heading: "MACHINE", cutTo: 20 },
          { heading: "PART", cutTo: 20 },
          { heading: "FRAGMENT", cutTo: 20 },
          { heading: "VERSION", cutTo: 12 },
        ],
        rows: [
          ...named.map(({ fragmentName, version }) => ["", "", fragmentName, version || "any"]),
          ...parts.map((one) => [
            one.machineName,
            one.partName,
            one.fragmentName || one.fragmentId,
            one.version || "any",
          ]),
        ],
        empty: `no part and no fragment names ${shownPackage(item.namespace, item.name)}`,
      });
    },
  ),
  cloudCommand(
    "package update",
    ["PACKAGE"],
    "Changes what everybody sees of a package: who finds it, its description, its address.",
    [
      ORG,
      { ...VISIBILITY, help: `Who can find it: ${VISIBILITIES.join(", ")}.` },
      { name: "description", type: "string", default: "", help: "What it is, in a sentence." },
      { name: "url", type: "string", default: "", value: "URL", help: "Where to read more." },
    ],
    async (context, [given], { org, visibility, description, url }) => {
      const who = VISIBILITIES.find((one) => one === visibility);
      if (visibility !== "" && !who) throw unknown("--visibility", visibility, VISIBILITIES);
      const change = {
        ...(who ? { visibility: who } : {}),
        ...(description && { description }),
        ...(url && { url }),
      };
      if (Object.keys(change).length === 0) {
        throw new UsageError("nothing to change: wanted --visibility, --description or --url");
      }
      const id = await findId(context, given, org);
      await context.change("package update", { kind: "package", id }, async (sql, nowMs) => {
        const packages = new Packages(sql);
        await packages.updateItem(await packages.item(id), change, nowMs);
      });
      context.print({ id, ...change }, [`${given} is updated`]);
    },
  ),
];

/** A name alone is one of the chosen organization. Throws `not_found` with names that are like it. */
async function findId({ store }: CloudCommandContext, given: string, org: string): Promise<string> {
  if (/[:/]/.test(given)) return given;
  const { id: organizationId } = await chosenOrganization(store, org);
  const packages = new Packages(store);
  const id = `${organizationId}:${given}`;
  if (!await packages.itemIfAny(id)) {
    namedOne(
      "package",
      given,
      (await packages.list(organizationId)).map(({ item }) => ({ ...item, id: item.name })),
    );
  }
  return id;
}
