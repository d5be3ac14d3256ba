/**
 * Hardware PWM by the files of /sys/class/pwm.
 *
 * Owns the channels that it exported. A channel keeps running after any end of the process, so `open` turns off a
 * running channel.
 */

import { type Clock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import type { ReadFiles, WriteFiles } from "../base/files/files.ts";
import { permissionHint } from "./access.ts";

const FOLDER = "/sys/class/pwm";
/** Time that udev may need after an export to give the channel's files to their group. */
const EXPORT_MS = 1000;
const LOOK_MS = 20;

type PwmFiles =
  & Pick<ReadFiles, "readFolder" | "readTextFile" | "realPath" | "stat">
  & Pick<WriteFiles, "open">;

export class PwmChannel {
  #periodNs = 0;
  #enabled = false;

  private constructor(
    private readonly files: PwmFiles,
    readonly chip: string,
    readonly channel: number,
  ) {}

  /** Exports the channel of a chip (`pwmchip0`) and turns it off. */
  static async open(files: PwmFiles, clock: Clock, chip: string, channel: number): Promise<PwmChannel> {
    const pwm = new PwmChannel(files, chip, channel);
    const count = Number(await read(files, `${FOLDER}/${chip}/npwm`));
    if (!(channel < count)) {
      throw new SvcError("not_found", `${chip} has ${count} channels, wanted channel ${channel}`);
    }

    if (!await files.stat(pwm.#path("enable"))) await write(files, `${FOLDER}/${chip}/export`, `${channel}`);
    for (const endMs = clock.monotonicMs() + EXPORT_MS;;) {
      try {
        await write(files, pwm.#path("enable"), "0");
        return pwm;
      } catch (cause) {
        const { code } = SvcError.from(cause);
        const settling = code === "permission_denied" || code === "not_found";
        // A channel without a period cannot be turned on, and some drivers refuse to turn it off, too.
        if (!settling) return pwm;
        if (clock.monotonicMs() >= endMs) throw cause;
        await clock.sleep(LOOK_MS);
      }
    }
  }

  /** Pulses of `onNs` every `periodNs`. */
  async set(periodNs: number, onNs: number): Promise<void> {
    const [period, on] = [Math.round(periodNs), Math.round(onNs)];
    if (period !== this.#periodNs) {
      // The pulse must never be longer than the period.
      await write(this.files, this.#path("duty_cycle"), "0").catch(() => {});
      await write(this.files, this.#path("period"), `${period}`);
      this.#periodNs = period;
    }
    await write(this.files, this.#path("duty_cycle"), `${on}`);
    if (!this.#enabled) {
      await this.#makeNormal();
      await write(this.files, this.#path("enable"), "1");
    }
    this.#enabled = true;
  }

  /**
   * Makes the pulses high ones: some chips begin with low ones, and another program can leave them, so that a tenth of
   * the power would be nine. Only a channel that is off and has a period can be changed.
   */
  async #makeNormal(): Promise<void> {
    const polarity = await read(this.files, this.#path("polarity")).catch(() => "");
    if (polarity === "inversed") await write(this.files, this.#path("polarity"), "normal");
  }

  async off(): Promise<void> {
    if (this.#enabled) await write(this.files, this.#path("duty_cycle"), "0");
    if (this.#enabled) await write(this.files, this.#path("enable"), "0");
    this.#enabled = false;
  }

  async close(): Promise<void> {
    await this.off();
    await write(this.files, `${FOLDER}/${this.chip}/unexport`, `${this.channel}`);
  }

  #path(file: string): string {
    return `${FOLDER}/${this.chip}/pwm${this.channel}/${file}`;
  }
}

/** The PWM chip whose device has this name: `fe20c000.pwm`. */
export async function findPwmChip(files: PwmFiles, device: string): Promise<string> {
  const chips = await files.readFolder(FOLDER).catch(() => []);
  for (const chip of chips) {
    const path = await files.realPath(`${FOLDER}/${chip}/device`).catch(() => "");
    if (path.endsWith(`/${device}`)) return chip;
  }
  const hint = "enable it in the device tree (on a Raspberry Pi: dtoverlay=pwm in config.txt)";
  throw new SvcError("not_found", `there is no PWM chip ${device} in ${FOLDER}: ${hint}`);
}

async function read(files: PwmFiles, path: string): Promise<string> {
  try {
    return (await files.readTextFile(path)).trim();
  } catch (cause) {
    throw new SvcError(SvcError.from(cause).code, `cannot read ${path}`, { cause });
  }
}

/** sysfs does not allow replacing files, so they are written in place. */
async function write(files: PwmFiles, path: string, text: string): Promise<void> {
  try {
    const file = await files.open(path, "append");
    try {
      await file.write(new TextEncoder().encode(text));
    } finally {
      file.close();
    }
  } catch (cause) {
    const { code } = SvcError.from(cause);
    const attempt = `cannot write ${text} to ${path}`;
    throw new SvcError(code, attempt + permissionHint(path, cause), { cause });
  }
}
