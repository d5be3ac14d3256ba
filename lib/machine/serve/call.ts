/**
 * What a call is about, as far as those who stand around every call need to know it: the resource it names, and
 * the ids it carries as metadata.
 */

import { SvcError } from "../../base/error.ts";
import type { Metadata } from "../../wire/metadata.ts";
import type { Registry } from "../../resource/registry.ts";
import type { DescMethod, Message } from "../../wire/proto.ts";

/** The types of the resources that calls are about. */
export type Types = Pick<Registry, "apiOfService">;

/** What names a resource in requests of services that are of no known type. */
const NAMED_BY = ["name"];

/** The short name of the resource that a request is about; `undefined` where it is about none. */
export function resourceNamed(
  types: Types,
  method: DescMethod,
  request: Message | undefined,
): string | undefined {
  if (!request) return undefined;
  for (const field of types.apiOfService(method.parent)?.namedBy ?? NAMED_BY) {
    const name = (request as { [field: string]: unknown })[field];
    if (typeof name === "string" && name !== "") return name;
  }
  return undefined;
}

/** The id under `key`, if the call brought one. Throws `invalid_argument` for several and for what is no UUID. */
export function idFrom(header: Metadata, key: string): string | undefined {
  const values = header.all(key);
  if (values.length === 0) return undefined;
  if (values.length > 1) {
    throw new SvcError("invalid_argument", `metadata ${key} holds ${values.length} ids, wanted at most one`);
  }
  return parseId(values[0], `metadata ${key}`);
}

/** A UUID in its usual form. Throws `invalid_argument`, naming `what` it was to be. */
export function parseId(text: string, what: string): string {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) return text.toLowerCase();
  throw new SvcError("invalid_argument", `${what} is "${text.slice(0, 80)}", wanted a UUID`);
}
