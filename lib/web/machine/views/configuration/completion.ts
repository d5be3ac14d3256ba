/** Completion of settings and values by the machine's schema, with what they mean. */

import {
  type Completion,
  type CompletionContext,
  type CompletionResult,
  snippet,
} from "@codemirror/autocomplete";
import { positionAt, valueOf } from "./document.ts";
import { resourceNames } from "./entries.ts";
import {
  emptyValue,
  type Schema,
  schemasAt,
  type SchemaValue,
  type Setting,
  settingsAt,
  valuesAt,
} from "./schema.ts";

export function completionBy(schema: Schema): (context: CompletionContext) => CompletionResult | null {
  return ({ state, pos, explicit }) => {
    const place = positionAt(state, pos);
    if (!place || place.from === pos && !explicit && place.kind === "key") return null;

    const document = valueOf(state);
    const { path, from, to } = place;
    if (place.kind === "key") {
      const hasColon = /^\s*:/.test(state.sliceDoc(to, to + 20));
      const free = settingsAt(schema, document, path).filter(({ name }) => !place.present.includes(name));
      return {
        from,
        to: Math.max(to, pos),
        options: free.map((one) => keyOption(one, hasColon)),
        filter: true,
      };
    }
    const values = [...valuesAt(schema, document, path), ...names(document, path)];
    const options = values.map((value): Completion => ({ label: JSON.stringify(value), type: "constant" }));
    return options.length > 0 ? { from, to: Math.max(to, pos), options } : null;
  };
}

function keyOption({ name, schema, isRequired }: Setting, hasColon: boolean): Completion {
  const label = JSON.stringify(name);
  const value = emptyValue(schema);
  const written = {
    object: "{ ${} }",
    array: "[${}]",
    text: '"${}"',
    other: "${" + JSON.stringify(value) + "}",
  };
  let kind: keyof typeof written = typeof value === "object" ? "object" : "other";
  if (Array.isArray(value)) kind = "array";
  else if (value === "") kind = "text";

  return {
    label,
    detail: isRequired ? "required" : undefined,
    info: schema.description,
    type: "property",
    boost: isRequired ? 1 : 0,
    apply: hasColon ? label : snippet(`${label}: ${written[kind]}`),
  };
}

/** Names of resources, where the schema knows only a text. */
function names(document: SchemaValue | undefined, path: readonly (string | number)[]): string[] {
  const inDependencies = path.at(-2) === "depends_on";
  return inDependencies || path.includes("attributes") ? resourceNames(document) : [];
}

/** The explanation of the setting at a path. */
export function explanationAt(
  schema: Schema,
  document: SchemaValue | undefined,
  path: readonly (string | number)[],
): string {
  const found = schemasAt(schema, document, path).map(({ description }) => description).filter(Boolean);
  return [...new Set(found)].join(" ");
}
