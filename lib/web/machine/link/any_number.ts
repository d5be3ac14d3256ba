/**
 * Readings with NaN or an infinity, as sensors without a measurement have them.
 *
 * The libraries give no JSON for such a number within a `google.protobuf.Value`, and one of them would leave all
 * readings of its answer unseen. It becomes a text, as in fields of the type `double`.
 */

import { Struct as OwnStruct } from "@bufbuild/protobuf";
import { Struct } from "@viamrobotics/sdk";

interface NumberOrOther {
  readonly kind: { readonly case?: string; readonly value?: unknown };
  toJson(options?: unknown): unknown;
}

/** Teaches it the classes of both libraries; the machine's page calls it once, at its start. */
export function giveEveryNumberJson(): void {
  for (const one of [OwnStruct, Struct]) teach(valuesOf(one));
}

function teach(values: NumberOrOther): void {
  const { toJson } = values;
  values.toJson = function (this: NumberOrOther, options?: unknown) {
    const { case: kind, value } = this.kind;
    return kind === "numberValue" && !Number.isFinite(value) ? String(value) : toJson.call(this, options);
  };
}

/** What the values of a structure have in common; the library of machines does not export their class. */
function valuesOf(struct: { readonly fields: typeof OwnStruct.fields }): NumberOrOther {
  const field = struct.fields.findJsonName("fields");
  if (field?.kind !== "map" || field.V.kind !== "message") throw new Error("a Struct has no values");
  return field.V.T.prototype as NumberOrOther;
}
