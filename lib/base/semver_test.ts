import { assert, assertEquals } from "@std/assert";
import { compareVersions, parseRange, parseVersion } from "./semver.ts";

Deno.test("compareVersions: orders versions by the rules of semantic versioning", () => {
  const ordered = [
    "0.9.9",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "v1.0.0",
    "1.0.1",
    "1.10.0",
    "2.0.0+build.5",
  ];
  const shuffled = [...ordered].reverse().sort((a, b) => compareVersions(parseVersion(a)!, parseVersion(b)!));
  assertEquals(shuffled, ordered);
  assertEquals(compareVersions(parseVersion("1.0.0+a")!, parseVersion("1.0.0+b")!), 0);
});

Deno.test("parseVersion: returns undefined for text that is not a version", () => {
  for (const text of ["", "1", "1.2", "stable", "1.2.3.4", "1.2.3-", "2024-01-02", "1".repeat(300)]) {
    assertEquals(parseVersion(text), undefined, text);
  }
});

Deno.test("parseRange: a range contains the expected versions", () => {
  const cases: [range: string, inside: string[], outside: string[]][] = [
    ["1.2.3", ["1.2.3"], ["1.2.4", "1.2.3-rc1"]],
    ["1.2", ["1.2.0", "1.2.9"], ["1.3.0", "1.3.0-rc1", "1.1.9"]],
    ["1", ["1.0.0", "1.9.9"], ["2.0.0", "0.9.0"]],
    ["1.x", ["1.5.0"], ["2.0.0"]],
    ["*", ["0.0.1", "9.9.9"], ["1.0.0-rc1"]],
    ["^1.2.3", ["1.2.3", "1.9.0"], ["1.2.2", "2.0.0", "2.0.0-rc1"]],
    ["^0.2.3", ["0.2.9"], ["0.3.0"]],
    ["^0.0.3", ["0.0.3"], ["0.0.4"]],
    ["~1.2.3", ["1.2.9"], ["1.3.0", "1.2.2"]],
    ["~1", ["1.9.9"], ["2.0.0"]],
    [">=1.2 <2", ["1.2.0", "1.9.9"], ["2.0.0", "1.1.0"]],
    ["> 1.2", ["1.3.0"], ["1.2.9"]],
    ["<=1.2", ["1.2.9", "0.1.0"], ["1.3.0"]],
    ["1.0.0 || ^3", ["1.0.0", "3.1.0"], ["2.0.0"]],
    [">=1.0.0-rc.1", ["1.0.0-rc.2", "1.0.0", "2.0.0"], ["2.0.0-rc.1", "1.0.0-beta"]],
  ];
  for (const [range, inside, outside] of cases) {
    const holds = parseRange(range)!;
    for (const text of inside) assert(holds(parseVersion(text)!), `${text} in ${range}`);
    for (const text of outside) assert(!holds(parseVersion(text)!), `${text} not in ${range}`);
  }
});

Deno.test("parseRange: returns undefined for text that is not a range", () => {
  for (const text of ["", "stable", "^", "2024-01-02T03-04-05", ">=1 &&", "1.2-rc1", "||"]) {
    assertEquals(parseRange(text), undefined, text);
  }
});
