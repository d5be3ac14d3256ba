/**
 * tests/golden/plans shows correct plans; this file tests properties that a person cannot read there.
 */
import { assertEquals } from "@std/assert";
import { type ResolvedDependencies, resolveDependencies } from "../../../resource/graph.ts";
import { planOf, retryScope, type Standing, unsettled, type WantedResource } from "./plan.ts";

const full = (short: string) => `rdk:component:generic/${short}`;
const shorts = (names: Iterable<string>) => [...names].map((name) => name.split("/")[1]).join(" ");

/** `{ a: "1 b c?" }`: resource a with fingerprint 1 that needs b, and c if it is there. */
function wanted(texts: Record<string, string>): Map<string, WantedResource> {
  return new Map(
    Object.entries(texts).map(([short, text]) => {
      const [fingerprint, ...names] = text.split(" ");
      const needs = names.map((name) => ({ name: name.replace("?", ""), optional: name.endsWith("?") }));
      return [full(short), { fingerprint, needs }];
    }),
  );
}

/** The same notation for what it holds; a trailing `!` on the fingerprint: down, `~`: being built. */
function standing(texts: Record<string, string>): Map<string, Standing> {
  return new Map(
    Object.entries(texts).map(([short, text]) => {
      const [fingerprint, ...names] = text.split(" ");
      const conditions = { "!": "down", "~": "building" } as const;
      const condition = conditions[fingerprint.slice(-1) as keyof typeof conditions] ?? "ready";
      const holds = new Set(names.map(full));
      return [full(short), { fingerprint: fingerprint.replace(/[!~]/, ""), holds, condition }];
    }),
  );
}

function steps(
  from: Record<string, string>,
  to: Record<string, string>,
  scope?: (stand: Map<string, Standing>, wiring: ResolvedDependencies) => Set<string>,
): string {
  const [stand, want] = [standing(from), wanted(to)];
  const wiring = resolveDependencies(want);
  const { close, build } = planOf(stand, want, wiring, scope?.(stand, wiring));
  const show = (groups: readonly (readonly string[])[]) => groups.map(shorts).join(", ");
  return `close: ${show(close)}; build: ${show(build)}`;
}

Deno.test("planOf: keeps a wanted build in progress, and builds its dependents after it", () => {
  assertEquals(steps({ a: "1~", b: "1! a" }, { a: "1", b: "1 a" }), "close: ; build: a, b");
});

Deno.test("planOf: closes a build in progress whose configuration changed", () => {
  assertEquals(steps({ a: "1~" }, { a: "2" }), "close: a; build: a");
  assertEquals(steps({ a: "1~ b", b: "1" }, { a: "1 b", b: "2" }), "close: a, b; build: b, a");
});

Deno.test("retryScope: contains the failed resource and its waiting dependents, without optional users", () => {
  const from = { a: "1!", b: "1!", c: "1", d: "1 c", e: "1!" };
  const to = { a: "1", b: "1 a", c: "1 a?", d: "1 c", e: "1" };
  const retry = (stand: Map<string, Standing>, wiring: ResolvedDependencies) =>
    retryScope([full("a")], stand, wiring);
  assertEquals(steps(from, to, retry), "close: ; build: a, b");
});

Deno.test("unsettled: optional users of a recovered resource are rebuilt with their dependents", () => {
  const from = { a: "1", b: "1 a", c: "1", d: "1 c", e: "1!" };
  const to = { a: "1", b: "1 a", c: "1 a?", d: "1 c", e: "1" };
  const scope = (stand: Map<string, Standing>, wiring: ResolvedDependencies) =>
    unsettled([full("a"), full("b")], stand, wiring);
  assertEquals(steps(from, to, scope), "close: d, c; build: c, d");
});

Deno.test("unsettled: is empty when every optional user has its dependency", () => {
  const stand = standing({ a: "1", c: "1 a" });
  assertEquals(unsettled([full("a")], stand, resolveDependencies(wanted({ a: "1", c: "1 a?" }))).size, 0);
});
