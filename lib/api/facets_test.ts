import { assertEquals } from "@std/assert";
import { safety_heartbeat_monitored } from "../../proto/gen/common_pb.ts";
import type { Facets } from "../resource/facets.ts";
import type { AnyApi } from "../resource/registry.ts";
import { type DescMessage, getOption } from "../wire/rpc/proto.ts";
import { APIS } from "./mod.ts";
import { MotorApi } from "./actuators/motor.ts";

/** The type of this constant forces it to list every facet. */
const FACETS: { readonly [F in keyof Facets]: (value: Facets[F]) => boolean } = {
  namedBy: (fields) => fields.length > 0,
  monitored: (methods) => methods === "none" || methods.length > 0,
  joints: (read) => read === "none" || typeof read === "function",
  captured: (methods) => methods === "none" || Object.keys(methods).length > 0,
};

/** The facets that a type neither declares nor sets to "none". */
function undeclared(api: Partial<AnyApi>): string[] {
  return Object.entries(FACETS).filter(([name, isDeclared]) => {
    const value = api[name as keyof Facets];
    return value === undefined || !(isDeclared as (value: unknown) => boolean)(value);
  }).map(([name]) => name);
}

Deno.test("APIS: every API declares each facet, or none explicitly", () => {
  const wrong = APIS.map((api) => `${api.name}: ${undeclared(api)}`).filter((one) => !one.endsWith(": "));
  assertEquals(wrong, []);
});

Deno.test("APIS: the facet check finds a missing or empty facet", () => {
  const { captured: _, ...forgetful } = MotorApi;
  assertEquals(undeclared(forgetful), ["captured"]);
  assertEquals(undeclared({ ...MotorApi, captured: {}, monitored: [] }), ["monitored", "captured"]);
});

Deno.test("APIS: each request names its resource by a declared field", () => {
  const wrong: string[] = [];
  for (const { name, namedBy, desc } of APIS) {
    const used = new Set<string>();
    for (const method of desc.methods) {
      const naming = namesIn(method.input, namedBy);
      for (const field of naming) used.add(field);
      if (naming.length !== 1) wrong.push(`${name} ${method.name}: ${naming}`);
    }
    const idle = namedBy.filter((field) => !used.has(field));
    if (idle.length > 0) wrong.push(`${name}: no request has ${idle}`);
  }
  assertEquals(wrong, []);
});

/**
 * The members of `fields` that a request has as text, in itself or, for a request of several kinds, in one of
 * its kinds.
 */
function namesIn(message: DescMessage, fields: readonly string[]): string[] {
  const own = fields.filter((field) => {
    return message.fields.some(({ localName, fieldKind }) => localName === field && fieldKind === "scalar");
  });
  if (own.length > 0) return own;
  const chosen = message.oneofs.flatMap((oneof) => oneof.fields).map((field) => field.message);
  return [...new Set(chosen.flatMap((one) => one ? namesIn(one, fields) : []))];
}

Deno.test("APIS: monitored methods match the safety option of the published descriptors", () => {
  for (const { name, monitored, desc } of APIS) {
    const marked = desc.methods.filter((method) => getOption(method, safety_heartbeat_monitored));
    const names = marked.map((method) => method.name);
    assertEquals(monitored === "none" ? [] : [...monitored], names, name);
  }
});

Deno.test("APIS: exactly the APIs with GetKinematics declare joints", () => {
  for (const { name, joints, desc } of APIS) {
    assertEquals(joints !== "none", desc.method.getKinematics !== undefined, name);
  }
});
