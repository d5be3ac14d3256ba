import { assertEquals } from "@std/assert";
import { MimeType } from "../../../proto/gen/datasync_pb.ts";
import { boxFields, boxOf, MIME_TYPES, mimeTypeNumber } from "./captured_file.ts";

Deno.test("mimeTypeNumber: the number of each kind, and none for another", () => {
  assertEquals(mimeTypeNumber("image/png"), MimeType.IMAGE_PNG);
  assertEquals(mimeTypeNumber("video/mp4"), MimeType.VIDEO_MP4);
  for (const [number, name] of Object.entries(MIME_TYPES)) assertEquals(mimeTypeNumber(name), Number(number));
  assertEquals(mimeTypeNumber("text/plain"), MimeType.UNSPECIFIED);
});

Deno.test("boxFields and boxOf: a box keeps its sides", () => {
  const box = { label: "cup", confidence: 0.5, xMin: 0.1, yMin: 0.2, xMax: 0.3, yMax: 0.4 };
  assertEquals(boxFields(box).yMaxNormalized, 0.4);
  assertEquals(boxOf(boxFields(box)), box);
});
