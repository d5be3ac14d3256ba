/**
 * A model's quality on unseen images, from its metadata: metrics, and confusions.
 *
 * Whoever publishes a model writes its metadata, so malformed fields count as missing. Pure.
 */

import type { Package } from "../../proto/gen/packages_pb.ts";
import {
  DecodeContext,
  type Infer,
  integer,
  isObject,
  list,
  object,
  text,
} from "../../lib/base/schema/schema.ts";
import { table } from "../table.ts";

/** Limit of mistakes shown in a list of models. */
const MISTAKES_MAX = 3;

const count = () => integer("", { min: 0 }).required();
const cell = { label: text().required(), images: count() };
/** A classifier's findings on the images of each label, and in how many other images it finds the label. */
const confusion = list(object({ ...cell, foundAs: list(object(cell)).required(), wronglyFound: count() }));

/** `accuracy 0.95, macro F1 0.94`; empty without metrics. */
export function metricsText({ info }: Package): string {
  const metrics = info?.metadata?.metrics;
  const reported = isObject(metrics) ? Object.entries(metrics) : [];
  const numbers = reported.filter((pair): pair is [string, number] => typeof pair[1] === "number");
  return numbers.map(([name, value]) => `${name} ${Number(value.toPrecision(3))}`).join(", ");
}

/** The worst mistakes: `cat as dog 3, dog as cat 1`, or `cat missed 2` if an image may show several objects. */
export function mistakesText(model: Package): string {
  const all = rowsOf(model).flatMap(({ label, images, foundAs }) => {
    const others = foundAs.filter((one) => one.label !== label);
    const missed = images - foundAs.reduce((sum, one) => sum + one.images, 0);
    return [
      ...others.map((one) => ({ text: `${label} as ${one.label}`, images: one.images })),
      ...missed > 0 ? [{ text: `${label} missed`, images: missed }] : [],
    ];
  });
  const worst = all.sort((a, b) => b.images - a.images).slice(0, MISTAKES_MAX);
  const more = all.length > worst.length ? ` and ${all.length - worst.length} more` : "";
  return `${worst.map(({ text, images }) => `${text} ${images}`).join(", ")}${more}`;
}

/** The confusion matrix of a classifier, a line per label; empty for other models. */
export function confusionLines(model: Package): string[] {
  const rows = rowsOf(model).map(({ label, images, foundAs, wronglyFound }) => {
    const found = foundAs.map((one) => `${one.label} ${one.images}`).join(", ");
    return [label, String(images), found || "-", String(wronglyFound)];
  });
  return rows.length === 0 ? [] : table([["LABEL", "IMAGES", "FOUND AS", "WRONGLY FOUND"], ...rows]);
}

function rowsOf({ info }: Package): Rows {
  const place = new DecodeContext();
  const rows = confusion.decode(info?.metadata?.confusion, place);
  return place.failed ? [] : rows ?? [];
}

type Rows = NonNullable<Infer<typeof confusion>>;
