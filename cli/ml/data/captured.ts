/**
 * Captured images as the content of a dataset: those that a filter on the command line selects.
 */

import { type Filter, FilterSchema, Order, TagsFilterType } from "../../../proto/gen/data_pb.ts";
import { toTimestamp } from "../../../lib/api/shared/time.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { suggest } from "../../../lib/base/schema/suggest.ts";
import { create } from "../../../lib/wire/rpc/proto.ts";
import { sinceMs, UsageError } from "../../flags.ts";
import type { MlCommandContext } from "../command_context.ts";

const PAGE_IMAGES = 100n;
const PICTURES = ["image/jpeg", "image/png"];

/** What a filter selects. */
interface Selection {
  robotName?: string;
  partName?: string;
  componentName?: string;
  method?: string;
  locationIds: string[];
  tags: string[];
  start?: ReturnType<typeof toTimestamp>;
  end?: ReturnType<typeof toTimestamp>;
}

/** How each key narrows the selection. */
const KEYS: { readonly [key: string]: (selection: Selection, value: string, nowMs: number) => void } = {
  machine: (selection, name) => void (selection.robotName = name),
  part: (selection, name) => void (selection.partName = name),
  component: (selection, name) => void (selection.componentName = name),
  method: (selection, name) => void (selection.method = name),
  location: (selection, id) => void selection.locationIds.push(id),
  tag: (selection, tag) => void selection.tags.push(tag),
  since: (selection, text, nowMs) => {
    selection.start = toTimestamp(sinceMs("filter since", text, nowMs));
  },
  until: (selection, text, nowMs) => {
    selection.end = toTimestamp(sinceMs("filter until", text, nowMs));
  },
};

export const FILTER_HELP = `Add captured images in place of files: KEY=VALUE with ${
  Object.keys(KEYS).join(", ")
}; each narrows the selection.`;

/** The filter of `component=cam1`, `since=2h`, … */
export function filterFrom(given: readonly string[], organizationId: string, nowMs: number): Filter {
  const selection: Selection = { locationIds: [], tags: [] };
  for (const one of given) {
    const [, key = "", value = ""] = /^([^=]*)=?([^]*)$/.exec(one)!;
    const narrow = Object.hasOwn(KEYS, key) ? KEYS[key] : undefined;
    if (!narrow || value === "") {
      const near = suggest(key, Object.keys(KEYS));
      const wanted = near === undefined || near === key
        ? `KEY=VALUE with ${Object.keys(KEYS).join(", ")}`
        : near;
      throw new UsageError(`--filter: found "${one}", wanted ${wanted}`);
    }
    narrow(selection, value, nowMs);
  }
  const { tags, start, end, ...rest } = selection;
  return create(FilterSchema, {
    ...rest,
    organizationIds: [organizationId],
    mimeType: PICTURES,
    tagsFilter: tags.length > 0 ? { type: TagsFilterType.MATCH_BY_OR, tags } : undefined,
    interval: start || end ? { start, end } : undefined,
  });
}

/** Adds the selected images to a dataset; returns their ids. */
export async function addCaptured(
  context: MlCommandContext,
  datasetId: string,
  given: readonly string[],
): Promise<readonly string[]> {
  const { data } = await context.services();
  const filter = filterFrom(given, await context.organization(), context.clock.nowMs());
  const added: string[] = [];
  for (let last = "";;) {
    const dataRequest = { filter, limit: PAGE_IMAGES, last, sortOrder: Order.ASCENDING };
    const page = await data.binaryDataByFilter({ dataRequest, includeBinary: false }, context.limits);
    const binaryDataIds = page.data.map(({ metadata }) => metadata?.binaryDataId ?? "").filter(Boolean);
    if (binaryDataIds.length > 0) {
      await data.addBinaryDataToDatasetByIDs({ binaryDataIds, datasetId }, context.limits);
      added.push(...binaryDataIds);
    }
    if (page.data.length === 0 || page.last === "" || page.last === last) break;
    last = page.last;
  }
  if (added.length > 0) return added;
  throw new SvcError("not_found", `no captured image fits ${given.join(" ")}: nothing was added`);
}
