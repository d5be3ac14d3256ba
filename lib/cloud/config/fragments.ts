/**
 * Fragments: pieces of configuration that many parts share.
 *
 * A configuration lists them under `fragments`, by id or as `{"id", "variables"}`, and changes them under
 * `fragment_mods`; `resolution.ts` produces one configuration. `version` in an entry pins a revision or a tag; without
 * it the newest one counts.
 *
 * Owns the fragments, their revisions and tags, and the record of their uses.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { counted } from "../../base/log/counted.ts";
import { checkedName } from "../tenants/names.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { type Lookup, lookup } from "../store/lookups.ts";
import { placeholders, type Sql, type SqlValue } from "../store/store.ts";
import { setPackagesOfFragment } from "./package_uses.ts";
import type { ConfigText, FragmentText, FragmentVersion } from "./resolution.ts";

export interface Fragment {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly config: JsonObject;
  readonly revision: number;
  readonly createdMs: number;
  readonly updatedMs: number;
  /** Changes with each change of the fragment or its tags. */
  readonly stamp: number;
  readonly visibility: FragmentAudience;
}

/** A revision and its predecessor: the two sides of a change. */
export interface FragmentChange {
  readonly revision: number;
  readonly atMs: number;
  readonly who: string;
  readonly config: JsonObject;
  readonly oldName: string;
  readonly old: JsonObject;
}

export interface Tag {
  readonly tag: string;
  readonly revision: number;
}

/** A part whose own configuration names a fragment, with the version there; empty for the newest. */
export interface FragmentUse {
  readonly partId: string;
  readonly machineId: string;
  readonly organizationId: string;
  readonly version: string;
}

export interface FragmentCounts {
  readonly parts: number;
  readonly organizations: number;
  /** Organizations other than the owner. */
  readonly others: number;
}

/** Who may use a fragment: its organization, everybody who finds it in lists, or everybody with its id. */
export const FRAGMENT_VISIBILITIES = ["private", "public", "public_unlisted"] as const;
export type FragmentAudience = typeof FRAGMENT_VISIBILITIES[number];

/** Limit of fragments in one query. */
const TEXTS_A_QUERY = 100;
const COLUMNS = `SELECT id, organization_id AS "organizationId", name, config, revision,
  created_ms AS "createdMs", updated_ms AS "updatedMs", stamp, visibility FROM fragments`;
/** Each revision `r` beside its predecessor `b`: newest first, below a revision, up to a count. */
const NEWEST_CHANGES = `FROM fragment_revisions r
       JOIN fragment_revisions b ON b.fragment_id = r.fragment_id AND b.revision = r.revision - 1
       WHERE r.fragment_id = ? AND r.revision < ? ORDER BY r.revision DESC LIMIT ?`;
const NUMBER = /^[1-9]\d{0,14}$/;
const TAG = /^(?!\d+$)[\w.-]{1,60}$/;
const ID = /^[\w-]{1,64}$/;

type Row = Omit<Fragment, "config"> & { config: string };

/** The checked fragments have changed since; a new check may succeed. */
export class ChangedMeanwhile extends SvcError {
  constructor(message: string) {
    super("aborted", message);
  }
}

const TRIES_MAX = 3;

/** Runs `work` again if it throws `ChangedMeanwhile`. */
export async function tryAgain<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1;; tries++) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ChangedMeanwhile) || tries === TRIES_MAX) throw error;
    }
  }
}

/** Fragments whose stamps a lookup reads. */
const STAMPS_MAX = 16;

/** The query for the stamps of `count` fragments. */
export function stampsLookup(count: number): Lookup | string {
  const text = `SELECT id, stamp FROM fragments WHERE id IN (${placeholders(Array(count).fill(""))})`;
  return count <= STAMPS_MAX ? lookup(text, count) : text;
}

export class Fragments {
  constructor(private readonly sql: Sql) {}

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
    const revision = NUMBER.test(version)
      ? Number(version)
      : (await this.tags(id)).find(({ tag }) => tag === version)?.revision;
    const [row] = await this.sql.query<{ name: string; config: string; atMs: number }>(
      `SELECT name, config, at_ms AS "atMs" FROM fragment_revisions WHERE fragment_id = ? AND revision = ?`,
      id,
      revision ?? null,
    );
    return row && revision !== undefined
      ? { ...now, revision, name: row.name, config: JSON.parse(row.config), updatedMs: row.atMs }
      : undefined;
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
    await this.#keep(id, who);
    await this.#setUses(id, imports);
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
    await this.#keep(id, who);
    await this.#setUses(id, imports);
    await setPackagesOfFragment(this.sql, id, packages);
  }

  async #named(name: string, text: string, ...values: SqlValue[]): Promise<void> {
    try {
      await this.sql.query(text, ...values);
    } catch (error) {
      if (SvcError.from(error).code !== "already_exists") throw error;
      throw new SvcError("already_exists", `there is a fragment "${name}" in this organization already`);
    }
  }

  /** Stores the newest revision in the history. */
  async #keep(id: string, who: string): Promise<void> {
    await this.sql.query(
      `INSERT INTO fragment_revisions (fragment_id, revision, at_ms, who, name, config)
       SELECT id, revision, updated_ms, CAST(? AS TEXT), name, config FROM fragments WHERE id = ?`,
      who,
      id,
    );
    await this.#measure(id);
  }

  /** Counts the characters of a fragment with its revisions. */
  async #measure(id: string): Promise<void> {
    await this.sql.query(
      `UPDATE fragments SET config_bytes = LENGTH(config) +
         (SELECT COALESCE(SUM(LENGTH(r.config)), 0) FROM fragment_revisions r WHERE r.fragment_id = fragments.id)
       WHERE id = ?`,
      id,
    );
  }

  /**
   * Deletes the oldest revisions beyond the given number, and beyond a number of characters of all together, except
   * those with a tag and those that parts or fragments name.
   */
  async keepNewest(id: string, count: number, lettersMax: number): Promise<void> {
    const rows = await this.sql.query<{ version: string }>(
      `SELECT version FROM part_fragments WHERE fragment_id = ?
       UNION SELECT version FROM fragment_fragments WHERE used_id = ?`,
      id,
      id,
    );
    const named = rows.map(({ version }) => version).filter((one) => NUMBER.test(one));
    const sizes = await this.sql.query<{ letters: number }>(
      `SELECT LENGTH(config) AS letters FROM fragment_revisions WHERE fragment_id = ? ORDER BY revision DESC LIMIT ?`,
      id,
      count,
    );
    let left = lettersMax;
    const over = sizes.findIndex(({ letters }, index) => (left -= letters) < 0 && index > 0);
    await this.sql.query(
      `DELETE FROM fragment_revisions WHERE fragment_id = ?
         AND revision <= (SELECT revision FROM fragments WHERE id = ?) - ?
         AND revision NOT IN (SELECT revision FROM fragment_tags WHERE fragment_id = ?)
         AND revision NOT IN (${placeholders([0, ...named])})`,
      id,
      id,
      over < 0 ? count : over,
      id,
      0,
      ...named.map(Number),
    );
    await this.#measure(id);
  }

  /** The stored revisions, newest first. */
  revisions(id: string): Promise<{ readonly revision: number; readonly atMs: number }[]> {
    return this.sql.query(
      `SELECT revision, at_ms AS "atMs" FROM fragment_revisions WHERE fragment_id = ? ORDER BY revision DESC`,
      id,
    );
  }

  tags(id: string): Promise<Tag[]> {
    return this.sql.query("SELECT tag, revision FROM fragment_tags WHERE fragment_id = ? ORDER BY tag", id);
  }

  /** Gives a tag to a revision, and takes it from its former revision. */
  async tag(id: string, tag: string, revision: string): Promise<void> {
    if (!TAG.test(tag)) {
      throw new SvcError(
        "invalid_argument",
        `found the tag "${tag}", wanted 1 to 60 letters, digits, "_", "." and "-", and not only digits`,
      );
    }
    const found = NUMBER.test(revision) ? await this.at(id, revision) : undefined;
    if (!found) throw new SvcError("not_found", `fragment "${id}" has no revision "${revision}"`);
    await this.sql.query(
      `INSERT INTO fragment_tags (fragment_id, tag, revision) VALUES (?, ?, ?)
       ON CONFLICT (fragment_id, tag) DO UPDATE SET revision = excluded.revision`,
      id,
      tag,
      found.revision,
    );
    await this.#changed(id);
  }

  /** Throws `failed_precondition` for a tag that parts name. */
  async untag(id: string, tag: string): Promise<void> {
    const { organizationId } = await this.get(id);
    const uses = (await this.uses(id)).filter((one) =>
      one.version === tag && one.organizationId === organizationId
    );
    if (uses.length > 0) {
      throw new SvcError(
        "failed_precondition",
        `tag "${tag}" of fragment "${id}" is named by ${uses.length} parts, wanted none`,
      );
    }
    const text = "DELETE FROM fragment_tags WHERE fragment_id = ? AND tag = ? RETURNING tag";
    if ((await this.sql.query(text, id, tag)).length === 0) {
      throw new SvcError("not_found", `fragment "${id}" has no tag "${tag}"`);
    }
    await this.#changed(id);
  }

  async #changed(id: string): Promise<void> {
    await this.sql.query("UPDATE fragments SET stamp = stamp + 1 WHERE id = ?", id);
  }

  /** The number of newest changes that fit into the given number of letters; at least one. */
  async fitting(id: string, limit: number, lettersMax: number, before = Number.MAX_SAFE_INTEGER) {
    const sizes = await this.sql.query<{ letters: number }>(
      `SELECT LENGTH(r.config) + LENGTH(b.config) AS letters
       ${NEWEST_CHANGES}`,
      id,
      before,
      limit,
    );
    let left = lettersMax;
    const over = sizes.findIndex(({ letters }) => (left -= Number(letters)) < 0);
    return over < 0 ? limit : Math.max(over, 1);
  }

  /** The newest changes, newest first, below revision `before`. */
  async history(id: string, limit: number, before = Number.MAX_SAFE_INTEGER): Promise<FragmentChange[]> {
    const rows = await this.sql.query<
      Omit<FragmentChange, "config" | "old"> & { config: string; old: string }
    >(
      `SELECT r.revision, r.at_ms AS "atMs", r.who, r.config, b.name AS "oldName", b.config AS old
       ${NEWEST_CHANGES}`,
      id,
      before,
      limit,
    );
    return rows.map((row) => ({ ...row, config: JSON.parse(row.config), old: JSON.parse(row.old) }));
  }

  /**
   * Deletes a fragment that no part and no other fragment of its organization names. Uses by other organizations do not
   * prevent this.
   */
  async delete(id: string): Promise<void> {
    const { organizationId, name } = await this.get(id);
    const own = (one: { readonly organizationId: string }) => one.organizationId === organizationId;
    const parts = new Set((await this.uses(id)).filter(own).map(({ partId }) => partId));
    const fragments = (await this.usingFragments(id)).filter(own);
    if (parts.size > 0 || fragments.length > 0) {
      const found = `${counted(parts.size, "part")} and ${counted(fragments.length, "fragment")}`;
      throw new SvcError("failed_precondition", `fragment "${name}" is used by ${found}, wanted none`);
    }
    await this.sql.query("DELETE FROM fragments WHERE id = ?", id);
  }

  /** Records the fragments that a part's own configuration names. */
  async setUsesOfPart(partId: string, used: readonly FragmentVersion[]): Promise<void> {
    await this.sql.query("DELETE FROM part_fragments WHERE part_id = ?", partId);
    for (const { id, version } of used) {
      await this.sql.query(
        "INSERT INTO part_fragments (part_id, fragment_id, version) VALUES (?, ?, ?)",
        partId,
        id,
        version,
      );
    }
  }

  /** The fragments that a part's own configuration names. */
  usesOfPart(partId: string): Promise<FragmentVersion[]> {
    return this.sql.query(
      "SELECT fragment_id AS id, version FROM part_fragments WHERE part_id = ? ORDER BY fragment_id, version",
      partId,
    );
  }

  /** Records the fragments that the newest revision of a fragment names. */
  async #setUses(id: string, used: readonly FragmentVersion[]): Promise<void> {
    await this.sql.query("DELETE FROM fragment_fragments WHERE fragment_id = ?", id);
    for (const one of used) {
      await this.sql.query(
        "INSERT INTO fragment_fragments (fragment_id, used_id, version) VALUES (?, ?, ?)",
        id,
        one.id,
        one.version,
      );
    }
  }

  /** The parts whose own configuration names a fragment. */
  uses(id: string): Promise<FragmentUse[]> {
    return this.sql.query(
      `SELECT u.part_id AS "partId", p.machine_id AS "machineId", l.organization_id AS "organizationId", u.version
       FROM part_fragments u JOIN parts p ON p.id = u.part_id JOIN machines m ON m.id = p.machine_id
       JOIN locations l ON l.id = m.location_id WHERE u.fragment_id = ? ORDER BY u.part_id, u.version`,
      id,
    );
  }

  /** The fragments whose newest revision names a fragment. */
  usingFragments(id: string): Promise<{ readonly id: string; readonly organizationId: string }[]> {
    return this.sql.query(
      `SELECT DISTINCT u.fragment_id AS id, f.organization_id AS "organizationId"
       FROM fragment_fragments u JOIN fragments f ON f.id = u.fragment_id WHERE u.used_id = ? ORDER BY 1`,
      id,
    );
  }

  /**
   * By fragment: the number of parts that name it, of their organizations, and of those organizations that do not own
   * it.
   */
  async counts(ids: readonly string[]): Promise<ReadonlyMap<string, FragmentCounts>> {
    if (ids.length === 0) return new Map();
    const rows = await this.sql.query<FragmentCounts & { id: string }>(
      `SELECT f.id, COUNT(DISTINCT u.part_id) AS parts, COUNT(DISTINCT l.organization_id) AS organizations,
         COUNT(DISTINCT CASE WHEN l.organization_id <> f.organization_id THEN l.organization_id END) AS others
       FROM fragments f JOIN part_fragments u ON u.fragment_id = f.id JOIN parts p ON p.id = u.part_id
       JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id
       WHERE f.id IN (${placeholders(ids)}) GROUP BY f.id`,
      ...ids,
    );
    return new Map(rows.map(({ id, parts, organizations, others }) => [id, {
      parts: Number(parts),
      organizations: Number(organizations),
      others: Number(others),
    }]));
  }

  /** The ids of the machines at these locations that have a part whose own configuration names one of the fragments. */
  async machinesUsing(ids: ReadonlySet<string>, locationIds: readonly string[]): Promise<Set<string>> {
    if (ids.size === 0 || locationIds.length === 0) return new Set();
    const rows = await this.sql.query<{ machineId: string }>(
      `SELECT DISTINCT m.id AS "machineId" FROM part_fragments u JOIN parts p ON p.id = u.part_id
       JOIN machines m ON m.id = p.machine_id
       WHERE u.fragment_id IN (${placeholders([...ids])}) AND m.location_id IN (${
        placeholders(locationIds)
      })`,
      ...ids,
      ...locationIds,
    );
    return new Set(rows.map(({ machineId }) => machineId));
  }

  /** Fragments at exact revisions, in any order. */
  async many(used: readonly { readonly id: string; readonly revision: number }[]): Promise<Fragment[]> {
    const found: Fragment[] = [];
    for (let start = 0; start < used.length; start += TEXTS_A_QUERY) {
      const some = used.slice(start, start + TEXTS_A_QUERY);
      const rows = await this.sql.query<Row>(
        `SELECT f.id, f.organization_id AS "organizationId", r.name, r.config, r.revision,
           f.created_ms AS "createdMs", r.at_ms AS "updatedMs", f.stamp, f.visibility
         FROM fragment_revisions r JOIN fragments f ON f.id = r.fragment_id
         WHERE ${some.map(() => "(r.fragment_id = ? AND r.revision = ?)").join(" OR ")}`,
        ...some.flatMap(({ id, revision }) => [id, revision]),
      );
      found.push(...rows.map(parsed));
    }
    return found;
  }

  /** Throws `aborted` if one of the fragments has changed since its stamp was noted. */
  async requireStamps(stamps: ReadonlyMap<string, number>): Promise<void> {
    if (await this.hasStamps(stamps)) return;
    throw new ChangedMeanwhile("a fragment in it was changed meanwhile: try again");
  }

  async hasStamps(stamps: ReadonlyMap<string, number>): Promise<boolean> {
    if (stamps.size === 0) return true;
    const rows = await this.sql.query<{ id: string; stamp: number }>(
      stampsLookup(stamps.size),
      ...stamps.keys(),
    );
    return rows.length === stamps.size && rows.every(({ id, stamp }) => stamps.get(id) === stamp);
  }

  /** The texts of fragments that an organization may use, at most `lettersMax` together; the others without text. */
  async texts(
    wanted: readonly FragmentVersion[],
    organizationId: string,
    lettersMax: number,
  ): Promise<{ readonly found: FragmentText[]; readonly stamps: readonly { id: string; stamp: number }[] }> {
    const asked = wanted.filter(({ id, version }) => ID.test(id) && isVersion(version));
    const stamps: { id: string; stamp: number }[] = [];
    const found: FragmentText[] = [];
    for (let start = 0; start < asked.length; start += TEXTS_A_QUERY) {
      const some = asked.slice(start, start + TEXTS_A_QUERY);
      const rows = await this.owners(some.map(({ id }) => id));
      stamps.push(...rows);
      const usable = new Map(
        rows.filter((row) => row.organizationId === organizationId || row.visibility !== "private")
          .map((row) => [row.id, row]),
      );
      const pinned = await this.#pinned(some.filter(({ id }) => usable.has(id)), usable);
      const left = lettersMax - found.reduce((sum, { letters }) => sum + letters, 0);
      found.push(
        ...(await this.#readTexts(pinned, left)).map((one) => ({
          ...one,
          own: usable.get(one.id)!.organizationId === organizationId,
        })),
      );
    }
    return { found, stamps };
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

  /** The revision of each version that exists. */
  async #pinned(
    wanted: readonly FragmentVersion[],
    newest: ReadonlyMap<string, { readonly revision: number }>,
  ): Promise<(FragmentVersion & { readonly revision: number })[]> {
    const tagged = wanted.filter(({ version }) => version !== "" && !NUMBER.test(version)).map(({ id }) =>
      id
    );
    const tags = tagged.length === 0 ? [] : await this.sql.query<Tag & { id: string }>(
      `SELECT fragment_id AS id, tag, revision FROM fragment_tags WHERE fragment_id IN (${
        placeholders(tagged)
      })`,
      ...tagged,
    );
    const revisions = new Map(tags.map(({ id, tag, revision }) => [`${id} ${tag}`, revision]));
    return wanted.flatMap((one) => {
      const { id, version } = one;
      let revision = revisions.get(`${id} ${version}`);
      if (version === "") revision = newest.get(id)!.revision;
      else if (NUMBER.test(version)) revision = Number(version);

      return revision === undefined ? [] : [{ ...one, revision }];
    });
  }

  async #readTexts(
    pinned: readonly (FragmentVersion & { readonly revision: number })[],
    lettersMax: number,
  ): Promise<Omit<FragmentText, "own">[]> {
    if (pinned.length === 0) return [];
    const pairs = pinned.flatMap(({ id, revision }) => [id, revision]);
    const where = `FROM fragment_revisions WHERE ${
      pinned.map(() => "(fragment_id = ? AND revision = ?)").join(" OR ")
    }`;
    const sizes = await this.sql.query<{ id: string; revision: number; letters: number }>(
      `SELECT fragment_id AS id, revision, LENGTH(config) AS letters ${where}`,
      ...pairs,
    );
    const letters = new Map(sizes.map((one) => [`${one.id} ${one.revision}`, Number(one.letters)]));
    const sum = [...letters.values()].reduce((sum, one) => sum + one, 0);
    const rows = sum > lettersMax ? [] : await this.sql.query<{ id: string; revision: number; text: string }>(
      `SELECT fragment_id AS id, revision, config AS text ${where}`,
      ...pairs,
    );
    const texts = new Map(rows.map(({ id, revision, text }) => [`${id} ${revision}`, text]));
    return pinned.flatMap((one) => {
      const key = `${one.id} ${one.revision}`;
      const size = letters.get(key);
      return size === undefined ? [] : [{ ...one, letters: size, text: texts.get(key) }];
    });
  }
}

function parsed({ config, ...row }: Row): Fragment {
  return { ...row, config: JSON.parse(config) };
}

/** Whether a text can be a version: empty, a revision, or a tag. */
function isVersion(version: string): boolean {
  return version === "" || NUMBER.test(version) || TAG.test(version);
}
