import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../lib/base/error.ts";
import { namedOne } from "./lookup.ts";

const ALL = [
  { id: "1111aaaa-0", name: "rover", also: ["field"] },
  { id: "1111bbbb-0", name: "crane" },
  { id: "2222cccc-0", name: "twin" },
  { id: "3333dddd-0", name: "twin" },
  { id: "4444eeee-0", name: "field" },
];

Deno.test("namedOne: by id, by name, by a further name, by a unique beginning of an id", () => {
  const idOf = (wanted: string) => namedOne("machine", wanted, ALL).id.slice(0, 8);
  assertEquals(["2222cccc-0", "rover", "1111a", "field"].map(idOf), [
    "2222cccc",
    "1111aaaa",
    "1111aaaa",
    "4444eeee",
  ]);
});

Deno.test("namedOne: what fits nothing, or several, is an error with what to do", () => {
  const refused = (wanted: string) => assertThrows(() => namedOne("machine", wanted, ALL), SvcError).message;
  assertEquals(refused("rovr"), 'there is no machine "rovr"; did you mean rover?');
  assertEquals(refused("xyz"), 'there is no machine "xyz"; there are rover, crane, twin, field');
  assertEquals(refused("111"), 'there is no machine "111"; there are rover, crane, twin, field', "too short");
  assertEquals(
    refused("1111"),
    '"1111" means 2 machines: rover (1111aaaa-0), crane (1111bbbb-0); give an id',
  );
  assertEquals(refused("twin"), '"twin" means 2 machines: twin (2222cccc-0), twin (3333dddd-0); give an id');
  assertEquals(assertThrows(() => namedOne("machine", "a", []), SvcError).message, 'there is no machine "a"');
});
