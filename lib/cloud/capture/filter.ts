/**
 * Filters of captured data, as conditions of a query.
 *
 * A query joins captured data `d` and their origins `o`. A filter finds only data on which the caller has a role,
 * whatever it names.
 */

import { type Filter, type TagsFilter, TagsFilterType } from "../../../proto/gen/data_pb.ts";
import { toMs } from "../../api/shared/time.ts";
import { SvcError } from "../../base/error.ts";
import type { EffectiveGrant } from "../access/access.ts";
import { placeholders, type SqlValue } from "../store/store.ts";

/** The fields of a filter that name the source of data. */
export type OriginFilter =
  & Partial<
    Pick<
      Filter,
      "componentName" | "componentType" | "method" | "robotName" | "robotId" | "partName" | "partId"
    >
  >
  & Partial<Pick<Filter, "locationIds" | "organizationIds" | "interval">>;

/** Both bounds are included. */
export interface MicrosRange {
  readonly fromUs?: number;
  readonly untilUs?: number;
}

/** Bounds of the times of readings. */
export interface ReadingTimes {
  readonly captured: MicrosRange;
  readonly received: MicrosRange;
}

/** Where captured data itself has its times, and where the index of readings in files has their bounds. */
const TIME_COLUMNS = {
  captured: { own: "d.captured_us", first: "d.from_us", last: "d.until_us" },
  received: { own: "d.received_us", first: "d.received_from_us", last: "d.received_until_us" },
} as const;

export class Conditions {
  readonly #texts = ["1 = 1"];
  readonly #values: SqlValue[] = [];
  readonly #times = { captured: {} as MicrosRange, received: {} as MicrosRange };

  get text(): string {
    return [...this.#texts, ...this.#bounds().map(({ text }) => text)].join(" AND ");
  }

  get values(): readonly SqlValue[] {
    return [...this.#values, ...this.#bounds().map(({ value }) => value)];
  }

  get times(): ReadingTimes {
    return this.#times;
  }

  /** The same for files of readings: those that may have readings of these times. */
  get ofFiles(): Pick<Conditions, "text" | "values"> {
    const bounds = this.#bounds("file");
    return {
      text: [...this.#texts, ...bounds.map(({ text }) => text)].join(" AND "),
      values: [...this.#values, ...bounds.map(({ value }) => value)],
    };
  }

  only(condition: string, ...values: SqlValue[]): this {
    this.#texts.push(condition);
    this.#values.push(...values);
    return this;
  }

  /** The time is in the range; only this way conditions on times reach readings in files, too. */
  within(time: keyof ReadingTimes, { fromUs, untilUs }: MicrosRange): this {
    const { fromUs: from = -Infinity, untilUs: until = Infinity } = this.#times[time];
    const [first, last] = [Math.max(from, fromUs ?? -Infinity), Math.min(until, untilUs ?? Infinity)];
    this.#times[time] = {
      ...first === -Infinity ? {} : { fromUs: first },
      ...last === Infinity ? {} : { untilUs: last },
    };
    return this;
  }

  #bounds(of: "reading" | "file" = "reading"): { readonly text: string; readonly value: number }[] {
    return Object.entries(TIME_COLUMNS).flatMap(([time, { own, first, last }]) => {
      const { fromUs, untilUs } = this.#times[time as keyof ReadingTimes];
      return [
        ...fromUs === undefined ? [] : [{ text: `${of === "file" ? last : own} >= ?`, value: fromUs }],
        ...untilUs === undefined ? [] : [{ text: `${of === "file" ? first : own} <= ?`, value: untilUs }],
      ];
    });
  }

  /** The column has this value, or one of these; no condition without a value. */
  is(column: string, wanted: string | readonly string[] = []): this {
    const values = typeof wanted === "string" ? [wanted].filter((one) => one !== "") : few(wanted);
    return values.length === 0 ? this : this.only(`${column} IN (${placeholders(values)})`, ...values);
  }
}

/** Images and files within the caller's reach that match a filter. */
export function binaryConditions(filter: Filter | undefined, reach: readonly EffectiveGrant[]): Conditions {
  const found = originConditions(filter ?? {}, reach).is("d.mime_type", filter?.mimeType);
  const tagged = "EXISTS (SELECT 1 FROM data_tags t WHERE t.data_id = d.id";
  const tags = wantedTags(filter?.tagsFilter);
  if (tags === "any") found.only(`${tagged})`);
  else if (tags === "none") found.only(`NOT ${tagged})`);
  else if (tags.length > 0) found.only(`${tagged} AND t.tag IN (${placeholders(few(tags))}))`, ...tags);
  if (filter && filter.bboxLabels.length > 0) {
    found.only(
      `EXISTS (SELECT 1 FROM annotations a WHERE a.data_id = d.id AND a.x_min IS NOT NULL
         AND a.label IN (${placeholders(few(filter.bboxLabels))}))`,
      ...filter.bboxLabels,
    );
  }
  if (filter?.datasetId) {
    found.only("d.id IN (SELECT s.data_id FROM dataset_data s WHERE s.dataset_id = ?)", filter.datasetId);
  }
  return found;
}

/** The members of a filter that apply only to images and files. */
type FileFilter = Partial<Pick<Filter, "mimeType" | "bboxLabels" | "datasetId">>;

/** Readings within the caller's reach that match a filter. */
export function tabularConditions(
  filter: OriginFilter & FileFilter & { readonly tagsFilter?: TagsFilter },
  reach: readonly EffectiveGrant[],
): Conditions {
  const found = originConditions(filter, reach);
  if (isOfFiles(filter)) found.only("1 = 0");
  const tags = wantedTags(filter.tagsFilter);
  if (tags === "any") return found.only("d.tags <> '[]'");
  if (tags === "none") return found.only("d.tags = '[]'");
  if (tags.length === 0) return found;
  const lists = `SELECT t.list FROM reading_tags t WHERE t.tag IN (${placeholders(few(tags))})`;
  return found.only(`d.tag_list IN (${lists})`, ...tags);
}

/** A component type in both spellings: `rdk:component:camera` and `camera`. */
export function onlyType(found: Conditions, type: string): Conditions {
  const short = type.split(":").at(-1)!;
  if (type === short) {
    return type === "" ? found : found.only(
      `(o.component_type = ? OR ${contains("o.component_type || '|'")})`,
      short,
      `:${short}|`,
    );
  }
  return found.is("o.component_type", [type, short]);
}

/** Limits of each list in a filter. */
const VALUES_MAX = 1_000;
const LETTERS_MAX = 256 * 1024;

/** Largest time in microseconds that both databases return unchanged: the year 2255. */
const MICROS_MAX = Number.MAX_SAFE_INTEGER;

/** The instant `timeMs` in the unit of captured data, for comparisons; there is no data of later times. */
export function toMicros(timeMs: number): number {
  return Math.max(-MICROS_MAX, Math.min(MICROS_MAX, Math.round(timeMs * 1000)));
}

/** The instant in the field `what` of a message, for storing. Throws `invalid_argument`. */
export function keptMicros(what: string, time: { seconds: bigint; nanos: number }): number {
  const micros = Math.round(toMs(time) * 1000);
  if (Math.abs(micros) <= MICROS_MAX) return micros;
  throw new SvcError(
    "invalid_argument",
    `${what}: found ${time.seconds} seconds since 1970, wanted a time before the year 2255`,
  );
}

/** A statement has a limited number of values. */
function few(values: readonly string[]): readonly string[] {
  if (values.length > VALUES_MAX) {
    const found = `found a filter with a list of ${values.length} values`;
    throw new SvcError("invalid_argument", `${found}, wanted at most ${VALUES_MAX}`);
  }
  const letters = values.reduce((sum, { length }) => sum + length, 0);
  if (letters > LETTERS_MAX) {
    const found = `found a filter with a list of ${letters} letters`;
    throw new SvcError("invalid_argument", `${found}, wanted at most ${LETTERS_MAX}`);
  }
  return values;
}

function originConditions(filter: OriginFilter, reach: readonly EffectiveGrant[]): Conditions {
  const { start, end } = filter.interval ?? {};
  const found = onlyType(within(reach), filter.componentType ?? "")
    .is("o.component_name", filter.componentName)
    .is("o.method_name", filter.method)
    .is("o.machine_name", filter.robotName)
    .is("o.machine_id", filter.robotId)
    .is("o.part_name", filter.partName)
    .is("o.part_id", filter.partId)
    .is("o.location_id", filter.locationIds)
    .is("o.organization_id", filter.organizationIds);
  return found.within("captured", {
    fromUs: start && toMicros(toMs(start)),
    untilUs: end && toMicros(toMs(end)),
  });
}

function isOfFiles({ mimeType = [], bboxLabels = [], datasetId = "" }: FileFilter): boolean {
  return mimeType.length > 0 || bboxLabels.length > 0 || datasetId !== "";
}

/** The text contains its parameter, in the same letter case, which LIKE of SQLite would ignore. */
function contains(text: string): string {
  return `REPLACE(${text}, ?, '') <> ${text}`;
}

/** The reach of roles: a role on a location covers the locations inside it. */
function within(reach: readonly EffectiveGrant[]): Conditions {
  const of = (kind: EffectiveGrant["kind"]) =>
    reach.filter((one) => one.kind === kind).map((one) => one.resourceId);
  const [organizations, locations, machines] = [of("organization"), of("location"), of("machine")];
  const parts = of("part");
  const none = "CAST(NULL AS TEXT)";
  const list = (ids: readonly string[]) => ids.length > 0 ? placeholders(ids) : none;
  return new Conditions().only(
    `(o.organization_id IN (${list(organizations)})
      OR (o.machine_id IN (${list(machines)}) OR o.part_id IN (${list(parts)}))
        -- What a machine captured before it was moved stays with its former organization.
        AND o.organization_id = (SELECT ml.organization_id FROM machines mm
          JOIN locations ml ON ml.id = mm.location_id WHERE mm.id = o.machine_id)
      OR o.location_id IN (
        WITH RECURSIVE inside (id) AS (
          SELECT id FROM locations WHERE id IN (${list(locations)})
          UNION SELECT l.id FROM locations l JOIN inside i ON l.parent_id = i.id
        ) SELECT id FROM inside))`,
    ...organizations,
    ...machines,
    ...parts,
    ...locations,
  );
}

/** Items with one of these tags, with any tag, or with none; an empty list is no condition. */
function wantedTags(filter: TagsFilter | undefined): "any" | "none" | readonly string[] {
  switch (filter?.type) {
    case undefined:
      return [];
    case TagsFilterType.TAGGED:
      return "any";
    case TagsFilterType.UNTAGGED:
      return "none";
    default:
      // The published command line without --tags sends MATCH_BY_OR with none.
      return filter!.tags;
  }
}
