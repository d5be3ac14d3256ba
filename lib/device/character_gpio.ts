/**
 * Pins by the GPIO character device. Owns the opened chips, one file each.
 */

import { SvcError } from "../base/error.ts";
import type { Devices } from "../base/host.ts";
import type { ReadFiles } from "../base/files/files.ts";
import { decodeEdges, EVENT_BATCH_BYTES, GpioChip, type GpioLines, type LineUse, switchOf } from "./gpio.ts";
import {
  type ChipLines,
  chipNames,
  type EdgeListener,
  type EdgeWatch,
  type GpioBackEnd,
  type HeldLine,
  type LineAddress,
  type WatchedLine,
} from "./gpio_back_end.ts";

export class CharacterGpio implements GpioBackEnd {
  readonly kind = "character_device";
  readonly #chips = new Map<string, GpioChip>();

  /** `consumer` is the user of our lines, as other programs see it. */
  constructor(private readonly host: Devices & ReadFiles, private readonly consumer: string) {}

  async chips(): Promise<ChipLines[]> {
    return (await chipNames(this.host)).map((name) => {
      const chip = this.#chip(name);
      const all = Array.from({ length: chip.info.lines }, (_, offset) => chip.line(offset));
      return { ...chip.info, all };
    });
  }

  hold({ chip, offset }: LineAddress, use: LineUse): Promise<HeldLine> {
    return Promise.try(() => {
      const lines = this.#request(chip, [offset], [use]);
      return {
        get: () => lines.get(0),
        set: (high) => lines.set(0, high),
        use: (next) => lines.change([next]),
        wire: { file: lines.device.file, ...switchOf(0) },
        close: () => lines.close(),
      };
    });
  }

  watch(chip: string, watched: readonly WatchedLine[], listener: EdgeListener): Promise<EdgeWatch> {
    return Promise.try(() => {
      const offsets = watched.map(({ offset }) => offset);
      const uses = watched.map(({ bias, debounceUs }) => ({ bias, debounceUs, edges: true }));
      const lines = this.#request(chip, offsets, uses);
      const end = lines.device.follow(EVENT_BATCH_BYTES, {
        heard: (bytes) => listener.heard(decodeEdges(bytes)),
        failed: (error) => listener.failed(error),
      });
      return {
        get: (offset) => lines.get(offsets.indexOf(offset)),
        close: async () => {
          await end();
          lines.close();
        },
      };
    });
  }

  close(): void {
    for (const chip of this.#chips.values()) chip.close();
    this.#chips.clear();
  }

  #chip(name: string): GpioChip {
    let chip = this.#chips.get(name);
    if (!chip) this.#chips.set(name, chip = GpioChip.open(this.host, `/dev/${name}`));
    return chip;
  }

  #request(name: string, offsets: readonly number[], uses: readonly LineUse[]): GpioLines {
    const chip = this.#chip(name);
    try {
      return chip.request(offsets, uses, this.consumer);
    } catch (cause) {
      const { code } = SvcError.from(cause);
      const users = code !== "resource_exhausted" ? [] : offsets.flatMap((offset) => {
        const { name: line, user } = chip.line(offset);
        const shown = line === "" ? `line ${offset}` : `line ${offset} (${line})`;
        return user === undefined ? [] : [`${shown} is used by "${user}"`];
      });
      const lines = offsets.length > 1 ? `lines ${offsets.join(", ")}` : `line ${offsets[0]}`;
      const reported = users.length > 0 ? `: ${users.join(", ")}` : "";
      throw new SvcError(code, `cannot take ${lines} of ${name}${reported}`, { cause });
    }
  }
}
