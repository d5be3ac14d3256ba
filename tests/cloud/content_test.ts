/**
 * Content processes: what they can see of this computer, and their end.
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import { contentOptions } from "../../cli/cloud/serve/content.ts";
import { packed } from "../../lib/base/files/archive.ts";
import { SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { ContentProcess } from "../../lib/cloud/sandbox/content/process.ts";
import type { InferenceFacts } from "../../lib/cloud/sandbox/content/requests.ts";
import { openSandbox } from "../../lib/cloud/sandbox/sandbox.ts";
import { encodePng } from "../../lib/geometry/image/png.ts";
import { endlessModel } from "../attack/hostile_models.ts";
import { bombPictures } from "../attack/hostile_pictures.ts";
import { boxesModel, colorsModel, rowsModel } from "../support/onnx_models.ts";
import { CONTENT } from "./world.ts";

const clock = new SystemClock();
const linux = Deno.build.os === "linux";
const sandbox = await openSandbox(new DenoHost(), clock);
const { signal } = new AbortController();
const PICTURE = encodePng({ width: 6, height: 4, channels: 3, samples: new Uint8Array(72).fill(200) });

async function bytesOfArchive(model: Uint8Array): Promise<Uint8Array> {
  const parts = await Array.fromAsync(
    packed([{ path: "model.onnx", bytes: model.length, content: [model] }]),
  );
  return new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
}

async function inferenceOf(model: Uint8Array) {
  const archive = await bytesOfArchive(model);
  const bytes = PICTURE.length + archive.length;
  return [{ ask: "inference", image: PICTURE.length, bytes }, [PICTURE, archive]] as const;
}

Deno.test("a content process decodes pictures one by one, also after an unreadable one", async () => {
  const process = await ContentProcess.start(CONTENT);
  try {
    const ask = (bytes: Uint8Array) => process.ask({ ask: "picture", bytes: bytes.length }, [bytes], signal);
    for (const { bytes } of bombPictures()) {
      assertEquals((await assertRejects(() => ask(bytes), SvcError)).code, "invalid_argument");
    }
    const { head, bytes } = await ask(PICTURE);
    assertEquals([head.width, head.height, bytes.length, bytes[0]], [6, 4, 72, 200]);
    assert(process.answers);
  } finally {
    await process.close();
  }
});

Deno.test({
  name: "a content process has an empty environment and folder, and ends with its request",
  // Other systems do not tell of processes so.
  ignore: !linux,
  fn: async () => {
    Deno.env.set("SVC_TEST_SECRET", "the secret");
    let pid = 0;
    const spied = new DenoHost();
    spied.pipe = (command) => {
      const process = DenoHost.prototype.pipe.call(spied, command);
      pid = process.pid;
      return process;
    };
    const process = await ContentProcess.start({ ...CONTENT, host: spied });
    try {
      const stop = new AbortController();
      const [request, body] = await inferenceOf(endlessModel());
      // Alive and at work: it has read its request.
      const asked = process.ask(request, body, stop.signal);
      const environment = await Deno.readTextFile(`/proc/${pid}/environ`);
      assertEquals([environment.includes("secret"), environment.includes("SVC_")], [false, false]);
      const place = await Deno.readLink(`/proc/${pid}/cwd`);
      assertEquals(
        (await Array.fromAsync(Deno.readDir(place))).filter(({ isDirectory }) => !isDirectory),
        [],
      );
      assert(place.includes("svc-content-"), place);
      stop.abort(new SvcError("canceled", "enough"));
      assertEquals((await assertRejects(() => asked, SvcError)).message, "enough");
      await process.close();
      await assertRejects(() => Deno.stat(place), Deno.errors.NotFound);
      await assertRejects(() => Deno.stat(`/proc/${pid}`), Deno.errors.NotFound);
    } finally {
      Deno.env.delete("SVC_TEST_SECRET");
      await process.close();
    }
  },
});

Deno.test("a content process that ends early reports its exit code and its error output", async () => {
  const process = await ContentProcess.start({
    ...CONTENT,
    program: { ...CONTENT.program, command: "/bin/sh", args: ["-c", "echo why >&2; exit 7"] },
  });
  try {
    const asked = () => process.ask({ ask: "picture", bytes: PICTURE.length }, [PICTURE], signal);
    const { code, message } = await assertRejects(asked, SvcError);
    assertEquals(code, "failed_precondition");
    assertEquals(
      message,
      "the process that opened the content ended with exit code 7 (it had 2048 MiB of memory at most): why",
    );
    assertEquals(process.answers, false);
  } finally {
    await process.close();
  }
});

Deno.test("a content process finds the same boxes whether a model of planes gives shares or pixels, or rows", async () => {
  const boxesOf = async (model: Uint8Array) => {
    const process = await ContentProcess.start(CONTENT);
    try {
      const [request, body] = await inferenceOf(model);
      const { head } = await process.ask(request, body, signal);
      const { boxes } = head as unknown as InferenceFacts;
      return boxes.map((box) => ({ ...box, confidence: box.confidence?.toFixed(4) }));
    } finally {
      await process.close();
    }
  };
  const shares = await boxesOf(boxesModel());
  assertEquals(shares.length, 3);
  assertEquals(await boxesOf(boxesModel({ inPixels: true })), shares);
  assertEquals(await boxesOf(rowsModel()), shares);
});

Deno.test({
  name: "models and pictures are opened in the sandbox, if there is one",
  // The reason stands in the variable: no bubblewrap, or none that works here.
  ignore: typeof sandbox === "string",
  fn: async () => {
    if (typeof sandbox === "string") throw new Error(sandbox);
    const options = contentOptions({ ...CONTENT, host: new DenoHost(), clock, sandbox });
    const process = await ContentProcess.start(options);
    try {
      const picture = await process.ask({ ask: "picture", bytes: PICTURE.length }, [PICTURE], signal);
      assertEquals(picture.bytes.length, 72);
      const [request, body] = await inferenceOf(colorsModel());
      const { head } = await process.ask(request, body, signal);
      const { tensors, classes } = head as unknown as InferenceFacts;
      assertEquals(tensors, [{ name: "probability", type: "float32", shape: [1, 3], bytes: 12 }]);
      assertEquals(classes.length, 3);
    } finally {
      await process.close();
    }
  },
});
