import { assertEquals, assertStringIncludes } from "@std/assert";
import { planOf, type Standing, type Wanted } from "./plan.ts";

const full = (short: string) => `rdk:component:generic/${short}`;

/** `{ a: "1 b c" }`: resource a with fingerprint 1 that needs b and c. */
function wanted(texts: Record<string, string>): Map<string, Wanted> {
  return new Map(Object.entries(texts).map(([short, text]) => {
    const [fingerprint, ...names] = text.split(" ");
    return [full(short), { fingerprint, needs: names.map((name) => ({ name, optional: false })) }];
  }));
}

/** The same notation; a trailing `!` on the fingerprint: unhealthy. */
function standing(texts: Record<string, string>): Map<string, Standing> {
  return new Map(Object.entries(texts).map(([short, text]) => {
    const [fingerprint, ...names] = text.split(" ");
    return [full(short), {
      fingerprint: fingerprint.replace("!", ""),
      uses: new Set(names.map(full)),
      healthy: !fingerprint.endsWith("!"),
    }];
  }));
}

function steps(from: Record<string, string>, to: Record<string, string>): string {
  const { close, build } = planOf(standing(from), wanted(to));
  const show = (groups: readonly (readonly string[])[]) =>
    groups.map((group) => group.map((name) => name.split("/")[1]).join("+")).join(" ");
  return `close: ${show(close)}; build: ${show(build)}`;
}

Deno.test("planOf() builds dependencies first, independent resources together", () => {
  assertEquals(steps({}, { a: "1 b", b: "1", c: "1" }), "close: ; build: b+c a");
});

Deno.test("planOf() leaves an equal configuration alone", () => {
  assertEquals(steps({ a: "1 b", b: "1" }, { a: "1 b", b: "1" }), "close: ; build: ");
});

Deno.test("planOf() rebuilds what changed and all that use it", () => {
  assertEquals(
    steps({ a: "1 b", b: "1 c", c: "1", d: "1" }, { a: "1 b", b: "1 c", c: "2", d: "1" }),
    "close: a b c; build: c b a",
  );
});

Deno.test("planOf() closes what is gone, its users first, and blocks them", () => {
  const from = { a: "1 b", b: "1" };
  assertEquals(steps(from, { a: "1 b" }), "close: a b; build: ");
  const { blocked } = planOf(standing(from), wanted({ a: "1 b" }));
  assertStringIncludes(blocked.get(full("a"))!, "[b]");
});

Deno.test("planOf() tries again what is unhealthy, with its users", () => {
  assertEquals(steps({ a: "1! b", b: "1!", c: "1" }, { a: "1 b", b: "1", c: "1" }), "close: a b; build: b a");
});

Deno.test("planOf() rebuilds a resource whose name now means another", () => {
  assertEquals(
    steps({ a: "1 b", b: "1", c: "1" }, { a: "1 c", b: "1", c: "1" }),
    "close: a; build: a",
  );
});
