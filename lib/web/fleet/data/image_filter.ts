/** Which images a person wants to see, as the control plane's filter. Pure functions. */

import type { dataApi } from "@viamrobotics/sdk";
import { enteredTime } from "../../machine/link/wire.ts";

/** What browsers and the page can show. */
const MIME_TYPES = [
  ...["image/jpeg", "image/png", "image/webp", "image/gif", "image/bmp"],
  ...["image/vnd.viam.dep", "image/vnd.viam.rgba"],
];

/** `ORDER_DESCENDING` */
export const NEWEST_FIRST = 2;
/** `TAGS_FILTER_TYPE_MATCH_BY_OR` */
const HAS_ONE_OF = 1;

/** As the form has it: empty texts ask for nothing. */
export interface ImageQuery {
  readonly machine: string;
  readonly component: string;
  readonly tag: string;
  readonly label: string;
  readonly datasetId: string;
  /** Local times, `2026-01-31T14:05`. */
  readonly from: string;
  readonly until: string;
}

export const EVERYTHING: ImageQuery = {
  machine: "",
  component: "",
  tag: "",
  label: "",
  datasetId: "",
  from: "",
  until: "",
};

/** The published filter; an empty organization means all that the caller may see. */
export function imageFilter(organizationId: string, query: ImageQuery): dataApi.Filter {
  const [start, end] = [query.from, query.until].map(enteredTime);
  return {
    organizationIds: organizationId === "" ? [] : [organizationId],
    mimeType: MIME_TYPES,
    robotName: query.machine.trim(),
    componentName: query.component.trim(),
    datasetId: query.datasetId,
    bboxLabels: query.label.trim() === "" ? [] : [query.label.trim()],
    ...query.tag.trim() === "" ? {} : { tagsFilter: { type: HAS_ONE_OF, tags: [query.tag.trim()] } },
    ...start || end ? { interval: { start, end } } : {},
  } as unknown as dataApi.Filter;
}
