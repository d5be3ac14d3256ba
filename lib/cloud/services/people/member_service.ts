/**
 * AppService, members of organizations and invitations. Thin, as `fleet_service.ts`.
 *
 * Published words: an account is a user. An owner of the organization invites; the link of an invitation is not in the
 * published messages, so it comes by mail, from the page, or from `svc-cloud account invite`.
 *
 * The room owns the calls and pages by which people get in: keys, members, invitations, sign-in.
 */

import type { AppService, Authorization } from "../../../../proto/gen/app_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import { SvcError } from "../../../base/error.ts";
import type { CallContext, ServiceImpl } from "../../../wire/rpc/service.ts";
import { authorizationMessage, grantOf, requireOtherOwner } from "./key_service.ts";
import { findOrganization, type Grant, Keys } from "../../access/keys.ts";
import { requireQuota } from "../../access/quota.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import { Organizations } from "../../tenants/organizations.ts";
import type { Sql } from "../../store/store.ts";
import type { SendMail } from "../../notifications/mailer.ts";
import { Accounts, checkedEmail, type Member } from "../../accounts/accounts.ts";
import {
  type Invitation,
  invitationPath,
  Invitations,
  type NewInvitation,
} from "../../accounts/invitations.ts";
import { Deliveries } from "../../notifications/deliveries.ts";
import { requireWithin } from "../../access/limits.ts";

const MAIL_MS = 20_000;

export function memberHandlers(cloud: CloudContext, sendMail: SendMail | undefined) {
  return { ...readingHandlers(cloud), ...memberChanges(cloud), ...invitationHandlers(cloud, sendMail) };
}

function readingHandlers({ store, access }: CloudContext) {
  const accounts = new Accounts(store);
  /** The organizations that the account and the caller share, which is what others see of the account. */
  const common = async (accountId: string, ctx: CallContext) => {
    const [theirs, mine] = await Promise.all([
      accounts.find(accountId).then((found) => found ? access.readOrganizations(accountId) : []),
      access.readOrganizations(ctx.entity),
    ]);
    return theirs.filter((id) => mine.includes(id));
  };
  return {
    async getUserIDByEmail({ email }, ctx) {
      const account = await accounts.byEmail(checkedEmail(email));
      if (account && (account.id === ctx.entity || (await common(account.id, ctx)).length > 0)) {
        return { userId: account.id };
      }
      throw new SvcError("not_found", `there is no member ${email} in your organizations`);
    },
    async listOrganizationsByUser({ userId }, ctx) {
      const ids = await common(userId, ctx);
      const orgs = (await new Organizations(store).among(ids)).map(({ id, name, namespace }) => ({
        orgId: id,
        orgName: name,
        publicNamespace: namespace ?? undefined,
      }));
      return { orgs };
    },
    async listOrganizationMembers({ organizationId }, ctx) {
      const isOwner = await access.may(ctx.entity, "owner", { kind: "organization", id: organizationId });
      const members = await accounts.members(organizationId);
      const invitations = isOwner ? await new Invitations(store).of(organizationId) : [];
      return {
        organizationId,
        members: members.map(memberMessage),
        invites: invitations.map(invitationMessage),
      };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function memberChanges({ audit }: CloudContext) {
  return {
    /** Removes the roles of an account on the organization and on everything in it. */
    async deleteOrganizationMember({ organizationId, userId }, ctx) {
      await audit.change(actorOf(ctx), { kind: "organization", id: organizationId }, async (sql) => {
        const member = (await new Accounts(sql).members(organizationId)).find(({ id }) => id === userId);
        if (!member) throw new SvcError("not_found", `${userId} is no member of this organization`);
        await requireOtherOwner(sql, organizationId, userId);
        for (const grant of member.grants) await new Keys(sql).revoke(userId, grant);
      }, userId);
      return {};
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function invitationHandlers(cloud: CloudContext, sendMail: SendMail | undefined) {
  return { ...sentInvitations(cloud, sendMail), ...invitationChanges(cloud) };
}

function sentInvitations(cloud: CloudContext, sendMail: SendMail | undefined) {
  const { audit, limits } = cloud;
  /** Makes an invitation, and mails its link if the inviter wants that and there is a mail server. */
  const send = async (
    organizationId: string,
    wantsMail: boolean | undefined,
    ctx: CallContext,
    make: (sql: Sql, nowMs: number) => Promise<NewInvitation>,
  ) => {
    const mail = wantsMail === false ? undefined : sendMail;
    const on = { kind: "organization", id: organizationId } as const;
    const made = await audit.change(actorOf(ctx), on, async (sql, nowMs) => {
      const found = await make(sql, nowMs);
      // Whoever is invited need not know the inviter: it counts as a mail of a trigger does.
      if (mail) await new Deliveries(sql).requireOneMore(organizationId, "email", limits, nowMs);
      return found;
    });
    if (mail) await mailInvitation(cloud, mail, made, ctx);
    return { invite: invitationMessage(made.invitation) };
  };

  return {
    async createOrganizationInvite({ organizationId, email, authorizations, sendEmailInvite }, ctx) {
      const address = checkedEmail(email);
      const grants = await grantsWithin(cloud, organizationId, authorizations);
      return await send(organizationId, sendEmailInvite, ctx, async (sql, nowMs) => {
        await requireStranger(sql, organizationId, address);
        const made = await new Invitations(sql).invite(organizationId, address, grants, nowMs);
        await requireQuota(sql, limits, "membersPerOrganization", organizationId);
        return made;
      });
    },
    async resendOrganizationInvite({ organizationId, email, sendEmailInvite }, ctx) {
      return await send(
        organizationId,
        sendEmailInvite,
        ctx,
        (sql, nowMs) => new Invitations(sql).renew(organizationId, checkedEmail(email), nowMs),
      );
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function invitationChanges(cloud: CloudContext) {
  const { audit, limits } = cloud;
  return {
    async updateOrganizationInviteAuthorizations(
      { organizationId, email, addAuthorizations, removeAuthorizations },
      ctx,
    ) {
      const added = await allWithin(cloud, organizationId, addAuthorizations);
      requireWithin(limits, "rolesPerKey", removeAuthorizations.length);
      const removed = new Set(removeAuthorizations.map((one) => textOf(grantOf(one))));
      const on = { kind: "organization", id: organizationId } as const;
      const invitation = await audit.change(actorOf(ctx), on, async (sql) => {
        const invitations = new Invitations(sql);
        const present = await invitations.pending(organizationId, checkedEmail(email));
        const kept = present.grants.filter((one) => !removed.has(textOf(one)));
        const grants = [...kept, ...added];
        if (grants.length === 0) {
          throw new SvcError("invalid_argument", "no role is left, wanted at least one");
        }
        requireWithin(limits, "rolesPerKey", grants.length);
        await invitations.setGrants(present.id, grants);
        return await invitations.pending(organizationId, checkedEmail(email));
      });
      return { invite: invitationMessage(invitation) };
    },
    async deleteOrganizationInvite({ organizationId, email }, ctx) {
      await audit.change(actorOf(ctx), { kind: "organization", id: organizationId }, async (sql) => {
        const { id } = await new Invitations(sql).pending(organizationId, checkedEmail(email));
        await new Invitations(sql).delete(id);
      });
      return {};
    },
  } satisfies ServiceImpl<typeof AppService>;
}

/** The wanted roles; by default, as published, an owner of the organization. */
async function grantsWithin(
  cloud: CloudContext,
  organizationId: string,
  authorizations: readonly Authorization[],
): Promise<Grant[]> {
  if (authorizations.length === 0) {
    return [{ role: "owner", kind: "organization", resourceId: organizationId }];
  }
  return await allWithin(cloud, organizationId, authorizations);
}

/** An invitation has no more roles than the account that it makes may have. */
async function allWithin(
  { store, limits }: CloudContext,
  organizationId: string,
  authorizations: readonly Authorization[],
): Promise<Grant[]> {
  requireWithin(limits, "rolesPerKey", authorizations.length);
  return await Promise.all(authorizations.map((one) => grantWithin(store, organizationId, one)));
}

/** Throws `invalid_argument` for a role in another organization, because an owner of this one may not invite there. */
async function grantWithin(sql: Sql, organizationId: string, one: Authorization): Promise<Grant> {
  const grant = grantOf(one);
  if (await findOrganization(sql, grant) === organizationId) return grant;
  throw new SvcError(
    "invalid_argument",
    `${grant.kind} ${grant.resourceId} is not in organization ${organizationId}, to which you invite`,
  );
}

async function requireStranger(sql: Sql, organizationId: string, email: string): Promise<void> {
  const members = await new Accounts(sql).members(organizationId);
  if (!members.some((one) => one.email === email)) return;
  throw new SvcError(
    "already_exists",
    `${email} is a member of this organization: change the roles with AddRole`,
  );
}

function textOf({ kind, resourceId, role }: Grant): string {
  return JSON.stringify([kind, resourceId, role]);
}

/** Sends the link; without a mail server, the inviter passes it on. If sending fails, the call still succeeds. */
async function mailInvitation(
  cloud: CloudContext,
  sendMail: SendMail,
  { invitation, opener }: NewInvitation,
  ctx: CallContext,
): Promise<void> {
  if (invitation.organizationId === null) return;
  const { name } = await new Organizations(cloud.store).get(invitation.organizationId);
  try {
    const link = `${await cloud.addresses.ownFor(ctx.peer)}${invitationPath(opener)}`;
    const text =
      `You are invited to the organization "${name}".\n\nTo accept, open this link within a week:\n\n${link}\n`;
    const mail = { to: invitation.email, subject: `Invitation to ${name}`, text, id: invitation.id };
    await sendMail(mail, MAIL_MS);
  } catch (error) {
    cloud.logger.warn("an invitation could not be mailed", { error: SvcError.from(error).message });
  }
}

function memberMessage({ id, email, createdMs, signedInMs, seenMs }: Member) {
  return {
    userId: id,
    emails: [email],
    dateAdded: toTimestamp(createdMs),
    lastLogin: signedInMs === null ? undefined : toTimestamp(signedInMs),
    lastAccess: seenMs === null ? undefined : toTimestamp(seenMs),
  };
}

function invitationMessage({ organizationId, email, createdMs, grants }: Invitation) {
  return {
    organizationId: organizationId ?? "",
    email,
    createdOn: toTimestamp(createdMs),
    authorizations: grants.map((grant) => ({
      ...authorizationMessage(grant),
      organizationId: organizationId ?? "",
    })),
  };
}
