/** How the fleet page changes the use of a fragment in a part's configuration. */

import { assertEquals } from "@std/assert";
import { usesIn, withUse } from "../../lib/web/fleet/fragments/fragment_text.ts";

Deno.test("a changed use keeps what the page has no fields for", () => {
  const text = JSON.stringify({
    debug: true,
    fragments: ["other", {
      id: "rover",
      prefix: "front",
      disabled: true,
      version: "2",
      variables: { pin: 1 },
    }],
  });
  const [use] = usesIn(text, "rover");
  assertEquals(use, { version: "2", variables: { pin: 1 }, mods: [] });
  const changed = JSON.parse(withUse(text, "rover", { version: "", variables: { pin: 2 }, mods: [] }));
  assertEquals(changed.fragments, ["other", {
    id: "rover",
    prefix: "front",
    disabled: true,
    variables: { pin: 2 },
  }]);
  const plain = JSON.stringify({ fragments: [{ id: "rover", version: "2" }] });
  const newest = JSON.parse(withUse(plain, "rover", { version: "", variables: {}, mods: [] }));
  assertEquals(newest, { fragments: ["rover"] });
  assertEquals(JSON.parse(withUse(text, "rover", undefined)), { debug: true, fragments: ["other"] });
});
