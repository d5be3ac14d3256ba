/**
 * The 40-pin headers of known boards: which line each number on the header is.
 *
 * Sources: the pinouts that Raspberry Pi and NVIDIA publish for their boards. Pins for power, ground and the
 * identification EEPROM of a Raspberry Pi's add-on boards are left out, but for 27 and 28, which can be used.
 */

export interface HeaderPin {
  /** Labels of the chip that may have the line, and the line's number there. */
  readonly chips: readonly string[];
  readonly offset: number;
  /** The hardware PWM that the pin can be given: the name of its device and the channel. */
  readonly pwm?: { readonly device: string; readonly channel: number };
}

export interface PinHeader {
  readonly board: string;
  readonly pins: ReadonlyMap<string, HeaderPin>;
}

/** Number on the header, number of the GPIO. The same on every Raspberry Pi with 40 pins. */
const RASPBERRY_PI: readonly (readonly [pin: number, gpio: number])[] = [
  [3, 2],
  [5, 3],
  [7, 4],
  [8, 14],
  [10, 15],
  [11, 17],
  [12, 18],
  [13, 27],
  [15, 22],
  [16, 23],
  [18, 24],
  [19, 10],
  [21, 9],
  [22, 25],
  [23, 11],
  [24, 8],
  [26, 7],
  [27, 0],
  [28, 1],
  [29, 5],
  [31, 6],
  [32, 12],
  [33, 13],
  [35, 19],
  [36, 16],
  [37, 26],
  [38, 20],
  [40, 21],
];

/** Which channel each GPIO can be: two channels with two pins each, and four channels on the Raspberry Pi 5. */
const PI_PWM = new Map([[12, 0], [18, 0], [13, 1], [19, 1]]);
const PI_5_PWM = new Map([[12, 0], [13, 1], [18, 2], [19, 3]]);

const TEGRA = "tegra234-gpio", TEGRA_AON = "tegra234-gpio-aon";

/** Number on the header, number of the line. */
const ORIN_NANO: readonly (readonly [pin: number, line: number])[] = [
  [7, 144],
  [11, 112],
  [12, 50],
  [13, 122],
  [15, 85],
  [16, 126],
  [18, 125],
  [19, 135],
  [21, 134],
  [22, 123],
  [23, 133],
  [24, 136],
  [26, 137],
  [29, 105],
  [31, 106],
  [32, 41],
  [33, 43],
  [35, 53],
  [36, 113],
  [37, 124],
  [38, 52],
  [40, 51],
];
const ORIN_NANO_PWM = new Map([[15, "3280000.pwm"], [32, "32e0000.pwm"], [33, "32c0000.pwm"]]);

const AGX_ORIN: readonly (readonly [pin: number, line: number, chip?: string])[] = [
  [7, 106],
  [11, 112],
  [12, 50],
  [13, 108],
  [15, 85],
  [16, 9, TEGRA_AON],
  [18, 43],
  [19, 135],
  [21, 134],
  [22, 96],
  [23, 133],
  [24, 136],
  [26, 137],
  [29, 1, TEGRA_AON],
  [31, 0, TEGRA_AON],
  [32, 8, TEGRA_AON],
  [33, 2, TEGRA_AON],
  [35, 53],
  [36, 113],
  [37, 3, TEGRA_AON],
  [38, 52],
  [40, 51],
];
const AGX_ORIN_PWM = new Map([[15, "3280000.pwm"], [18, "32c0000.pwm"]]);

const BOARDS: readonly { compatible: RegExp; header: () => PinHeader }[] = [
  // The first boards (A and B without "plus") have 26 pins and do not fit.
  ...pis("pinctrl-bcm2835", "2020c000.pwm", PI_PWM, [
    [/^raspberrypi,model-zero(-w)?$/, "Raspberry Pi Zero"],
    [/^raspberrypi,model-[ab]-plus$/, "Raspberry Pi 1 Plus"],
  ]),
  ...pis("pinctrl-bcm2835", "3f20c000.pwm", PI_PWM, [
    [/^raspberrypi,model-zero-2(-w)?$/, "Raspberry Pi Zero 2"],
    [/^raspberrypi,2-/, "Raspberry Pi 2"],
    [/^raspberrypi,3-/, "Raspberry Pi 3"],
  ]),
  ...pis("pinctrl-bcm2711", "fe20c000.pwm", PI_PWM, [
    [/^raspberrypi,4-compute-module/, "Raspberry Pi Compute Module 4"],
    [/^raspberrypi,4-/, "Raspberry Pi 4"],
    [/^raspberrypi,400$/, "Raspberry Pi 400"],
  ]),
  ...pis("pinctrl-rp1", "1f00098000.pwm", PI_5_PWM, [
    [/^raspberrypi,5-compute-module/, "Raspberry Pi Compute Module 5"],
    [/^raspberrypi,5-/, "Raspberry Pi 5"],
    [/^raspberrypi,500(-plus)?$/, "Raspberry Pi 500"],
  ]),
  {
    compatible: /^nvidia,p3(509|768)-0000\+p3767-/,
    header: () => jetson("Jetson Orin Nano or NX", ORIN_NANO, ORIN_NANO_PWM),
  },
  {
    compatible: /^nvidia,p3737-0000\+p3701-/,
    header: () => jetson("Jetson AGX Orin", AGX_ORIN, AGX_ORIN_PWM),
  },
];

/** The header of a board, by the names that its device tree says it is compatible with. */
export function headerOf(compatible: readonly string[]): PinHeader | undefined {
  return BOARDS.find((board) => compatible.some((name) => board.compatible.test(name)))?.header();
}

/** Boards with the same chip. */
function pis(
  chip: string,
  device: string,
  channels: ReadonlyMap<number, number>,
  boards: readonly (readonly [compatible: RegExp, board: string])[],
): { compatible: RegExp; header: () => PinHeader }[] {
  return boards.map(([compatible, board]) => ({
    compatible,
    header: () => raspberryPi(board, chip, device, channels),
  }));
}

function raspberryPi(
  board: string,
  chip: string,
  device: string,
  channels: ReadonlyMap<number, number>,
): PinHeader {
  return {
    board,
    pins: new Map(RASPBERRY_PI.map(([pin, gpio]) => {
      const channel = channels.get(gpio);
      const pwm = channel === undefined ? undefined : { device, channel };
      return [`${pin}`, { chips: [chip], offset: gpio, pwm }];
    })),
  };
}

function jetson(
  board: string,
  lines: readonly (readonly [pin: number, line: number, chip?: string])[],
  devices: ReadonlyMap<number, string>,
): PinHeader {
  return {
    board,
    pins: new Map(lines.map(([pin, offset, chip = TEGRA]) => {
      const device = devices.get(pin);
      const pwm = device === undefined ? undefined : { device, channel: 0 };
      return [`${pin}`, { chips: [chip], offset, pwm }];
    })),
  };
}
