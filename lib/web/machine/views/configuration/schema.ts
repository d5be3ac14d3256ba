/**
 * The machine's JSON Schema, asked for what may stand at a path of a document. Pure.
 *
 * It follows the forms that the machine writes: properties, items, `anyOf`, and `allOf` with `if` and `then`, whose
 * conditions compare members with constants.
 */

export type SchemaValue = null | boolean | number | string | readonly SchemaValue[] | {
  readonly [key: string]: SchemaValue;
};

export interface Schema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly default?: SchemaValue;
  readonly const?: SchemaValue;
  readonly enum?: readonly SchemaValue[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly additionalProperties?: boolean | Schema;
  readonly anyOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly if?: Schema;
  readonly then?: Schema;
  readonly writeOnly?: boolean;
  readonly minimum?: number;
  readonly maximum?: number;
}

export type Path = readonly (string | number)[];

/** All schemas that apply to the value at `path` of `document`. */
export function schemasAt(schema: Schema, document: SchemaValue | undefined, path: Path): readonly Schema[] {
  let found: readonly Schema[] = [schema];
  let value = document;
  for (const part of path) {
    found = found.flatMap((one) => applying(one, value)).flatMap((one) => memberOf(one, part));
    value = valueAt(value, part);
  }
  return found.flatMap((one) => applying(one, value));
}

/** A schema with the parts that apply to this value. */
function applying(schema: Schema, value: SchemaValue | undefined): readonly Schema[] {
  const conditional = schema.if && schema.then && fits(schema.if, value) ? applying(schema.then, value) : [];
  const all = (schema.allOf ?? []).flatMap((one) => applying(one, value));
  const any = (schema.anyOf ?? []).flatMap((one) => applying(one, value));
  return [schema, ...conditional, ...all, ...any];
}

function fits(schema: Schema, value: SchemaValue | undefined): boolean {
  if (schema.const !== undefined) return value === schema.const;
  if (schema.enum !== undefined) return value !== undefined && schema.enum.includes(value);
  if ((schema.required ?? []).some((name) => valueAt(value, name) === undefined)) return false;
  return Object.entries(schema.properties ?? {}).every(([name, one]) => fits(one, valueAt(value, name)));
}

function memberOf(schema: Schema, part: string | number): readonly Schema[] {
  if (typeof part === "number") return schema.items ? [schema.items] : [];
  const own = schema.properties?.[part];
  if (own) return [own];
  return typeof schema.additionalProperties === "object" ? [schema.additionalProperties] : [];
}

function valueAt(value: SchemaValue | undefined, part: string | number): SchemaValue | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  return (value as Readonly<Record<string, SchemaValue>>)[part];
}

/** A setting that may stand in an object. */
export interface Setting {
  readonly name: string;
  readonly schema: Schema;
  readonly isRequired: boolean;
}

export function settingsAt(
  schema: Schema,
  document: SchemaValue | undefined,
  path: Path,
): readonly Setting[] {
  const found = new Map<string, Setting>();
  const schemas = schemasAt(schema, document, path);
  const required = new Set(schemas.flatMap((one) => one.required ?? []));
  for (const one of schemas) {
    for (const [name, own] of Object.entries(one.properties ?? {})) {
      const known = found.get(name)?.schema;
      found.set(name, { name, schema: { ...known, ...own }, isRequired: required.has(name) });
    }
  }
  return [...found.values()];
}

/** The values that the schemas at a path name. */
export function valuesAt(
  schema: Schema,
  document: SchemaValue | undefined,
  path: Path,
): readonly SchemaValue[] {
  const values = schemasAt(schema, document, path).flatMap((one) => {
    if (one.enum) return one.enum;
    if (one.const !== undefined) return [one.const];
    return typesOf(one).includes("boolean") ? [true, false] : [];
  });
  return [...new Set(values)];
}

export function typesOf({ type }: Schema): readonly string[] {
  return typeof type === "string" ? [type] : type ?? [];
}

/** An example of a value: the default, or an empty one of the type. */
export function emptyValue(schema: Schema): SchemaValue {
  if (schema.default !== undefined) return schema.default;
  if (schema.enum?.[0] !== undefined) return schema.enum[0];
  const [type] = typesOf(schema);
  if (type === "object") return {};
  if (type === "array") return [];
  if (type === "number" || type === "integer") return schema.minimum ?? 0;
  return type === "boolean" ? false : "";
}
