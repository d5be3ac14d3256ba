/**
 * `package upload`: a version of a package, from an archive or a folder.
 */

import { basename } from "node:path";
import type { JsonObject } from "../../../lib/base/schema/schema.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { silentLogs } from "../../../lib/base/log/log.ts";
import { parseVersion } from "../../../lib/base/semver.ts";
import { Usage } from "../../../lib/cloud/access/usage.ts";
import { type Change, takePackage } from "../../../lib/cloud/services/registry/package_service.ts";
import { Packages } from "../../../lib/cloud/packages/packages.ts";
import { Organizations } from "../../../lib/cloud/tenants/organizations.ts";
import { UsageError } from "../../flags.ts";
import { withBar } from "../../progress/progress_bar.ts";
import {
  chosenOrganization,
  cloudCommand,
  type CloudCommandContext,
  LIMITS_FLAG,
  ORG,
  readLimits,
} from "../command_context.ts";
import { factsOf, kindOfUpload, type MetaFacts, UploadContent } from "./content.ts";
import { PACKAGE_KINDS, VISIBILITIES } from "../../../lib/cloud/packages/item.ts";

export const VISIBILITY = {
  name: "visibility",
  type: "string",
  default: "",
  value: "WHO",
  help: `Who can find it: ${VISIBILITIES.join(", ")}. A new package is private.`,
} as const;

export const UPLOAD = cloudCommand(
  "package upload",
  ["[NAME]", "VERSION", "PATH"],
  "Adds a version of a package, from a .tar.gz or a folder. The meta.json in it gives the name and the type; a module " +
    "that no machine could run, and a damaged map, are refused.",
  [
    ORG,
    {
      name: "type",
      type: "string",
      default: "",
      value: "TYPE",
      help: `${PACKAGE_KINDS.slice(0, -1).join(", ")} or ${
        PACKAGE_KINDS.at(-1)
      }; by default as meta.json says.`,
    },
    {
      name: "platform",
      type: "string",
      default: "",
      value: "OS/ARCH",
      help: "The platform, as in linux/amd64; by default that of a module's program, or all platforms.",
    },
    VISIBILITY,
    LIMITS_FLAG,
  ],
  async (context, words, { org, type, platform: wanted, visibility, limits: limitsPath }) => {
    const [path = "", version = "", given] = words.toReversed();
    const content = await UploadContent.open(context.host, path);
    const facts = content.meta && factsOf(content.meta, `${path}: meta.json`);
    const kind = kindOfUpload(type, facts, path);
    const { id: organizationId } = await chosenOrganization(context.store, org);
    const name = await requireName(context, given, facts, { organizationId, path });
    if (kind === "module" && !parseVersion(version)) {
      throw new UsageError(`VERSION: found "${version}", wanted one such as 1.2.3`);
    }
    const checked = () =>
      withBar(context, { what: `looking into ${path}` }, () => content.checkModule(name, wanted));
    const platform = kind === "module" ? await checked() : wanted;
    if (kind === "slam_map") {
      await withBar(context, { what: `looking into ${path}` }, () => content.checkMaps());
    }
    if (platform !== wanted) context.host.writeError(`${path} is for ${platform}, as its program is\n`);
    const info = {
      organizationId,
      name,
      version,
      type: kind,
      platform,
      metadata: metadataOf(kind === "module" ? facts : undefined, visibility),
    };
    const limits = await readLimits(limitsPath, context.host);
    const logger = silentLogs(context.clock).logger("usage");
    const usage = new Usage({ sql: context.store, limits, clock: context.clock, logger });
    const cloud = { store: context.store, files: await context.files(), usage, limits };
    const change: Change = (on, work) =>
      context.change("package upload", on, async (sql, nowMs) => {
        const done = await work(sql, nowMs);
        if (kind === "module" && facts) {
          await keepDetails(new Packages(sql), `${organizationId}:${name}`, facts, nowMs);
        }
        return done;
      });
    const added = await withBar(context, { what: `of ${basename(path)}`, inBytes: true }, async (bar) => {
      const size = await content.size();
      const pieces = content.bytes((share) => bar.show(Math.round(share * size), size));
      return await takePackage(cloud, change, info, pieces);
    });
    const { namespace } = await new Organizations(context.store).get(organizationId);
    context.print({ ...added, name, type: kind, platform }, [
      `${shownPackage(namespace, name)} ${added.version}`,
    ]);
    if (kind === "module") await tellEntry(context, organizationId, name);
  },
);

/** The facts of a version; those of `meta.json` about the item are those of the newest upload. */
function metadataOf(facts: MetaFacts | undefined, visibility: string): JsonObject {
  const { description, url, details = {} } = facts ?? {};
  const who = visibility || facts?.visibility;
  return {
    ...details,
    ...(description && { description }),
    ...(url && { url }),
    ...(who && { visibility: who }),
  };
}

/** A package as `package delete` and `package update` take it. */
export function shownPackage(namespace: string | null, name: string): string {
  return namespace ? `${namespace}:${name}` : name;
}

async function keepDetails(
  packages: Packages,
  id: string,
  { details }: MetaFacts,
  nowMs: number,
): Promise<void> {
  const item = await packages.item(id);
  await packages.updateItem(item, { details: { ...item.details, ...details } }, nowMs);
}

async function requireName(
  context: CloudCommandContext,
  given: string | undefined,
  facts: MetaFacts | undefined,
  { organizationId, path }: { readonly organizationId: string; readonly path: string },
): Promise<string> {
  const name = given ?? facts?.name;
  if (name === undefined) {
    throw new UsageError(`NAME: wanted the package's name, because ${path} has no meta.json that says it`);
  }
  if (given !== undefined && facts?.name !== undefined && given !== facts.name) {
    throw new UsageError(`NAME: found "${given}", but the meta.json of ${path} says "${facts.name}"`);
  }
  const { namespace } = facts ?? {};
  if (!namespace || namespace === organizationId) return name;
  const organization = await new Organizations(context.store).get(organizationId);
  if (organization.namespace === namespace) return name;
  const own = organization.namespace
    ? `the public name of ${organization.name} is "${organization.namespace}"`
    : `${organization.name} has no public name yet: svc-cloud org namespace ${namespace}`;
  throw new SvcError("failed_precondition", `meta.json: module_id begins with "${namespace}", but ${own}`);
}

/** The entry with which a machine runs it. */
async function tellEntry(context: CloudCommandContext, organizationId: string, name: string): Promise<void> {
  const { namespace } = await new Organizations(context.store).get(organizationId);
  const entry = {
    type: "registry",
    name,
    module_id: `${namespace || organizationId}:${name}`,
    version: "latest",
  };
  context.host.writeError(`For a machine's configuration: { "modules": [${JSON.stringify(entry)}] }\n`);
}
