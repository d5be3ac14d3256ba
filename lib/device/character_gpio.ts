/**
 * Pins by the GPIO character device. Owns the opened chips, one file each.
 *
 * A chip on the USB may be unplugged and come back. While somebody holds a file of it, its number is taken, so it comes
 * back under another one; it keeps its first name here, and is known by its label.
 */

import { SvcError } from "../base/error.ts";
import type { Devices } from "../base/host.ts";
import type { ReadFiles } from "../base/files/files.ts";
import {
  type ChipInfo,
  decodeEdges,
  EVENT_BATCH_BYTES,
  GpioChip,
  type GpioLines,
  type LineUse,
  switchOf,
} from "./gpio.ts";
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
  /** The chips at the first look, by name. */
  #known?: ReadonlyMap<string, ChipInfo>;

  /** `consumer` is the user of our lines, as other programs see it. */
  constructor(private readonly host: Devices & ReadFiles, private readonly consumer: string) {}

  async chips(): Promise<ChipLines[]> {
    const chips = (await chipNames(this.host)).map((name) =>
      this.#look(name, (chip) => {
        const all = Array.from({ length: chip.info.lines }, (_, offset) => chip.line(offset));
        return { ...chip.info, all };
      })
    );
    this.#known ??= new Map(chips.map(({ name, label, lines }) => [name, { name, label, lines }]));
    return chips;
  }

  async hold({ chip, offset }: LineAddress, use: LineUse): Promise<HeldLine> {
    const lines = await this.#request(chip, [offset], [use]);
    return {
      get: () => lines.get(0),
      set: (high) => lines.set(0, high),
      use: (next) => lines.change([next]),
      wire: { file: lines.device.file, ...switchOf(0) },
      close: () => lines.close(),
    };
  }

  async watch(chip: string, watched: readonly WatchedLine[], listener: EdgeListener): Promise<EdgeWatch> {
    const offsets = watched.map(({ offset }) => offset);
    const uses = watched.map(({ bias, debounceUs }) => ({ bias, debounceUs, edges: true }));
    const lines = await this.#request(chip, offsets, uses);
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
  }

  close(): void {
    for (const chip of this.#chips.values()) chip.close();
    this.#chips.clear();
  }

  /** Asks for the lines once more if their chip was unplugged, as it may be back. */
  async #request(
    name: string,
    offsets: readonly number[],
    uses: readonly LineUse[],
  ): Promise<GpioLines> {
    const chip = this.#chips.get(name);
    if (chip) {
      try {
        return this.#take(chip, name, offsets, uses);
      } catch (cause) {
        if (SvcError.from(cause).code !== "unavailable") throw cause;
        // Its file would keep its number from it.
        chip.close();
        this.#chips.delete(name);
      }
    }

    const found = await this.#open(name);
    this.#chips.set(name, found);

    return this.#take(found, name, offsets, uses);
  }

  /** The chip by its own name, or by another one if its label is the only one of its kind. */
  async #open(name: string): Promise<GpioChip> {
    const wanted = this.#known?.get(name);
    if (!wanted) return GpioChip.open(this.host, `/dev/${name}`);
    const isAlike = ({ label, lines }: ChipInfo) => label === wanted.label && lines === wanted.lines;
    const isUnique = [...this.#known!.values()].filter(isAlike).length === 1;
    const names = await chipNames(this.host);
    const candidates = names.filter((one) => this.#look(one, ({ info }) => isAlike(info)));
    const [other, ...more] = isUnique ? candidates : [];
    const found = candidates.includes(name) ? name : other;
    if (found !== undefined && (found === name || more.length === 0)) {
      return GpioChip.open(this.host, `/dev/${found}`);
    }

    const why = candidates.length > 0 ? "several chips are like it" : "is it unplugged?";
    throw new SvcError("unavailable", `the GPIO chip ${name} (${wanted.label}) is gone; ${why}`);
  }

  #look<T>(name: string, look: (chip: GpioChip) => T): T {
    const chip = GpioChip.open(this.host, `/dev/${name}`);
    try {
      return look(chip);
    } finally {
      chip.close();
    }
  }

  #take(chip: GpioChip, name: string, offsets: readonly number[], uses: readonly LineUse[]): GpioLines {
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
