/**
 * The specification: one row per statement, with the tests that check it.
 *
 * The rows are in the files beside this one. `docs/spec.md` is generated from them (`deno task golden`).
 * `tests/golden/spec_test.ts` compares the page with the rows, the rows with their tests, and settings and options with
 * those of the programs.
 */

/** The specified shape of a setting or an option. */
export interface Shape {
  readonly type: "string" | "integer" | "number" | "boolean" | "object" | "array";
  readonly default?: string | number | boolean;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly words?: readonly string[];
  readonly required?: true;
}

export interface Row {
  /** The statement, in our words. */
  readonly says: string;
  /** `file: name of a test`; at least one. */
  readonly tests: readonly string[];
  /** How this implementation goes beyond the statement or deliberately differs from it, and why. */
  readonly note?: string;
  /** The name of a setting or an option. `pins.pwm` is a key of an object, `log[].level` a key of a list's items. */
  readonly name?: string;
  readonly shape?: Shape;
  /** Known differences from the shape; the note gives the reason. */
  readonly differsIn?: readonly (keyof Shape)[];
}

/** The program whose settings or options a section describes. */
export type Subject =
  | { readonly kind: "model"; readonly api: string; readonly model: string }
  | { readonly kind: "machine" }
  | { readonly kind: "agent"; readonly section: string }
  | { readonly kind: "options"; readonly program: "svc-server" | "svc-agent" };

export interface Section {
  readonly title: string;
  readonly rows: readonly Row[];
  readonly subject?: Subject;
}

/** A statement that one or more tests check. */
export function holds(says: string, tests: string | readonly string[], note?: string): Row {
  return { says, tests: [tests].flat(), note };
}

/** A setting with its type, default and range. */
export function setting(
  name: string,
  shape: Shape,
  says: string,
  tests: string | readonly string[],
  { note, differsIn }: Pick<Row, "note" | "differsIn"> = {},
): Row {
  return { name, shape, says, tests: [tests].flat(), note, differsIn };
}

/** An option of a command line. */
export function option(name: string, says: string, tests: string | readonly string[], note?: string): Row {
  return { name, says, tests: [tests].flat(), note };
}
