import { assertEquals } from "@std/assert";
import { FakeHost } from "../../tests/support/fake_host.ts";
import { assertRefused } from "../../tests/support/refusals.ts";
import { IioChannel } from "./iio.ts";

const FOLDER = "/sys/bus/iio/devices";
const FILES = {
  [`${FOLDER}/iio:device0/name`]: "ads1015\n",
  [`${FOLDER}/iio:device0/in_voltage0_raw`]: "291\n",
  [`${FOLDER}/iio:device0/in_voltage1_raw`]: "n/a\n",
  [`${FOLDER}/iio:device1/name`]: "mcp4725\n",
  [`${FOLDER}/iio:device1/out_voltage0_raw`]: "0\n",
  [`${FOLDER}/trigger0/name`]: "clock\n",
};

Deno.test("IioChannel: a device is known by its number and by its name", async () => {
  const host = new FakeHost({ files: FILES });
  assertEquals(await (await IioChannel.open(host, "ads1015/voltage0")).read(), 291);
  assertEquals(await (await IioChannel.open(host, "iio:device0/voltage0")).read(), 291);
});

Deno.test("IioChannel: what is not there is refused with what is", async () => {
  const host = new FakeHost({ files: FILES });
  const refusal = async (name: string) => {
    const words = name.includes("none") ? "" : `there is no analog device`;
    return (await assertRefused("not_found", words, () => IioChannel.open(host, name))).message;
  };
  assertEquals(
    await refusal("ads1115/voltage0"),
    `there is no analog device ads1115; those in ${FOLDER}: iio:device0 (ads1015), iio:device1 (mcp4725)`,
  );
  assertEquals(await refusal("ads1015/none"), "iio:device0 has no channel none, it has: voltage0, voltage1");
  for (const name of ["ads1015", "ads1015/", "/voltage0", "ads1015/voltage0/raw"]) {
    await assertRefused(
      "invalid_argument",
      "wanted a device and a channel",
      () => IioChannel.open(host, name),
    );
  }
});

Deno.test("IioChannel: what is no whole number is refused", async () => {
  const channel = await IioChannel.open(new FakeHost({ files: FILES }), "ads1015/voltage1");
  const words = `${FOLDER}/iio:device0/in_voltage1_raw holds "n/a", wanted a whole number`;
  await assertRefused("data_loss", words, () => channel.read());
});

Deno.test("IioChannel: an output takes whole numbers, an input none", async () => {
  const host = new FakeHost({ files: FILES });
  const path = `${FOLDER}/iio:device1/out_voltage0_raw`;
  // A file of the kernel has no end: each write sets the value.
  host.put(path, "");
  await (await IioChannel.open(host, "mcp4725/voltage0")).write(2047.6);
  assertEquals(await host.readTextFile(path), "2048");
  const input = await IioChannel.open(host, "ads1015/voltage0");
  await assertRefused("unimplemented", "is an input: it cannot be written", () => input.write(1));
});
