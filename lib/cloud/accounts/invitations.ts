/**
 * Invitations: a link with which a person gets roles in an organization, and an account if there is none for the
 * address.
 *
 * Anybody who has the link may use it once, so it is only shown to the inviter, and mailed to the address. Its secret
 * stands after `#`, which browsers do not send. Without an organization, the link sets a new password.
 */

import { SvcError } from "../../base/error.ts";
import { isSameText } from "../../base/same_text.ts";
import { findOrganization, type Grant, Keys } from "../access/keys.ts";
import type { Limits } from "../access/limits.ts";
import { requireQuota } from "../access/quota.ts";
import { correctEnds } from "../store/due.ts";
import type { Sql } from "../store/store.ts";
import { newOpener, openerHash, openerParts } from "./sessions.ts";

export interface Invitation {
  readonly id: string;
  readonly organizationId: string | null;
  readonly email: string;
  readonly createdMs: number;
  readonly untilMs: number;
  readonly grants: readonly Grant[];
}

type InvitationRow = Omit<Invitation, "grants">;

/** An invitation and the secret of its link. */
export interface NewInvitation {
  readonly invitation: Invitation;
  readonly opener: string;
}

const DAY_MS = 24 * 3600 * 1000;
/** How long a link is valid: one of an invitation, and one for a new password. */
const INVITED_MS = 7 * DAY_MS;
const RESET_MS = DAY_MS;
const LINK_OVER = "the link was used or replaced, or has expired: ask for a new one";
const COLUMNS = `i.id, i.organization_id AS "organizationId", i.email, i.created_ms AS "createdMs",
    i.until_ms AS "untilMs"`;

export class Invitations {
  constructor(private readonly sql: Sql) {}

  /** Invites an address to an organization; an earlier invitation of the address there ends. */
  async invite(
    organizationId: string,
    email: string,
    grants: readonly Grant[],
    nowMs: number,
  ): Promise<NewInvitation> {
    await this.sql.query(
      "DELETE FROM invitations WHERE organization_id = ? AND email = ?",
      organizationId,
      email,
    );
    const made = await this.#make(organizationId, email, nowMs, INVITED_MS);
    await this.setGrants(made.invitation.id, grants);
    return { ...made, invitation: { ...made.invitation, grants } };
  }

  /** Creates a link for a new password of an account; an earlier link ends. */
  async reset(email: string, nowMs: number): Promise<NewInvitation> {
    await this.sql.query("DELETE FROM invitations WHERE organization_id IS NULL AND email = ?", email);
    return await this.#make(null, email, nowMs, RESET_MS);
  }

  /** Creates a new link for an invitation; its earlier link ends. */
  async renew(organizationId: string, email: string, nowMs: number): Promise<NewInvitation> {
    const { grants } = await this.pending(organizationId, email);
    return await this.invite(organizationId, email, grants, nowMs);
  }

  async setGrants(id: string, grants: readonly Grant[]): Promise<void> {
    await this.sql.query("DELETE FROM invitation_grants WHERE invitation_id = ?", id);
    for (const { role, kind, resourceId } of grants) {
      await this.sql.query(
        `INSERT INTO invitation_grants (invitation_id, role, kind, resource_id) VALUES (?, ?, ?, ?)
         ON CONFLICT (invitation_id, kind, resource_id) DO UPDATE SET role = excluded.role`,
        id,
        role,
        kind,
        resourceId,
      );
    }
  }

  /** The invitations of an organization, by address, including expired ones, which can be sent again. */
  async of(organizationId: string): Promise<Invitation[]> {
    const rows = await this.sql.query<InvitationRow>(
      `SELECT ${COLUMNS} FROM invitations i WHERE i.organization_id = ? ORDER BY i.email`,
      organizationId,
    );
    return await Promise.all(rows.map((row) => this.#whole(row)));
  }

  /** Throws `not_found`. */
  async pending(organizationId: string, email: string): Promise<Invitation> {
    const [row] = await this.sql.query<InvitationRow>(
      `SELECT ${COLUMNS} FROM invitations i WHERE i.organization_id = ? AND i.email = ?`,
      organizationId,
      email,
    );
    if (row) return await this.#whole(row);
    throw new SvcError("not_found", `${email} is not invited to this organization`);
  }

  /** The invitation of a link. Throws `not_found` for a link that was used, replaced, or has expired. */
  async opened(opener: string, nowMs: number): Promise<Invitation> {
    const parts = openerParts(opener);
    const [row] = parts
      ? await this.sql.query<InvitationRow & { readonly hash: string }>(
        `SELECT i.hash, ${COLUMNS} FROM invitations i WHERE i.id = ? AND i.until_ms > ?`,
        parts.id,
        nowMs,
      )
      : [];
    if (row && isSameText(row.hash, openerHash(parts!.secret))) {
      const { hash: _, ...invitation } = row;
      return await this.#whole(invitation);
    }
    throw new SvcError("not_found", LINK_OVER);
  }

  /** An invitation whose link was opened before. Throws `not_found` as `opened` does. */
  async valid(id: string, nowMs: number): Promise<Invitation> {
    const [row] = await this.sql.query<InvitationRow>(
      `SELECT ${COLUMNS} FROM invitations i WHERE i.id = ? AND i.until_ms > ?`,
      id,
      nowMs,
    );
    if (row) return await this.#whole(row);
    throw new SvcError("not_found", LINK_OVER);
  }

  async delete(id: string): Promise<void> {
    await this.sql.query("DELETE FROM invitations WHERE id = ?", id);
  }

  /** Deletes expired links for new passwords; invitations stay in the list until somebody removes them. */
  async forgetOld(nowMs: number): Promise<void> {
    await correctEnds(this.sql, "invitations", nowMs);
    await this.sql.query("DELETE FROM invitations WHERE organization_id IS NULL AND until_ms <= ?", nowMs);
  }

  async #make(
    organizationId: string | null,
    email: string,
    nowMs: number,
    validMs: number,
  ): Promise<NewInvitation> {
    const opener = newOpener();
    const { id, secret } = openerParts(opener)!;
    const untilMs = nowMs + validMs;
    await this.sql.query(
      `INSERT INTO invitations (id, organization_id, email, hash, created_ms, until_ms)
       VALUES (?, ?, ?, ?, ?, ?)`,
      id,
      organizationId,
      email,
      openerHash(secret),
      nowMs,
      untilMs,
    );
    return { opener, invitation: { id, organizationId, email, createdMs: nowMs, untilMs, grants: [] } };
  }

  async #whole(row: InvitationRow): Promise<Invitation> {
    const grants = await this.sql.query<Grant>(
      `SELECT role, kind, resource_id AS "resourceId" FROM invitation_grants WHERE invitation_id = ?
       ORDER BY kind, resource_id`,
      row.id,
    );
    return { ...row, grants };
  }
}

/** The address behind `#` of the fleet's page. */
export function invitationPath(opener: string): string {
  return `/#/invitation/${opener}`;
}

/** Grants the roles of an invitation, except those on resources that no longer belong to the organization. */
export async function giveRoles(
  sql: Sql,
  limits: Limits,
  accountId: string,
  { organizationId, grants }: Invitation,
): Promise<void> {
  for (const grant of grants) {
    const present = await findOrganization(sql, grant).catch(() => undefined);
    if (present === organizationId) await new Keys(sql).grant(accountId, grant);
  }
  await requireQuota(sql, limits, "rolesPerKey", accountId);
  if (organizationId) await requireQuota(sql, limits, "rolesPerOrganization", organizationId);
}
