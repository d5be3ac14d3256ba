/**
 * The text of a configuration as it is shown: each secret stands as a mark, `******(3)`, and the marks become the secrets
 * again when the text comes back. Pure.
 *
 * A mark may move with its setting, and it counts only under a setting of the same name, so that nobody who edits the
 * text can move a secret to where it is shown. Comments are hidden alike.
 */

import { SvcError } from "../../base/error.ts";
import {
  isSecretName,
  replaceSecretParts,
  secretParts,
  secretsIn,
  STARS,
} from "../../base/schema/json_secrets.ts";
import { parseJsonc, type TextSpan } from "../../base/schema/jsonc.ts";
import type { Json, Problem } from "../../base/schema/schema.ts";

const MARK = /\*{6}\((\d{1,6})\)/g;
const MARKS = /^(?:\*{6}\(\d{1,6}\))+$/;
/** A setting in a comment: `"api_key": "…"` */
const COMMENTED = /"([^"\n]{1,100})"\s*:\s*("(?:[^"\\\n]|\\.)*")/g;

/** A secret of a text. */
interface HiddenSecret {
  /** As it stands in the text: a value, or a part of one. */
  readonly written: string;
  /** The name of its setting; empty for one in a comment. */
  readonly name: string;
  readonly isPart: boolean;
}

/** A part of a text and what stands in its place. */
interface Replacement extends TextSpan {
  readonly text: string;
}

export interface HiddenText {
  readonly text: string;
  readonly secrets: readonly HiddenSecret[];
}

/** Throws `invalid_argument` if the text is no JSONC. */
export function hideSecrets(text: string, file: string): HiddenText {
  const { json, spans, comments } = read(text, file);
  const secrets: HiddenSecret[] = [];
  const replacements: Replacement[] = [];
  const hide = (written: string, name: string, isPart: boolean) => {
    secrets.push({ written, name, isPart });
    return `${STARS}(${secrets.length})`;
  };
  const values = new Map([...textsIn(json)].map(({ path, value }) => [path.join("."), value]));
  for (const { path, isPartly } of secretsIn(json)) {
    const span = spans.get(path.join("."));
    const value = values.get(path.join("."));
    const name = nameOf(path);
    if (!span) continue;
    const written = text.slice(span.from, span.to);
    // A part of a text with unusual escapes cannot be replaced alone.
    const isWhole = !isPartly || value === undefined || JSON.stringify(value) !== written;
    const shown = isWhole
      ? `"${hide(written, name, false)}"`
      : JSON.stringify(replaceSecretParts(value, (part) => hide(innerJson(part), name, true)));
    replacements.push({ ...span, text: shown });
  }
  for (const span of comments) {
    const comment = text.slice(span.from, span.to);
    const named = comment.replace(
      COMMENTED,
      (whole, name: string, value: string) =>
        isSecretName(name)
          ? whole.slice(0, -value.length) + `"${hide(value.slice(1, -1), "", true)}"`
          : whole,
    );
    const shown = replaceSecretParts(named, (part) => MARKS.test(part) ? part : hide(part, "", true));
    if (shown !== comment) replacements.push({ ...span, text: shown });
  }
  const shown = replaced(text, replacements);
  if (!isHidden(shown)) {
    throw new SvcError(
      "failed_precondition",
      `${file}: its secrets cannot be hidden: edit the file on the machine`,
    );
  }
  return { text: shown, secrets };
}

/** Whether the text is still one, and every secret in it is a mark. */
function isHidden(text: string): boolean {
  try {
    const { json } = read(text, "");
    const values = new Map([...textsIn(json)].map(({ path, value }) => [JSON.stringify(path), value]));
    return secretsIn(json).every(({ path, isPartly }) => {
      const value = values.get(JSON.stringify(path)) ?? "";
      return (isPartly ? secretParts(value) : [value]).every((part) => MARKS.test(part));
    });
  } catch {
    return false;
  }
}

/** The text with the secrets in place of their marks. Throws `invalid_argument` for a mark at a wrong place. */
export function restoreSecrets(text: string, secrets: readonly HiddenSecret[], file: string): string {
  const { json, spans, comments } = read(text, file);
  const replacements: Replacement[] = [];
  for (const { path, value } of textsIn(json)) {
    const span = spans.get(path.join("."));
    if (!span || !value.includes(STARS)) continue;
    const name = nameOf(path);
    const written = text.slice(span.from, span.to);
    const [, whole] = /^"\*{6}\((\d{1,6})\)"$/.exec(written) ?? [];
    const secret = whole === undefined ? undefined : secrets[Number(whole) - 1];
    if (secret && !secret.isPart && secret.name === name) {
      replacements.push({ ...span, text: secret.written });
      continue;
    }
    const filled = written.replace(MARK, (mark, number: string) => {
      const part = secrets[Number(number) - 1];
      if (part?.isPart && part.name === name) return part.written;
      const wanted = part ? `wanted it under "${part.name}"` : "there is no such secret in the file";
      throw new SvcError(
        "invalid_argument",
        `${file}: ${path.join(".")}: found the hidden secret ${mark}, ${wanted}`,
      );
    });
    if (filled !== written) replacements.push({ ...span, text: filled });
  }
  for (const span of comments) {
    const comment = text.slice(span.from, span.to);
    const filled = comment.replace(MARK, (mark, number: string) => {
      const part = secrets[Number(number) - 1];
      return part?.name === "" ? part.written : mark;
    });
    if (filled !== comment) replacements.push({ ...span, text: filled });
  }
  return replaced(text, replacements);
}

function read(text: string, file: string) {
  const spans = new Map<string, TextSpan>();
  const comments: TextSpan[] = [];
  const problems: Problem[] = [];
  const json = parseJsonc(new TextEncoder().encode(text), { file, spans, comments, problems });
  // Without variables, a setting that is written twice is the only problem: the first one would not be looked at.
  const [twice] = problems;
  if (twice) {
    throw new SvcError("failed_precondition", `${file}: ${twice.path}: ${twice.message}: remove one of them`);
  }
  return { json, spans, comments };
}

/** All texts of a document with their paths. */
function* textsIn(
  value: Json,
  path: readonly (string | number)[] = [],
): Generator<{ readonly path: readonly (string | number)[]; readonly value: string }> {
  if (typeof value === "string") yield { path, value };
  else if (typeof value === "object" && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      yield* textsIn(member as Json, [...path, Array.isArray(value) ? Number(name) : name]);
    }
  }
}

/** A text as it stands between the quotes of JSON. */
function innerJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** The name of the innermost setting of a path. */
function nameOf(path: readonly (string | number)[]): string {
  return String(path.findLast((part) => typeof part === "string") ?? "");
}

function replaced(text: string, replacements: readonly Replacement[]): string {
  let shown = text;
  for (const { from, to, text: part } of replacements.toSorted((a, b) => b.from - a.from)) {
    shown = shown.slice(0, from) + part + shown.slice(to);
  }
  return shown;
}
