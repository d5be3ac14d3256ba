/**
 * A video encoder on a thread of its own, so that encoding blocks nothing else.
 */

import { SvcError } from "../../base/error.ts";
import { type Right, threadWith } from "../../base/native/permissions.ts";
import { VIDEO_WORKER, type VideoAnswer, type VideoRequest } from "./video_worker.ts";

/** It reads the encoder, which an executable unpacks into a folder of its own. */
export const VIDEO_RIGHTS: readonly Right[] = ["read", "write"];

/** An encoded picture, and its size. */
export interface VideoFrame {
  readonly frame: Uint8Array;
  readonly width: number;
  readonly height: number;
}

/** Encodes the pictures of one camera, in order. */
export interface VideoEncoder {
  /** Throws for a picture that cannot be shown; the next one may be good. */
  encode(request: VideoRequest): Promise<VideoFrame>;
  close(): void;
}

/** VP8, on a thread that starts with the first picture. */
export class Vp8Encoder implements VideoEncoder {
  #worker: Worker | undefined;
  #asked: PromiseWithResolvers<VideoFrame> | undefined;
  #closed = false;

  encode(request: VideoRequest): Promise<VideoFrame> {
    if (this.#closed) throw new SvcError("unavailable", "the video encoder is closed");
    const worker = this.#worker ??= this.#start();
    this.#asked = Promise.withResolvers();
    worker.postMessage(request);
    return this.#asked.promise;
  }

  close(): void {
    this.#closed = true;
    this.#end("it was closed");
  }

  #start(): Worker {
    const worker = new Worker(new URL("./video_worker.ts", import.meta.url), {
      ...threadWith(VIDEO_RIGHTS),
      name: VIDEO_WORKER,
    });
    worker.onmessage = ({ data }: MessageEvent<VideoAnswer>) => {
      if ("frame" in data) this.#asked?.resolve(data);
      else this.#asked?.reject(new SvcError(data.code, data.message));
    };
    worker.onerror = (event) => {
      event.preventDefault();
      this.#end(`it failed: ${event.message}`);
    };
    return worker;
  }

  #end(why: string): void {
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#asked?.reject(new SvcError("unavailable", `the video encoder has ended: ${why}`));
  }
}
