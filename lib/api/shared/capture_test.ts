import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { nameParameter, pictureFile } from "./capture.ts";

Deno.test("nameParameter: the name of what to capture, and no capture without it", () => {
  assertEquals(nameParameter("pin_name", { pin_name: "11" }), "11");
  const missing: readonly JsonObject[] = [{ pin_name: "" }, { pin_name: 11 }, { pin: "11" }];
  for (const parameters of missing) {
    const error = assertThrows(
      () => nameParameter("pin_name", parameters),
      SvcError,
      "has no pin_name, wanted",
    );
    assertEquals(error.code, "invalid_argument");
  }
});

Deno.test("pictureFile: annotations of a picture without any are left out", () => {
  const picture = { sourceName: "color", mimeType: "image/png", image: Uint8Array.of(1) };
  assertEquals(pictureFile(picture), { content: picture.image, mimeType: "image/png" });
});
