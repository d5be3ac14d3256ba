/**
 * Packages: immutable contents with a name, versions and platforms, and the registry items that they are versions of.
 *
 * Owns the tables `registry_items` and `packages`. An item keeps its kind, and its name is unique in its organization;
 * each of its versions exists once per platform. Contents are in the file store.
 *
 * The room owns everything that the control plane distributes: packages, the registry, programs for agents, their
 * signatures and downloads.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { isPrerelease, VERSION_WORDS } from "../../base/release/version_words.ts";
import { compareVersions, parseRange, parseVersion, type Version } from "../../base/semver.ts";
import type { StoredFile } from "../store/files.ts";
import { notedSetting } from "../store/settings.ts";
import type { Sql, SqlValue } from "../store/store.ts";
import { retiredNamespace } from "../tenants/organizations.ts";
import { packagesByItem } from "./item_pages.ts";
import type { Item, Package, PackageKind, Visibility } from "./item.ts";

/** The members of an item that can change. */
export type ItemChange = Partial<
  Pick<Item, "visibility" | "description" | "url" | "markdown" | "details">
>;

export interface NewPackage {
  readonly organizationId: string;
  readonly name: string;
  readonly version: string;
  readonly type: PackageKind;
  /** Empty or `any` for a content that fits every platform. */
  readonly platform: string;
  readonly metadata: JsonObject;
  readonly file: StoredFile;
}

export const PACKAGE_BYTES_MAX = 4 * 1024 ** 3;

const NAME = /^[A-Za-z0-9][\w.-]{0,199}$/;
const VERSION = /^[A-Za-z0-9][\w.:+-]{0,99}$/;
const PLATFORM = /^(?:[a-z0-9]{1,20}\/[a-z0-9_]{1,20})?$/;
/** No name may look like the id of an organization. */
const NAMESPACE = /^(?![0-9a-f]{8}-)[a-z0-9][a-z0-9-]{0,99}$/;

const ITEM_COLUMNS = `i.id AS "itemId", i.organization_id AS "organizationId", o.namespace, i.name, i.kind,
  i.visibility, i.description, i.url, i.markdown, i.details, i.created_ms AS "itemMs", i.updated_ms AS "updatedMs"`;
const ITEMS = `SELECT ${ITEM_COLUMNS} FROM registry_items i JOIN organizations o ON o.id = i.organization_id`;
const PACKAGES = packagesWith(ITEM_COLUMNS);
/** Lists leave out the long texts of the items, which each package would repeat. */
const LEAN_PACKAGES = packagesWith(
  ITEM_COLUMNS.replace("i.description", "'' AS description").replace("i.markdown", "'' AS markdown")
    .replace("i.details", "'{}' AS details"),
);
/** Limit of packages in one answer. */
const LISTED_MAX = 10_000;

/** Selects packages of an organization; an absent member is no condition. */
export interface PackageSelection {
  readonly name?: string;
  readonly version?: string;
  readonly kind?: PackageKind;
  readonly platform?: string;
}

function packagesWith(itemColumns: string): string {
  return `SELECT ${itemColumns}, p.id, p.version, p.platform, p.sha256, p.bytes, p.metadata,
    p.created_ms AS "createdMs" FROM packages p JOIN registry_items i ON i.id = p.item_id
    JOIN organizations o ON o.id = i.organization_id`;
}

type ItemRow = Omit<Item, "id" | "details" | "createdMs"> & {
  readonly itemId: string;
  readonly details: string;
  readonly itemMs: number;
};
type PackageRow = ItemRow & Omit<Package, "item" | "metadata"> & { readonly metadata: string };

export class Packages {
  constructor(private readonly sql: Sql) {}

  /**
   * Adds a version, and the item with its first one. Throws `already_exists` if the version exists for this platform,
   * or the item has another kind; `invalid_argument` for impossible names.
   */
  async add(info: NewPackage, nowMs: number): Promise<{ id: string; version: string }> {
    const { organizationId, name, version, type, metadata, file } = info;
    const platform = info.platform === "any" ? "" : info.platform;
    checkPackage(name, version, platform);
    const item = await this.#itemNamed("i.organization_id = ? AND i.name = ?", organizationId, name) ??
      await this.createItem(organizationId, name, type, nowMs);
    const shown = `${type} "${name}"`;
    if (item.kind !== type) {
      throw new SvcError(
        "already_exists",
        `cannot add ${shown}: "${name}" is of the type ${item.kind} already`,
      );
    }
    const text = `INSERT INTO packages (id, item_id, version, platform, sha256, bytes, metadata, created_ms)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;
    try {
      await this.sql.query(
        text,
        randomUUID(),
        item.id,
        version,
        platform,
        file.sha256,
        file.bytes,
        JSON.stringify(metadata),
        nowMs,
      );
    } catch (error) {
      if (SvcError.from(error).code !== "already_exists") throw error;
      const where = platform === "" ? "" : ` for ${platform}`;
      throw new SvcError(
        "already_exists",
        `there is version "${version}" of ${shown}${where} already: versions do not change, take a new one`,
      );
    }
    await this.sql.query("UPDATE registry_items SET updated_ms = ? WHERE id = ?", nowMs, item.id);
    return { id: `${organizationId}/${name}`, version };
  }

  /**
   * The content for a platform of the selected version: an exact one, a range such as `^1.2`, `stable` (the highest
   * release), `dev` (the highest version), or `latest` (the highest release, or the last one uploaded if that is no
   * number). Throws `not_found`.
   */
  async find(id: string, version: string, platform?: string): Promise<Package> {
    const all = await this.versions(await this.item(id));
    const fitting = all.filter((one) => fits(one.platform, platform));
    const found = chooseVersion(fitting, version);
    if (found) return found;
    const there = (fitting.length > 0 ? fitting : all).map((one) =>
      one.platform === "" ? one.version : `${one.version} for ${one.platform}`
    );
    throw new SvcError(
      "not_found",
      `there is no version "${version}" of "${id}"${platform ? ` for ${platform}` : ""}, found ` +
        (there.length === 0 ? "none at all" : shortened(there)),
    );
  }

  /** By its own id. Throws `not_found`. */
  async get(packageId: string): Promise<Package> {
    const [found] = await this.#packages("p.id = ?", packageId);
    if (found) return found;
    throw new SvcError("not_found", `there is no package ${packageId}`);
  }

  async has(organizationId: string, wanted: PackageSelection): Promise<boolean> {
    return (await this.#selected(organizationId, wanted, 1)).length > 0;
  }

  /** The packages of an organization, newest last. Throws `resource_exhausted` if they do not fit into an answer. */
  async list(organizationId: string, wanted: PackageSelection = {}): Promise<Package[]> {
    const found = await this.#selected(organizationId, wanted, LISTED_MAX + 1);
    if (found.length <= LISTED_MAX) return found;
    const hint = "wanted a name or a version, which selects fewer";
    throw new SvcError("resource_exhausted", `found more than ${LISTED_MAX} packages: ${hint}`);
  }

  /** All contents of an item, newest last. */
  async versions(item: Item): Promise<Package[]> {
    return (await packagesByItem(this.sql, [item])).get(item.id) ?? [];
  }

  /** Removes a version for all platforms; returns its contents, for the caller to release. */
  async delete(id: string, version: string): Promise<string[]> {
    const item = await this.item(id);
    const text = "DELETE FROM packages WHERE item_id = ? AND version = ? RETURNING sha256";
    const gone = await this.sql.query<{ sha256: string }>(text, item.id, version);
    if (gone.length > 0) return gone.map(({ sha256 }) => sha256);
    throw new SvcError("not_found", `there is no version "${version}" of "${id}"`);
  }

  // Items.

  /** `org/name`, `org:name` or, with the public name of the organization, `namespace:name`. Throws `not_found`. */
  async item(id: string): Promise<Item> {
    const found = await this.itemIfAny(id);
    if (found) return found;
    throw new SvcError("not_found", `there is no package "${id}"`);
  }

  /** The same; `undefined` if there is none. */
  itemIfAny(id: string): Promise<Item | undefined> {
    const { owner, name } = splitId(id);
    return this.#itemNamed("i.name = ? AND (i.organization_id = ? OR o.namespace = ?)", name, owner, owner);
  }

  async createItem(organizationId: string, name: string, kind: PackageKind, nowMs: number): Promise<Item> {
    check("name", name, NAME, "letters, digits, - _ and .");
    const id = randomUUID();
    const text = `INSERT INTO registry_items (id, organization_id, name, kind, visibility, description, url,
      markdown, details, created_ms, updated_ms) VALUES (?, ?, ?, ?, 'private', '', '', '', '{}', ?, ?)`;
    try {
      await this.sql.query(text, id, organizationId, name, kind, nowMs, nowMs);
    } catch (error) {
      if (SvcError.from(error).code !== "already_exists") throw error;
      throw new SvcError("already_exists", `there is a registry item "${name}" here already`);
    }
    return (await this.#itemNamed("i.id = ?", id))!;
  }

  /** Throws `failed_precondition` if others should see it and its organization has no public name. */
  async updateItem(item: Item, change: ItemChange, nowMs: number): Promise<void> {
    const { visibility, description, url, markdown, details } = { ...item, ...change };
    await this.requireNamespace(item, visibility);
    await this.sql.query(
      `UPDATE registry_items SET visibility = ?, description = ?, url = ?, markdown = ?, details = ?,
       updated_ms = ? WHERE id = ?`,
      visibility,
      description,
      url,
      markdown,
      JSON.stringify(details),
      nowMs,
      item.id,
    );
  }

  /** Removes an item with all its versions; returns their contents, for the caller to release. */
  async deleteItem({ id }: Item): Promise<string[]> {
    const gone = await this.sql.query<{ sha256: string }>(
      "DELETE FROM packages WHERE item_id = ? RETURNING sha256",
      id,
    );
    await this.sql.query("DELETE FROM registry_items WHERE id = ?", id);
    return [...new Set(gone.map(({ sha256 }) => sha256))];
  }

  /** Throws `failed_precondition` if others should see an item that they could not name. */
  async requireNamespace(
    { organizationId, name }: Pick<Item, "organizationId" | "name">,
    visibility: Visibility,
  ): Promise<void> {
    if (visibility === "private" || await this.#namespace(organizationId)) return;
    throw new SvcError(
      "failed_precondition",
      `"${name}" cannot be ${visibility}: give the organization a public namespace first`,
    );
  }

  /**
   * Gives an organization its public name, permanently: names in other people's files must stay valid. `fromDeleted`: also
   * one that a deleted organization had.
   */
  async setNamespace(
    organizationId: string,
    namespace: string,
    { fromDeleted = false }: { readonly fromDeleted?: boolean } = {},
  ): Promise<void> {
    checkNamespace(namespace);
    const known = await this.#namespace(organizationId);
    if (known === namespace) return;
    if (known) {
      throw new SvcError(
        "failed_precondition",
        `the public namespace is "${known}" and cannot be changed to "${namespace}"`,
      );
    }
    if (!fromDeleted && await this.#isRetired(namespace)) {
      throw new SvcError(
        "already_exists",
        `the public namespace "${namespace}" was that of a deleted organization, whose items machines may still name`,
      );
    }
    try {
      await this.sql.query("UPDATE organizations SET namespace = ? WHERE id = ?", namespace, organizationId);
    } catch (error) {
      if (SvcError.from(error).code !== "already_exists") throw error;
      throw new SvcError("already_exists", `the public namespace "${namespace}" is taken`);
    }
  }

  /** Whether an organization without a public name may take this one. Throws `invalid_argument` if none may. */
  async isNamespaceFree(namespace: string): Promise<boolean> {
    checkNamespace(namespace);
    const rows = await this.sql.query("SELECT id FROM organizations WHERE namespace = ?", namespace);
    return rows.length === 0 && !await this.#isRetired(namespace);
  }

  async #isRetired(namespace: string): Promise<boolean> {
    return await notedSetting(this.sql, retiredNamespace(namespace)) !== undefined;
  }

  async #namespace(organizationId: string): Promise<string | null | undefined> {
    const text = "SELECT namespace FROM organizations WHERE id = ?";
    const [row] = await this.sql.query<{ namespace: string | null }>(text, organizationId);
    return row?.namespace;
  }

  async #itemNamed(where: string, ...values: SqlValue[]): Promise<Item | undefined> {
    const [row] = await this.sql.query<ItemRow>(`${ITEMS} WHERE ${where}`, ...values);
    return row && itemOf(row);
  }

  /** Leaves out the texts of the items. */
  async #selected(organizationId: string, wanted: PackageSelection, limit: number): Promise<Package[]> {
    const columns = { "i.name": wanted.name, "p.version": wanted.version, "i.kind": wanted.kind };
    const given = Object.entries({ ...columns, "p.platform": wanted.platform }).flatMap(([column, value]) =>
      value === undefined ? [] : [[column, value] as const]
    );
    const rows = await this.sql.query<PackageRow>(
      `${LEAN_PACKAGES} WHERE i.organization_id = ?${given.map(([column]) => ` AND ${column} = ?`).join("")}
       ORDER BY i.name, p.created_ms, p.version, p.platform LIMIT ?`,
      organizationId,
      ...given.map(([, value]) => value),
      limit,
    );
    return rows.map(packageOf);
  }

  async #packages(where: string, ...values: SqlValue[]): Promise<Package[]> {
    const text = `${PACKAGES} WHERE ${where} ORDER BY i.name, p.created_ms, p.version, p.platform`;
    const rows = await this.sql.query<PackageRow>(text, ...values);
    return rows.map(packageOf);
  }
}

/** The parts of `owner/name` and `owner:name`. Throws `invalid_argument`. */
export function splitId(id: string): { owner: string; name: string } {
  const [, owner, name] = /^([^/:]+)[/:](.+)$/.exec(id) ?? [];
  if (owner !== undefined && name !== undefined) return { owner, name };
  throw new SvcError(
    "invalid_argument",
    `found id "${id}", wanted an organization and a name such as "my-org:my-model"`,
  );
}

/** Selects one of several versions (oldest first) by a word, a version or a range. */
export function chooseVersion<T extends { readonly version: string }>(
  all: readonly T[],
  wanted: string,
): T | undefined {
  const exact = all.findLast(({ version }) => version === wanted);
  if (exact) return exact;
  const newest = all.at(-1);
  if (wanted === "latest-with-prerelease") return latestOf(all);
  // Without any release the newest prerelease is the latest version.
  if (wanted === "latest" || wanted === "") {
    return latestOf(all.filter(({ version }) => !isPrerelease(version))) ?? latestOf(all);
  }
  const range = wanted === "stable" || wanted === "dev" ? undefined : parseRange(wanted);
  if (!range && wanted !== "stable" && wanted !== "dev") return undefined;
  const numbered = numberedOf(all);
  // Among versions that are not numbers but, for example, times, the newest one is the best guess.
  if (!range && numbered.length === 0) return newest;
  const fitting = numbered.filter(({ version }) =>
    range ? range(version) : wanted === "dev" || (version.prerelease ?? []).length === 0
  );
  return highestOf(fitting);
}

/**
 * The highest of the numbered versions, or the last one if that has no number, such as a time. A correction of an older
 * line (1.9.1 after 2.0.0) takes nobody back who follows the latest version.
 */
function latestOf<T extends { readonly version: string }>(all: readonly T[]): T | undefined {
  const newest = all.at(-1);
  return newest && parseVersion(newest.version) ? highestOf(numberedOf(all)) : newest;
}

interface Numbered<T> {
  readonly one: T;
  readonly version: Version;
}

function numberedOf<T extends { readonly version: string }>(all: readonly T[]): Numbered<T>[] {
  return all.flatMap((one) => {
    const version = parseVersion(one.version);
    return version ? [{ one, version }] : [];
  });
}

/** Of equal ones the last. */
function highestOf<T>(all: readonly Numbered<T>[]): T | undefined {
  return all.toSorted((a, b) => compareVersions(a.version, b.version)).at(-1)?.one;
}

/** Throws `invalid_argument` for an impossible package. */
export function checkPackage(name: string, version: string, platform: string): void {
  checkNamed(name, version);
  if (platform !== "any") {
    check("platform", platform, PLATFORM, 'a system and a processor such as "linux/amd64"');
  }
}

/** Checks the name and the version of a package; refusals use the names of their fields. */
export function checkNamed(
  name: string,
  version: string,
  { nameField = "name", versionField = "version" }: {
    readonly nameField?: string;
    readonly versionField?: string;
  } = {},
): void {
  check(nameField, name, NAME, "letters, digits, - _ and .");
  check(versionField, version, VERSION, "letters, digits, - _ . : and +");
  // A version of this name could never be asked for.
  if (!VERSION_WORDS.includes(version)) return;
  throw new SvcError(
    "invalid_argument",
    `found ${versionField} "${version}", which stands for a changing version, wanted an exact version`,
  );
}

/** Whether a content for one platform fits another; `any` matches every system or processor. */
export function fits(platform: string, wanted: string | undefined): boolean {
  if (platform === "" || !wanted || wanted === "any") return true;
  const words = wanted.split("/");
  return platform.split("/").every((one, at) => one === "any" || words[at] === "any" || one === words[at]);
}

function check(what: string, value: string, pattern: RegExp, wanted: string): void {
  if (pattern.test(value)) return;
  throw new SvcError(
    "invalid_argument",
    `found ${what} ${JSON.stringify(value.slice(0, 300))}, wanted ${wanted}`,
  );
}

function checkNamespace(namespace: string): void {
  check("namespace", namespace, NAMESPACE, "lower-case letters, digits and -");
}

const SHOWN_MAX = 10;

function shortened(words: readonly string[]): string {
  const shown = words.slice(-SHOWN_MAX).reverse().join(", ");
  return words.length > SHOWN_MAX ? `${shown} and ${words.length - SHOWN_MAX} more` : shown;
}

function packageOf(
  { id, version, platform, sha256, bytes, metadata, createdMs, ...item }: PackageRow,
): Package {
  const parsed = { item: itemOf(item), metadata: JSON.parse(metadata) };
  return { id, version, platform, sha256, bytes, createdMs, ...parsed };
}

function itemOf({ itemId, details, itemMs, ...rest }: ItemRow): Item {
  return { ...rest, id: itemId, details: JSON.parse(details), createdMs: itemMs };
}
