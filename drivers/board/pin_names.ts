/**
 * The names of pins, and the lines that they stand for. A name is, in this order: a name that the configuration gives,
 * a number on the board's header, a chip with the number of a line (`gpiochip0/17`), or the name of a line.
 */

import { SvcError } from "../../lib/base/error.ts";
import { suggest } from "../../lib/base/schema/suggest.ts";
import type { ChipLines, LineAddress } from "../../lib/device/gpio_back_end.ts";
import type { PinHeader } from "./headers.ts";

export interface PinNames {
  readonly chips: readonly ChipLines[];
  readonly header?: PinHeader;
  /** The configured names, each for a line in one of the other forms. */
  readonly given: { readonly [name: string]: string };
}

const CHIP_AND_LINE = /^([^/]+)\/(\d{1,5})$/;

/** Throws `not_found`, with the known names, for an unknown name. */
export function lineOf(pin: string, names: PinNames): LineAddress {
  const { chips, header, given } = names;
  const own = Object.hasOwn(given, pin) ? given[pin] : undefined;
  if (own !== undefined) return lineOf(own, { ...names, given: {} });

  const numbered = header?.pins.get(pin);
  if (numbered) {
    const chip = chips.find(({ label }) => numbered.chips.includes(label));
    if (chip) return { chip: chip.name, offset: numbered.offset };
    throw new SvcError(
      "not_found",
      `pin ${pin} is on the chip ${numbered.chips}, which this kernel does not have`,
    );
  }

  const [, chipName, offset] = CHIP_AND_LINE.exec(pin) ?? [];
  if (chipName !== undefined) return numberedLine(chipName, Number(offset), chips);

  const found = chips.flatMap((chip) =>
    chip.all.filter(({ name }) => name === pin).map(({ offset }) => ({ chip: chip.name, offset }))
  );
  const [line, ...others] = found;
  if (line && others.length === 0) return line;
  if (line) {
    const lines = found.map(({ chip, offset }) => `${chip}/${offset}`).join(", ");
    throw new SvcError("invalid_argument", `several lines are called "${pin}": ${lines}; name one of these`);
  }

  throw unknown(pin, names);
}

function numberedLine(wanted: string, offset: number, chips: readonly ChipLines[]): LineAddress {
  const chip = chips.find(({ name, label }) => name === wanted || label === wanted);
  if (!chip) {
    const there = chips.map(({ name, label }) => `${name} (${label})`).join(", ") || "none";
    throw new SvcError("not_found", `there is no GPIO chip ${wanted}; the chips are: ${there}`);
  }
  if (offset < chip.lines) return { chip: chip.name, offset };
  throw new SvcError("not_found", `${wanted} has ${chip.lines} lines, wanted line ${offset}`);
}

function unknown(pin: string, { chips, header, given }: PinNames): SvcError {
  const lines = chips.flatMap(({ all }) => all.map(({ name }) => name)).filter((name) => name !== "");
  const likely = suggest(pin, [...Object.keys(given), ...lines]);
  const number = /^\d+$/.test(pin);
  let hint = "name a line as gpiochip0/17";
  if (likely) hint = `did you mean ${likely}?`;
  else if (number && header) {
    hint = `pins of the ${header.board} that can be used are ${[...header.pins.keys()].join(", ")}`;
  } else if (number) {
    hint =
      "the numbers on this board's header are not known; name a line as gpiochip0/17, or give it a name in `pins`";
  }
  return new SvcError("not_found", `there is no pin "${pin}": ${hint}`);
}
