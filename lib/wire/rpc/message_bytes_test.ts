/** The bytes of messages with large fields: what any reader of protobuf makes of them, and whose memory they are. */

import { assert, assertEquals } from "@std/assert";
import { GetImagesResponseSchema, GetPointCloudResponseSchema } from "../../../proto/gen/camera_pb.ts";
import { DataCaptureUploadRequestSchema } from "../../../proto/gen/datasync_pb.ts";
import { InferResponseSchema } from "../../../proto/gen/ml_model_pb.ts";
import { ServerReflectionResponseSchema } from "../../../proto/gen/reflection_pb.ts";
import { CaptureAllFromCameraResponseSchema } from "../../../proto/gen/vision_pb.ts";
import { bytesAtLeast, keepBytes, messageBytes } from "./message_bytes.ts";
import { create, type DescMessage, fromBinary, type Message, toBinary } from "./proto.ts";

const [SMALL, LARGE] = [100, 40_000].map((length) => Uint8Array.from({ length }, (_, at) => at % 251));

function assertSame(desc: DescMessage, message: Message): void {
  const [bytes, wanted] = [messageBytes(desc, message), toBinary(desc, message)];
  assertEquals(bytes.length, wanted.length);
  assertEquals(toBinary(desc, fromBinary(desc, bytes)), wanted);
}

Deno.test("messageBytes: large bytes fields anywhere in a message decode unchanged", () => {
  const images = [SMALL, LARGE, new Uint8Array(), LARGE].map((image, at) => ({
    sourceName: `source ${at}`,
    image,
    mimeType: "image/jpeg",
    annotations: { classifications: [{ id: "1", label: "door" }] },
  }));
  const at = { seconds: 5n, nanos: 6 };
  assertSame(GetImagesResponseSchema, create(GetImagesResponseSchema, { images }));
  assertSame(
    GetImagesResponseSchema,
    create(GetImagesResponseSchema, { images, responseMetadata: { capturedAt: at } }),
  );
  assertSame(
    GetPointCloudResponseSchema,
    create(GetPointCloudResponseSchema, { mimeType: "pointcloud/pcd", pointCloud: LARGE }),
  );
  assertSame(
    CaptureAllFromCameraResponseSchema,
    create(CaptureAllFromCameraResponseSchema, {
      image: images[1],
      objects: [{ pointCloud: LARGE }, { pointCloud: SMALL, geometries: { referenceFrame: "camera" } }],
      extra: { "a text": "x".repeat(50_000) },
    }),
  );
});

Deno.test("messageBytes: large fields in a oneof, a list and a map decode unchanged", () => {
  for (const binary of [SMALL, LARGE]) {
    assertSame(
      DataCaptureUploadRequestSchema,
      create(DataCaptureUploadRequestSchema, {
        metadata: { partId: "part", tags: ["tag"] },
        sensorContents: [
          { metadata: { timeRequested: { seconds: 1n } }, data: { case: "binary", value: binary } },
          { data: { case: "struct", value: { reading: 5 } } },
          {},
        ],
      }),
    );
  }
  assertSame(
    ServerReflectionResponseSchema,
    create(ServerReflectionResponseSchema, {
      validHost: "host",
      messageResponse: {
        case: "fileDescriptorResponse",
        value: { fileDescriptorProto: [LARGE, SMALL, LARGE] },
      },
    }),
  );
  assertSame(
    InferResponseSchema,
    create(InferResponseSchema, {
      outputTensors: {
        tensors: { image: { shape: [200n, 200n], tensor: { case: "uint8Tensor", value: { data: LARGE } } } },
      },
    }),
  );
});

Deno.test("messageBytes: keeps unknown fields", () => {
  const message = create(GetPointCloudResponseSchema, { pointCloud: LARGE });
  message.$unknown = [{ no: 77, wireType: 0, data: Uint8Array.of(5) }];
  assertSame(GetPointCloudResponseSchema, message);
});

Deno.test("messageBytes: uses its own memory and does not change the message", () => {
  const image = LARGE.slice();
  const message = create(GetImagesResponseSchema, { images: [{ image }] });
  const bytes = messageBytes(GetImagesResponseSchema, message);
  assert(bytes.buffer !== image.buffer);
  assertEquals(bytes.length, bytes.buffer.byteLength);
  bytes.fill(0);
  assert(message.images[0].image === image);
  assertEquals(image, LARGE);
});

Deno.test("keepBytes: every caller gets the bytes in memory of its own, also those of a large message", () => {
  for (const image of [SMALL, LARGE]) {
    const message = create(GetImagesResponseSchema, { images: [{ image, sourceName: "left" }] });
    const wanted = toBinary(GetImagesResponseSchema, message);
    keepBytes(GetImagesResponseSchema, message);
    const first = messageBytes(GetImagesResponseSchema, message);
    first.fill(0);
    first.buffer.transfer(0);
    assertEquals(messageBytes(GetImagesResponseSchema, message), wanted);
  }
});

Deno.test("keepBytes: the whole length of a message with kept bytes is known", () => {
  const message = create(GetImagesResponseSchema, { images: [{ image: SMALL }] });
  keepBytes(GetImagesResponseSchema, message);
  assertEquals(bytesAtLeast(message), toBinary(GetImagesResponseSchema, message).length);
});
