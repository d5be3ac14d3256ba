/**
 * Commands on people: who has an account, what for, and how somebody gets one. A link for a person is printed once.
 */

import { Accounts, checkedEmail } from "../../../lib/cloud/accounts/accounts.ts";
import { invitationPath, Invitations } from "../../../lib/cloud/accounts/invitations.ts";
import { PersonSessions } from "../../../lib/cloud/accounts/sessions.ts";
import { findOrganization, Keys, newKeySecret } from "../../../lib/cloud/access/keys.ts";
import type { Store } from "../../../lib/cloud/store/store.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { Administrators } from "../../../lib/cloud/access/administrators.ts";
import { UsageError } from "../../flags.ts";
import { namedOne } from "../../lookup.ts";
import {
  chosenOrganization,
  type CloudCommand,
  cloudCommand,
  type CloudCommandContext,
  fleetNames,
  idsIn,
  ORG,
  timeOf,
} from "../command_context.ts";
import { ON, ROLE, wantedGrant } from "./keys.ts";

export const ADDRESS = {
  name: "address",
  type: "string",
  default: "",
  value: "URL",
  help: "The address of the control plane, for the link: https://cloud.example.com",
} as const;

export const PERSON_COMMANDS: readonly CloudCommand[] = [
  cloudCommand(
    "account invite",
    ["EMAIL"],
    "Invites a person, and prints the link with which the person gets the role, and an account.",
    [ROLE, ON, ADDRESS],
    async (context, [email], { role, on, address }) => {
      const grant = await wantedGrant(context.store, role, on);
      const organizationId = await findOrganization(context.store, grant);
      const { invitation, opener } = await context.change(
        "account invite",
        { kind: "organization", id: organizationId },
        (sql, nowMs) => new Invitations(sql).invite(organizationId, checkedEmail(email), [grant], nowMs),
      );
      printLink(context, invitation, linkOf(address, opener));
    },
  ),
  cloudCommand(
    "account reset",
    ["EMAIL"],
    "Prints a link with which the person of an account sets a new password; all sessions then end.",
    [ADDRESS],
    async (context, [given], { address }) => {
      const { id, email } = await accountNamed(context.store, given);
      if (context.isRemote) await requireNoAdministrator(context.store, id, email);
      const { invitation, opener } = await context.change(
        "account reset",
        { kind: "account", id },
        (sql, nowMs) => new Invitations(sql).reset(email, nowMs),
      );
      printLink(context, invitation, linkOf(address, opener));
    },
  ),
  cloudCommand(
    "account list",
    [],
    "Lists the accounts of people with their rights and open sessions.",
    [{ ...ORG, help: "Only accounts with a role in this organization, its locations or machines." }],
    async ({ store, clock, list }, _, { org }) => {
      const nowMs = clock.nowMs();
      const names = await fleetNames(store);
      const every = await Promise.all((await new Accounts(store).all()).map(async (account) => ({
        ...account,
        grants: (await new Keys(store).get(account.id)).grants,
        sessions: (await new PersonSessions(store).of(account.id, nowMs)).length,
      })));
      const inside = org === "" ? undefined : await idsIn(store, (await chosenOrganization(store, org)).id);
      const all = every.filter(({ grants }) => {
        return !inside || grants.some(({ resourceId }) => inside.has(resourceId));
      });
      list("accounts", all, {
        columns: [
          { heading: "EMAIL", cutTo: 16 },
          { heading: "ID", cutTo: 9 },
          { heading: "SESSIONS", rank: 1 },
          { heading: "MAY", cutTo: 16 },
        ],
        rows: all.map(({ email, id, sessions, grants }) => [
          email,
          id,
          String(sessions),
          grants.map((one) => `${one.role} of ${one.kind} ${names.get(one.resourceId) ?? one.resourceId}`)
            .join(", "),
        ]),
        empty: "there is no account yet: svc-cloud account invite makes a link for a person",
      });
    },
  ),
  cloudCommand(
    "account sessions",
    ["EMAIL|ID"],
    "Lists the open sessions of an account: since when, from where, with which browser.",
    [],
    async ({ store, clock, list }, [given]) => {
      const { id } = await accountNamed(store, given);
      const all = (await new PersonSessions(store).of(id, clock.nowMs())).map((
        { generation: _, ...one },
      ) => one);
      list("sessions", all, {
        columns: [
          { heading: "ID", cutTo: 9 },
          { heading: "SINCE (UTC)" },
          { heading: "SEEN (UTC)" },
          { heading: "ADDRESS", cutTo: 12 },
          { heading: "BROWSER", cutTo: 16 },
        ],
        rows: all.map((one) => [one.id, timeOf(one.createdMs), timeOf(one.seenMs), one.address, one.agent]),
        empty: "the person is signed in nowhere",
      });
    },
  ),
  cloudCommand(
    "account sign-out",
    ["EMAIL|ID"],
    "Ends all sessions of an account at once, at machines, too.",
    [],
    async (context, [given]) => {
      const { id, email } = await accountNamed(context.store, given);
      const secret = await newKeySecret();
      await context.change("account sign-out", { kind: "key", id }, async (sql) => {
        await new PersonSessions(sql).endAll(id);
        await new Keys(sql).rotate(id, secret);
      });
      context.print({ id, email }, []);
    },
  ),
  cloudCommand(
    "account remove",
    ["EMAIL|ID"],
    "Removes an account with its roles and sessions.",
    [],
    async (context, [given]) => {
      const { id, email } = await accountNamed(context.store, given);
      await context.change("account remove", { kind: "key", id }, (sql) => new Accounts(sql).delete(id));
      context.print({ id, email }, []);
    },
  ),
];

/** The account with this address, id or beginning of an id. */
/** With a link from afar, an administrator would act by another one's name, also when no administrator any more. */
async function requireNoAdministrator(store: Store, id: string, email: string): Promise<void> {
  if (!(await new Administrators(store).all()).some((one) => one.id === id)) return;
  throw new SvcError(
    "permission_denied",
    `${email} is an administrator: a link for the password is made on the host alone`,
  );
}

export async function accountNamed(store: Store, wanted: string) {
  const all = (await new Accounts(store).all()).map((one) => ({ ...one, name: one.email, also: [one.name] }));
  return namedOne("account", wanted.includes("@") ? wanted.toLowerCase() : wanted, all);
}

export function linkOf(address: string, opener: string): string {
  if (address === "") return invitationPath(opener);
  const url = URL.parse(address);
  if (!url || !["http:", "https:"].includes(url.protocol)) {
    throw new UsageError(`--address: found "${address}", wanted for example https://cloud.example.com`);
  }
  return `${url.origin}${invitationPath(opener)}`;
}

export function printLink(
  { print, host }: Pick<CloudCommandContext, "print" | "host">,
  { email, untilMs }: { readonly email: string; readonly untilMs: number },
  link: string,
): void {
  if (link.startsWith("/")) {
    host.writeError("Put the address of the control plane before the link, or give it with --address.\n");
  }
  print({ email, link, until: timeOf(untilMs) }, [`link:  ${link}`, `until: ${timeOf(untilMs)}`]);
}
