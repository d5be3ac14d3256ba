/**
 * The fields of log entries in their published encoding, that of the Go library zap: a key, the number of a type, and
 * the value in one of three places depending on the type.
 */

/** The zap field types that this program writes, or whose value is stored in an unusual place. */
const ZAP = { bool: 4, float64: 9, float32: 10, int64: 11, string: 15, reflect: 23, skip: 27 } as const;
const ZAP_INTEGERS: ReadonlySet<unknown> = new Set([8, 11, 12, 13, 14, 16, 18, 19, 20, 21, 22]);

type ZapField = { readonly [name: string]: unknown };

interface EntryFields {
  readonly fields: readonly ZapField[];
}

/** The values of an entry's fields by their keys. */
export function logFieldsOf({ fields }: EntryFields): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const field of fields) {
    if (typeof field.Key === "string" && field.Type !== ZAP.skip) values[field.Key] = valueOf(field);
  }
  return values;
}

/** The fields as people read them and filters search them: `{"pin":"a","tries":3}`; empty without fields. */
export function fieldsText(entry: EntryFields): string {
  const values = logFieldsOf(entry);
  return Object.keys(values).length > 0 ? JSON.stringify(values) : "";
}

/** The field of an entry with a key and a value. */
export function zapField<Value>(Key: string, value: Value): { [name: string]: Value | string | number } {
  switch (typeof value) {
    case "boolean":
      return { Key, Type: ZAP.bool, Integer: value ? 1 : 0 };
    case "number":
      return Number.isSafeInteger(value)
        ? { Key, Type: ZAP.int64, Integer: value }
        : { Key, Type: ZAP.float64, String: String(value) };
    case "string":
      return { Key, Type: ZAP.string, String: value };
  }
  return { Key, Type: ZAP.reflect, Interface: value };
}

function valueOf({ Type: type, Integer: integer, String: text, Interface: value }: ZapField): unknown {
  if (type === ZAP.bool) return integer === 1;
  if (type === ZAP.float64) return Number(text);
  if (type === ZAP.float32) return floatOfBits(Number(integer));
  if (ZAP_INTEGERS.has(type)) return integer;
  return type === ZAP.string ? text ?? "" : value ?? text ?? integer;
}

function floatOfBits(bits: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, bits);
  return view.getFloat32(0);
}
