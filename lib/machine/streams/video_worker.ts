/**
 * The thread of one video encoder: reads a camera's picture, scales it, and encodes it as VP8.
 *
 * `video_encoder.ts` starts it and imports it too, so that an executable embeds it. The thread answers every problem
 * with an error and never fails itself. The encoder is libvpx, compiled to WebAssembly.
 */

import type { LibAV } from "@libav.js/variant-webm";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Code, SvcError } from "../../base/error.ts";
import { withPacked } from "../../base/native/packed.ts";
import { type ColorImage, decodeImage } from "../../geometry/image/image.ts";

/** The encoder's package. Executables embed its WebAssembly by that name. */
export const VIDEO_PACKAGE = "@libav.js/variant-webm";
export const VIDEO_WASM = "libav.wasm";

/** The worker's name, by which the module detects that it runs as the thread rather than being imported. */
export const VIDEO_WORKER = "svc-video";

export interface VideoRequest {
  /** A camera's picture, in any format of cameras. */
  readonly picture: Uint8Array;
  /** The size of the video; by default the picture's own. */
  readonly width?: number;
  readonly height?: number;
  /** Requests a key frame. */
  readonly key: boolean;
}

export type VideoAnswer =
  | { readonly frame: Uint8Array; readonly width: number; readonly height: number }
  | { readonly code: Code; readonly message: string };

/** The parts of a worker's scope that this file uses. */
interface Scope {
  readonly name?: string;
  onmessage: ((event: { data: VideoRequest }) => void) | null;
  postMessage(answer: VideoAnswer, options?: { transfer: ArrayBufferLike[] }): void;
}

/** Bits per pixel and second of video. */
const BITS_PER_PIXEL = 2;
/** The largest side of a video. */
const SIDE_MAX = 1920;

interface Encoder {
  readonly width: number;
  readonly height: number;
  readonly context: number;
  readonly frame: number;
  readonly packet: number;
}

class VideoWorker {
  #libav?: LibAV;
  #encoder?: Encoder;
  #pts = 0;

  async encode({ picture, width, height, key }: VideoRequest): Promise<VideoAnswer> {
    const decoded = decodeImage(picture);
    if (decoded.kind !== "color") {
      throw new SvcError("unimplemented", "the camera returns depth images, which cannot be a video");
    }

    const size = videoSize(decoded.image, width, height);
    const libav = this.#libav ??= await load();
    const isNew = this.#encoder?.width !== size.width || this.#encoder?.height !== size.height;
    if (isNew) await this.#open(libav, size.width, size.height);
    const { context, frame, packet } = this.#encoder!;
    const data = {
      data: yuvOf(decoded.image, size.width, size.height),
      layout: planes(size.width, size.height),
      format: libav.AV_PIX_FMT_YUV420P,
      ...size,
      pts: this.#pts++,
      ptshi: 0,
      key_frame: key ? 1 : 0,
      pict_type: key ? 1 : 0,
    };
    const packets = await libav.ff_encode_multi(context, frame, packet, [data]);
    const [only, ...more] = packets;
    if (!only || more.length > 0) {
      throw new SvcError("internal", `the encoder returned ${packets.length} pictures for one`);
    }

    return { frame: only.data.slice(), ...size };
  }

  async #open(libav: LibAV, width: number, height: number): Promise<void> {
    if (this.#encoder) {
      const { context, frame, packet } = this.#encoder;
      this.#encoder = undefined;
      await libav.ff_free_encoder(context, frame, packet);
    }
    const [, context, frame, packet] = await libav.ff_init_encoder("libvpx", {
      ctx: {
        width,
        height,
        bit_rate: BITS_PER_PIXEL * width * height,
        pix_fmt: libav.AV_PIX_FMT_YUV420P,
        gop_size: 300,
      },
      time_base: [1, 15],
      // Settings as for a video call: low delay and little computing.
      options: { deadline: "realtime", "cpu-used": "8", "lag-in-frames": "0", "auto-alt-ref": "0" },
    });
    this.#encoder = { width, height, context, frame, packet };
  }
}

async function load(): Promise<LibAV> {
  const { default: libav } = await import("@libav.js/variant-webm");
  const open = (wasmurl?: string) => libav.LibAV({ noworker: true, ...wasmurl && { wasmurl } });
  const packed = await withPacked(
    VIDEO_PACKAGE,
    (folder) => open(pathToFileURL(join(folder, VIDEO_WASM)).href),
  );
  const loaded = packed ?? await open();
  await loaded.av_log_set_level(loaded.AV_LOG_ERROR);
  return loaded;
}

/** Even sides, no longer than the picture's and than the encoder can keep up with. */
function videoSize(image: ColorImage, width = image.width, height = image.height) {
  const scale = Math.min(1, SIDE_MAX / Math.max(width, height));
  const side = (wanted: number, own: number) =>
    Math.max(2, 2 * Math.floor(Math.min(wanted * scale, own) / 2));
  return { width: side(width, image.width), height: side(height, image.height) };
}

/** Offsets of a picture's planes: brightness, and two of colour at half its sides. */
function planes(width: number, height: number) {
  const pixels = width * height;
  return [
    { offset: 0, stride: width },
    { offset: pixels, stride: width / 2 },
    { offset: pixels * 5 / 4, stride: width / 2 },
  ];
}

/** The picture at that size, in BT.601 colours (source: ITU-R BT.601, limited range). */
export function yuvOf(
  { rgba, width: from, height: rows }: ColorImage,
  width: number,
  height: number,
): Uint8Array {
  const pixels = width * height;
  const yuv = new Uint8Array(pixels * 3 / 2);
  const columns = Uint32Array.from({ length: width }, (_, x) => 4 * Math.floor(x * from / width));
  for (let y = 0; y < height; y++) {
    const row = 4 * from * Math.floor(y * rows / height);
    const colour = y % 2 === 0;
    const half = pixels + (y >> 1) * (width >> 1);
    for (let x = 0; x < width; x++) {
      const at = row + (columns[x] ?? 0);
      const red = rgba[at] ?? 0, green = rgba[at + 1] ?? 0, blue = rgba[at + 2] ?? 0;
      yuv[y * width + x] = 16 + ((66 * red + 129 * green + 25 * blue + 128) >> 8);
      if (!colour || x % 2 !== 0) continue;
      yuv[half + (x >> 1)] = 128 + ((-38 * red - 74 * green + 112 * blue + 128) >> 8);
      yuv[half + pixels / 4 + (x >> 1)] = 128 + ((112 * red - 94 * green - 18 * blue + 128) >> 8);
    }
  }

  return yuv;
}

const scope = globalThis as unknown as Scope;
if (scope.name === VIDEO_WORKER) {
  const worker = new VideoWorker();
  scope.onmessage = async ({ data }) => {
    try {
      const answer = await worker.encode(data);
      scope.postMessage(answer, { transfer: "frame" in answer ? [answer.frame.buffer] : [] });
    } catch (thrown) {
      const { code, message } = SvcError.from(thrown);
      scope.postMessage({ code, message });
    }
  };
}
