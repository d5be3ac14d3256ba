/** The program ffmpeg without a program: gives pictures on its standard output until it is ended. */

import type { Exit, PipedProcess, ProcessCommand } from "../../lib/base/process.ts";
import { Queue } from "../../lib/base/collections/queue.ts";
import { encodeImage, MIME } from "../../lib/geometry/image/image.ts";

export class FakeFfmpeg implements PipedProcess {
  readonly pid = 1;
  readonly output = new Queue<Uint8Array>(100);
  readonly stderr = new Queue<string>(100);
  readonly signals: string[] = [];
  readonly #exited = Promise.withResolvers<Exit>();

  constructor(readonly command: ProcessCommand) {
    if (command.args?.includes("-version")) this.end(0);
  }

  get exited(): Promise<Exit> {
    return this.#exited.promise;
  }

  /** A grey picture. */
  static picture(width = 8, height = 8): Uint8Array {
    const rgba = new Uint8Array(width * height * 4).fill(128);
    return encodeImage({ kind: "color", image: { width, height, rgba } }, MIME.jpeg);
  }

  end(code: number): void {
    this.output.close();
    this.stderr.close();
    this.#exited.resolve({ code });
  }

  signal(name: string): void {
    this.signals.push(name);
    this.end(128 + 15);
  }

  write(): Promise<void> {
    return Promise.resolve();
  }
}
