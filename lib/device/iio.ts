/**
 * Analog channels of the kernel's industrial I/O: files below /sys/bus/iio/devices, with a raw number each.
 */

import { SvcError } from "../base/error.ts";
import type { ReadFiles, WriteFiles } from "../base/files/files.ts";

const FOLDER = "/sys/bus/iio/devices";

type IioFiles = Pick<ReadFiles, "readFolder" | "readTextFile"> & Pick<WriteFiles, "open">;

export class IioChannel {
  private constructor(private readonly files: IioFiles, private readonly path: string) {}

  /** `name`: a device by number or name, and a channel of it: `iio:device0/voltage0`, `ads1015/voltage0`. */
  static async open(files: IioFiles, name: string): Promise<IioChannel> {
    const [wanted, channel, more] = name.split("/");
    if (!wanted || !channel || more !== undefined) {
      throw new SvcError(
        "invalid_argument",
        `found "${name}", wanted a device and a channel: ads1015/voltage0`,
      );
    }

    const there: string[] = [];
    for (const device of await files.readFolder(FOLDER).catch(() => [])) {
      const called = await files.readTextFile(`${FOLDER}/${device}/name`).then(
        (text) => text.trim(),
        () => "",
      );
      if (device === wanted || called === wanted) return await IioChannel.#of(files, device, channel);
      if (device.startsWith("iio:device")) there.push(`${device} (${called})`);
    }

    const found = there.join(", ") || "none";
    throw new SvcError("not_found", `there is no analog device ${wanted}; those in ${FOLDER}: ${found}`);
  }

  static async #of(files: IioFiles, device: string, channel: string): Promise<IioChannel> {
    const names = await files.readFolder(`${FOLDER}/${device}`);
    for (const direction of ["in", "out"]) {
      const file = `${direction}_${channel}_raw`;
      if (names.includes(file)) return new IioChannel(files, `${FOLDER}/${device}/${file}`);
    }
    const channels = names.flatMap((name) => /^(?:in|out)_(.+)_raw$/.exec(name)?.[1] ?? []);
    throw new SvcError("not_found", `${device} has no channel ${channel}, it has: ${channels.join(", ")}`);
  }

  async read(): Promise<number> {
    const text = (await this.files.readTextFile(this.path)).trim();
    const value = Number(text);
    if (text !== "" && Number.isInteger(value)) return value;
    throw new SvcError("data_loss", `${this.path} holds "${text.slice(0, 40)}", wanted a whole number`);
  }

  /** Throws `unimplemented` for an input. */
  async write(value: number): Promise<void> {
    if (!/\/out_[^/]+$/.test(this.path)) {
      throw new SvcError("unimplemented", `${this.path} is an input: it cannot be written`);
    }
    const file = await this.files.open(this.path, "append");
    try {
      await file.write(new TextEncoder().encode(`${Math.round(value)}`));
    } finally {
      file.close();
    }
  }
}
