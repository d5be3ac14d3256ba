/**
 * Commands on organizations and their locations.
 */

import { Locations } from "../../lib/cloud/tenants/locations.ts";
import { Organizations } from "../../lib/cloud/tenants/organizations.ts";
import { Packages } from "../../lib/cloud/packages/packages.ts";
import { chosenOrganization, type CloudCommand, cloudCommand, findLocation, ORG } from "./command_context.ts";

export const ORGANIZATION_COMMANDS: readonly CloudCommand[] = [
  cloudCommand("org create", ["NAME"], "Creates an organization.", [], async ({ change, print }, [name]) => {
    const id = await change(
      "org create",
      { kind: "organization", id: name },
      (sql, nowMs) => new Organizations(sql).create(name, nowMs),
    );
    print({ id, name }, [id]);
  }),
  cloudCommand("org list", [], "Lists the organizations.", [], async ({ store, list }) => {
    const all = await new Organizations(store).all();
    list("organizations", all, {
      columns: [{ heading: "NAME", cutTo: 16 }, { heading: "NAMESPACE", cutTo: 8, rank: 1 }, {
        heading: "ID",
        cutTo: 13,
      }],
      rows: all.map(({ id, name, namespace }) => [name, namespace ?? "-", id]),
      empty: "there is no organization yet: svc-cloud org create NAME makes one",
    });
  }),
  cloudCommand(
    "location create",
    ["NAME"],
    "Creates a location in an organization.",
    [ORG],
    async (context, [name], { org }) => {
      const { id: on } = await chosenOrganization(context.store, org);
      const id = await context.change(
        "location create",
        { kind: "organization", id: on },
        (sql, nowMs) => new Locations(sql).create(on, name, "", nowMs),
      );
      context.print({ id, name, organizationId: on }, [id]);
    },
  ),
  cloudCommand(
    "location list",
    [],
    "Lists the locations of an organization.",
    [ORG],
    async (context, _, { org }) => {
      const all = await new Locations(context.store).ofOrganization(
        (await chosenOrganization(context.store, org)).id,
      );
      context.list("locations", all, {
        columns: [{ heading: "NAME", cutTo: 16 }, { heading: "MACHINES", rank: 1 }, {
          heading: "ID",
          cutTo: 10,
        }],
        rows: all.map(({ id, name, machines }) => [name, String(machines), id]),
        empty: "there is no location yet: svc-cloud location create NAME makes one",
      });
    },
  ),
  cloudCommand(
    "org rename",
    ["NAME|ID", "NEW"],
    "Renames an organization; its public name stays.",
    [],
    async (context, [given, name]) => {
      const { id } = await chosenOrganization(context.store, given);
      const on = { kind: "organization", id } as const;
      await context.change("org rename", on, (sql) => new Organizations(sql).rename(id, name));
      context.print({ id, name }, [`${id} ${name}`]);
    },
  ),
  cloudCommand(
    "org delete",
    ["NAME|ID"],
    "Removes an organization that has nothing but keys left.",
    [],
    async (context, [given]) => {
      const { id } = await chosenOrganization(context.store, given);
      const on = { kind: "organization", id } as const;
      await context.change("org delete", on, (sql) => new Organizations(sql).delete(id));
      context.print({ id }, []);
    },
  ),
  cloudCommand(
    "location rename",
    ["NAME|ID", "NEW"],
    "Renames a location; the names of its machines in DNS stay.",
    [ORG],
    async (context, [given, name], { org }) => {
      const { id } = await findLocation(context.store, org, given);
      const on = { kind: "location", id } as const;
      await context.change("location rename", on, (sql) => new Locations(sql).rename(id, name));
      context.print({ id, name }, [`${id} ${name}`]);
    },
  ),
  cloudCommand(
    "location delete",
    ["NAME|ID"],
    "Removes a location without machines.",
    [ORG],
    async (context, [given], { org }) => {
      const { id } = await findLocation(context.store, org, given);
      const on = { kind: "location", id } as const;
      await context.change("location delete", on, (sql) => new Locations(sql).delete(id));
      context.print({ id }, []);
    },
  ),
  cloudCommand(
    "org namespace",
    ["NAMESPACE"],
    "Gives an organization a public name, under which it shares packages. The name cannot change later.",
    [ORG],
    async (context, [namespace], { org }) => {
      const { id } = await chosenOrganization(context.store, org);
      const on = { kind: "organization", id } as const;
      await context.change(
        "org namespace",
        on,
        (sql) => new Packages(sql).setNamespace(id, namespace, { fromDeleted: true }),
      );
      context.print({ id, namespace }, [namespace]);
    },
  ),
];
