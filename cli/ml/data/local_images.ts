/**
 * Images on this computer for a dataset, with their labels and boxes.
 *
 * A `.jsonl`, or the `dataset.jsonl` in a folder, describes them in the published form. In any other folder, each
 * subfolder is a label. Files that are neither JPEG nor PNG are skipped, with the reason.
 *
 * A dataset may come from a stranger. Without `outside`, no file outside the named folder is read, whatever paths, `..`
 * and links it contains. Pipes and devices are never opened.
 */

import { basename, dirname, isAbsolute, join, relative } from "node:path";
import { messageOf, SvcError } from "../../../lib/base/error.ts";
import type { FileFacts, ReadFiles } from "../../../lib/base/files/files.ts";
import { whyMissing } from "../../../lib/base/files/names.ts";
import { readHead } from "../../../lib/base/files/head.ts";
import { escapedLine, hasHidden } from "../../../lib/base/escape.ts";
import {
  any,
  type ConfigField,
  DecodeContext,
  type Infer,
  list,
  number,
  object,
  text,
} from "../../../lib/base/schema/schema.ts";
import { PICTURE_BYTES_MAX } from "../../../lib/learn/example.ts";
import { isJpeg } from "../../../lib/geometry/image/jpeg.ts";
import { isPng } from "../../../lib/geometry/image/png.ts";
import type { Label, LabelBox } from "../../../lib/cloud_client/dataset.ts";
import type { MlCommandContext } from "../command_context.ts";

export interface LocalImage {
  readonly path: string;
  readonly fileName: string;
  readonly mimeType: string;
  readonly labels: readonly Label[];
  readonly boxes: readonly Omit<LabelBox, "id">[];
  readonly capturedMs: number;
}

export interface Skipped {
  readonly path: string;
  readonly reason: string;
}

interface Found {
  readonly path: string;
  /** Whether it is a link out of the folder. */
  readonly outside?: boolean;
  readonly labels: readonly Label[];
  readonly boxes: readonly Omit<LabelBox, "id">[];
  readonly capturedMs?: number;
}

/** The flag that allows files elsewhere. */
export const OUTSIDE = "outside";

const LINES = "dataset.jsonl";
/** Limit of nested folders. */
const DEPTH_MAX = 8;
/** Length of a file's beginning that suffices to recognize its type. */
const HEAD_BYTES = 64;

const share = () => number("", { min: 0, max: 1 });
const lineField = object({
  imagePath: text().required(),
  classificationAnnotations: list(object({ annotationLabel: text().required(), confidence: share() }))
    .default([]),
  boundingBoxAnnotations: list(object({
    id: any(),
    annotationLabel: text().required(),
    xMinNormalized: share().required(),
    yMinNormalized: share().required(),
    xMaxNormalized: share().required(),
    yMaxNormalized: share().required(),
    confidence: share(),
  })).default([]),
  timestamp: text(),
});

export async function localImages(
  context: MlCommandContext,
  paths: readonly string[],
  tags: readonly string[],
  { outside = false }: { readonly outside?: boolean } = {},
): Promise<{ images: LocalImage[]; skipped: Skipped[] }> {
  return await looked(
    context.host,
    (await Promise.all(paths.map((path) => filesIn(context, path, outside)))).flat(),
    tags,
  );
}

/** The images among the files, each with `tags` added to its own labels, and the other files. */
export async function looked(
  files: ReadFiles,
  found: readonly Found[],
  tags: readonly string[],
): Promise<{ images: LocalImage[]; skipped: Skipped[] }> {
  const images: LocalImage[] = [];
  const skipped: Skipped[] = [];
  for (const { path, outside, labels, boxes, capturedMs } of found) {
    if (outside) {
      skipped.push({ path, reason: `it is a link out of the folder, which only --${OUTSIDE} follows` });
      continue;
    }
    const { mimeType, otherType, modifiedMs, bytes } = await look(files, path);
    if (mimeType === undefined || bytes > PICTURE_BYTES_MAX) {
      const large = `it has ${bytes} bytes, wanted at most ${PICTURE_BYTES_MAX}: make it smaller`;
      const other = otherType
        ? `it is a ${otherType} image, which is not supported: convert it to JPEG or PNG`
        : "";
      skipped.push({ path, reason: mimeType === undefined ? other || "it is not a JPEG or PNG" : large });
      continue;
    }
    const all = [...tags.map((label) => ({ label })), ...labels];
    for (const { label } of [...all, ...boxes]) checkLabel(path, label);
    const named = new Map<string, Label>(all.map((one) => [one.label, one]));
    images.push({
      path,
      fileName: basename(path),
      mimeType,
      labels: [...named.values()],
      boxes,
      capturedMs: capturedMs ?? modifiedMs,
    });
  }
  return { images, skipped };
}

/** Many files made from labels have a label per line. */
function checkLabel(path: string, label: string): void {
  if (!hasHidden(label)) return;
  throw new SvcError(
    "invalid_argument",
    `${path}: found the label "${escapedLine(label)}", wanted one without control characters`,
  );
}

/** A named folder, and whether files outside it are allowed. */
interface Within {
  readonly context: MlCommandContext;
  readonly folder: string;
  readonly takes: (path: string) => Promise<boolean>;
}

async function within(context: MlCommandContext, folder: string, outside: boolean): Promise<Within> {
  const root = await context.host.realPath(folder);
  return {
    context,
    folder,
    async takes(path) {
      if (outside) return true;
      const inside = relative(root, await context.host.realPath(path));
      return !isAbsolute(inside) && inside.split(/[/\\]/)[0] !== "..";
    },
  };
}

async function filesIn(context: MlCommandContext, path: string, outside: boolean): Promise<Found[]> {
  const isFolder = (await stat(context.host, path)).kind === "folder";
  if (!isFolder && path.endsWith(".jsonl")) {
    return await fromLines(await within(context, dirname(path), outside), path);
  }
  if (!isFolder) return [{ path, labels: [], boxes: [] }];
  const lines = join(path, LINES);
  const folder = await within(context, path, outside);
  if (await context.host.fileSize(lines) !== undefined) return await fromLines(folder, lines);
  return await inFolder(folder, path, undefined, 0);
}

/** The files of a folder and its subfolders; the outermost subfolder's name is the label. */
async function inFolder(
  root: Within,
  folder: string,
  label: string | undefined,
  depth: number,
): Promise<Found[]> {
  if (depth > DEPTH_MAX) {
    throw new SvcError("invalid_argument", `${folder} is ${depth} folders deep, wanted ${DEPTH_MAX}`);
  }
  const found: Found[] = [];
  for (const name of await root.context.host.readFolder(folder)) {
    if (name.startsWith(".")) continue;
    const path = join(folder, name);
    if (!await root.takes(path)) {
      found.push({ path, outside: true, labels: [], boxes: [] });
      continue;
    }
    if ((await stat(root.context.host, path)).kind === "folder") {
      found.push(...await inFolder(root, path, label ?? name, depth + 1));
    } else found.push({ path, labels: label === undefined ? [] : [{ label }], boxes: [] });
  }
  return found;
}

async function fromLines(root: Within, file: string): Promise<Found[]> {
  const lines = (await root.context.host.readTextFile(file)).split("\n");
  const found: Found[] = [];
  for (const [index, line] of lines.entries()) {
    if (line.trim() === "") continue;
    const at = `${file}:${index + 1}`;
    const one = decoded(lineField, line, at);
    found.push({
      path: await imageFile(root, one.imagePath, at),
      labels: one.classificationAnnotations.map(({ annotationLabel: label, confidence }) => ({
        label,
        confidence,
      })),
      boxes: one.boundingBoxAnnotations.map((box) => ({
        label: box.annotationLabel,
        confidence: box.confidence,
        xMin: box.xMinNormalized,
        yMin: box.yMinNormalized,
        xMax: box.xMaxNormalized,
        yMax: box.yMaxNormalized,
      })),
      capturedMs: instant(one.timestamp),
    });
  }
  return found;
}

function decoded<T>(field: ConfigField<T>, line: string, at: string): NonNullable<T> {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch (cause) {
    throw new SvcError("invalid_argument", `${at}: ${messageOf(cause)}, wanted one JSON object in a line`, {
      cause,
    });
  }
  const place = new DecodeContext();
  const value: Infer<ConfigField<T>> = field.decode(json, place);
  const wrong = place.problems.filter(({ severity }) => severity === "error");
  if (wrong.length === 0) return value!;
  throw new SvcError(
    "invalid_argument",
    wrong.map(({ path, message }) => `${at}: ${path}: ${message}`).join("; "),
  );
}

/** Paths are relative to the folder; other exporters write them relative to their own working folder. */
async function imageFile({ context, folder, takes }: Within, path: string, at: string): Promise<string> {
  const data = path.lastIndexOf("data/");
  const places = [
    isAbsolute(path) ? path : join(folder, path),
    path,
    ...data < 0 ? [] : [join(folder, path.slice(data))],
  ];
  let elsewhere: string | undefined;
  for (const place of places) {
    if (await context.host.fileSize(place) === undefined) continue;
    if (await takes(place)) return place;
    elsewhere ??= place;
  }
  if (elsewhere !== undefined) {
    throw new SvcError(
      "permission_denied",
      `${at}: the image ${elsewhere} is outside of ${folder}: --${OUTSIDE} takes such ones, too, if you trust who ` +
        "made the dataset",
    );
  }
  throw new SvcError("not_found", `${at}: there is no image ${places[0]}`);
}

/** `2024-01-02 03:04:05 +0000 UTC`, Go's form, and every form that JavaScript reads. */
function instant(written: string | undefined): number | undefined {
  if (written === undefined) return undefined;
  const [, date, time, zone = ""] = /^(\S+) (\S+) ([+-]\d{4})(?: \S+)?$/.exec(written) ?? [];
  const ms = Date.parse(date ? `${date}T${time}${zone.slice(0, 3)}:${zone.slice(3)}` : written);
  return Number.isFinite(ms) ? ms : undefined;
}

async function stat(files: ReadFiles, path: string): Promise<FileFacts> {
  const facts = await files.stat(path).catch((cause) => {
    throw new SvcError("not_found", `cannot read "${path}": ${messageOf(cause)}`, { cause });
  });
  if (!facts) throw new SvcError("not_found", `cannot read "${path}": ${whyMissing(path)}`);
  return facts;
}

async function look(
  files: ReadFiles,
  path: string,
): Promise<{ mimeType?: string; otherType?: string; modifiedMs: number; bytes: number }> {
  const { kind, modifiedMs, sizeBytes: bytes } = await stat(files, path);
  // Opening a pipe would wait for its other end.
  if (kind !== "file") return { modifiedMs: 0, bytes };
  const head = await readHead(files, path, HEAD_BYTES);
  if (isPng(head)) return { mimeType: "image/png", modifiedMs, bytes };
  if (isJpeg(head)) return { mimeType: "image/jpeg", modifiedMs, bytes };
  return { otherType: otherTypeOf(head), modifiedMs, bytes };
}

/** The name of a format that other tools use for images, by the first bytes of the file. */
function otherTypeOf(head: Uint8Array): string | undefined {
  const text = String.fromCharCode(...head.subarray(0, 16));
  if (/^RIFF[^]{4}WEBP/.test(text)) return "WebP";
  if (/^(II\*\0|MM\0\*)/.test(text)) return "TIFF";
  if (/^GIF8/.test(text)) return "GIF";
  if (/^BM/.test(text)) return "BMP";
  const [, brand] = /^[^]{4}ftyp(avif|avis|heic|heix|hevc|mif1|msf1)/.exec(text) ?? [];
  if (brand === undefined) return undefined;
  return brand.startsWith("avi") ? "AVIF" : "HEIC";
}
