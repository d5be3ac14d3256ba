/**
 * Resolving: what a configuration and its fragments become, and that hostile ones are refused before they cost anything.
 */

import { assertEquals, assertLess, assertMatch, assertRejects } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import type { Json, JsonObject } from "../../base/schema/schema.ts";
import { type FindFragments, type ResolutionOptions, resolve } from "./resolution.ts";

const limits = {
  fragmentsPerConfiguration: 200,
  valuesPerConfiguration: 200_000,
  lettersPerConfiguration: 4 * 1024 ** 2,
};

/** Finds the fragments of a table by id, or by `id@version`; counts what it was asked for. */
function library(table: { readonly [id: string]: JsonObject }, foreign: readonly string[] = []) {
  const asked: string[] = [];
  const find: FindFragments = (wanted, lettersMax) => {
    let left = lettersMax;
    return Promise.resolve(wanted.flatMap(({ id, version }) => {
      const name = version === "" ? id : `${id}@${version}`;
      asked.push(name);
      if (!Object.hasOwn(table, name)) return [];
      const text = JSON.stringify(table[name]);
      left -= text.length;
      return [{
        id,
        version,
        revision: 1,
        own: !foreign.includes(id),
        letters: text.length,
        text: left < 0 ? undefined : text,
      }];
    }));
  };
  return { asked, find };
}

async function resolved(
  config: JsonObject,
  table: { readonly [id: string]: JsonObject },
  options: Partial<ResolutionOptions> = {},
) {
  const { config: made, problems } = await resolve(config, library(table).find, { limits, ...options });
  return { made, problems: problems.map(({ path, message }) => `${path}: ${message}`) };
}

function variable(name: string, fallback?: Json): JsonObject {
  return { $variable: fallback === undefined ? { name } : { name, default_value: fallback } };
}

Deno.test("resolve() joins lists, lets the outer value win, fills variables in and applies changes", async () => {
  const { made, problems } = await resolved({
    network: { bind_address: "own" },
    components: [{ name: "own" }],
    fragments: [{ id: "a", variables: { pin: 7 } }],
    fragment_mods: [{
      fragment_id: "a",
      mods: [{ $set: { "components.m.attributes.speed": 2, "new.part": true } }, {
        $unset: { "components.gone": "" },
      }],
    }],
  }, {
    a: {
      network: { bind_address: "inner" },
      components: [{ name: "gone" }, {
        name: "m",
        attributes: { pin: variable("pin"), kind: variable("kind", "x") },
      }],
      fragments: ["b"],
    },
    b: { components: [{ name: "deep" }], debug: true },
  });
  assertEquals(problems, []);
  assertEquals(made, {
    network: { bind_address: "own" },
    components: [
      { name: "own" },
      { name: "m", attributes: { pin: 7, kind: "x", speed: 2 } },
      { name: "deep" },
    ],
    debug: true,
    new: { part: true },
  });
});

Deno.test("resolve() reports cycles, also through versions, repeats, missing fragments and foreign secrets", async () => {
  const { problems } = await resolved({
    fragments: ["a", "twice", "twice", "none", "ring", "theirs", { id: "twice", variables: { other: 1 } }, 5],
  }, {
    a: { fragments: [{ id: "b", version: "stable" }] },
    "b@stable": { fragments: [{ id: "a", version: "1" }] },
    "a@1": { debug: true },
    twice: {},
    ring: { fragments: ["ring"] },
    theirs: { attributes: { password: "sesame" } },
  }, {});
  assertEquals(problems, [
    'fragments.7: found 5, wanted the id of a fragment or {"id": …}',
    "fragments.a.fragments.b.fragments.a: is in itself",
    "fragments.twice: is listed twice here with the same variables: remove one of the entries, or give it another prefix",
    "fragments.none: there is no such fragment that this organization may use",
    "fragments.ring.fragments.ring: is in itself",
  ]);
  const foreign = library({ theirs: { attributes: { password: "sesame" } } }, ["theirs"]);
  const { config, problems: logged } = await resolve({ fragments: ["theirs"] }, foreign.find, { limits });
  assertEquals([config, logged[0].message], [{}, "it holds secrets, and belongs to another organization"]);
  const own = await resolve({ fragments: ["b"] }, library({ b: { fragments: ["mine"] } }).find, {
    limits,
    within: "mine",
  });
  assertEquals(own.problems.map(({ path }) => path), ["fragments.b.fragments.mine"]);
});

Deno.test("resolve() masks the secrets of fragments alone, and keeps their variables", async () => {
  const { made } = await resolved(
    { secret: "own", fragments: [{ id: "a", variables: { password: "mine" } }] },
    { a: { one: { password: "theirs" }, other: { password: variable("password") } } },
    { masked: true },
  );
  assertEquals(made, { secret: "own", one: { password: "******" }, other: { password: "mine" } });
});

/** Names of fragments that list each other in a chain, each with `width` references to the next. */
function tower(levels: number, reference: (next: string, index: number) => Json, width: number) {
  const table: Record<string, JsonObject> = { [`f${levels}`]: { components: [{ name: "x" }] } };
  for (let level = 1; level < levels; level++) {
    const fragments = Array.from({ length: width }, (_, index) => reference(`f${level + 1}`, index));
    table[`f${level}`] = { fragments };
  }
  return table;
}

/** Hostile sets of fragments, all with a part's configuration that is short. */
const HOSTILE: { readonly [name: string]: readonly [JsonObject, Record<string, JsonObject>] } = {
  "five fragments of 40 references each": [
    { fragments: [{ id: "f1", variables: { a: 1 } }] },
    tower(5, (id, index) => ({ id, variables: { index } }), 40),
  ],
  "variables that hold variables": [
    { fragments: [{ id: "f1", variables: { a: "x".repeat(10) } }] },
    {
      ...Object.fromEntries([1, 2, 3, 4].map((level) => [`f${level}`, {
        fragments: [{ id: `f${level + 1}`, variables: { a: Array(80).fill(variable("a")) } }],
      }])),
      f5: { list: Array(80).fill(variable("a")) },
    },
  ],
  "many references on one level": [
    { fragments: Array.from({ length: 5_000 }, (_, at) => ({ id: "f", variables: { at } })) },
    { f: {} },
  ],
  "a large fragment many times": [
    { fragments: Array.from({ length: 150 }, (_, at) => ({ id: "f", variables: { at } })) },
    { f: { text: Array(100).fill("x".repeat(1_000)) } },
  ],
  "a change that sets a large value in each of many fragments": [
    {
      fragments: Array.from({ length: 150 }, (_, at) => ({ id: "f", variables: { at } })),
      fragment_mods: [{ fragment_id: "f", mods: [{ $set: { a: Array(2_000).fill(0) } }] }],
    },
    { f: {} },
  ],
  "changes that nobody's fragment needs, read again for each inclusion": [
    { fragments: Array.from({ length: 150 }, (_, at) => ({ id: "f", variables: { at } })) },
    { f: { fragments: ["g"], fragment_mods: Array(2_000).fill({ fragment_id: "none", mods: [] }) }, g: {} },
  ],
  "an object inside an object inside an object": [
    { fragments: [{ id: "f" }], fragment_mods: [] },
    { f: { a: JSON.parse("[".repeat(50_000) + "]".repeat(50_000)) } },
  ],
  "texts that are too long together": [
    { fragments: ["f", "g", "h"] },
    { f: { a: "x".repeat(2_000_000) }, g: { a: "x".repeat(2_000_000) }, h: { a: "x".repeat(2_000_000) } },
  ],
};

for (const [name, [config, table]] of Object.entries(HOSTILE)) {
  Deno.test(`resolve() refuses ${name}`, async () => {
    const { asked, find } = library(table);
    const error = await assertRejects(() => resolve(config, find, { limits }), SvcError);
    assertEquals(error.code, "resource_exhausted");
    assertMatch(error.message, /limit \w+_per_configuration|more than 100 objects and lists/);
    // Each fragment is read once, however often it is named.
    assertEquals(asked.length, new Set(asked).size);
    assertLess(asked.length, 10);
  });
}

Deno.test("resolve() applies thousands of changes to one list without searching it for each", async () => {
  const names = Array.from({ length: 8_000 }, (_, at) => `c${at}`);
  const set = (value: (name: string) => JsonObject) =>
    names.map((name) => ({ $set: { [`components.${name}`]: value(name) } }));
  const { made, problems } = await resolved({
    fragments: ["f"],
    fragment_mods: [{
      fragment_id: "f",
      mods: [
        ...set((name) => ({ name: `${name}-new` })),
        ...names.slice(1).map((name) => ({ $unset: { [`components.${name}-new`]: "" } })),
        { $set: { "components.c0-new.name": "last" } },
        { $set: { "components.last.speed": 1 } },
        { $set: { "components.c0-new": {} } },
      ],
    }],
  }, { f: { components: names.map((name) => ({ name })) } });
  assertEquals(made.components, [{ name: "last", speed: 1 }]);
  assertEquals(problems, [
    'fragment_mods.0: components.c0-new: there is nothing named "c0-new" in the fragment',
  ]);
});
