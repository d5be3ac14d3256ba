/**
 * Commands whose numbers are numbers: a NaN, which a client computes of an empty reading or 0 / 0, is compared with
 * nothing. A controller that gets it drives on at its former power, or at any.
 */

import { SvcError } from "../../base/error.ts";
import type { AnyHandler, Service } from "../../wire/rpc/service.ts";

/** Values of the caller's own for a model: they may be anything. */
const FREE: ReadonlySet<string> = new Set(["extra", "command"]);

/** The service, which answers a request that has a NaN with `invalid_argument`. Streams are their handler's. */
export function refusingNaN({ desc, handlers }: Service): Service {
  const kept = desc.methods.flatMap(({ localName, name, methodKind }) => {
    const handler = handlers[localName];
    if (!handler) return [];
    const checked: AnyHandler = (request, ctx) => {
      const field = nanField(request);
      if (field === undefined) return handler(request, ctx);
      const found = `${name} of ${request.name ?? request.controller}: found NaN for ${field}`;
      throw new SvcError("invalid_argument", `${found}, wanted a number`);
    };
    return [[localName, methodKind === "unary" ? checked : handler] as const];
  });
  return { desc, handlers: Object.fromEntries(kept) };
}

/** The path of a field that has none of the numbers; undefined if all are numbers. */
function nanField(value: object): string | undefined {
  for (const [name, field] of Object.entries(value)) {
    if (Number.isNaN(field)) return name;
    if (FREE.has(name) || typeof field !== "object" || field === null || ArrayBuffer.isView(field)) continue;
    const inside = nanField(field);
    if (inside !== undefined) return `${name}.${inside}`;
  }
  return undefined;
}
