/**
 * Lists of registry items, a page at a time. The database applies visibility, conditions and order, and a page
 * reads only the items that it shows.
 */

import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { placeholders, type Sql, type SqlValue } from "../store/store.ts";
import type { Item, Package, PackageKind, Visibility } from "./item.ts";

/** The conditions of a list; an empty list of values is no condition. */
export interface ItemQuery {
  /** Organizations of the caller, whose private items it sees. */
  readonly mine: readonly string[];
  readonly organizationId?: string;
  readonly kinds?: readonly PackageKind[];
  readonly visibilities?: readonly Visibility[];
  readonly namespaces?: readonly string[];
  readonly platforms?: readonly string[];
  /** Whether it has a version. */
  readonly isPublished?: boolean;
  /** Text in the name or the description, in any letter case. */
  readonly search?: string;
  /** The public id of the last item of the page before. */
  readonly after?: string;
  readonly markdown: boolean;
  /** The caller's items come first; such a list has one page. */
  readonly ownFirst?: boolean;
  readonly limit: number;
}

export interface ListedItem {
  readonly item: Item;
  /** Its contents, newest last. */
  readonly packages: readonly Package[];
}

/** A page ends at this size of its texts, except after its first item. */
const LETTERS_MAX = 4 * 1024 ** 2;
/** Texts that one statement reads, except for a larger item. */
const READ_LETTERS_MAX = 256 * 1024;
const KEYS_AT_ONCE = 1_000;
/** Limits of the values in a request. */
const VALUES_MAX = 100;
const SEARCH_LENGTH_MAX = 256;

const OWNER = "COALESCE(o.namespace, o.id)";
const ITEMS = "registry_items i JOIN organizations o ON o.id = i.organization_id";

interface ItemKey {
  readonly id: string;
  readonly letters: number;
}

type ItemColumns = Omit<Item, "details"> & { readonly details: string };
type PackageColumns = Omit<Package, "item" | "metadata"> & {
  readonly itemId: string;
  readonly metadata: string;
};

/** The items of a page, a few at a time. */
export async function* listItems(sql: Sql, query: ItemQuery): AsyncGenerator<readonly ListedItem[]> {
  const keys = await selectKeys(sql, query);
  let letters = 0;
  const over = keys.findIndex((key, index) => (letters += key.letters) > LETTERS_MAX && index > 0);
  let some: ItemKey[] = [];
  let read = 0;
  for (const key of over < 0 ? keys : keys.slice(0, over)) {
    if (some.length > 0 && read + key.letters > READ_LETTERS_MAX) {
      yield await selectItems(sql, some, query.markdown);
      [some, read] = [[], 0];
    }
    some.push(key);
    read += key.letters;
  }
  if (some.length > 0) yield await selectItems(sql, some, query.markdown);
}

/** The contents of items, by item, newest last. */
export async function packagesByItem(sql: Sql, items: readonly Item[]): Promise<Map<string, Package[]>> {
  const rows = await sql.query<PackageColumns>(
    `SELECT p.item_id AS "itemId", p.id, p.version, p.platform, p.sha256, p.bytes, p.metadata,
       p.created_ms AS "createdMs"
     FROM packages p WHERE p.item_id IN (${
      placeholders(items)
    }) ORDER BY p.created_ms, p.version, p.platform`,
    ...items.map(({ id }) => id),
  );
  const byId = new Map(items.map((item) => [item.id, item]));
  return Map.groupBy(
    rows.map(({ itemId, metadata, ...rest }): Package => {
      return { ...rest, item: byId.get(itemId)!, metadata: JSON.parse(metadata) as JsonObject };
    }),
    ({ item }) => item.id,
  );
}

/** Reads only the sizes, so that items that do not fit are never read. */
async function selectKeys(sql: Sql, query: ItemQuery): Promise<ItemKey[]> {
  const [conditions, values] = conditionsOf(query);
  const own = query.ownFirst && query.mine.length > 0;
  const order = own ? `CASE WHEN i.organization_id IN (${placeholders(query.mine)}) THEN 0 ELSE 1 END, ` : "";
  const markdown = query.markdown ? " + LENGTH(i.markdown)" : "";
  return await sql.query<ItemKey>(
    `SELECT i.id, LENGTH(i.description) + LENGTH(i.details)${markdown} +
       CAST(COALESCE((SELECT SUM(LENGTH(p.metadata)) FROM packages p WHERE p.item_id = i.id), 0) AS BIGINT)
         AS letters
     FROM ${ITEMS} WHERE ${conditions.join(" AND ")} ORDER BY ${order}${OWNER}, i.name LIMIT ?`,
    ...values,
    ...own ? query.mine : [],
    Math.min(query.limit, KEYS_AT_ONCE),
  );
}

function conditionsOf(query: ItemQuery): [string[], SqlValue[]] {
  const { mine, organizationId, isPublished, search = "", after, platforms = [] } = query;
  const conditions: string[] = [];
  const values: SqlValue[] = [];
  const only = (condition: string, ...given: readonly SqlValue[]) => {
    conditions.push(condition);
    values.push(...given);
  };
  const isOneOf = (column: string, given: readonly string[] = []) => {
    if (given.length > 0) only(`${column} IN (${placeholders(few(given))})`, ...given);
  };

  if (mine.length === 0) only("i.visibility = 'public'");
  else only(`(i.visibility = 'public' OR i.organization_id IN (${placeholders(mine)}))`, ...mine);
  if (organizationId) only("i.organization_id = ?", organizationId);
  isOneOf("i.kind", query.kinds);
  isOneOf("i.visibility", query.visibilities);
  isOneOf("COALESCE(o.namespace, '')", query.namespaces);
  if (search !== "") {
    const text = "LOWER(i.name || ' ' || i.description)";
    only(`REPLACE(${text}, ?, '') <> ${text}`, searched(search));
  }
  const version = "EXISTS (SELECT 1 FROM packages p WHERE p.item_id = i.id";
  if (isPublished !== undefined) only(`${isPublished ? "" : "NOT "}${version})`);
  if (platforms.length > 0) {
    const each = few(platforms).map(platformCondition);
    const any = each.map(([condition]) => condition).join(" OR ");
    only(`${version} AND (${any}))`, ...each.flatMap(([, ...given]) => given));
  }
  if (after) {
    const at = after.indexOf(":");
    only(`(${OWNER}, i.name) > (?, ?)`, after.slice(0, Math.max(at, 0)), after.slice(at + 1));
  }
  return [conditions, values];
}

/** A content fits a platform if each word is the same, or `any` on one of the two sides. */
function platformCondition(wanted: string): [condition: string, ...values: string[]] {
  if (wanted === "" || wanted === "any") return ["1 = 1"];
  const [system, processor = ""] = wanted.split("/").map((word) => word.replace(/[!%_]/g, "!$&"));
  const systems = system === "any" ? ["%"] : [system, "any"];
  const processors = processor === "any" ? ["%"] : [processor, "any"];
  const patterns = systems.flatMap((one) => processors.map((other) => `${one}/${other}`));
  const alike = patterns.map(() => "p.platform LIKE ? ESCAPE '!'").join(" OR ");
  return [`p.platform = '' OR ${alike}`, ...patterns];
}

async function selectItems(sql: Sql, keys: readonly ItemKey[], markdown: boolean): Promise<ListedItem[]> {
  const rows = await sql.query<ItemColumns>(
    `SELECT i.id, i.organization_id AS "organizationId", o.namespace, i.name, i.kind, i.visibility,
       i.description, i.url, ${markdown ? "i.markdown" : "''"} AS markdown, i.details,
       i.created_ms AS "createdMs", i.updated_ms AS "updatedMs"
     FROM ${ITEMS} WHERE i.id IN (${placeholders(keys)})`,
    ...keys.map(({ id }) => id),
  );
  const items = rows.map((row): Item => ({ ...row, details: JSON.parse(row.details) }));
  const packages = await packagesByItem(sql, items);
  const byId = new Map(items.map((item) => [item.id, item]));
  // An item may have been deleted meanwhile.
  return keys.flatMap(({ id }) => {
    const item = byId.get(id);
    return item ? [{ item, packages: packages.get(id) ?? [] }] : [];
  });
}

function searched(term: string): string {
  if (term.length <= SEARCH_LENGTH_MAX) return term.toLowerCase();
  const found = `search_term has ${term.length} letters`;
  throw new SvcError("invalid_argument", `${found}, wanted at most ${SEARCH_LENGTH_MAX}`);
}

function few(values: readonly string[]): readonly string[] {
  if (values.length <= VALUES_MAX) return values;
  const found = `found a list of ${values.length} values`;
  throw new SvcError(
    "invalid_argument",
    `${found} to filter registry items by, wanted at most ${VALUES_MAX}`,
  );
}
