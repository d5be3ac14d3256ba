/** The published names of controls. */

const AXES = [
  ...["X", "Y", "Z", "RX", "RY", "RZ", "Hat0X", "Hat0Y"].map((axis) => `Absolute${axis}`),
  ...["Accelerator", "Brake", "Clutch"].map((pedal) => `AbsolutePedal${pedal}`),
];
const BUTTONS = [
  ...["South", "East", "West", "North", "LT", "RT", "LT2", "RT2", "LThumb", "RThumb"],
  ...["Select", "Start", "Menu", "Record", "EStop"],
].map((button) => `Button${button}`);

export const PUBLISHED_CONTROLS = [...AXES, ...BUTTONS];
