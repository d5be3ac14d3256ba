import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "./error.ts";
import { childOf, childrenOf, parseXml, textIn } from "./xml.ts";

Deno.test("parseXml: finds elements and their texts by name", async () => {
  const root = await parseXml(
    '<?xml version="1.0"?><!-- a --><list><one> 1 &lt; 2 </one><two/><one>3</one></list>',
  );
  assertEquals([root.tagName, childrenOf(root, "one").length, childOf(root, "three")], [
    "list",
    2,
    undefined,
  ]);
  assertEquals([textIn(root, "one"), textIn(root, "two"), textIn(root, "three")], ["1 < 2", "", undefined]);
});

Deno.test("parseXml: refuses malformed XML and document types", async () => {
  for (
    const [xml, logged] of [
      ["", "it is not well-formed XML"],
      ["<a><b></a>", "it is not well-formed XML"],
      ["<a>&b;</a>", "it is not well-formed XML"],
      ['<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "its document type (<!DOCTYPE>) declares entities"],
      ["<!DOCTYPE a><!DOCTYPE b><a/>", "its document type is not complete, or not alone"],
      ["<a>".repeat(1000), "it is not well-formed XML"],
    ]
  ) {
    const { code, message } = await assertRejects(() => parseXml(xml), SvcError, logged);
    assertEquals([code, message.length < 300], ["invalid_argument", true], xml.slice(0, 100));
  }
});
