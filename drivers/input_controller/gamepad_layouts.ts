/**
 * Which control each number of a gamepad's axes and keys is, by the name that the gamepad reports. The numbers are those
 * that its Linux driver gives, the controls those of the published runtime.
 */

export interface Layout {
  readonly axes: ReadonlyMap<number, string>;
  readonly buttons: ReadonlyMap<number, string>;
}

const STICKS = { X: 0, Y: 1 };
const HAT = { Hat0X: 16, Hat0Y: 17 };
const SIX_AXES = { ...STICKS, Z: 2, RX: 3, RY: 4, RZ: 5, ...HAT };
/** From South to Menu as the drivers of Microsoft's and Sony's gamepads count. */
const XBOX_BUTTONS = {
  ...{ South: 304, East: 305, West: 307, North: 308, LT: 310, RT: 311 },
  ...{ Select: 314, Start: 315, LThumb: 317, RThumb: 318, Menu: 316 },
};

const XBOX = layout(SIX_AXES, XBOX_BUTTONS);

/** Of a gamepad that is not known. */
export const DEFAULT_LAYOUT = XBOX;

export const LAYOUTS: ReadonlyMap<string, Layout> = new Map([
  ["Microsoft X-Box 360 pad", XBOX],
  ["Microsoft Xbox One X pad", XBOX],
  [
    "Xbox Wireless Controller",
    layout({ ...STICKS, Z: 10, RX: 2, RY: 5, RZ: 9, ...HAT }, { ...XBOX_BUTTONS, Record: 167 }),
  ],
  ["Wireless Controller", layout(SIX_AXES, { ...XBOX_BUTTONS, North: 307, West: 308 })],
  [
    "Pro Controller",
    layout({ ...STICKS, RX: 3, RY: 4, ...HAT }, {
      ...{ South: 304, East: 305, West: 306, North: 307, LT: 308, RT: 309, LT2: 310, RT2: 311 },
      ...{ Select: 312, Start: 313, LThumb: 314, RThumb: 315, Menu: 316, Record: 317 },
    }),
  ],
  [
    "8BitDo Pro 2",
    layout(SIX_AXES, {
      ...{ South: 304, East: 305, West: 306, North: 307, LT: 308, RT: 309 },
      ...{ Select: 310, Start: 311, LThumb: 312, RThumb: 313, Menu: 139 },
    }),
  ],
  [
    "FORT Robotics nVSC Application",
    layout(SIX_AXES, { South: 288, East: 289, West: 291, North: 290, EStop: 292 }),
  ],
  [
    "USB Gamepad",
    layout({ ...STICKS, RY: 2, RX: 5, ...HAT }, {
      ...{ North: 288, East: 289, West: 291, South: 290, LT: 292, RT: 293, LT2: 294, RT2: 295 },
      ...{ Select: 296, Start: 297 },
    }),
  ],
  [
    "Logitech G920 Driving Force Racing Wheel",
    layout({ X: 0, PedalAccelerator: 1, PedalBrake: 2, PedalClutch: 5, ...HAT }, {
      ...{ South: 288, East: 289, North: 291, West: 290, LT: 293, RT: 292 },
      ...{ Select: 295, Start: 294, LThumb: 297, RThumb: 296, Menu: 298 },
    }),
  ],
]);

function layout(axes: Record<string, number>, buttons: Record<string, number>): Layout {
  const byNumber = (kind: string, numbers: Record<string, number>) =>
    new Map(Object.entries(numbers).map(([name, number]) => [number, `${kind}${name}`]));
  return { axes: byNumber("Absolute", axes), buttons: byNumber("Button", buttons) };
}
