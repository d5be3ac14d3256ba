/**
 * Commands on the packages of organizations: models, modules, scripts and other files for machines.
 */

import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { Usage } from "../../lib/cloud/access/usage.ts";
import { type Change, takePackage } from "../../lib/cloud/packages/package_service.ts";
import { PACKAGE_KINDS, Packages, VISIBILITIES } from "../../lib/cloud/packages/packages.ts";
import { table } from "../table.ts";
import {
  chosenOrganization,
  type CloudCommand,
  cloudCommand,
  contentOf,
  LIMITS_FLAG,
  limitsOf,
  ORG,
  removeContents,
  timeOf,
  unknown,
} from "./desk.ts";

export const PACKAGE_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "package list",
    [],
    "Lists the packages of an organization.",
    [ORG],
    async (desk, _, { org }) => {
      const { id } = await chosenOrganization(desk.store, org);
      const all = await new Packages(desk.store).list(id);
      desk.print(
        all.map(({ item, ...one }) => ({
          ...one,
          name: item.name,
          type: item.kind,
          visibility: item.visibility,
        })),
        table(all.map(({ item, version, platform, bytes, createdMs }) => [
          `${item.namespace ?? id}:${item.name}`,
          item.kind,
          version,
          platform || "any",
          item.visibility,
          `${bytes} bytes`,
          timeOf(createdMs),
        ])),
      );
    },
  ),
  cloudCommand(
    "package upload",
    ["NAME", "VERSION", "FILE"],
    "Adds a version of a package, from a .tar.gz.",
    [
      ORG,
      {
        name: "type",
        type: "string",
        default: "ml_model",
        value: "TYPE",
        help: `${PACKAGE_KINDS.slice(0, -1).join(", ")} or ${PACKAGE_KINDS.at(-1)}`,
      },
      {
        name: "platform",
        type: "string",
        default: "",
        value: "OS/ARCH",
        help: "The platform, as in linux/amd64; by default all platforms.",
      },
      {
        name: "visibility",
        type: "string",
        default: "",
        value: "WHO",
        help: `Who can find it: ${VISIBILITIES.join(", ")}. A new package is private.`,
      },
      LIMITS_FLAG,
    ],
    async (desk, [name, version, file], { org, type, platform, visibility, limits: path }) => {
      const kind = PACKAGE_KINDS.find((one) => one === type);
      if (!kind) throw unknown("--type", type, PACKAGE_KINDS);
      const { id: organizationId } = await chosenOrganization(desk.store, org);
      const metadata: JsonObject = visibility === "" ? {} : { visibility };
      const info = { organizationId, name, version, type: kind, platform, metadata };
      const limits = await limitsOf(path, desk.host);
      const usage = new Usage({
        sql: desk.store,
        limits,
        clock: desk.clock,
        logger: silentLogs(desk.clock).logger("usage"),
      });
      const cloud = { store: desk.store, files: await desk.files(), usage, limits };
      const change: Change = (on, work) => desk.change("package upload", on, work);
      const added = await takePackage(cloud, change, info, await contentOf(desk, file));
      desk.print(added, [`${added.id} ${added.version}`]);
    },
  ),
  cloudCommand(
    "package delete",
    ["ID", "VERSION"],
    "Removes a version of a package: ID is <organization>:<name>.",
    [],
    async (desk, [id, version]) => {
      const on = { kind: "package", id } as const;
      const gone = await desk.change("package delete", on, (sql) => new Packages(sql).delete(id, version));
      await removeContents(desk, gone);
      desk.print({ id, version }, []);
    },
  ),
];
