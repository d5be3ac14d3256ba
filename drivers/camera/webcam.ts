/**
 * `webcam`: a USB or built-in camera, read through Video4Linux.
 *
 * The driver talks to the device directly (control calls and shared memory, `lib/device/v4l2.ts`), so nothing
 * has to be installed: the npm packages for this are old, and `ffmpeg` would be a second program to keep
 * alive. The driver keeps the newest picture and encodes it on request. If the camera is unplugged, the
 * driver looks for it until it is back.
 */

import { type Camera, CameraApi, type CameraProperties, type Images } from "../../lib/api/sensors/camera.ts";
import type { Devices } from "../../lib/base/host.ts";
import type { ReadFolders } from "../../lib/base/files/files.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import {
  bestMode,
  type CameraFormat,
  type Streaming,
  VideoDevice,
  videoPaths,
} from "../../lib/device/v4l2.ts";
import { choice, type Infer, integer, number, object, text } from "../../lib/base/schema/schema.ts";
import { imageSize, MIME } from "../../lib/geometry/image/image.ts";
import { type Construction, model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call, unsupported } from "../../lib/resource/resource.ts";
import { distortionField, intrinsicsField } from "./lens.ts";
import { isWholeJpeg, pixelsOf, standaloneJpeg } from "./raw_pixels.ts";
import { chosenSources } from "./sources.ts";
import { jpegOf } from "./files.ts";

/** Published format names and their Video4Linux formats. */
const FORMATS: { readonly [name: string]: CameraFormat } = {
  MJPEG: "MJPG",
  MJPG: "MJPG",
  YUYV: "YUYV",
  YUY2: "YUYV",
  UYVY: "UYVY",
  NV12: "NV12",
  NV21: "NV21",
  I420: "YU12",
};

/** Length of one wait for a picture, and so the longest time that a close takes. */
const WAIT_MS = 250;

/** The driver treats a camera without a new picture for this long as gone. */
const STALLED_MS = 5_000;

/** A damaged picture is left out for the next one. The last of so many is given, if all lack nothing but their end. */
const PICTURES_TRIED = 3;

/** How long a request waits for the first picture. */
const FIRST_PICTURE_MS = 5_000;

const RECONNECT_MS = 1_000;

const attributes = object({
  videoPath: text(
    "the device: /dev/video0, video0, a link in /dev/v4l/by-id or by-path, or its bare name; absent means the first camera found",
  )
    .default(""),
  widthPx: integer("width of the picture in pixels; 0 takes a width near 640", { min: 0, max: 16_384 })
    .default(0),
  heightPx: integer("height of the picture in pixels; 0 takes a height near 480", { min: 0, max: 16_384 })
    .default(0),
  frameRate: number("pictures a second; 0 takes the camera's highest rate", { min: 0, max: 1_000 })
    .default(0),
  format: choice("the camera's picture format; MJPEG costs least", Object.keys(FORMATS)),
  intrinsicParameters: intrinsicsField,
  distortionParameters: distortionField,
}).required();

type Attributes = Infer<typeof attributes>;

export const WebcamCamera = model({
  api: CameraApi,
  name: "rdk:builtin:webcam",
  doc: "A camera on a USB port, or a built-in one (Linux).",
  attributes,
  construct: async (from) => {
    const { os } = from.host.platform();
    if (os !== "linux") {
      const problem = `${from.name} cannot be used on ${os}: webcam works on Linux, through Video4Linux`;
      throw new SvcError(
        "unimplemented",
        `${problem}; elsewhere use a module for the camera, or image_file and replay`,
      );
    }
    const webcam = new Webcam(from);
    await webcam.connect();
    return webcam;
  },
});

/** An open device that delivers pictures. */
interface Connection {
  readonly device: VideoDevice;
  readonly streaming: Streaming;
  readonly path: string;
  /** The camera's pictures have no end: what is missing of them is not known. */
  endsNone: boolean;
}

/** The newest picture; encoded once, on the first request for it. */
interface Picture {
  readonly takenAtMs: number;
  jpeg?: Uint8Array;
}

class Webcam extends BaseComponent implements Camera {
  readonly #settings: Attributes;
  readonly #host: Devices & ReadFolders;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #closing = new AbortController();
  #connection: Connection | undefined;
  #picture: Picture | undefined;
  #arrived = Promise.withResolvers<void>();
  /** The reason for a missing connection. */
  #lost = "it has not been opened yet";
  /** The model and the place of the camera in use, as its device tells them. */
  #own = "";
  /** The devices that were there beside the camera when it was lost: they are other cameras. */
  #others: ReadonlySet<string> = new Set();
  #work: Promise<void> = Promise.resolve();

  constructor({ name, attributes, host, clock, logger }: Construction<Attributes>) {
    super(name);
    this.#settings = attributes;
    this.#host = host;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Opens the camera for the first time and keeps it open from then on. */
  async connect(): Promise<void> {
    this.#connection = await this.#open();
    this.#work = this.#keepUp();
  }

  async getImages(sourceNames: readonly string[] = [], call?: Call): Promise<Images> {
    const [sourceName = this.name.short] = chosenSources(this.name, [this.name.short], sourceNames);
    for (let tried = 1;; tried++) {
      const picture = await this.#newest(call?.signal);
      try {
        const image = picture.jpeg ??= this.#encode(tried === PICTURES_TRIED);
        return { images: [{ sourceName, mimeType: MIME.jpeg, image }], capturedAtMs: picture.takenAtMs };
      } catch (error) {
        if (tried === PICTURES_TRIED) throw error;
        this.#leaveOut(picture);
      }
    }
  }

  getPointCloud(): Promise<Uint8Array> {
    return Promise.reject(unsupported(this.name, "GetPointCloud", "its pictures have no depth"));
  }

  getProperties(): Promise<CameraProperties> {
    const { intrinsicParameters, distortionParameters, frameRate } = this.#settings;
    return Promise.resolve({
      supportsPcd: false,
      intrinsics: intrinsicParameters,
      distortion: distortionParameters,
      mimeTypes: [MIME.jpeg],
      frameRate: this.#connection?.streaming.framesPerSecond ?? (frameRate || undefined),
    });
  }

  override async close(): Promise<void> {
    this.#closing.abort(new SvcError("unavailable", `${this.name} is closed`));
    await this.#work;
    this.#disconnect("it is closed");
  }

  async #newest(signal?: AbortSignal): Promise<Picture> {
    if (this.#connection && !this.#picture) {
      const deadline = AbortSignal.any([this.#closing.signal, ...signal ? [signal] : []]);
      await this.#orLater(this.#arrived.promise, deadline);
    }
    if (this.#connection && this.#picture) return this.#picture;
    throw new SvcError("unavailable", `${this.name} has no picture: ${this.#lost}`);
  }

  /** Waits for the first picture, for at most `FIRST_PICTURE_MS`. */
  async #orLater(arrived: Promise<void>, signal: AbortSignal): Promise<void> {
    const waited = new AbortController();
    const late = this.#clock.sleep(FIRST_PICTURE_MS, AbortSignal.any([signal, waited.signal]));
    try {
      await Promise.race([arrived, late.then(() => this.#lost = "the camera has given none yet")]);
    } finally {
      waited.abort();
      late.catch(() => {});
    }
  }

  #leaveOut(picture: Picture): void {
    if (this.#picture !== picture) return;
    this.#picture = undefined;
    this.#arrived = Promise.withResolvers();
  }

  /** Throws for a damaged picture. Some cameras end none of theirs. */
  #encode(isLast: boolean): Uint8Array {
    const connection = this.#connection!, { device, streaming } = connection;
    const bytes = device.newest();
    if (streaming.format !== "MJPG") {
      return jpegOf(pixelsOf(streaming.format as Exclude<CameraFormat, "MJPG">, { ...streaming, bytes }));
    }
    const jpeg = standaloneJpeg(bytes);
    imageSize(jpeg);
    const isWhole = isWholeJpeg(jpeg);
    if (!isWhole && !isLast && !connection.endsNone) {
      throw new SvcError("unavailable", "the camera gave a picture whose end is missing");
    }
    connection.endsNone = !isWhole;
    return jpeg;
  }

  /**
   * Takes every picture from the device until the camera is closed. If the device is gone, looks for it
   * again.
   */
  async #keepUp(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      try {
        if (this.#connection) await this.#stream(this.#connection);
        else await this.#reconnect();
      } catch (cause) {
        if (this.#closing.signal.aborted) return;
        if (this.#connection) {
          this.#logger.warn(`the camera is gone; looking for it: ${chainOf(cause)}`);
          const present = new Set(await videoPaths(this.#host));
          present.delete(this.#connection.path);
          this.#others = present;
        }
        this.#disconnect(`${chainOf(cause)}; looking for it every ${RECONNECT_MS / 1e3} s`);
      }
    }
  }

  async #stream({ device, path }: Connection): Promise<void> {
    let lastMs = this.#clock.monotonicMs();
    while (!this.#closing.signal.aborted) {
      const nowMs = this.#clock.monotonicMs();
      if (await device.next(WAIT_MS)) {
        this.#picture = { takenAtMs: this.#clock.nowMs() };
        this.#arrived.resolve();
        lastMs = this.#clock.monotonicMs();
      } else if (nowMs - lastMs > STALLED_MS) {
        throw new SvcError("unavailable", `${path} has given no picture for ${STALLED_MS / 1e3} s`);
      }
    }
  }

  async #reconnect(): Promise<void> {
    await this.#clock.sleep(RECONNECT_MS, this.#closing.signal);
    this.#connection = await this.#open();
    this.#logger.info(`the camera is back: ${this.#connection.path}`);
  }

  #disconnect(why: string): void {
    this.#connection?.device.close();
    this.#connection = undefined;
    this.#picture = undefined;
    this.#lost = why;
    this.#arrived.resolve();
    this.#arrived = Promise.withResolvers();
  }

  /**
   * Opens the configured device, or the first camera found; after that camera is lost, none of those beside it, whose
   * pictures nobody expects under its name. The error names each device and why it does not
   * serve.
   */
  async #open(): Promise<Connection> {
    const { videoPath } = this.#settings;
    const paths = videoPath ? [await fullPath(videoPath, this.#host)] : await videoPaths(this.#host);
    // What has been away since may be the camera, which comes back under any number.
    this.#others = this.#others.intersection(new Set(paths));
    const refusals: string[] = [];
    for (const path of paths) {
      let device: VideoDevice | undefined;
      try {
        device = VideoDevice.open(this.#host, path);
        const { card, bus } = device.identity(), identity = `${card} ${bus}`;
        if (!videoPath && this.#others.has(path) && identity !== this.#own) {
          throw new SvcError("failed_precondition", `it is another camera (${card})`);
        }
        const streaming = this.#start(device);
        this.#own = identity;
        return { device, path, streaming, endsNone: false };
      } catch (cause) {
        device?.close();
        const { code } = SvcError.from(cause);
        if (videoPath) {
          throw new SvcError(code, `${this.name} cannot use ${path}: ${chainOf(cause)}`, { cause });
        }
        refusals.push(`${path}: ${chainOf(cause)}`);
      }
    }

    const found = refusals.length > 0 ? refusals.join("; ") : "there is no /dev/video*";
    throw new SvcError("not_found", `${this.name} found no camera: ${found}`);
  }

  #start(device: VideoDevice): Streaming {
    if (!device.identity().captures) {
      throw new SvcError(
        "invalid_argument",
        "it gives no pictures; a camera has several devices, of which one does",
      );
    }

    const { widthPx, heightPx, format, frameRate } = this.#settings;
    const wanted = { width: widthPx, height: heightPx, format: format ? FORMATS[format] : undefined };
    const mode = bestMode(device.modes(), wanted);
    const streaming = device.start(mode, frameRate || undefined);
    const { width, height } = streaming;
    if (streaming.format !== mode.format || widthPx && width !== widthPx || heightPx && height !== heightPx) {
      const found = `it gives ${streaming.format} of ${width} x ${height} pixels`;
      throw new SvcError(
        "invalid_argument",
        `${found}, wanted ${mode.format} of ${mode.width} x ${mode.height}`,
      );
    }

    const rate = streaming.framesPerSecond;
    if (frameRate && rate !== undefined && Math.abs(rate - frameRate) > 0.05 * frameRate) {
      this.#logger.warn(`frame_rate ${frameRate} is not available: the camera gives ${rate.toFixed(1)}`);
    }
    return streaming;
  }
}

/** Folders of links to cameras that keep their names. */
const LINKS = ["/dev/v4l/by-id", "/dev/v4l/by-path"];

/** The path of a device; a bare name is one in /dev or a link to one. */
async function fullPath(path: string, host: ReadFolders): Promise<string> {
  if (path.includes("/")) return path;
  for (const folder of LINKS) {
    const names = await host.readFolder(folder).catch((): string[] => []);
    if (names.includes(path)) return `${folder}/${path}`;
  }
  return `/dev/${path}`;
}
