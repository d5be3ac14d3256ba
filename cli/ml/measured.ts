/**
 * How good a model is on images that it has not seen, as its metadata tells: metrics, and what it takes for what.
 *
 * Whoever publishes a model writes its metadata: what is not of the form is as if it were not there. Pure.
 */

import type { Package } from "../../proto/gen/packages_pb.ts";
import { type Infer, integer, isObject, list, object, Place, text } from "../../lib/base/schema/schema.ts";
import { table } from "../table.ts";

/** Mistakes that are told in a list of models. */
const MISTAKES_MAX = 3;

const count = () => integer("", { min: 0 }).required();
const cell = { label: text().required(), images: count() };
/** What a classifier makes of the images of each label, and in how many others the label is seen. */
const confusion = list(object({ ...cell, foundAs: list(object(cell)).required(), wronglyFound: count() }));

/** `accuracy 0.95, macro F1 0.94`; empty where nobody says. */
export function metricsText({ info }: Package): string {
  const metrics = info?.metadata?.metrics;
  const told = isObject(metrics) ? Object.entries(metrics) : [];
  const numbers = told.filter((pair): pair is [string, number] => typeof pair[1] === "number");
  return numbers.map(([name, value]) => `${name} ${Number(value.toPrecision(3))}`).join(", ");
}

/** `cat as dog 3, dog as cat 1`, or `cat missed 2` where an image may show several things: the worst ones. */
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

/** The confusion matrix of a classifier, a line a label; nothing of other models. */
export function confusionLines(model: Package): string[] {
  const rows = rowsOf(model).map(({ label, images, foundAs, wronglyFound }) => {
    const found = foundAs.map((one) => `${one.label} ${one.images}`).join(", ");
    return [label, String(images), found || "-", String(wronglyFound)];
  });
  return rows.length === 0 ? [] : table([["LABEL", "IMAGES", "FOUND AS", "WRONGLY FOUND"], ...rows]);
}

function rowsOf({ info }: Package): Rows {
  const place = new Place();
  const rows = confusion.decode(info?.metadata?.confusion, place);
  return place.failed ? [] : rows ?? [];
}

type Rows = NonNullable<Infer<typeof confusion>>;
