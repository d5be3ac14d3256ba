/**
 * The facts about a call that its interceptors need: the resource it names, and the ids in its metadata.
 */

import { SvcError } from "../../base/error.ts";
import type { Metadata } from "../../wire/rpc/metadata.ts";
import type { Registry } from "../../resource/registry.ts";
import type { DescMethod, Message } from "../../wire/rpc/proto.ts";

/** The types of the resources that calls address. */
export type Types = Pick<Registry, "apiOfService">;

/** The field that names a resource in requests of unknown services. */
const NAMED_BY = ["name"];

/** The short name of the resource that a request addresses; `undefined` if it addresses none. */
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

/** The id under `key`, if the call has one. Throws `invalid_argument` for several and for anything but a UUID. */
export function idFrom(header: Metadata, key: string): string | undefined {
  const [value, ...more] = header.all(key);
  if (value === undefined) return undefined;
  if (more.length > 0) {
    const found = `metadata ${key} holds ${1 + more.length} ids`;
    throw new SvcError("invalid_argument", `${found}, wanted at most one`);
  }
  return parseId(value, `metadata ${key}`);
}

/** A UUID in its usual form. Throws `invalid_argument`, naming `what`. */
export function parseId(text: string, what: string): string {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) return text.toLowerCase();
  throw new SvcError("invalid_argument", `${what} is "${text.slice(0, 80)}", wanted a UUID`);
}
