/**
 * Commands on administrators: who may run commands of svc-cloud on this control plane from afar.
 */

import { Accounts } from "../../../lib/cloud/accounts/accounts.ts";
import { Invitations } from "../../../lib/cloud/accounts/invitations.ts";
import { type Administrator, Administrators } from "../../../lib/cloud/access/administrators.ts";
import { newKeySecret } from "../../../lib/cloud/access/keys.ts";
import { namedOne } from "../../lookup.ts";
import { shownMs } from "../../table.ts";
import { accountNamed, ADDRESS, linkOf, printLink } from "../access/accounts.ts";
import {
  type CloudCommand,
  cloudCommand,
  type CloudCommandContext,
  recordNames,
} from "../command_context.ts";
import { named } from "../logs.ts";

export const ADMINISTRATOR_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "administrator add",
    ["EMAIL|NAME"],
    "Lets somebody run commands of svc-cloud on this control plane from afar: the person of an account, who sets a new " +
      "password by the printed link, or whoever has the printed key of this name.",
    [ADDRESS],
    async (context, [given], { address }) => {
      if (given.includes("@")) return await addAccount(context, given, address);
      const secret = await newKeySecret(context.who);
      const key = await context.change(
        "administrator add",
        { kind: "administrator", id: given },
        (sql, nowMs) => new Administrators(sql).newKey(given, secret, nowMs),
      );
      context.print({ ...key, name: given }, [`id:  ${key.id}`, `key: ${key.key}`]);
    },
  ),
  cloudCommand(
    "administrator list",
    [],
    "Lists the administrators: who may run commands of svc-cloud on this control plane from afar.",
    [],
    async ({ store, list }) => {
      const names = await recordNames(store);
      const all = (await new Administrators(store).all()).map((one) => ({
        ...one,
        creatorName: named(one.creator, names),
      }));
      list("administrators", all, {
        columns: [
          { heading: "NAME", cutTo: 16 },
          { heading: "KIND" },
          { heading: "ID", cutTo: 9 },
          { heading: "CREATOR", cutTo: 10, rank: 1 },
          { heading: "SINCE (UTC)", rank: 2 },
          { heading: "USED (UTC)", rank: 3 },
        ],
        rows: all.map((one) => [
          one.name,
          one.kind,
          one.id,
          one.creatorName || "-",
          shownMs(one.createdMs),
          shownMs(one.usedMs),
        ]),
        empty: "there is no administrator: svc-cloud administrator add NAME makes one, with a key",
      });
    },
  ),
  cloudCommand(
    "administrator remove",
    ["EMAIL|NAME|ID"],
    "Makes somebody no administrator any more: what runs ends within seconds, a key ends, an account keeps its roles.",
    [],
    async ({ store, change, print }, [given]) => {
      const found = namedOne<Administrator>("administrator", given, await new Administrators(store).all());
      await change(
        "administrator remove",
        { kind: "administrator", id: found.id },
        (sql) => new Administrators(sql).remove(found),
      );
      print({ id: found.id, name: found.name }, []);
    },
  ),
];

/**
 * Whoever may invite people may have opened a link meant for somebody else, and so have an account with that address.
 * So the password and the sessions that it has do not count.
 */
async function addAccount(context: CloudCommandContext, email: string, address: string): Promise<void> {
  const account = await accountNamed(context.store, email);
  const secret = await newKeySecret(context.who);
  const { invitation, opener } = await context.change(
    "administrator add",
    { kind: "administrator", id: account.id },
    async (sql, nowMs) => {
      await new Administrators(sql).add(account.id, context.who, nowMs);
      await new Accounts(sql).endPassword(account.id, secret);
      return await new Invitations(sql).reset(account.email, nowMs);
    },
  );
  printLink(context, invitation, linkOf(address, opener));
}
