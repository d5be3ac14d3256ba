/**
 * Fragments: pieces of configuration that many parts share.
 *
 * A configuration lists them under `fragments`, by id or as `{"id", "variables"}`, and changes them under
 * `fragment_mods`; `resolution.ts` produces one configuration. `version` in an entry pins a revision or a tag; without
 * it the newest one counts.
 *
 * Owns the table `fragments`.
 *
 * The room owns the fragments, their revisions and tags, and the record of their uses.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../../base/error.ts";
import { counted } from "../../../base/log/counted.ts";
import type { JsonObject } from "../../../base/schema/schema.ts";
import { placeholders, type Sql, type SqlValue } from "../../store/store.ts";
import { checkedName } from "../../tenants/names.ts";
import { setPackagesOfFragment } from "../package_uses.ts";
import type { ConfigText } from "../resolution.ts";
import { FragmentRevisions, REVISION } from "./fragment_revisions.ts";
import { FragmentUses } from "./fragment_uses.ts";

export interface Fragment {
  readonly id: string;
  readonly organizationId: string;
  readonly organizationName: string;
  readonly name: string;
  readonly config: JsonObject;
  readonly revision: number;
  readonly createdMs: number;
  readonly updatedMs: number;
  /** Changes with each change of the fragment or its tags. */
  readonly stamp: number;
  readonly visibility: FragmentAudience;
}

/** Who may use a fragment: its organization, everybody who finds it in lists, or everybody with its id. */
export const FRAGMENT_VISIBILITIES = ["private", "public", "public_unlisted"] as const;
export type FragmentAudience = typeof FRAGMENT_VISIBILITIES[number];

/** Limit of fragments in one query. */
export const FRAGMENTS_A_QUERY = 100;
const COLUMNS = `SELECT id, organization_id AS "organizationId",
  (SELECT o.name FROM organizations o WHERE o.id = fragments.organization_id) AS "organizationName", name, config, revision,
  created_ms AS "createdMs", updated_ms AS "updatedMs", stamp, visibility FROM fragments`;
/** The form of a tag: no number, which would be a revision. */
export const TAG_FORM = /^(?!\d+$)[\w.-]{1,60}$/;

type Row = Omit<Fragment, "config"> & { config: string };

export class Fragments {
  readonly #revisions: FragmentRevisions;
  readonly #uses: FragmentUses;

  constructor(private readonly sql: Sql) {
    this.#revisions = new FragmentRevisions(sql);
    this.#uses = new FragmentUses(sql);
  }

  async list(organizationId: string): Promise<Fragment[]> {
    return (await this.sql.query<Row>(`${COLUMNS} WHERE organization_id = ? ORDER BY name`, organizationId))
      .map(parsed);
  }

  /** The names of all fragments, of every organization. */
  names(): Promise<{ readonly id: string; readonly name: string }[]> {
    return this.sql.query("SELECT id, name FROM fragments ORDER BY name");
  }

  /** Public fragments of other organizations, the oldest first, at most `limit` with `lettersMax` together. */
  async published(organizationId: string, limit: number, lettersMax: number): Promise<Fragment[]> {
    const where = "WHERE visibility = 'public' AND organization_id <> ? ORDER BY created_ms, id LIMIT ?";
    const sizes = await this.sql.query<{ letters: number }>(
      `SELECT LENGTH(config) AS letters FROM fragments ${where}`,
      organizationId,
      limit,
    );
    let left = lettersMax;
    const over = sizes.findIndex(({ letters }) => (left -= Number(letters)) < 0);
    const fitting = over < 0 ? limit : over;
    return (await this.sql.query<Row>(`${COLUMNS} ${where}`, organizationId, fitting)).map(parsed);
  }

  async find(id: string): Promise<Fragment | undefined> {
    const [row] = await this.sql.query<Row>(`${COLUMNS} WHERE id = ?`, id);
    return row && parsed(row);
  }

  async get(id: string): Promise<Fragment> {
    const found = await this.find(id);
    if (!found) throw new SvcError("not_found", `there is no fragment "${id}"`);
    return found;
  }

  /** A fragment at a version: a revision, or a tag of one; `undefined` if there is no such version. */
  async at(id: string, version: string): Promise<Fragment | undefined> {
    const now = await this.find(id);
    if (!now || version === "") return now;
    const revision = await this.#revisions.findNumber(id, version);
    const found = revision === undefined ? undefined : await this.#revisions.find(id, revision);
    if (revision === undefined || !found) return undefined;
    return { ...now, revision, name: found.name, config: JSON.parse(found.config), updatedMs: found.atMs };
  }

  /** Fragments at exact revisions, in any order. */
  async many(used: readonly { readonly id: string; readonly revision: number }[]): Promise<Fragment[]> {
    const found: Fragment[] = [];
    for (let start = 0; start < used.length; start += FRAGMENTS_A_QUERY) {
      const some = used.slice(start, start + FRAGMENTS_A_QUERY);
      const rows = await this.sql.query<Row>(
        `SELECT f.id, f.organization_id AS "organizationId",
           (SELECT o.name FROM organizations o WHERE o.id = f.organization_id) AS "organizationName", r.name, r.config, r.revision,
           f.created_ms AS "createdMs", r.at_ms AS "updatedMs", f.stamp, f.visibility
         FROM fragment_revisions r JOIN fragments f ON f.id = r.fragment_id
         WHERE ${some.map(() => "(r.fragment_id = ? AND r.revision = ?)").join(" OR ")}`,
        ...some.flatMap(({ id, revision }) => [id, revision]),
      );
      found.push(...rows.map(parsed));
    }
    return found;
  }

  /** The owners and visibilities of fragments. */
  async owners(ids: readonly string[]) {
    if (ids.length === 0) return [];
    return await this.sql.query<
      { id: string; organizationId: string; revision: number; stamp: number; visibility: string }
    >(
      `SELECT id, organization_id AS "organizationId", revision, stamp, visibility FROM fragments
       WHERE id IN (${placeholders(ids)})`,
      ...ids,
    );
  }

  async create(
    organizationId: string,
    name: string,
    { text, imports, packages }: ConfigText,
    nowMs: number,
    { who = "", visibility = "private" }: { readonly who?: string; readonly visibility?: FragmentAudience } =
      {},
  ): Promise<string> {
    const id = randomUUID();
    await this.#named(
      name,
      `INSERT INTO fragments (id, organization_id, name, config, revision, created_ms, updated_ms, visibility)
       VALUES (?, ?, ?, ?, 1, ?, ?, ?)`,
      id,
      organizationId,
      checkedName(name),
      text,
      nowMs,
      nowMs,
      visibility,
    );
    await this.#revisions.keep(id, who);
    await this.#uses.setOfFragment(id, imports);
    await setPackagesOfFragment(this.sql, id, packages);
    return id;
  }

  async update(
    id: string,
    name: string,
    { text, imports, packages }: ConfigText,
    nowMs: number,
    { who = "", visibility }: { readonly who?: string; readonly visibility?: FragmentAudience } = {},
  ): Promise<void> {
    await this.#named(
      name,
      `UPDATE fragments SET name = ?, config = ?, revision = revision + 1, stamp = stamp + 1, updated_ms = ?,
         visibility = COALESCE(CAST(? AS TEXT), visibility)
       WHERE id = ?`,
      checkedName(name),
      text,
      nowMs,
      visibility ?? null,
      id,
    );
    await this.#revisions.keep(id, who);
    await this.#uses.setOfFragment(id, imports);
    await setPackagesOfFragment(this.sql, id, packages);
  }

  /** Gives a tag to a revision, and takes it from its former revision. */
  async tag(id: string, tag: string, revision: string): Promise<void> {
    if (!TAG_FORM.test(tag)) {
      throw new SvcError(
        "invalid_argument",
        `found the tag "${tag}", wanted 1 to 60 letters, digits, "_", "." and "-", and not only digits`,
      );
    }
    const found = REVISION.test(revision) ? await this.#revisions.find(id, Number(revision)) : undefined;
    if (!found) throw new SvcError("not_found", `fragment "${id}" has no revision "${revision}"`);
    await this.#revisions.setTag(id, tag, Number(revision));
    await this.#changed(id);
  }

  /** Throws `failed_precondition` for a tag that parts name. */
  async untag(id: string, tag: string): Promise<void> {
    const { organizationId } = await this.get(id);
    const uses = (await this.#uses.parts(id)).filter((one) =>
      one.version === tag && one.organizationId === organizationId
    );
    if (uses.length > 0) {
      throw new SvcError(
        "failed_precondition",
        `tag "${tag}" of fragment "${id}" is named by ${uses.length} parts, wanted none`,
      );
    }
    if (!await this.#revisions.removeTag(id, tag)) {
      throw new SvcError("not_found", `fragment "${id}" has no tag "${tag}"`);
    }
    await this.#changed(id);
  }

  /**
   * Deletes a fragment that no part and no other fragment of its organization names. Uses by other organizations do not
   * prevent this.
   */
  async delete(id: string): Promise<void> {
    const { organizationId, name } = await this.get(id);
    const own = (one: { readonly organizationId: string }) => one.organizationId === organizationId;
    const parts = new Set((await this.#uses.parts(id)).filter(own).map(({ partId }) => partId));
    const fragments = (await this.#uses.fragments(id)).filter(own);
    if (parts.size > 0 || fragments.length > 0) {
      const found = `${counted(parts.size, "part")} and ${counted(fragments.length, "fragment")}`;
      throw new SvcError("failed_precondition", `fragment "${name}" is used by ${found}, wanted none`);
    }
    await this.sql.query("DELETE FROM fragments WHERE id = ?", id);
  }

  async #changed(id: string): Promise<void> {
    await this.sql.query("UPDATE fragments SET stamp = stamp + 1 WHERE id = ?", id);
  }

  async #named(name: string, text: string, ...values: SqlValue[]): Promise<void> {
    try {
      await this.sql.query(text, ...values);
    } catch (error) {
      if (SvcError.from(error).code !== "already_exists") throw error;
      throw new SvcError("already_exists", `there is a fragment "${name}" in this organization already`);
    }
  }
}

function parsed({ config, ...row }: Row): Fragment {
  return { ...row, config: JSON.parse(config) };
}
