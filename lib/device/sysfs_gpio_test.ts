import { assertEquals, assertRejects } from "@std/assert";
import { FakeHost } from "../../tests/support/fake_host.ts";
import { assertRefused } from "../../tests/support/refusals.ts";
import { SvcError } from "../base/error.ts";
import type { Device } from "../base/host.ts";
import type { Edge } from "./gpio.ts";
import { type OnoffClass, SysfsGpio } from "./sysfs_gpio.ts";

const FOLDER = "/sys/class/gpio";
const FILES = {
  [`${FOLDER}/gpiochip512/base`]: "512\n",
  [`${FOLDER}/gpiochip512/label`]: "pinctrl-bcm2711\n",
  [`${FOLDER}/gpiochip512/ngpio`]: "3\n",
  [`${FOLDER}/gpiochip512/device/gpiochip0/dev`]: "254:0\n",
};
const SYSTEM_CODES = [["EACCES", "permission_denied"], ["EINVAL", "not_found"], ["EIO", "unknown"]] as const;
const AT = { chip: "gpiochip0", offset: 2 };

/** The file with the level of a line, which only `onoff` and threads read and write. */
class ValueFile implements Device {
  readonly file = 7;

  constructor(readonly path: string, private readonly diary: string[]) {}

  close = () => void this.diary.push(`close ${this.path}`);
  control = unexpected;
  tell = unexpected;
  follow = unexpected;
  adopt = unexpected;
  lock = unexpected;
  map = unexpected;
  read = unexpected;
  write = unexpected;
  readable = unexpected;
  urgent = unexpected;
}

function unexpected(): never {
  throw new Error("nobody does this with a line's file");
}

/** What was done to lines, in order; a line that is not 514 is refused with the system's code. */
function benchWith(code = "EBUSY") {
  const diary: string[] = [];
  let heard: (error: unknown, value: 0 | 1) => void = () => {};
  class FakeGpio {
    readonly _poller = {
      follow: (device: Device) => {
        diary.push(`follow ${device.path}`);
        return Promise.resolve();
      },
    };
    constructor(private readonly line: number, direction: string, edge?: string) {
      if (line !== 514) throw Object.assign(new Error(code), { code });
      diary.push(`open ${line} ${direction} ${edge}`);
    }
    readSync = () => 1 as const;
    writeSync = (value: number) => void diary.push(`write ${value}`);
    setDirection = (direction: string) => void diary.push(`direction ${direction}`);
    watch = (listener: typeof heard) => void (heard = listener);
    unexport = () => void diary.push(`unexport ${this.line}`);
  }
  const openDevice = (path: string) => new ValueFile(path, diary);
  const devices = {
    openDevice,
    readFolder: () => Promise.resolve([] as string[]),
    realPath: (path: string) => Promise.resolve(path),
  };
  const host = new FakeHost({ files: FILES, devices });
  const load = () => Promise.resolve(FakeGpio as OnoffClass);
  return {
    diary,
    host,
    gpio: new SysfsGpio(host, () => 1_500.25, load),
    edge: (value: 0 | 1) => heard(null, value),
  };
}

Deno.test("SysfsGpio.chips: a chip has the name of its device, and exported lines a user", async () => {
  const { gpio, host } = benchWith();
  host.put(`${FOLDER}/gpio513/value`, "0\n");
  const [{ name, label, lines, all }, ...more] = await gpio.chips();
  assertEquals([name, label, lines, more.length], ["gpiochip0", "pinctrl-bcm2711", 3, 0]);
  assertEquals(all.map(({ offset, user }) => [offset, user]), [[0, undefined], [1, "sysfs"], [2, undefined]]);
  // sysfs does not tell the direction of a line that is not exported.
  assertEquals(all.map(({ output }) => output), [false, false, false]);
});

Deno.test("SysfsGpio.hold: reads, writes and turns a line, and unexports it at its end", async () => {
  const { gpio, diary } = benchWith();
  const line = await gpio.hold(AT, { output: true });
  assertEquals(line.get(), true);
  line.set(false);
  line.set(true);
  line.use({});
  line.use({ output: false });
  assertEquals([line.wire.file, line.wire.request, [...line.wire.on], [...line.wire.off]], [7, 0, [49], [
    48,
  ]]);
  line.close();
  assertEquals(diary, [
    "open 514 high undefined",
    "write 0",
    "write 1",
    "direction in",
    "direction low",
    `close ${FOLDER}/gpio514/value`,
    "unexport 514",
  ]);
});

Deno.test("SysfsGpio.watch: counts edges and gives them the host's time", async () => {
  const { gpio, diary, edge } = benchWith();
  const edges: Edge[] = [];
  const listener = { heard: (some: readonly Edge[]) => void edges.push(...some), failed: () => {} };
  const watch = await gpio.watch("gpiochip0", [{ offset: 2 }], listener);
  edge(1);
  edge(0);
  assertEquals(edges, [
    { offset: 2, high: true, timeNs: 1_500_250_000n, number: 1, lineNumber: 1 },
    { offset: 2, high: false, timeNs: 1_500_250_000n, number: 2, lineNumber: 2 },
  ]);
  assertEquals(watch.get(2), true);
  await watch.close();
  assertEquals(diary, ["open 514 in both", `follow ${FOLDER}/gpio514/value`, "unexport 514"]);
});

Deno.test("SysfsGpio.watch: a line that cannot be watched gives the others back", async () => {
  const { gpio, diary } = benchWith();
  const listener = { heard: () => {}, failed: () => {} };
  const lines = [{ offset: 2 }, { offset: 0 }];
  await assertRefused("resource_exhausted", "it is in use", () => gpio.watch("gpiochip0", lines, listener));
  assertEquals(diary.at(-1), "unexport 514");
});

Deno.test("SysfsGpio: what sysfs cannot do and lines that are not there are refused with their reason", async () => {
  const { gpio } = benchWith();
  await assertRefused("unimplemented", "pull resistor", () => gpio.hold(AT, { bias: "up" }));
  await assertRefused(
    "not_found",
    "no line 3 of a chip gpiochip0",
    () => gpio.hold({ ...AT, offset: 3 }, {}),
  );
  await assertRefused("not_found", "a chip x", () => gpio.hold({ chip: "x", offset: 0 }, {}));
  for (const [code, wanted] of SYSTEM_CODES) {
    const { gpio } = benchWith(code);
    await assertRefused(wanted, "cannot take line 513", () => gpio.hold({ ...AT, offset: 1 }, {}));
  }
});

Deno.test("SysfsGpio: the package itself loads without its native part, and says what a line lacks", async () => {
  const { host } = benchWith();
  const far = { ...FILES, [`${FOLDER}/gpiochip512/base`]: "999000\n" };
  for (const [path, text] of Object.entries(far)) host.put(path, text);
  const gpio = new SysfsGpio(host, () => 0);
  await assertRejects(() => gpio.hold(AT, {}), SvcError, "cannot take line 999002");
});
