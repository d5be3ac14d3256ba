/**
 * `ffmpeg`: the pictures of anything that the program ffmpeg reads (a stream on the network, a video file, a device),
 * where it is installed. The newest picture counts. If the program ends, it is started again. So it is if it gives no
 * more pictures: it waits for ever for a stream whose sender has gone without a word.
 */

import {
  type Camera,
  CameraApi,
  type CameraProperties,
  type Images,
} from "../../../lib/api/sensors/camera.ts";
import { type Clock, deadline, race } from "../../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../../lib/base/error.ts";
import type { Logger } from "../../../lib/base/log/log.ts";
import { shownUrl, shownUrlsIn } from "../../../lib/base/log/shown_url.ts";
import { endProcess, type PipedProcess, type PipeHost } from "../../../lib/base/process.ts";
import {
  anyObject,
  bool,
  type DecodeContext,
  type Infer,
  integer,
  type Json,
  list,
  object,
  text,
} from "../../../lib/base/schema/schema.ts";
import { imageSize, MIME } from "../../../lib/geometry/image/image.ts";
import type { ResourceName } from "../../../lib/resource/name.ts";
import { model } from "../../../lib/resource/registry.ts";
import { BaseComponent, type Call, unsupported } from "../../../lib/resource/resource.ts";
import { distortionField, intrinsicsField } from "../lens.ts";
import { chosenSources } from "../sources.ts";
import { JpegStream } from "./jpeg_stream.ts";

const PROGRAM = "ffmpeg";
const FIRST_PICTURE_MS = 10_000;
const AGAIN_MS = 1_000;
const GRACE_MS = 2_000;
const STALL_MS = 30_000;

const kwArgs = (doc: string) => anyObject(doc).default({}).with(checkArguments);

const attributes = object({
  videoPath: text("what ffmpeg reads: a path or an address").required(),
  inputKwArgs: kwArgs('options before the input: { "format": "v4l2" }'),
  filters: list(
    object({
      name: text("name of the filter", { pattern: /^[\w-]+$/, wanted: "the name of a filter" }).required(),
      args: list(text(), "its values by place").default([]),
      kwArgs: kwArgs("its values by name"),
    }),
    "filters of ffmpeg, in order",
  ).default([]),
  outputKwArgs: kwArgs('options of the output: { "r": 10 }'),
  stallMs: integer("without a new picture for so long, ffmpeg is started again; 0 means never", { min: 0 })
    .default(STALL_MS),
  debug: bool("log all that ffmpeg says").default(false),
  intrinsicParameters: intrinsicsField,
  distortionParameters: distortionField,
}).required();

type Settings = NonNullable<Infer<typeof attributes>>;

export const FfmpegCamera = model({
  api: CameraApi,
  name: "rdk:builtin:ffmpeg",
  doc:
    "The pictures of a stream, a video file or a device, read by the program ffmpeg, which must be installed.",
  attributes,
  construct: async ({ name, attributes, host, clock, logger, signal }) => {
    await requireProgram(host, name, signal);
    return new Ffmpeg(name, attributes, host, { clock, logger });
  },
});

/** Throws `failed_precondition` if the program is not installed. */
async function requireProgram(host: PipeHost, name: ResourceName, signal: AbortSignal): Promise<void> {
  try {
    const process = host.pipe({ command: PROGRAM, args: ["-hide_banner", "-version"] });
    await Promise.all([drain(process.output), drain(process.stderr), race(process.exited, signal)]);
  } catch (cause) {
    if (signal.aborted) throw cause;
    const wanted = "wanted the program ffmpeg in the PATH: install it, on Debian by `apt install ffmpeg`";
    throw new SvcError("failed_precondition", `${name} cannot start ffmpeg: ${chainOf(cause)}; ${wanted}`, {
      cause,
    });
  }
}

async function drain(bytes: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of bytes);
}

/** Options whose values give access to what the address leads to. */
const SECRET_OPTION = /^-(headers|cookies|passphrase|password|\w*key)$/;

/** The command line that makes JPEG pictures on the standard output. */
export function ffmpegArguments({ videoPath, inputKwArgs, filters, outputKwArgs }: Settings): string[] {
  const chain = filters.map(({ name, args, kwArgs }) => {
    const named = Object.entries(kwArgs).map(([key, value]) => `${key}=${escaped(String(value))}`);
    const values = [...args.map(escaped), ...named].join(":");
    return values === "" ? name : `${name}=${values}`;
  });
  return [
    ...["-hide_banner", "-nostdin", "-loglevel", "warning"],
    ...options(inputKwArgs),
    ...["-i", videoPath],
    ...(chain.length > 0 ? ["-vf", chain.join(",")] : []),
    ...("c:v" in outputKwArgs || "vcodec" in outputKwArgs ? [] : ["-c:v", "mjpeg"]),
    ...options({ ...outputKwArgs, update: 1, format: "image2" }),
    "pipe:1",
  ];
}

/** `{ "r": 10, "an": null }` is `-r 10 -an`; the published names of two options are longer. */
function options(given: { readonly [key: string]: Json }): string[] {
  const short = new Map([["format", "f"], ["video_bitrate", "b:v"]]);
  return Object.entries(given).flatMap(([key, value]) => {
    const option = `-${short.get(key) ?? key}`;
    return value === null ? [option] : [option, String(value)];
  });
}

/** A value within a filter, whose separators are escaped. */
function escaped(value: string): string {
  return value.replace(/[\\':,;[\]]/g, (letter) => `\\${letter}`);
}

function checkArguments(given: { [key: string]: Json }, at: DecodeContext) {
  for (const [key, value] of Object.entries(given)) {
    if (!/^[\w:-]+$/.test(key)) at.at(key).wanted("the name of an option", key);
    else if (typeof value === "object" && value !== null) {
      at.at(key).wanted("a text, a number or null", value);
    }
  }
  return given;
}

class Ffmpeg extends BaseComponent implements Camera {
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;
  #picture?: { readonly jpeg: Uint8Array; readonly takenAtMs: number };
  #arrived = Promise.withResolvers<void>();
  #failure = "ffmpeg has given no picture yet";

  constructor(
    name: ResourceName,
    private readonly settings: Settings,
    private readonly host: PipeHost,
    private readonly tools: { readonly clock: Clock; readonly logger: Logger },
  ) {
    super(name);
    this.#running = this.#run();
  }

  async getImages(sourceNames: readonly string[] = [], call?: Call): Promise<Images> {
    const [sourceName = this.name.short] = chosenSources(this.name, [this.name.short], sourceNames);
    if (!this.#picture) await this.#first(call?.signal);
    const { jpeg, takenAtMs } = this.#picture!;
    return { images: [{ sourceName, mimeType: MIME.jpeg, image: jpeg }], capturedAtMs: takenAtMs };
  }

  getPointCloud(): Promise<Uint8Array> {
    return Promise.reject(unsupported(this.name, "GetPointCloud", "its pictures have no depth"));
  }

  getProperties(): Promise<CameraProperties> {
    const { intrinsicParameters: intrinsics, distortionParameters: distortion } = this.settings;
    return Promise.resolve({ supportsPcd: false, intrinsics, distortion, mimeTypes: [MIME.jpeg] });
  }

  override async close(): Promise<void> {
    this.#closing.abort(new SvcError("unavailable", `${this.name} is closed`));
    await this.#running;
  }

  async #first(caller?: AbortSignal): Promise<void> {
    const late = deadline(
      this.tools.clock,
      FIRST_PICTURE_MS,
      () => new SvcError("unavailable", `${this.name} has no picture: ${this.#failure}`),
    );
    try {
      const signals = [late.signal, this.#closing.signal, ...caller ? [caller] : []];
      await race(this.#arrived.promise, AbortSignal.any(signals));
    } finally {
      late.done();
    }
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    const { clock, logger } = this.tools;
    const args = ffmpegArguments(this.settings);
    const shown = args.map((one, at) => SECRET_OPTION.test(args[at - 1] ?? "") ? "…" : one);
    logger.info(this.#shown(`runs ${PROGRAM} ${shown.join(" ")}`));

    while (!signal.aborted) {
      try {
        this.#failure = await this.#read(this.host.pipe({ command: PROGRAM, args, ownGroup: true }), signal);
      } catch (error) {
        this.#failure = chainOf(error);
      }
      this.#failure = this.#shown(this.#failure);
      if (signal.aborted) return;
      logger.warn(`ffmpeg has ended and is started again: ${this.#failure}`);
      // An old picture of a stream that is gone would look like a present one.
      this.#picture = undefined;
      this.#arrived = Promise.withResolvers<void>();
      await clock.sleep(AGAIN_MS, signal).catch(() => {});
    }
  }

  /** A message of ffmpeg has the whole address, password included, in which quotes and blanks end no address. */
  #shown(message: string): string {
    const { videoPath } = this.settings;
    return shownUrlsIn(message.replaceAll(videoPath, shownUrl(videoPath)));
  }

  /** Until the program ends; returns the last line that it said, or its exit code. */
  async #read(process: PipedProcess, signal: AbortSignal): Promise<string> {
    const { clock, logger } = this.tools;
    let output: string | undefined;
    const listening = (async () => {
      for await (const raw of process.stderr) {
        const line = this.#shown(raw);
        output = line;
        if (this.settings.debug) logger.info(line);
        else logger.debug(line);
      }
    })();
    const ended = () => void endProcess(process, clock, GRACE_MS);
    const stall = this.#stallWatch(ended);
    signal.addEventListener("abort", ended, { once: true });
    if (signal.aborted) ended();

    try {
      const stream = new JpegStream();
      for await (const bytes of process.output) {
        for (const jpeg of stream.push(bytes)) {
          this.#show(jpeg);
          stall.lives();
        }
      }
    } finally {
      stall.cancel();
      signal.removeEventListener("abort", ended);
      if (!signal.aborted) ended();
    }

    const { code } = await process.exited;
    await listening;
    if (stall.isStalled()) return `it gave no picture for ${this.settings.stallMs / 1000} s`;
    return output ?? `exit code ${code}`;
  }

  /** Calls `ended` when no picture has come for the configured time. */
  #stallWatch(ended: () => void) {
    const { stallMs } = this.settings;
    let stalled = false, cancel = () => {};
    const lives = () => {
      cancel();
      if (stallMs === 0) return;
      cancel = this.tools.clock.after(stallMs, () => {
        stalled = true;
        ended();
      });
    };
    lives();
    return { lives, cancel: () => cancel(), isStalled: () => stalled };
  }

  #show(jpeg: Uint8Array): void {
    try {
      imageSize(jpeg);
    } catch (error) {
      return this.tools.logger.debug(`leaves a picture out: ${chainOf(error)}`);
    }
    this.#picture = { jpeg, takenAtMs: this.tools.clock.nowMs() };
    this.#arrived.resolve();
  }
}
